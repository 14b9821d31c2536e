"""Claims from first ask to last byte: what charts and tables read a ledger as.

Reading forgives: facts that contradict the rest are left out here, and ``audit`` names them.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpulab.telemetry.events import (
    Claimed,
    Fact,
    Freed,
    Granted,
    Grew,
    Opened,
    Refused,
    Returned,
    TimedOut,
    Used,
    Withdrawn,
)

_BEYOND = 1 << 62  # more than any size
When = tuple[int, int]  # (serial, time_ns) of a fact


@dataclass(slots=True)
class Lifetime:
    """One claim: when it was asked, granted and over. ``start`` and ``size`` are those of its grant.

    ``asked`` is what its owner asked for, ``wants`` what that takes after rounding: so much waits.

    ``use`` holds ``(serial, time_ns, units)`` from the grant on; ``over`` is the end of the grant, or of
    the waiting when it was never granted; None means until the end of the ledger. ``resized`` holds
    ``(serial, time_ns, units)`` of what its grant grew by, below 0 what went back before its end.
    """

    claim: int
    owner: str
    asked: int
    wants: int
    claimed: When
    granted: When | None = None
    start: int = -1
    size: int = 0
    over: When | None = None
    use: list[tuple[int, int, int]] = field(default_factory=list)
    resized: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Units of the grant after all that it grew by and all that went back before its end."""
        return self.size + sum(units for *_, units in self.resized)


@dataclass(slots=True)
class Level:
    """What holds from fact ``serial`` on: units ``held``, of these ``used``, and asked for but ``waiting``."""

    serial: int
    time_ns: int
    held: int
    used: int
    waiting: int


@dataclass(slots=True)
class Lifetimes:
    """All claims on one resource, in order of their serials. ``refusals``: ``(serial, fact)`` in order."""

    opened: Opened
    claims: list[Lifetime]
    refusals: list[tuple[int, Refused]]
    last: When

    def levels(self) -> list[Level]:
        """The step function of held, used and waiting units, one step a fact that changes it.

        Cost: O(n log n) in the claims.
        """
        changes = [change for life in self.claims for change in _changes(life)]
        levels, held, used, waiting = [], 0, 0, 0
        for serial, time_ns, more_held, more_used, more_waiting in sorted(changes):
            held, used, waiting = held + more_held, used + more_used, waiting + more_waiting
            if levels and levels[-1].serial == serial:
                levels.pop()
            levels.append(Level(serial, time_ns, held, used, waiting))
        return levels


def resources(facts: Iterable[Fact]) -> dict[str, Opened]:
    """The resources that were opened, by name, in order."""
    return {fact.resource: fact for fact in facts if type(fact) is Opened}


def lifetimes(facts: Iterable[Fact], opened: Opened) -> Lifetimes:
    """The claims on ``opened``. Cost: one pass."""
    claims: dict[int, Lifetime] = {}
    refusals: list[tuple[int, Refused]] = []
    last = (0, 0)
    for serial, fact in enumerate(facts):
        last = (serial, fact.time_ns)
        if type(fact) is Claimed:
            if fact.resource == opened.resource:
                life = Lifetime(fact.claim, fact.owner, fact.size, fact.shape.size, last)
                claims.setdefault(fact.claim, life)
            continue
        life = claims.get(getattr(fact, "claim", None))
        if life is None or life.over is not None:
            continue
        match fact:
            case Granted(start=start, size=size) if life.granted is None:
                life.granted, life.start, life.size = last, start, size
                life.use.append((*last, size))
            case Used(units=units) if life.granted is not None:
                life.use.append((*last, units))
            case Returned(units=units) if life.granted is not None and 0 < units < life.left:
                life.resized.append((*last, -units))
                life.use.append((*last, min(life.use[-1][2], life.left)))  # idle units go first
            case Grew(units=units) if life.granted is not None and units > 0:
                life.resized.append((*last, units))
                life.use.append((*last, life.use[-1][2] + units))
            case Refused():
                refusals.append((serial, fact))
            case Freed() | Withdrawn() | TimedOut():
                life.over = last
    return Lifetimes(opened, list(claims.values()), refusals, last)


