"""Pictures that compare runs: latencies against what was promised, goodput against rate, who waited for what."""

from collections.abc import Mapping, Sequence

from gpulab.report import curves, drawing
from gpulab.report.frame import WIDTH, time_unit
from gpulab.report.glyphs import percent
from gpulab.report.legend import owner_name
from gpulab.report.picture import Picture
from gpulab.report.table import Table, captioned
from gpulab.report.waiting import PARTS, Waited
from gpulab.units import format_ns

_POINTS = 400  # of one curve
_BARS, _ROWS = 24, 40
_RUNS = 6  # more curves cannot be told apart


def latency(
    values_ns: Mapping[str, Sequence[int]],
    slo_ns: int | None = None,
    *,
    what: str = "latency",
    title: str | None = None,
    width: int = WIDTH,
) -> Picture:
    """For each run the share of its requests that took at most so long, and what was promised as a line.

    ``values_ns`` has whole ns by the name of the run. Percentiles are by nearest rank: the smallest value
    that at least that share of them does not exceed. Curves of more than 400 values keep every 400th part
    and the largest. The axis is logarithmic when the largest value is 100 times the smallest or more.

    Raises:
        ValueError: more than six runs, or a value that is negative or no number.
    """
    title = title or f"Distribution of {what}"
    _check_runs(values_ns)
    for value in (value for values in values_ns.values() for value in values):
        if not 0 <= value < float("inf"):  # NaN is neither
            raise ValueError(f"{value!r} ns: a {what} is a number of ns, not negative")
    ordered = {name: sorted(values) for name, values in values_ns.items()}
    everything = [value for values in ordered.values() for value in values]
    twin = _latency_table(title, ordered, slo_ns)
    if not everything:
        return drawing.say(title, "There is no value to show.", twin)
    largest = max([*everything, slo_ns or 0])
    step, unit = time_unit(largest)
    notes = [f"{len(everything):,} values"]
    if slo_ns is not None:
        notes.append(f"dashed: promised, {format_ns(slo_ns)}")
    chart = curves.distribution(
        drawing.altair(),
        _curves(ordered, step),
        None if slo_ns is None else slo_ns / step,
        scale="log" if 0 < 100 * min(everything) <= largest else "linear",
        x_title=f"{what} ({unit})",
        width=width,
    )
    chart = chart.properties(title=drawing.heading(drawing.altair(), title, notes, width))
    return drawing.picture(chart, title, _said(twin), twin)


def goodput(
    points: Mapping[str, Sequence[tuple[float, float]]],
    slo: str = "",
    *,
    title: str = "Goodput against rate",
    width: int = WIDTH,
) -> Picture:
    """For each run how many requests a second kept what was promised, against how many came.

    ``points`` has ``(rate, goodput)`` in requests a second by the name of the run; ``slo`` says in words what
    was promised. On the dotted line everything that comes is good.

    Raises:
        ValueError: more than six runs, or a number that is negative or not finite.
    """
    _check_runs(points)
    ordered = {name: sorted(pairs) for name, pairs in points.items()}
    rows = tuple(
        (name, f"{rate:,.6g}", f"{good:,.6g}", percent(round(good * 1e6), round(rate * 1e6)))
        for name, pairs in ordered.items()
        for rate, good in map(_checked, pairs)
    )
    columns = ("run", "rate (requests/s)", "goodput (requests/s)", "share")
    twin = Table(captioned(title, len(rows), len(rows), "points"), columns, rows, frozenset(columns[1:]))
    if not rows:
        return drawing.say(title, "There is no point to show.", twin)
    best = {name: max(pairs, key=lambda pair: pair[1]) for name, pairs in ordered.items() if pairs}
    words = " ".join(
        f"{name}: at best {good:,.4g} requests/s at a rate of {rate:,.4g}."
        for name, (rate, good) in best.items()
    )
    notes = ([f"promised: {slo}"] if slo else []) + ["dotted: all that comes is good"]
    alt = drawing.altair()
    series = {owner_name(name): [{"x": x, "y": y} for x, y in pairs] for name, pairs in ordered.items()}
    chart = curves.against_rate(alt, series, width=width)
    return drawing.picture(
        chart.properties(title=drawing.heading(alt, title, notes, width)), title, words, twin
    )


