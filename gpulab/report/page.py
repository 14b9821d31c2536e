"""One offline page with everything that is read out of a ledger: to mail to a colleague.

One file, no script, nothing fetched; each picture has its words and its table. Text is escaped.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import escape

from gpulab.errors import GpulabError
from gpulab.report import charts
from gpulab.report.account import TERMS, Account, Terms, levels
from gpulab.report.audit import Violation, audit
from gpulab.report.glyphs import percent
from gpulab.report.legend import plain
from gpulab.report.lifetimes import resources
from gpulab.report.picture import Picture
from gpulab.report.table import Table, exact_size, table
from gpulab.telemetry.events import Attached, Claimed, Granted, Launched, Occupied, Refused, Sent
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

MOST_DRAWN = 6  # resources and levels; a page with more of them is too long to read
_VIOLATIONS = 20
_STYLE = """
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222222; background: #ffffff;
  font: 16px/1.5 "Liberation Sans", Arial, sans-serif; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.5rem; }
figure { margin: 1rem 0 2rem; }
figcaption { color: #444444; }
svg { max-width: 100%; height: auto; overflow: visible; }
table { border-collapse: collapse; font-size: 14px; }
caption { color: #444444; padding: 0.25rem 0; }
th, td { border-bottom: 1px solid #bbbbbb; }
.wide { overflow-x: auto; }
.sound, .broken { border-left: 6px solid #0072b2; padding-left: 0.75rem; }
.broken { border-color: #d55e00; }
"""


@dataclass(frozen=True)
class Page:
    """``html`` is the page; ``pictures`` counts those in it, ``violations`` the broken laws that it tells."""

    html: str
    pictures: int
    violations: int


def page(
    ledger: Ledger, name: str, *, notes: Iterable[str] = (), tick: Callable[[str], None] = lambda what: None
) -> Page:
    """The report of ``ledger``, which is called ``name``; ``notes`` stand at its top.

    ``tick`` is told what is being done. What a ledger has nothing of is left out; what cannot be drawn is a
    sentence that says why. At most six levels and six resources are drawn, the rest is named.

    Raises:
        ImportError: Altair or vl-convert is not installed.
    """
    tick("checking")
    name = plain(name)
    broken = audit(ledger)
    parts = [f"<h1>Report of {_text(name)}</h1>", *(_said(note) for note in notes), *_summary(ledger)]
    parts += _verdict(ledger, broken)
    parts += _accounts(ledger, tick)
    for title, draw in _pictures(ledger):
        if draw is None:
            parts.append(f"<h2>{_text(title)}</h2>")
        else:
            tick(f"drawing {title}")
            parts += _drawn(title, draw)
    parts += ["<h2>The facts</h2>", _table(table(ledger))]
    body = "\n".join(parts)
    html = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Report of {_text(name)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    return Page(html, body.count("<figure"), len(broken))


def _summary(ledger: Ledger) -> Iterator[str]:
    """How much there is, on what."""
    if not len(ledger):
        yield _said("This ledger holds no fact: nothing happened, and there is nothing to draw.")
        return
    for device in ledger.of(Attached):
        yield _said(f"Device: {device.device}, {device.sms:,} multiprocessors. Its times are {device.badge}.")
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
    yield _table(Table("The ledger in numbers", ("what", "value"), tuple(rows)))


def _verdict(ledger: Ledger, broken: list[Violation]) -> Iterator[str]:
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
    yield _table(
        Table(f"Broken laws: {shown}", ("event", "law", "what happened", "the story before it"), rows)
    )


def _accounts(ledger: Ledger, tick: Callable[[str], None]) -> Iterator[str]:
    """The bar and the series of each level."""
    known = levels(ledger)
    if not known:
        return
    yield "<h2>Where the capacity went</h2>"
    yield _said(
        "Capacity × time = used + stranded + fragmented + unscheduled + spare, exact in whole numbers."
    )
    for level in known[:MOST_DRAWN]:
        tick(f"accounting for {level}")
        yield f"<h3>{_text(level)}</h3>"
        try:
            account = Account(ledger, level)
            terms = account() if account.end_ns > account.start_ns else account.at(account.start_ns)
        except GpulabError as wrong:
            yield _said(f"There is no account of this level: {wrong}")
            continue
        sums = ", ".join(
            f"{term} {getattr(terms, term):,} ({percent(getattr(terms, term), terms.capacity)})"
            for term in TERMS
        )
        yield _said(f"In {account.unit} × ns: {sums}; in all {terms.capacity:,}.")
        yield from _drawn(level, lambda terms=terms, level=level: _bar(terms, level))
        yield from _drawn(level, lambda account=account: charts.account_over_time(account))
    yield from _left_out("levels", known)


def _bar(terms: Terms, level: str) -> Picture:
    return charts.account_bar(terms, title=f"Where the capacity went, {level}")


def _pictures(ledger: Ledger) -> Iterator[tuple[str, Callable[[], Picture] | None]]:
    """What is drawn, in order: a title and what draws it; a title alone is a heading."""
    known = list(resources(ledger))
    for resource in known[:MOST_DRAWN]:
        name = plain(resource)
        yield name, None
        yield f"the map of {name}", lambda resource=resource: charts.memory_map(ledger, resource)
        yield f"the use of {name}", lambda resource=resource: charts.use_over_time(ledger, resource)
        yield f"the queue of {name}", lambda resource=resource: charts.queue_over_time(ledger, resource)
        yield f"the claims on {name}", lambda resource=resource: charts.lanes(ledger, "request", resource)
    if ledger.serials(Launched, Sent):
        yield "Work of the device", None
        yield "streams", lambda: charts.lanes(ledger)
    if ledger.serials(Occupied):
        yield "multiprocessors", lambda: charts.lanes(ledger, "sm")


def _drawn(title: str, draw: Callable[[], Picture]) -> Iterator[str]:
    """A picture with its words and its table, or why there is none."""
    try:
        picture = draw()
        svg = picture.svg()
    except (GpulabError, ValueError, ArithmeticError) as wrong:
        yield _said(f"No picture of {title}: {wrong}")
        return
    words = _text(picture.description)
    yield (
        f'<figure aria-label="{_text(picture.title)}">\n{svg}\n<figcaption>{words}</figcaption>\n'
        f"<details><summary>The same as a table: {_text(picture.title)}</summary>\n{_table(picture.table())}\n"
        f"</details>\n</figure>"
    )


def _left_out(things: str, known: list[str]) -> Iterator[str]:
    if len(known) > MOST_DRAWN:
        names = ", ".join(known[MOST_DRAWN : 2 * MOST_DRAWN])
        yield _said(
            f"{len(known):,} {things}; not drawn: {names}{' …' if len(known) > 2 * MOST_DRAWN else ''}."
        )


def _table(twin: Table) -> str:
    """A table that scrolls by itself when it is wider than the page, also by keyboard."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{_text(twin.caption)}">{twin._repr_html_()}</div>'


def _said(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _text(text: str) -> str:
    return escape(text)
