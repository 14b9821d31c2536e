"""Pictures of a ledger, all of them: the map, use, lanes, queue, account, comparisons, and pictures together.

Altair is imported when the first picture is drawn. Every picture has its units on the axes, a white
ground (legible on light and dark pages), a description and a table twin, and at most 5,000 glyphs.
"""

from collections.abc import Sequence

from gpulab.report import drawing, glyphs
from gpulab.report.account_picture import account_over_time
from gpulab.report.comparisons import goodput, latency, waiting_bars
from gpulab.report.frame import WIDTH, Frame, frame, outside
from gpulab.report.map_data import Subject, capacity_name, in_view, map_data, subject_of, words
from gpulab.report.picture import Picture
from gpulab.report.table import Table, exact_size, table
from gpulab.report.timelines import lanes, queue_over_time
from gpulab.report.together import linked, side_by_side
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

__all__ = [
    "account_bar",
    "account_over_time",
    "goodput",
    "lanes",
    "latency",
    "linked",
    "memory_map",
    "queue_over_time",
    "side_by_side",
    "table",
    "use_over_time",
    "waiting_bars",
]


def memory_map(
    ledger: Ledger,
    resource: str | None = None,
    *,
    t0: int | None = None,
    t1: int | None = None,
    time: str = "auto",
    title: str | None = None,
    mark: Sequence[int] = (),
    width: int = WIDTH,
) -> Picture:
    """Who held which addresses when: one rectangle a grant, over time and addresses.

    The pale part of a rectangle is granted and not used. A triangle on top is a refusal. ``mark`` draws
    a line at these events (serials). A resource inside another one (a pool in a device) shows each
    segment as a box; the boxes are stacked, since segment addresses are far apart. Above 1,000 grants
    in the window, cells show how full they were instead, and the subtitle says so.

    Args:
        resource: its name; None takes the one opened last. t0, t1: window in ns, None for all of it.
        time: x axis in ``"ns"``, ``"steps"`` (event numbers), or ``"auto"``: steps up to 60 facts.
        width: px inside the axes; 300 puts two beside each other (``side_by_side``).

    Raises:
        ValueError: the ledger has no such resource or event, or the window ends before it starts.
        ImportError: Altair is not installed.
    """
    subject = subject_of(ledger, resource)
    if subject is None:
        return _sentence(title or "Memory map", "The ledger holds no resource yet.", ledger)
    title = title or f"Memory map of {subject.name}"
    if elsewhere := outside(ledger, t0, t1):
        return _sentence(title, elsewhere, ledger)
    view = _view(ledger, subject, t0=t0, t1=t1, time=time, width=width)
    if any(life.start < 0 for life in in_view(subject.claims, view)):
        return _sentence(title, "These grants have no addresses: use_over_time shows how many.", ledger)
    chart = drawing.memory_map(drawing.altair(), map_data(subject, ledger, view, mark), title)
    return drawing.picture(chart, title, words(subject, view), table(ledger))


def use_over_time(
    ledger: Ledger,
    resource: str | None = None,
    *,
    t0: int | None = None,
    t1: int | None = None,
    time: str = "auto",
    title: str | None = None,
    width: int = WIDTH,
) -> Picture:
    """How much was held and used, against the capacity, and below it how much was waited for.

    Arguments and errors as for ``memory_map``. Long ledgers keep the first, lowest, highest and last
    value of each of 140 slices, so peaks and gaps stay.
    """
    subject = subject_of(ledger, resource)
    if subject is None:
        return _sentence(title or "Use over time", "The ledger holds no resource yet.", ledger)
    title = title or f"Use of {subject.name} over time"
    if elsewhere := outside(ledger, t0, t1):
        return _sentence(title, elsewhere, ledger)
    view = _view(ledger, subject, t0=t0, t1=t1, time=time, width=width)
    series = {name: glyphs.steps(subject.levels, name, view) for name in drawing.SERIES}
    if subject.outer:
        series["segments"] = glyphs.steps(subject.outer.levels(), "held", view)
    top = max(
        row["y"] for row in (*series["held"], *series.get("segments", ()), {"y": view.y(subject.capacity)})
    )
    edge = [{"y": view.y(subject.capacity), "text": capacity_name(subject)}]
    chart = drawing.use_panels(drawing.altair(), series, view, edge, top=top, title=title)
    return drawing.picture(chart, title, words(subject, view), _levels_table(subject))


def account_bar(terms, *, title: str = "Where the capacity went") -> Picture:
    """One bar of the five terms of ``terms`` (``gpulab.report.account.Terms``), each with its share."""
    rows, done = [], 0
    for name in drawing.TERMS:
        amount = getattr(terms, name)
        share = glyphs.percent(amount, terms.capacity)
        low, high = (glyphs.share(part, terms.capacity) for part in (done, done + amount))
        rows.append(
            {"x": low, "x2": high, "middle": (low + high) / 2, "term": name, "key": f"{name} {share}"}
        )
        done += amount
    cells = tuple(
        (name, f"{getattr(terms, name):,}", glyphs.percent(getattr(terms, name), terms.capacity), whose)
        for name, (_, whose) in drawing.TERMS.items()
    )
    twin = Table(title, ("term", "amount", "share", "whose loss"), cells, frozenset({"amount", "share"}))
    chart = drawing.term_bar(drawing.altair(), rows, title)
    return drawing.picture(chart, title, ", ".join(row["key"] for row in rows) + ".", twin)


def _view(
    ledger: Ledger, subject: Subject, *, t0: int | None, t1: int | None, time: str, width: int
) -> Frame:
    return frame(ledger, t0=t0, t1=t1, time=time, capacity=subject.capacity, unit=subject.unit, width=width)


def _sentence(title: str, text: str, ledger: Ledger) -> Picture:
    return drawing.say(title, text, table(ledger))


def _levels_table(subject: Subject, limit: int = 40) -> Table:
    columns = ("event", "time", "held", "used", "waiting")
    rows = []
    for level in subject.levels[:limit]:
        sizes = (exact_size(units, subject.unit) for units in (level.held, level.used, level.waiting))
        rows.append((f"#{level.serial}", format_ns(level.time_ns), *sizes))
    changes = len(subject.levels)
    shown = f"the first {limit} of {changes:,} changes" if changes > limit else "every change"
    return Table(f"Use of {subject.name}: {shown}", columns, tuple(rows), frozenset(columns))
