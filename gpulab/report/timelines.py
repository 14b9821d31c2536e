"""Pictures over time: who ran when, and how many waited."""

from dataclasses import replace

from gpulab.report import drawing, glyphs, panels
from gpulab.report.activity import (
    ONE_BY_ONE,
    Activity,
    bars,
    cells,
    in_view,
    names_inside,
    of_claims,
    of_requests,
    of_streams,
)
from gpulab.report.frame import WIDTH, Frame, frame, outside
from gpulab.report.lifetimes import Lifetimes, When
from gpulab.report.map_data import capacity_name, subject_of
from gpulab.report.picture import Picture
from gpulab.report.table import Table, captioned, table
from gpulab.telemetry.events import Arrived, Attached, Occupied
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

_ROWS = 40  # of a table twin
_Counts = list[tuple[When, int, int]]  # from when on, how many wait, how many hold


def lanes(
    ledger: Ledger,
    by: str = "stream",
    resource: str | None = None,
    *,
    t0: int | None = None,
    t1: int | None = None,
    time: str = "ns",
    title: str | None = None,
    width: int = WIDTH,
) -> Picture:
    """Who ran when, a lane each, from top to bottom in order.

    ``by="stream"``: the kernels and copies of each stream, then the copies each way. ``by="sm"``: how many
    multiprocessors were busy and how many blocks they had. ``by="request"``: each request, or of a ledger
    without any (or with ``resource``) each claim, thin while it waits and thick while it runs. Above 1,000 parts in the window, boxes show how full they
    were instead; a box is blank only where nothing ran and full only where all of it did.

    Other arguments and errors as for ``memory_map``.

    Raises:
        ValueError: ``by`` is something else.
    """
    view = frame(ledger, t0=t0, t1=t1, time=time, capacity=1, unit="", width=width)
    if by == "sm":
        return _multiprocessors(ledger, view, title or "Busy multiprocessors over time")
    if by == "stream":
        activity, title = of_streams(ledger), title or "Work on streams over time"
        nothing = "The ledger holds no work on streams."
    elif by == "request" and resource is None and ledger.serials(Arrived):
        activity, title, nothing = of_requests(ledger), title or "Requests over time", "No request waited."
    elif by == "request":
        subject = subject_of(ledger, resource)
        activity = of_claims(subject.claims) if subject else Activity([], ())
        title = title or f"Claims{f' on {subject.name}' if subject else ''} over time"
        nothing = "The ledger holds no claims."
    else:
        raise ValueError(f"by={by!r}: lanes are by 'stream', 'sm' or 'request'")
    shown, elsewhere = in_view(activity, view), outside(ledger, t0, t1)
    if elsewhere or not shown.parts:
        missing = elsewhere or "Nothing ran in this part of the time."
        return drawing.say(title, missing if activity.parts else nothing, table(ledger))
    return _lanes(shown, view, title)


def queue_over_time(
    ledger: Ledger,
    resource: str | None = None,
    *,
    t0: int | None = None,
    t1: int | None = None,
    time: str = "auto",
    title: str | None = None,
    width: int = WIDTH,
) -> Picture:
    """How many claims waited and how many held something; below it how full the resource was.

    Arguments and errors as for ``memory_map``; long ledgers are reduced as in ``use_over_time``.
    """
    subject = subject_of(ledger, resource)
    if subject is None:
        return drawing.say(title or "Queue over time", "The ledger holds no resource yet.", table(ledger))
    title = title or f"Queue of {subject.name} over time"
    if elsewhere := outside(ledger, t0, t1):
        return drawing.say(title, elsewhere, table(ledger))
    view = frame(ledger, t0=t0, t1=t1, time=time, capacity=subject.capacity, unit=subject.unit, width=width)
    counts = _counts(subject.claims)
    queue = {
        name: glyphs.step_rows([(when, both[place]) for when, *both in counts], replace(view, y_step=1))
        for place, name in enumerate(("waiting", "running"))
    }
    use = {name: glyphs.steps(subject.levels, name, view) for name in ("held", "used")}
    edge = [{"y": view.y(subject.capacity), "text": capacity_name(subject)}]
    upper = panels.Panel("claims", queue, _top(queue, 1), 110, ("#E69F00", "#0072B2"))
    lower = panels.Panel(
        f"held ({view.y_unit})", use, _top(use, view.y(subject.capacity)), 130, ("#A6CEE3", "#222222"), edge
    )
    notes = ["area: waiting, held · line: running, used", *_reduced(len(counts))]
    chart = _together([upper, lower], view, title, notes)
    return drawing.picture(chart, title, _queue_words(counts, view), _counts_table(subject.name, counts))


