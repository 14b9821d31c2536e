"""Who holds and who waits at one resource, kept up to date fact by fact; the arithmetic of the account."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from gpulab.errors import BrokenLaw
from gpulab.telemetry.events import Claimed, Fact, Freed, Granted, Opened, Returned, TimedOut, Used, Withdrawn
from gpulab.telemetry.shape import Contiguous, Free, Shape


def split_free(free: Free, waiting: Iterable[Shape]) -> tuple[int, int, int]:
    """``(unscheduled, fragmented, spare)`` of the free extents, given the shapes that wait.

    ``waiting`` is in order of its claims; of equal sizes the earlier goes first.
    """
    by_size = sorted(waiting, key=lambda shape: shape.size)
    return split_sorted(free, by_size, any(shape.divisible for shape in by_size))


def split_sorted(free: Free, by_size: Iterable[Shape], divisible: bool) -> tuple[int, int, int]:
    """``split_free`` of shapes in order of size; ``divisible``: some of them may be."""
    left = total = sum(length for _, length in free)
    reached = []
    for shape in by_size:
        if shape.size <= left:
            left -= shape.size
            reached.append(shape)
        elif shape.divisible and left:
            reached.append(shape)
            left = 0
        elif not divisible:
            break  # the rest is at least as large, and none of it takes a part
    placed = _stack(free, reached) if _stackable(free, reached) else _place(free, reached)
    return placed, total - left - placed, left


def _place(free: Free, shapes: list[Shape]) -> int:
    placed = 0
    for shape in shapes:
        got = shape.take(free)
        if got is not None:
            placed += sum(length for _, length in got[0])
            free = got[1]
    return placed


def _stackable(free: Free, shapes: list[Shape]) -> bool:
    """All are plain stretches whose alignment every hole and every size keeps."""
    aligns = {shape.align if type(shape) is Contiguous and not shape.divisible else 0 for shape in shapes}
    if len(aligns) != 1 or 0 in aligns:
        return False
    align = aligns.pop()
    return all(shape.size % align == 0 for shape in shapes) and all(start % align == 0 for start, _ in free)


def _stack(free: Free, shapes: list[Contiguous]) -> int:
    """What ``_place`` finds, in one walk: sizes only grow, so a hole too short for one is for all after."""
    placed, holes = 0, iter(length for _, length in free)
    room = next(holes, 0)
    for shape in shapes:
        while room < shape.size:
            room = next(holes, None)
            if room is None:
                return placed
        room -= shape.size
        placed += shape.size
    return placed


class Books:
    """Who holds and who waits at one resource, kept up to date fact by fact."""

    def __init__(self, resource: str, outside: str = "", *, liquid: bool = False) -> None:
        self.resource, self.outside = resource, outside
        self.liquid = liquid  # grants have no address here, or it does not matter
        self.capacity = self.granted = self.used = 0
        self.starts: list[int] = []  # of the holes, sorted
        self.lengths: list[int] = []
        self.mine: dict[int, Shape] = {}  # all claims that were ever made at this resource
        self.divisible = False  # some of them are
        self.held: dict[int, list[int]] = {}  # claim -> [start, size, used]
        self.outer: dict[int, tuple[int, int] | None] = {}  # claims at the resource outside, once granted
        self.waiting: list[tuple[int, int]] = []  # (size, claim), sorted

    def note(self, serial: int, fact: Fact) -> bool:
        """Take ``fact`` in; True if it concerns this resource and may change a term."""
        match fact:
            case Opened(resource=self.resource):
                self.add(0, fact.capacity)
            case Claimed(resource=self.resource):
                self._claim(serial, fact)
            case Claimed(resource=self.outside):
                self.outer[fact.claim] = None
                return False
            case Granted() if fact.claim in self.mine:
                self._leave(serial, fact.claim)
                self._grant(serial, fact)
            case Granted() if fact.claim in self.outer:
                if self.outer[fact.claim] is not None:
                    raise _broken(serial, fact.claim, "does not wait", "waiting")
                self.outer[fact.claim] = fact.start, fact.size
                self.add(fact.start, fact.size)
            case Used() if fact.claim in self.mine:
                self._use(serial, fact)
            case Returned() if fact.claim in self.mine:
                self._take_part(serial, fact)
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
        stranded = self.granted - self.used
        free = self.capacity - self.granted
        if not self.waiting or free == 0:
            return self.capacity, self.used, stranded, 0, 0, free
        shapes = (self.mine[claim] for _, claim in self.waiting)
        unscheduled, fragmented, spare = split_sorted(self.free(), shapes, self.divisible)
        return self.capacity, self.used, stranded, fragmented, unscheduled, spare

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
            raise _broken(serial, fact.claim, "was made before", "claimed")
        self.mine[fact.claim] = fact.shape
        self.divisible = self.divisible or fact.shape.divisible
        insort(self.waiting, (fact.shape.size, fact.claim))

    def _grant(self, serial: int, fact: Granted) -> None:
        self.held[fact.claim] = [fact.start, fact.size, fact.size]
        self.granted += fact.size
        self.used += fact.size
        self.liquid = self.liquid or fact.start < 0
        self.cut(serial, fact.start, fact.size)
        if self.granted > self.capacity:
            said = f"makes {self.granted:,} granted of {self.capacity:,}"
            raise _broken(serial, fact.claim, said, "capacity")

    def _use(self, serial: int, fact: Used) -> None:
        held = self.held.get(fact.claim)
        if held is None:
            raise _broken(serial, fact.claim, "is not held", "held")
        if not 0 <= fact.units <= held[1]:
            raise _broken(serial, fact.claim, f"uses {fact.units:,} of {held[1]:,}", "used")
        self.used += fact.units - held[2]
        held[2] = fact.units

    def _take_part(self, serial: int, fact: Returned) -> None:
        held = self.held.get(fact.claim, (0, 0, 0))
        if held[0] >= 0 or not 0 < fact.units < held[1]:
            raise _broken(serial, fact.claim, f"gives back {fact.units:,} of {held[1]:,}", "returned")
        held[1] -= fact.units
        self.granted -= fact.units
        self.used -= max(0, held[2] - held[1])  # idle units go first
        held[2] = min(held[1:])

    def _give_back(self, serial: int, claim: int) -> None:
        if claim not in self.held:
            raise _broken(serial, claim, "is not held", "held")
        start, size, used = self.held.pop(claim)
        self.granted -= size
        self.used -= used
        if not self.liquid:
            self._join(start, size)

    def _shrink(self, serial: int, claim: int) -> None:
        """A grant of the resource outside goes back: there is less to hold here."""
        extent = self.outer.pop(claim)
        if extent is None:
            raise _broken(serial, claim, "is not held", "held")
        self.capacity -= extent[1]
        self.cut(serial, *extent)
        if self.granted > self.capacity:
            said = f"leaves {self.capacity:,} for {self.granted:,} granted"
            raise _broken(serial, claim, said, "inside")

    def _leave(self, serial: int, claim: int) -> None:
        """End the claim's waiting."""
        entry = (self.mine[claim].size, claim)
        index = bisect_left(self.waiting, entry)
        if index == len(self.waiting) or self.waiting[index] != entry:
            raise _broken(serial, claim, "does not wait", "waiting")
        del self.waiting[index]

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


def _broken(serial: int, claim: int, said: str, law: str) -> BrokenLaw:
    return BrokenLaw(
        f"#{serial}: claim {claim} {said} then. Run the audit for the story.", law=law, event=serial
    )