def stacked(segments: list[Lifetime], grants: list[Lifetime]) -> dict[int, int]:
    """A place for every segment and for the grants inside them, by claim, on one short axis.

    Segment addresses are far apart and their distance says nothing; this stacks the boxes, lowest place
    first and used again after a segment ended, so that a reader sees the bytes of the device. Segments that
    touch (mapped pages) are one box, from the first to the last of them. It decides the drawing only. A grant
    outside every live box has no place. Cost: O(n log n + boxes · live boxes).
    """
    boxes = [_box(segments) for segments in _touching(segments)]
    events = sorted(
        [(box.granted[0], 1, box) for box in boxes]
        + [(box.over[0], 0, box) for box in boxes if box.over]
        + [(life.granted[0], 2, life) for life in grants],
        key=lambda event: event[:2],
    )
    tops: dict[int, int] = {}  # the place of a box, by its claim
    live: list[Lifetime] = []  # boxes, ordered by place
    starts: list[tuple[int, int, int]] = []  # address, end and claim of each, sorted
    places: dict[int, int] = {}
    for _, kind, life in events:
        key = (life.start, life.start + life.size, life.claim)
        if kind == 0:
            live.remove(life)
            starts.remove(key)
        elif kind == 1:
            at, index = 0, 0
            while index < len(live) and at + life.size > tops[live[index].claim]:
                at = tops[live[index].claim] + live[index].size
                index += 1
            tops[life.claim] = at
            live.insert(index, life)
            insort(starts, key)
            places |= {claim: at + start - life.start for start, claim, _ in life.use}
        else:
            start, end, claim = (
                starts[bisect_right(starts, (life.start, _BEYOND, 0)) - 1] if starts else (0, 0, 0)
            )
            if start <= life.start < end:
                places[life.claim] = tops[claim] + life.start - start
    return places


def _box(segments: list[Lifetime]) -> Lifetime:
    """The box around ``segments``, from the first grant to the last end; ``use`` has start and claim of each."""
    start, last = min(life.start for life in segments), max(life.over or (_BEYOND, 0) for life in segments)
    return replace(
        segments[0],
        start=start,
        size=max(life.start + life.size for life in segments) - start,
        granted=min(life.granted for life in segments),
        over=last if last[0] < _BEYOND else None,
        use=[(life.start, life.claim, 0) for life in segments],
    )


def _touching(segments: list[Lifetime]) -> Iterable[list[Lifetime]]:
    """``segments`` in groups: in one are those of which each touched another while both were there."""
    groups = {life.claim: [life] for life in segments}
    ends: dict[int, list[Lifetime]] = {}
    for life in segments:
        ends.setdefault(life.start + life.size, []).append(life)
    for life in segments:
        for other in ends.get(life.start, ()):
            mine, theirs = groups[life.claim], groups[other.claim]
            together = (life.over or (_BEYOND,)) > other.granted and (other.over or (_BEYOND,)) > life.granted
            if mine is not theirs and together:
                theirs += mine
                groups.update((moved.claim, theirs) for moved in mine)
    return {id(group): group for group in groups.values()}.values()


def _changes(life: Lifetime) -> list[tuple[int, int, int, int, int]]:
    """``(serial, time_ns, change of held, of used, of waiting)`` for one claim.

    A claim that was granted in the nanosecond in which it was made did not wait.
    """
    waits = 0 if life.granted and life.granted[1] == life.claimed[1] else life.wants
    changes = [(*life.claimed, 0, 0, waits)] if waits else []
    if life.granted is None:
        return changes + ([(*life.over, 0, 0, -waits)] if life.over else [])
    changes.append((*life.granted, life.size, life.size, -waits))
    for (_, _, before), (serial, time_ns, units) in zip(life.use, life.use[1:], strict=False):
        changes.append((serial, time_ns, 0, units - before, 0))
    changes += [(serial, time_ns, units, 0, 0) for serial, time_ns, units in life.resized]
    if life.over:
        changes.append((*life.over, -life.left, -life.use[-1][2], 0))
    return changes