def waiting_bars(
    parts: Sequence[Waited], *, title: str = "Where the time went", width: int = WIDTH
) -> Picture:
    """One bar a request, split into alone, slowed, behind, blocked and outside, in order of arrival.

    ``parts``: ``Waiting(ledger).requests``. Of more than 24: the mean of all, then the 23 that took longest, longest first.
    """
    if not parts:
        twin = Table(title, ("request", "tenant", "latency", *PARTS), ())
        return drawing.say(title, "No request has ended: there is no time to split.", twin)
    notes, shown = [], sorted(parts, key=lambda part: (part.start_ns, part.request))
    bars = [(_name(part), _split(part)) for part in shown]
    if len(shown) > _BARS:
        shown = sorted(shown, key=lambda part: part.start_ns - part.end_ns)
        mean = [sum(column) // len(shown) for column in zip(*map(_split, shown), strict=True)]
        bars = [
            (f"mean of {len(shown):,}", mean),
            *((_name(part), _split(part)) for part in shown[: _BARS - 1]),
        ]
        notes = [f"{len(parts):,} requests: the mean of all, then the {_BARS - 1} that took longest"]
    step, unit = time_unit(max(sum(split) for _, split in bars))
    alt = drawing.altair()
    chart = curves.split_bars(alt, PARTS, bars, step, x_title=f"latency ({unit})", width=width)
    total = [sum(column) for column in zip(*map(_split, parts), strict=True)]
    words = ", ".join(f"{name} {percent(ns, sum(total))}" for name, ns in zip(PARTS, total, strict=True))
    columns = ("request", "tenant", "latency", *PARTS)
    rows = tuple(
        (
            f"{part.request}",
            owner_name(part.tenant),
            *map(format_ns, (part.end_ns - part.start_ns, *_split(part))),
        )
        for part in shown[:_ROWS]
    )
    twin = Table(
        captioned(title, len(rows), len(parts), "requests"), columns, rows, frozenset(columns) - {"tenant"}
    )
    chart = chart.properties(title=drawing.heading(alt, title, notes, width))
    return drawing.picture(chart, title, f"{len(parts):,} requests. Of all their time: {words}.", twin)


def _split(part: Waited) -> list[int]:
    return [getattr(part, f"{name}_ns") for name in PARTS]


def _name(part: Waited) -> str:
    return f"{owner_name(part.tenant)} {part.request}"


def _check_runs(runs: Mapping) -> None:
    if len(runs) > _RUNS:
        raise ValueError(
            f"{len(runs)} runs: more than {_RUNS} curves cannot be told apart; draw some of them"
        )


def _checked(pair: tuple[float, float]) -> tuple[float, float]:
    if not all(0 <= number < float("inf") for number in pair):  # NaN is neither
        raise ValueError(f"{pair}: a rate and a goodput are numbers of requests a second, not negative")
    return pair


def _curves(ordered: Mapping[str, list[int]], step: int) -> dict[str, list[dict]]:
    return {
        owner_name(name): [
            {"x": value / step, "y": round(100 * rank / len(values), 2)} for value, rank in _quantiles(values)
        ]
        for name, values in ordered.items()
        if values
    }


def _quantiles(values: list[int]) -> list[tuple[int, int]]:
    """``(value, how many are at most that)`` at no more than 400 ranks, the largest among them."""
    count = len(values)
    ranks = (
        range(1, count + 1) if count <= _POINTS else [-(-count * n // _POINTS) for n in range(1, _POINTS + 1)]
    )
    return [(values[0], 0), *((values[rank - 1], rank) for rank in ranks)]


def _latency_table(title: str, ordered: Mapping[str, list[int]], slo_ns: int | None) -> Table:
    columns = ("run", "values", "median", "90 %", "99 %", "largest", "within the promise")
    rows = []
    for name, values in ordered.items():
        ranks = [values[-(-len(values) * part // 100) - 1] for part in (50, 90, 99, 100)] if values else []
        kept = sum(value <= slo_ns for value in values) if slo_ns is not None else 0
        within = percent(kept, len(values)) if slo_ns is not None and values else "-"
        rows.append((name, f"{len(values):,}", *(map(format_ns, ranks) if values else "----"), within))
    caption = title if slo_ns is None else f"{title}; promised: {format_ns(slo_ns)}"
    return Table(caption, columns, tuple(rows), frozenset(columns[1:]))


def _said(twin: Table) -> str:
    """The rows of the table of latencies as sentences."""
    said = []
    for name, _, median, _, high, largest, within in twin.rows:
        kept = "" if within == "-" else f", {within} within the promise"
        said.append(f"{name}: median {median}, 99 % {high}, largest {largest}{kept}.")
    return " ".join(said)
