"""What a memory map is made of: rows of rectangles, glyphs and labels, before any drawing library.

Colour is never alone: a rectangle that is large enough carries its owner and its event, every row has
its words for the tooltip, and the table twin has them all.
"""

from collections import Counter
from collections.abc import Iterable

from gpulab.report.density import TENTHS
from gpulab.report.frame import Frame
from gpulab.report.legend import Legend, owner_name
from gpulab.report.lifetimes import Level, Lifetime, Lifetimes, When
from gpulab.report.table import exact_size
from gpulab.units import format_ns

_LETTER_PX, _LINE_PX = 6.5, 12
_PALE_FROM_PX = 0.7  # a strip thinner than this is not seen
_REFUSALS = 60
STEP_SLICES = 140


def rectangles(
    grants: list[Lifetime], places: dict[int, int], frame: Frame, unit: str, narrowest: int
) -> list[dict]:
    """One row a grant. ``narrowest`` keeps a grant that came and went at once visible."""
    rows = []
    for life in grants:
        low, high = frame.position(life.granted), frame.position(life.over)
        high = max(high, low + narrowest)
        at = places[life.claim]
        until = "the end" if life.over is None else f"#{life.over[0]} at {format_ns(life.over[1])}"
        rows.append(
            {
                "x": low / frame.x_step,
                "x2": high / frame.x_step,
                "y": frame.y(at),
                "y2": frame.y(at + life.size),
                "event": f"#{life.granted[0]}",
                "claim": life.claim,
                "owner": owner_name(life.owner),
                "size": exact_size(life.size, unit),
                "asked": exact_size(life.asked, unit),
                "address": exact_size(life.start, unit),
                "from": format_ns(life.granted[1]),
                "until": until,
            }
        )
    return rows


def edge(row: dict, width: float, height: float) -> int:
    """The white line round a rectangle, in px: none where it would hide a thin one."""
    return int(min((row["x2"] - row["x"]) * width, (row["y2"] - row["y"]) * height) >= 5)


def labels(rows: list[dict], legend: Legend, width: float, height: float) -> list[dict]:
    """What is written into the rectangles that have room. ``width``, ``height``: px a unit of each axis."""
    written = []
    for row in rows:
        room = (row["x2"] - row["x"]) * width / _LETTER_PX - 1
        if (row["y2"] - row["y"]) * height < _LINE_PX:
            continue
        texts = (f"{row['owner']} {row['event']}", row["event"])
        text = next((text for text in texts if len(text) <= room), None)
        if text is not None:
            middle = {"x": (row["x"] + row["x2"]) / 2, "y": (row["y"] + row["y2"]) / 2}
            written.append({**middle, "text": text, "ink": legend.ink(row["key"])})
    return written


def unused(grants: list[Lifetime], places: dict[int, int], frame: Frame, height: float) -> list[dict]:
    """The part of each grant that does no work, drawn at its end: rounding and over-reservation."""
    rows = []
    for life in grants:
        ends = [change[:2] for change in life.use[1:]] + [life.over]
        for (serial, time_ns, units), end in zip(life.use, ends, strict=True):
            low, high = frame.x((serial, time_ns)), frame.x(end)
            bottom, top = frame.y(places[life.claim] + units), frame.y(places[life.claim] + life.size)
            if high > low and (top - bottom) * height >= _PALE_FROM_PX:
                rows.append({"x": low, "x2": high, "y": bottom, "y2": top})
    return rows


