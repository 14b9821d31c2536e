"""The sections of the report page, in HTML: numbers, verdict, account, pictures."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from html import escape

from gpulab.errors import GpulabError
from gpulab.report import charts
from gpulab.report.account import TERMS, Account, Terms, levels
from gpulab.report.audit import Violation
from gpulab.report.glyphs import percent
from gpulab.report.legend import owner_name, plain
from gpulab.report.lifetimes import resources
from gpulab.report.markup import drawn, framed, said
from gpulab.report.picture import Picture
from gpulab.report.table import Table, captioned, exact_size
from gpulab.telemetry.events import Arrived, Attached, Claimed, Granted, Launched, Occupied, Refused, Sent
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

MOST_DRAWN = 6  # resources and levels; a page with more of them is too long to read
_VIOLATIONS, _CAUSES, _OWNERS = 20, 10, 10


def summary(ledger: Ledger) -> Iterator[str]:
    """How much there is, on what."""
    if not len(ledger):
        yield said("This ledger holds no fact: nothing happened, and there is nothing to draw.")
        return
    for device in ledger.of(Attached):
        yield said(f"Device: {device.device}, {device.sms:,} multiprocessors. Its times are {device.badge}.")
    rows = [
        ("facts", f"{len(ledger):,}"),
        ("from", format_ns(ledger.start_ns)),
        ("until", format_ns(ledger.end_ns)),
    ]
    for opened in list(resources(ledger).values())[:MOST_DRAWN]:
        inside = (
            f"inside {plain(opened.inside)}" if opened.inside else exact_size(opened.capacity, opened.unit)
        )
        rows.append((f"capacity of {plain(opened.resource)}", inside))
    kinds = (
        ("claims", Claimed),
        ("grants", Granted),
        ("refusals", Refused),
        ("kernels", Launched),
        ("copies", Sent),
    )
    rows += [(word, f"{count:,}") for word, kind in kinds if (count := len(ledger.serials(kind)))]
    with suppress(UnicodeEncodeError):  # half a character in a name: there is no such text
        rows.append(("SHA-256", ledger.digest()))
    yield framed(Table("The ledger in numbers", ("what", "value"), tuple(rows)))


def verdict(ledger: Ledger, broken: list[Violation]) -> Iterator[str]:
    """Whether the ledger keeps every law, and if not, where it broke and what was before."""
    yield "<h2>Audit</h2>"
    if not broken:
        yield f'<p class="sound">Sound: all {len(ledger):,} facts keep every law.</p>'
        return
    first = broken[0]
    yield (
        f'<p class="broken">Broken: {len(broken):,} facts break a law, the first is #{first.event}. What is drawn '
        f"below may be wrong from there on.</p>"
    )
    rows = tuple(
        (
            f"#{found.event}",
            found.law,
            found.message,
            "; ".join(f"#{serial} {fact}" for serial, fact in found.story),
        )
        for found in broken[:_VIOLATIONS]
    )
    shown = "all of them" if len(rows) == len(broken) else f"the first {len(rows)} of {len(broken):,}"
    yield framed(
        Table(f"Broken laws: {shown}", ("event", "law", "what happened", "the story before it"), rows)
    )


def accounts(ledger: Ledger, tick: Callable[[str], None]) -> Iterator[str]:
    """The bar and the series of each level."""
    known = levels(ledger)
    if not known:
        return
    yield "<h2>Where the capacity went</h2>"
    yield said(
        "Capacity × time = used + stranded + fragmented + unscheduled + spare, exact in whole numbers."
    )
    for level in known[:MOST_DRAWN]:
        tick(f"accounting for {level}")
        yield f"<h3>{escape(level)}</h3>"
        try:
            account = Account(ledger, level)
            terms = account() if account.end_ns > account.start_ns else account.at(account.start_ns)
        except GpulabError as wrong:
            yield said(f"There is no account of this level: {wrong}")
            continue
        sums = ", ".join(
            f"{term} {getattr(terms, term):,} ({percent(getattr(terms, term), terms.capacity)})"
            for term in TERMS
        )
        yield said(f"In {account.unit} × ns: {sums}; in all {terms.capacity:,}.")
        yield from drawn(level, lambda terms=terms, level=level: _bar(terms, level))
        yield from drawn(level, lambda account=account: charts.account_over_time(account))
        yield from _charged(ledger, account, terms)
    yield from _left_out("levels", known)


def _charged(ledger: Ledger, account: Account, whole: Terms) -> Iterator[str]:
    """The largest causes of loss, and who is charged with what."""
    if account.end_ns == account.start_ns:
        return
    causes = tuple(
        (
            cause.term,
            owner_name(cause.owner),
            f"{cause.unit_ns:,}",
            percent(cause.unit_ns, whole.capacity),
            format_ns(cause.start_ns),
            format_ns(cause.end_ns),
            " ".join(f"#{serial}" for serial in cause.events),
        )
        for cause in account.causes(_CAUSES)
    )
    columns = (
        "loss",
        "owner",
        f"{account.unit} × ns",
        "of the capacity",
        "from",
        "until",
        "events behind it",
    )
    if causes:
        right = frozenset(columns[2:6])
        yield framed(Table(f"The largest causes of loss, {account.level}", columns, causes, right))
    who, charged = (
        ("tenant", account.by_tenant()) if ledger.serials(Arrived) else ("owner", account.by_owner())
    )
    most = sorted(charged.items(), key=lambda item: -item[1].capacity)[:_OWNERS]
    rows = tuple(
        (owner_name(name), *(percent(getattr(terms, term), whole.capacity) for term in TERMS[:4]))
        for name, terms in most
    )
    if rows:
        caption = captioned(f"Of the capacity, by {who}, {account.level}", len(rows), len(charged), f"{who}s")
        yield framed(Table(caption, (who, *TERMS[:4]), rows, frozenset(TERMS)))


def _bar(terms: Terms, level: str) -> Picture:
    return charts.account_bar(terms, title=f"Where the capacity went, {level}")


def pictures(ledger: Ledger) -> Iterator[tuple[str, Callable[[], Picture] | None]]:
    """What is drawn, in order: a title and what draws it; a title alone is a heading."""
    known, served = list(resources(ledger)), bool(ledger.serials(Arrived))
    for resource in known[:MOST_DRAWN]:
        name = plain(resource)
        yield name, None
        yield f"the map of {name}", lambda resource=resource: charts.memory_map(ledger, resource)
        yield f"the use of {name}", lambda resource=resource: charts.use_over_time(ledger, resource)
        yield f"the queue of {name}", lambda resource=resource: charts.queue_over_time(ledger, resource)
        if not served:  # else the lanes of requests have said it
            yield f"the claims on {name}", lambda resource=resource: charts.lanes(ledger, "request", resource)
    if len(known) > MOST_DRAWN:
        yield f"{len(known):,} resources, the others are not drawn", None
    if ledger.serials(Launched, Sent):
        yield "Work of the device", None
        yield "streams", lambda: charts.lanes(ledger)
    if ledger.serials(Occupied):
        yield "multiprocessors", lambda: charts.lanes(ledger, "sm")


def _left_out(things: str, known: list[str]) -> Iterator[str]:
    if len(known) > MOST_DRAWN:
        names = ", ".join(known[MOST_DRAWN : 2 * MOST_DRAWN])
        yield said(
            f"{len(known):,} {things}; not drawn: {names}{' …' if len(known) > 2 * MOST_DRAWN else ''}."
        )