def _lanes(activity: Activity, view: Frame, title: str) -> Picture:
    alt, parts = drawing.altair(), activity.parts
    if len(parts) > ONE_BY_ONE:
        notes = [
            f"{len(parts):,} parts, too many to draw one by one: the shade is how full each box was,",
            "blank only where nothing ran; t0= and t1= show a part of the time",
        ]
        chart = panels.full_lanes(alt, activity, cells(activity, view), view, title=title, notes=notes)
    else:
        rows = bars(activity, view)
        chart = panels.lanes(alt, activity, rows, names_inside(activity, rows, view), view, title=title)
    counts = {name: sum(part.kind == name for part in parts) for name, *_ in activity.kinds}
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    first = parts[0]
    words = (
        f"{len(activity.lanes):,} lanes with {len(parts):,} parts ({said}). First: {activity.lanes[first.lane]}, "
        f"{first.what}, from {format_ns(first.start[1])}."
    )
    cells_of = tuple(
        (
            activity.lanes[part.lane],
            part.kind,
            part.what,
            f"#{part.start[0]} at {format_ns(part.start[1])}",
            "the end" if part.end is None else f"#{part.end[0]} at {format_ns(part.end[1])}",
        )
        for part in parts[:_ROWS]
    )
    twin = Table(
        captioned(title, len(cells_of), len(parts), "parts"),
        ("lane", "part", "what", "from", "until"),
        cells_of,
    )
    return drawing.picture(chart, title, words, twin)


def _multiprocessors(ledger: Ledger, view: Frame, title: str) -> Picture:
    changes = [
        ((s, f.time_ns), f.sms, f.blocks)
        for s, f in zip(ledger.serials(Occupied), ledger.of(Occupied), strict=True)
    ]
    if not changes:
        return drawing.say(title, "The ledger does not say how busy multiprocessors were.", table(ledger))
    total = sum(fact.sms for fact in ledger.of(Attached))
    busy = {"busy": glyphs.step_rows([(when, sms) for when, sms, _ in changes], view)}
    blocks = {"resident blocks": glyphs.step_rows([(when, number) for when, _, number in changes], view)}
    edge = [{"y": total, "text": f"{total:,} in all"}]
    upper = panels.Panel("multiprocessors", busy, _top(busy, total), 130, ("#56B4E9",), edge)
    lower = panels.Panel("blocks", blocks, _top(blocks, 1), 70, ("#0072B2",))
    chart = _together([upper, lower], view, title, _reduced(len(changes)))
    peak = max(changes, key=lambda change: change[1])
    words = f"{len(changes):,} changes. Most busy: {peak[1]:,} of {total:,} at event #{peak[0][0]}, {format_ns(peak[0][1])}."
    columns = ("event", "time", "multiprocessors", "blocks")
    rows = tuple(
        (f"#{when[0]}", format_ns(when[1]), f"{sms:,}", f"{number:,}")
        for when, sms, number in changes[:_ROWS]
    )
    twin = Table(captioned(title, len(rows), len(changes), "changes"), columns, rows, frozenset(columns))
    return drawing.picture(chart, title, words, twin)


def _counts(claims: Lifetimes) -> _Counts:
    """How many claims wait and how many hold, from each fact on that changes it."""
    changes = []
    for life in claims.claims:
        until = life.granted or life.over
        if until is None or until[1] > life.claimed[1]:
            changes.append((life.claimed, 1, 0))
            changes += [(until, -1, 0)] if until else []
        if life.granted:
            changes.append((life.granted, 0, 1))
            changes += [(life.over, 0, -1)] if life.over else []
    counts: _Counts = []
    waiting = running = 0
    for when, more, other in sorted(changes):
        waiting, running = waiting + more, running + other
        if counts and counts[-1][0] == when:
            counts.pop()
        counts.append((when, waiting, running))
    return counts


def _together(stack: list[panels.Panel], view: Frame, title: str, notes: list[str]):
    alt = drawing.altair()
    return panels.under_each_other(alt, panels.steps(alt, stack, view), view, title=title, notes=notes)


def _top(series: dict[str, list[dict]], least: float) -> float:
    return max([least] + [row["y"] for rows in series.values() for row in rows])


def _reduced(changes: int) -> list[str]:
    if changes <= 4 * glyphs.STEP_SLICES:
        return []
    return [f"{changes:,} changes: each of {glyphs.STEP_SLICES} slices keeps its peaks and gaps"]


def _queue_words(counts: _Counts, view: Frame) -> str:
    inside = [count for count in counts if view.overlaps(count[0], None)]
    if not inside:
        return "Nothing was claimed in this part of the time."
    longest, fullest = max(inside, key=lambda count: count[1]), max(inside, key=lambda count: count[2])
    return (
        f"Most waiting: {longest[1]:,} at event #{longest[0][0]}, {format_ns(longest[0][1])}. "
        f"Most running: {fullest[2]:,} at event #{fullest[0][0]}, {format_ns(fullest[0][1])}. "
        f"At the end: {inside[-1][1]:,} waiting, {inside[-1][2]:,} running."
    )


def _counts_table(name: str, counts: _Counts) -> Table:
    columns = ("event", "time", "waiting", "running")
    rows = tuple(
        (f"#{when[0]}", format_ns(when[1]), f"{waiting:,}", f"{running:,}")
        for when, waiting, running in counts[:_ROWS]
    )
    return Table(
        captioned(f"Queue of {name}", len(rows), len(counts), "changes"), columns, rows, frozenset(columns)
    )
