"""Who did what when: work on streams and claims that wait and hold, as parts of lanes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from gpulab.errors import BrokenLaw
from gpulab.report.density import density
from gpulab.report.frame import Frame
from gpulab.report.legend import owner_name, plain
from gpulab.report.lifetimes import Lifetimes, When
from gpulab.report.served import Requests
from gpulab.report.table import exact_size
from gpulab.telemetry.events import Ended, Fact, Launched, Sent, Started
from gpulab.units import format_ns

ONE_BY_ONE = 1_000  # parts; more of them are thinner than a pixel or two
NAMED = 24  # lanes; more names than that overlap at 12 px each
_SLICES, _BANDS = 96, 24  # cells of the picture of more parts, over all of its panels
_LETTER_PX, _WIDEST = 6.5, 40  # of a name inside a part


@dataclass(slots=True)
class Part:
    """A stretch of one lane: its ``kind``, the ``name`` that is written into it, and ``what`` in words."""

    lane: int
    kind: str
    name: str
    what: str
    start: When
    end: When | None


@dataclass(slots=True)
class Activity:
    """Lanes from top to bottom and what is in them. ``kinds`` go from thin to thick: (name, colour, height)."""

    lanes: list[str]
    kinds: tuple[tuple[str, str, float], ...]
    parts: list[Part] = field(default_factory=list)


# Okabe and Ito, "Color Universal Design" (2008); the heights tell the kinds apart without colour.
_WORK = (("copy in", "#E69F00", 0.5), ("copy out", "#CC79A7", 0.65), ("kernel", "#56B4E9", 0.85))
_SERVED = {"waits": ("waiting", "waits"), "served": ("running", "is served")}
_CLAIMS = (("waiting", "#E69F00", 0.3), ("running", "#56B4E9", 0.8))


def of_streams(facts: Iterable[Fact]) -> Activity:
    """A lane a stream, in the order in which they were first given work, then one for the copies each way.

    Work that never started is not in it; work that never ended lasts to the end. Cost: one pass.
    """
    handed: dict[int, Launched | Sent] = {}
    lanes: dict[str, int] = {}
    started: dict[int, tuple[Part, ...]] = {}
    activity = Activity([], _WORK)
    for serial, fact in enumerate(facts):
        match fact:
            case Launched() | Sent():
                handed[fact.work] = fact
                lanes.setdefault(_lane(fact), len(lanes))
            case Started() if fact.work in handed:
                started[fact.work] = _work(handed[fact.work], lanes, (serial, fact.time_ns))
                activity.parts += started[fact.work]
            case Ended() if fact.work in started:
                for part in started.pop(fact.work):
                    part.end = (serial, fact.time_ns)
    order = sorted(lanes, key=lambda name: (not name.startswith("stream "), lanes[name]))
    activity.lanes = order
    places = {lanes[name]: place for place, name in enumerate(order)}
    for part in activity.parts:
        part.lane = places[part.lane]
    return activity


def _work(fact: Launched | Sent, lanes: dict[str, int], when: When) -> tuple[Part, ...]:
    """The part of a stream, and for a copy the same on its engine."""
    own = lanes[_lane(fact)]
    if isinstance(fact, Launched):
        kernel = plain(fact.kernel)
        what = f"kernel {kernel}, {fact.blocks:,} blocks, work {fact.work}"
        return (Part(own, "kernel", kernel, what, when, None),)
    kind = "copy in" if fact.way == "in" else "copy out"
    engine = lanes.setdefault(f"copies {plain(fact.way)}", len(lanes))
    what = f"{kind} of {exact_size(fact.size_bytes)}, {plain(fact.host)}, work {fact.work}"
    return tuple(Part(lane, kind, kind, what, when, None) for lane in (own, engine))


def of_requests(facts: Iterable[Fact]) -> Activity:
    """A lane a request, in order of arrival; waiting while its claim does, running while it is served.

    Facts that contradict the rest are left out here, and ``audit`` names them. Cost: one pass.
    """
    activity, requests, states = Activity([], _CLAIMS), Requests(), {}
    for serial, fact in enumerate(facts):
        try:
            served = requests.note(serial, fact)
        except BrokenLaw:
            continue
        if served is None:
            continue
        lane, before, part = states.get(served.arrived.request, (len(states), "", None))
        if lane == len(activity.lanes):
            activity.lanes.append(owner_name(served.arrived.owner))
        if served.state == before:
            continue
        if part is not None:
            part.end = (serial, fact.time_ns)
            part = None
        if served.state in _SERVED:
            kind, what = _SERVED[served.state]
            part = Part(
                lane, kind, kind, f"request {served.arrived.request} {what}", (serial, fact.time_ns), None
            )
            activity.parts.append(part)
        states[served.arrived.request] = lane, served.state, part
    return activity


def _lane(fact: Launched | Sent) -> str:
    return f"stream {plain(fact.stream)}"


def of_claims(claims: Lifetimes) -> Activity:
    """A lane a claim, in order; waiting from the ask to the grant, running while it holds.

    A claim that was granted in the nanosecond in which it was made did not wait.
    """
    activity, unit = Activity([], _CLAIMS), claims.opened.unit
    for lane, life in enumerate(claims.claims):
        activity.lanes.append(f"{owner_name(life.owner)} #{life.claimed[0]}")
        until = life.granted or life.over
        if until is None or until[1] > life.claimed[1]:
            what = f"waits for {exact_size(life.wants, unit)}"
            activity.parts.append(Part(lane, "waiting", "waiting", what, life.claimed, until))
        if life.granted:
            what = f"holds {exact_size(life.size, unit)}"
            activity.parts.append(Part(lane, "running", "running", what, life.granted, life.over))
    return activity


def in_view(activity: Activity, view: Frame) -> Activity:
    """The lanes that have a part in the window, with these parts."""
    parts = [part for part in activity.parts if view.overlaps(part.start, part.end)]
    used = sorted({part.lane for part in parts})
    places = {lane: place for place, lane in enumerate(used)}
    moved = [Part(places[part.lane], part.kind, part.name, part.what, part.start, part.end) for part in parts]
    return Activity([activity.lanes[lane] for lane in used], activity.kinds, moved)


def bars(activity: Activity, view: Frame) -> list[dict]:
    """One row a part: a rectangle in its lane, lane 0 from 0 to 1."""
    heights = {name: height for name, _, height in activity.kinds}
    narrowest = max(1, round(1.5 * (view.high - view.low) / view.width))
    rows = []
    for part in activity.parts:
        low = view.position(part.start)
        high = max(view.position(part.end), low + narrowest)
        margin = (1 - heights[part.kind]) / 2
        until = "the end" if part.end is None else f"#{part.end[0]} at {format_ns(part.end[1])}"
        rows.append(
            {
                "x": low / view.x_step,
                "x2": high / view.x_step,
                "y": round(part.lane + margin, 2),
                "y2": round(part.lane + 1 - margin, 2),
                "key": part.kind,
                "lane": activity.lanes[part.lane],
                "what": part.what,
                "from": f"#{part.start[0]} at {format_ns(part.start[1])}",
                "until": until,
            }
        )
    return rows


def names_inside(activity: Activity, rows: list[dict], view: Frame) -> list[dict]:
    """What is written into the parts that have room for it, while there are few lanes."""
    if len(activity.lanes) > NAMED:
        return []
    px = view.width * view.x_step / (view.high - view.low)
    written = []
    for part, row in zip(activity.parts, rows, strict=True):
        room = min((row["x2"] - row["x"]) * px / _LETTER_PX - 1, _WIDEST)
        if len(part.name) <= room and part.kind != "waiting":
            middle = {"x": (row["x"] + row["x2"]) / 2, "y": (row["y"] + row["y2"]) / 2}
            written.append({**middle, "text": part.name})
    return written


def cells(activity: Activity, view: Frame) -> dict[str, tuple[int, list[dict]]]:
    """For each kind that occurs, how many lanes it has and how full each box of time and lanes was.

    In tenths, exactly counted. Of more lanes than bands each part takes the first row that is free.
    """
    kinds = [name for name, *_ in activity.kinds if any(part.kind == name for part in activity.parts)]
    bands = max(1, _BANDS // max(1, len(kinds)))
    found = {}
    for kind in kinds:
        parts = [part for part in activity.parts if part.kind == kind]
        lanes, rows = len(activity.lanes), [part.lane for part in parts]
        if lanes > bands:
            lanes, rows = _packed(parts, view)
        boxes = (
            (low := view.position(part.start), max(view.position(part.end), low + 1), row, row + 1)
            for part, row in zip(parts, rows, strict=True)
        )
        filled = density(boxes, window=(view.low, view.high), capacity=lanes, slices=_SLICES, bins=bands)
        found[kind] = (
            lanes,
            [
                {"x": low / view.x_step, "x2": high / view.x_step, "y": bottom, "y2": top, "tenths": tenths}
                for low, high, bottom, top, tenths in filled
            ],
        )
    return found


def _packed(parts: list[Part], view: Frame) -> tuple[int, list[int]]:
    """A row for each part, the first that is free when it starts, and how many rows that takes."""
    rows, free, busy, most = [0] * len(parts), [], [], 0
    for number in sorted(range(len(parts)), key=lambda number: parts[number].start):
        start, end = view.position(parts[number].start), view.position(parts[number].end)
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if not free:
            free, most = [most], most + 1
        rows[number] = heappop(free)
        heappush(busy, (max(end, start + 1), rows[number]))
    return most, rows
