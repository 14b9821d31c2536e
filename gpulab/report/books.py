"""Who holds and who waits at one resource, kept up to date fact by fact."""

from bisect import bisect_right
from collections.abc import Iterator

from gpulab.errors import BrokenLaw
from gpulab.report.reach import Line, reach, shares, split_sorted
from gpulab.telemetry.events import (
    Claimed,
    Fact,
    Freed,
    Granted,
    Grew,
    Joined,
    Opened,
    Returned,
    TimedOut,
    Used,
    Withdrawn,
)
from gpulab.telemetry.shape import Free, Shape, Units

_OF_GRANTS = frozenset({Granted, Withdrawn, TimedOut, Used, Returned, Grew, Freed})
OF_CLAIMS = _OF_GRANTS | {Opened, Claimed, Joined}


class Books:
    """Who holds and who waits at one resource, kept up to date fact by fact.

    ``outside`` names the resource whose grants are the capacity of this one. ``shared``: only those of its grants
    that go to this one's name; else all. Claims of owners in ``without`` are none of this book's.
    """

    def __init__(
        self,
        resource: str,
        outside: str = "",
        *,
        liquid: bool = False,
        shared: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.resource, self.outside, self.shared, self.without = resource, outside, shared, without
        self.liquid = liquid  # grants have no address here, or it does not matter
        self.capacity = self.granted = self.used = 0
        self.starts: list[int] = []  # of the holes, sorted
        self.lengths: list[int] = []
        self.mine: dict[int, Shape] = {}  # all claims that were ever made at this resource
        self.divisible = False  # some of them are
        self.placeless = True  # all of them take any units
        self.held: dict[int, list[int]] = {}  # claim -> [start, size, used]
        self.outer: dict[int, tuple[int, int] | None] = {}  # claims at the resource outside, once granted
        self.line = Line()
        self._told: set[int] = set()  # claims in reach when that was asked last

    def note(self, serial: int, fact: Fact) -> bool:
        """Take ``fact`` in; True if it concerns this resource and may change a term."""
        if type(fact) in _OF_GRANTS and fact.claim not in self.mine and fact.claim not in self.outer:
            return False  # of another resource
        match fact:
            case Opened(resource=self.resource):
                if fact.capacity < 0:
                    raise BrokenLaw(
                        f"#{serial}: {self.resource!r} opens with {fact.capacity:,} {fact.unit}. Run the audit.",
                        law="opened",
                        event=serial,
                    )
                self.add(0, fact.capacity)
            case Claimed(resource=self.resource) if fact.owner not in self.without:
                self._claim(serial, fact)
            case Claimed(resource=self.outside) if not self.shared or fact.owner == self.resource:
                self.outer[fact.claim] = None
                return False
            case Granted() if fact.claim in self.mine:
                self._leave(serial, fact.claim)
                self._grant(serial, fact)
            case Granted() if fact.claim in self.outer:
                if self.outer[fact.claim] is not None:
                    raise broken(serial, fact.claim, "does not wait", "waiting")
                self.outer[fact.claim] = fact.start, fact.size
                self.add(fact.start, fact.size)
            case Used() if fact.claim in self.mine:
                self._use(serial, fact)
            case Returned() if fact.claim in self.mine:
                self._take_part(serial, fact)
            case Grew() if fact.claim in self.mine:
                self._grow(serial, fact)
            case Freed() if fact.claim in self.mine:
                self._give_back(serial, fact.claim)
            case Freed() if fact.claim in self.outer:
                self._shrink(serial, fact.claim)
            case Withdrawn() | TimedOut() if fact.claim in self.mine:
                self._leave(serial, fact.claim)
            case _:
                return False
        return True

    def terms(self) -> tuple[int, ...]:
        """Capacity and the five terms now."""
        stranded, free = self.granted - self.used, self.capacity - self.granted
        if self.plain:
            self.line.settle(free)
            unscheduled = self.line.units
            return self.capacity, self.used, stranded, 0, unscheduled, free - unscheduled
        if not self.line.entries or free == 0:
            return self.capacity, self.used, stranded, 0, 0, free
        unscheduled, fragmented, spare = split_sorted(self.free(), self.shapes(), self.divisible)
        return self.capacity, self.used, stranded, fragmented, unscheduled, spare

    @property
    def here(self) -> "Books":
        """The book of the resource itself, as ``Joint`` has one among several."""
        return self

    @property
    def books(self) -> "list[Books]":
        """The books that hold what this level granted, as ``LookedThrough`` has several."""
        return [self]

    @property
    def plain(self) -> bool:
        """All claims take any units, and all of them or none: what is in reach is placed."""
        return self.placeless and not self.divisible

    def shapes(self) -> Iterator[Shape]:
        """What waits, smallest first."""
        return (self.mine[claim] for _, claim in self.line.entries)

    def in_reach(self) -> dict[int, bool]:
        """The claims that came into reach (True), or left it, since this was asked last."""
        line, free = self.line, self.capacity - self.granted
        if self.divisible:
            now = {line.entries[place][1] for place, *_ in reach(free, self.shapes(), True)}
            moved = {claim: claim in now for claim in sorted(now ^ self._told)}
        else:
            line.settle(free)
            moved, line.moved = line.moved, {}
        for claim, inside in moved.items():
            (self._told.add if inside else self._told.discard)(claim)
        return moved

    def charged(self) -> dict[int, tuple[int, int]]:
        """Unscheduled and fragmented units of each waiting claim that has some, now."""
        if not self.line.entries or self.capacity == self.granted:
            return {}
        found = shares(self.free(), self.shapes(), self.divisible)
        return {self.line.entries[place][1]: terms for place, *terms in found}

    def free(self) -> Free:
        if self.liquid:
            return ((0, self.capacity - self.granted),)
        return tuple(zip(self.starts, self.lengths, strict=True))

    def add(self, start: int, size: int) -> None:
        self.capacity += size
        self.liquid = self.liquid or start < 0
        if size and not self.liquid:
            self._join(start, size)

    def cut(self, serial: int, start: int, size: int) -> None:
        """Take ``[start, start + size)`` out of the hole it lies in."""
        if self.liquid:
            return
        index = bisect_right(self.starts, start) - 1
        end = start + size
        if index < 0 or self.starts[index] + self.lengths[index] < end:
            raise BrokenLaw(
                f"#{serial} takes [{start:,}, {end:,}) of {self.resource}, which is not free then. "
                f"Two grants hold the same units, or one lies outside; run the audit for the story.",
                law="overlap",
                event=serial,
            )
        hole, length = self.starts[index], self.lengths[index]
        parts = [(hole, start - hole), (end, hole + length - end)]
        parts = [part for part in parts if part[1]]
        self.starts[index : index + 1] = [part[0] for part in parts]
        self.lengths[index : index + 1] = [part[1] for part in parts]

    def _claim(self, serial: int, fact: Claimed) -> None:
        if fact.claim in self.mine:
            raise broken(serial, fact.claim, "was made before", "claimed")
        self.mine[fact.claim] = fact.shape
        self.divisible = self.divisible or fact.shape.divisible
        self.placeless = self.placeless and type(fact.shape) is Units
        self.line.add(fact.shape.size, fact.claim)

    def _grant(self, serial: int, fact: Granted) -> None:
        self.held[fact.claim] = [fact.start, fact.size, fact.size]
        self.granted += fact.size
        self.used += fact.size
        self.liquid = self.liquid or fact.start < 0
        self.cut(serial, fact.start, fact.size)
        if self.granted > self.capacity:
            said = f"makes {self.granted:,} granted of {self.capacity:,}"
            raise broken(serial, fact.claim, said, "capacity")

    def _use(self, serial: int, fact: Used) -> None:
        held = self.held.get(fact.claim)
        if held is None:
            raise broken(serial, fact.claim, "is not held", "held")
        if not 0 <= fact.units <= held[1]:
            raise broken(serial, fact.claim, f"uses {fact.units:,} of {held[1]:,}", "used")
        self.used += fact.units - held[2]
        held[2] = fact.units

    def _take_part(self, serial: int, fact: Returned) -> None:
        held = self.held.get(fact.claim, (0, 0, 0))
        if held[0] >= 0 or not 0 < fact.units < held[1]:
            raise broken(serial, fact.claim, f"gives back {fact.units:,} of {held[1]:,}", "returned")
        held[1] -= fact.units
        self.granted -= fact.units
        self.used -= max(0, held[2] - held[1])  # idle units go first
        held[2] = min(held[1:])

    def _grow(self, serial: int, fact: Grew) -> None:
        held = self.held.get(fact.claim)
        if held is None or held[0] >= 0 or fact.units <= 0:
            raise broken(serial, fact.claim, f"grows by {fact.units:,}", "returned" if held else "held")
        held[1] += fact.units
        held[2] += fact.units
        self.granted += fact.units
        self.used += fact.units
        if self.granted > self.capacity:
            said = f"makes {self.granted:,} granted of {self.capacity:,}"
            raise broken(serial, fact.claim, said, "capacity")

    def _give_back(self, serial: int, claim: int) -> None:
        if claim not in self.held:
            raise broken(serial, claim, "is not held", "held")
        start, size, used = self.held.pop(claim)
        self.granted -= size
        self.used -= used
        if not self.liquid:
            self._join(start, size)

    def _shrink(self, serial: int, claim: int) -> None:
        """A grant of the resource outside goes back: there is less to hold here."""
        extent = self.outer.pop(claim)
        if extent is None:
            raise broken(serial, claim, "is not held", "held")
        self.capacity -= extent[1]
        self.cut(serial, *extent)
        if self.granted > self.capacity:
            said = f"leaves {self.capacity:,} for {self.granted:,} granted"
            raise broken(serial, claim, said, "inside")

    def _leave(self, serial: int, claim: int) -> None:
        """End the claim's waiting."""
        if not self.line.remove(self.mine[claim].size, claim):
            raise broken(serial, claim, "does not wait", "waiting")

    def _join(self, start: int, size: int) -> None:
        starts, lengths = self.starts, self.lengths
        index = bisect_right(starts, start)
        if index < len(starts) and starts[index] == start + size:
            size += lengths.pop(index)
            del starts[index]
        if index and starts[index - 1] + lengths[index - 1] == start:
            lengths[index - 1] += size
        else:
            starts.insert(index, start)
            lengths.insert(index, size)


def broken(serial: int, claim: int, said: str, law: str) -> BrokenLaw:
    """What to raise when fact #``serial`` says of ``claim`` what cannot be."""
    return BrokenLaw(
        f"#{serial}: claim {claim} {said} then. Run the audit for the story.", law=law, event=serial
    )
