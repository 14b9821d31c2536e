"""Claims from first ask to last byte: what charts and tables read a ledger as.

Reading forgives: facts that contradict the rest are left out here, and ``audit`` names them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpulab.telemetry.events import (
    Claimed,
    Fact,
    Freed,
    Granted,
    Opened,
    Refused,
    Returned,
    TimedOut,
    Used,
    Withdrawn,
)

When = tuple[int, int]  # (serial, time_ns) of a fact


@dataclass(slots=True)
class Lifetime:
    """One claim: when it was asked, granted and over. ``start`` and ``size`` are those of its grant.

    ``asked`` is what its owner asked for, ``wants`` what that takes after rounding: so much waits.

    ``use`` holds ``(serial, time_ns, units)`` from the grant on; ``over`` is the end of the grant, or of
    the waiting when it was never granted; None means until the end of the ledger. ``returned`` holds
    ``(serial, time_ns, units)`` of the parts that went back before.
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
    returned: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Units of the grant that did not go back before its end."""
        return self.size - sum(units for *_, units in self.returned)


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
                life.returned.append((*last, units))
                life.use.append((*last, min(life.use[-1][2], life.left)))  # idle units go first
            case Refused():
                refusals.append((serial, fact))
            case Freed() | Withdrawn() | TimedOut():
                life.over = last
    return Lifetimes(opened, list(claims.values()), refusals, last)


def stacked(segments: list[Lifetime], grants: list[Lifetime]) -> dict[int, int]:
    """A place for every segment and for the grants inside them, by claim, on one short axis.

    Segment addresses are far apart and their distance says nothing; this stacks the boxes, lowest place
    first and used again after a segment ended, so that a reader sees the bytes of the device. It decides
    the drawing only. A grant outside every live segment has no place. Cost: O(n · live segments).
    """
    events = sorted(
        [(life.granted[0], 1, life) for life in segments]
        + [(life.over[0], 0, life) for life in segments if life.over]
        + [(life.granted[0], 2, life) for life in grants],
        key=lambda event: event[:2],
    )
    places: dict[int, int] = {}
    live: list[Lifetime] = []  # ordered by place
    for _, kind, life in events:
        if kind == 0:
            live.remove(life)
        elif kind == 1:
            at, index = 0, 0
            while index < len(live) and at + life.size > places[live[index].claim]:
                at = places[live[index].claim] + live[index].size
                index += 1
            places[life.claim] = at
            live.insert(index, life)
        else:
            for box in live:
                if box.start <= life.start < box.start + box.size:
                    places[life.claim] = places[box.claim] + life.start - box.start
    return places


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
    changes += [(serial, time_ns, -units, 0, 0) for serial, time_ns, units in life.returned]
    if life.over:
        changes.append((*life.over, -life.left, -life.use[-1][2], 0))
    return changes