def refused(claims: Lifetimes, frame: Frame, width: float) -> list[dict]:
    """A glyph a refusal; beyond 60 of them one for all that fall into the same hundredth of the window."""
    lives = {life.claim: life for life in claims.claims}
    unit = claims.opened.unit
    seen = [
        (serial, fact)
        for serial, fact in claims.refusals
        if frame.overlaps((serial, fact.time_ns), (serial, fact.time_ns))
    ]
    if len(seen) > _REFUSALS:
        span = frame.high - frame.low
        counts = Counter((frame.position((s, f.time_ns)) - frame.low) * 100 // span for s, f in seen)
        return [
            {
                "x": (frame.low + span * (2 * part + 1) / 200) / frame.x_step,
                "text": "",
                "words": f"{count:,} refused",
            }
            for part, count in sorted(counts.items())
        ]
    rows, free_from = [], frame.low / frame.x_step
    for serial, fact in seen:
        x, name = frame.x((serial, fact.time_ns)), f"#{serial}"
        room = x >= free_from
        if room:
            free_from = x + (len(name) + 1) * _LETTER_PX / width
        life = lives[fact.claim]
        words = (
            f"{name} refused: {owner_name(life.owner)} wants {exact_size(life.wants, unit)}, "
            f"{exact_size(fact.free, unit)} free, longest stretch {exact_size(fact.largest, unit)}"
        )
        rows.append({"x": x, "text": name if room else "", "words": words})
    return rows


def cells(parts: list[tuple[int, int, int, int, int]], frame: Frame, unit: str) -> list[dict]:
    """The rows of a density map; ``tenths`` of each cell held."""
    return [
        {
            "x": low / frame.x_step,
            "x2": high / frame.x_step,
            "y": frame.y(bottom),
            "y2": frame.y(top),
            "tenths": tenths,
            "words": f"{'all' if tenths == TENTHS else f'about {tenths * 10} %'} of "
            f"{exact_size(bottom, unit)} to {exact_size(top, unit)} held",
        }
        for low, high, bottom, top, tenths in parts
    ]


def steps(levels: list[Level], name: str, frame: Frame) -> list[dict]:
    """A step function inside the window. Per slice the first, lowest, highest and last value stay.

    A slice is 4 px wide. The rule is M4's (Jugel et al., "M4: a visualization-oriented time series
    data aggregation", VLDB 2014): no peak and no gap is lost; each may look up to a slice wide.
    """
    return step_rows([((level.serial, level.time_ns), getattr(level, name)) for level in levels], frame)


def step_rows(points: Iterable[tuple[When, int]], frame: Frame) -> list[dict]:
    """``steps`` of any numbers: ``((serial, time_ns), value)`` in order, 0 before the first."""
    before, inside = 0, []
    for when, value in points:
        position = when[0] if frame.counts_events else when[1]
        if position < frame.low:
            before = value
        elif position <= frame.high:
            if inside and inside[-1][0] == position:
                inside.pop()  # what holds for no time at all is not seen
            inside.append((position, value))
    points = [(frame.low, before), *inside]
    if len(points) > 4 * STEP_SLICES:
        points = _four_of_each(points, frame)
    points.append((frame.high, points[-1][1]))
    return [{"x": place(x, frame), "y": round(frame.y(value), 4)} for x, value in points]


def place(position: int, frame: Frame) -> float:
    """``position`` on the x axis, short: a hundredth of a pixel off at most."""
    fine = 10 ** max(0, len(str(frame.high - frame.low)) - 6)
    return (position - position % fine) / frame.x_step


def share(part: int, whole: int) -> float:
    """``part`` of ``whole`` in per cent, as a place on an axis."""
    return 100 * part / whole if whole else 0.0


def percent(part: int, whole: int) -> str:
    """``part`` of ``whole`` to a tenth of a per cent, rounded half up by whole numbers."""
    tenths = (2000 * part + whole) // (2 * whole) if whole else 0
    return f"{tenths // 10}.{tenths % 10} %"


def _four_of_each(points: list[tuple[int, int]], frame: Frame) -> list[tuple[int, int]]:
    slices: dict[int, list[tuple[int, int]]] = {}
    for point in points:
        slices.setdefault((point[0] - frame.low) * STEP_SLICES // (frame.high - frame.low), []).append(point)
    kept = []
    for part in slices.values():
        marks = range(len(part))
        lowest, highest = min(marks, key=lambda i: part[i][1]), max(marks, key=lambda i: part[i][1])
        kept += [part[i] for i in sorted({0, lowest, highest, len(part) - 1})]
    return kept
