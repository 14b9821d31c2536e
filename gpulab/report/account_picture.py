"""The account as a series: five terms on top of each other, exact at each step."""

from dataclasses import astuple
from itertools import pairwise

from gpulab.report import drawing, glyphs, panels
from gpulab.report.account import TERMS, Account, Terms
from gpulab.report.frame import WIDTH, Frame, window
from gpulab.report.picture import Picture
from gpulab.report.table import Table, captioned, exact_size
from gpulab.units import format_ns

_ROWS = 40  # of a table twin
_SLICE_PX = 4
_Steps = list[tuple[int, Terms]]


def account_over_time(
    account: Account,
    *,
    t0: int | None = None,
    t1: int | None = None,
    title: str | None = None,
    width: int = WIDTH,
) -> Picture:
    """The five terms on top of each other at each moment; together they are the capacity.

    Steps are exact. Of more than 560 changes each slice of 4 px shows the exact mean of each term, so areas
    are still exact; a thin line spans what was held at least and at most in it, and a panel below shows the
    highest value of each loss, so that neither a gap nor a peak is lost.

    Raises:
        ValueError: the window ends before it starts.
    """
    title = title or f"Where the capacity went over time, {account.level}"
    low, high = account.start_ns if t0 is None else t0, account.end_ns if t1 is None else t1
    if high < low:
        raise ValueError(f"t0={low:,}, t1={high:,}: t1 is not before t0")
    everything = account.steps()
    changes = _inside(everything, low, high)
    if not changes:
        text = f"Nothing is known of {low:,} to {high:,} ns: the run starts at {account.start_ns:,} ns."
        return drawing.say(title, text, _terms_table(title, account, everything))
    view = window(low, high, capacity=max(t.capacity for _, t in everything), unit=account.unit, width=width)
    alt, unit = drawing.altair(), f"amount ({view.y_unit})"
    top = max(view.y(terms.capacity) for _, terms in changes) or 1
    notes = ["from the bottom: used, stranded, fragmented, unscheduled, spare"]
    if len(changes) <= width:
        rows = [_edges(time_ns, terms, view) for time_ns, terms in changes]
        charts = [panels.stacked(alt, _to_the_end(rows, view), view, top=top, y_title=unit)]
    else:
        rows, spans, peaks = _slices(account, changes, view)
        charts = [panels.stacked(alt, _to_the_end(rows, view), view, top=top, y_title=unit, spans=spans)]
        charts += panels.steps(alt, [_highest(peaks, rows, view)], view, keyed=False)
        notes.append(
            f"{len(changes):,} changes: means of {len(rows):,} slices, thin lines from least to most held;"
        )
        notes.append(
            "below, the most in each slice: stranded (solid), fragmented (dashed), unscheduled (dotted)"
        )
    chart = panels.under_each_other(alt, charts, view, title=title, notes=notes)
    return drawing.picture(chart, title, _account_words(changes), _terms_table(title, account, changes))


def _slices(account: Account, changes: _Steps, view: Frame) -> tuple[list[dict], list[dict], list[dict]]:
    """Of each slice a row of means, a span from least to most held, and the highest value of each loss."""
    count = min(view.width // _SLICE_PX, view.high - view.low)
    cuts = [view.low + (view.high - view.low) * cut // count for cut in range(count + 1)]
    rows, spans, peaks, number = [], [], [], 0
    for low, high in pairwise(cuts):
        inside = [changes[number][1]]  # what held when the slice began
        while number + 1 < len(changes) and changes[number + 1][0] < high:
            number += 1
            inside.append(changes[number][1])
        start, end = max(low, account.start_ns), min(high, account.end_ns)
        mean, lasted = (account(start, end), end - start) if start < end else (inside[-1], 1)
        rows.append(_edges(low, mean, view, lasted))
        held = [round(view.y(terms.used + terms.stranded), 4) for terms in inside]
        spans.append({"x": glyphs.place((low + high) // 2, view), "low": min(held), "high": max(held)})
        peaks.append({name: max(getattr(terms, name) for terms in inside) for name in TERMS[1:4]})
    return rows, spans, peaks


def _to_the_end(rows: list[dict], view: Frame) -> list[dict]:
    """A step lasts until the next row: the last one until the end of the window."""
    last = {name: rows[-1][name] for name in ("x", *TERMS)}
    return [*rows, {**last, "x": view.high / view.x_step}]


def _highest(peaks: list[dict[str, int]], rows: list[dict], view: Frame) -> panels.Panel:
    """The panel of the highest value of each loss in each slice."""
    series = {
        name: [
            {"x": row["x"], "y": round(view.y(peak[name]), 4)} for row, peak in zip(rows, peaks, strict=True)
        ]
        for name in TERMS[1:4]
    }
    for drawn in series.values():
        drawn.append({**drawn[-1], "x": view.high / view.x_step})
    top = max(row["y"] for drawn in series.values() for row in drawn) or 1
    colours = tuple(drawing.TERMS[name][0] for name in TERMS[1:4])
    return panels.Panel(f"most ({view.y_unit})", series, top, 60, colours, filled=False)


def _inside(steps: _Steps, low: int, high: int) -> _Steps:
    """The steps in the window, the first moved to its start."""
    before = [step for step in steps if step[0] <= low][-1:]
    inside = [step for step in steps if low < step[0] <= high]
    return [(low, terms) for _, terms in before] + inside


def _edges(time_ns: int, terms: Terms, view: Frame, lasted: int = 1) -> dict[str, float]:
    """The upper edge of each term, from the bottom; ``terms`` are sums over ``lasted`` ns."""
    row, done = {"x": glyphs.place(time_ns, view)}, 0
    for name in TERMS:
        done += getattr(terms, name)
        row[name] = round(view.y(done) / lasted, 4)
    return row


def _account_words(steps: _Steps) -> str:
    """The worst moment of each loss that there is."""
    said = []
    for name in TERMS[1:4]:
        time_ns, terms = max(steps, key=lambda step: getattr(step[1], name))
        if getattr(terms, name):
            said.append(
                f"Most {name}: {glyphs.percent(getattr(terms, name), terms.capacity)} at {format_ns(time_ns)}."
            )
    last = steps[-1][1]
    at_the_end = ", ".join(f"{name} {glyphs.percent(getattr(last, name), last.capacity)}" for name in TERMS)
    return " ".join(
        [*(said or ["Nothing was stranded, fragmented or unscheduled."]), f"At the end: {at_the_end}."]
    )


def _terms_table(title: str, account: Account, steps: _Steps) -> Table:
    columns = ("time", "capacity", *TERMS)
    rows = tuple(
        (format_ns(time_ns), *(exact_size(amount, account.unit) for amount in astuple(terms)))
        for time_ns, terms in steps[:_ROWS]
    )
    return Table(captioned(title, len(rows), len(steps), "changes"), columns, rows, frozenset(columns))
