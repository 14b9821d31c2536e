"""Which waiting claims could have free units, and how many: the arithmetic of the account.

The *reach* of free units F: walk the waiting claims smallest first, each that still fits into what is left of
F, counted as one liquid pool, takes its units. What reach took is then placed in the real layout, claim by claim.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import final

from gpulab.telemetry.shape import Contiguous, Free, Shape

Entry = tuple[int, int]  # size, claim


def split_free(free: Free, waiting: Iterable[Shape]) -> tuple[int, int, int]:
    """``(unscheduled, fragmented, spare)`` of the free extents, given the shapes that wait.

    ``waiting`` is in order of its claims; of equal sizes the earlier goes first.
    """
    by_size = sorted(waiting, key=lambda shape: shape.size)
    return split_sorted(free, by_size, any(shape.divisible for shape in by_size))


def split_sorted(free: Free, by_size: Iterable[Shape], divisible: bool) -> tuple[int, int, int]:
    """``split_free`` of shapes in order of size; ``divisible``: some of them may be."""
    total = sum(length for _, length in free)
    taken = reach(total, by_size, divisible)
    reached, units = [shape for _, shape, _ in taken], sum(part for *_, part in taken)
    placed = _stack(free, reached)[0] if _stackable(free, reached) else sum(_place(free, reached))
    return placed, units - placed, total - units


def reach(total: int, by_size: Iterable[Shape], divisible: bool) -> list[tuple[int, Shape, int]]:
    """What ``total`` liquid units reach: place in ``by_size``, shape, and the units that it takes of them."""
    left, taken = total, []
    for place, shape in enumerate(by_size):
        part = min(shape.size, left) if shape.divisible else shape.size
        if part > left:
            if not divisible:
                break  # the rest is at least as large, and none of it takes a part
        elif part:
            left -= part
            taken.append((place, shape, part))
    return taken


def shares(free: Free, by_size: Iterable[Shape], divisible: bool) -> list[tuple[int, int, int]]:
    """Place in ``by_size``, unscheduled and fragmented units of each reached shape; the sums of ``split_sorted``.

    A divisible shape may find more places than the reach left it; those before it that found none are charged so
    much less.
    """
    taken = reach(sum(length for _, length in free), by_size, divisible)
    reached, parts = [shape for _, shape, _ in taken], [part for *_, part in taken]
    if _stackable(free, reached):
        count = _stack(free, reached)[1]
        placed = parts[:count] + [0] * (len(parts) - count)
    else:
        placed = _place(free, reached)
    over = sum(max(0, got - part) for got, part in zip(placed, parts, strict=True))
    found = []
    for (place, _, part), got in zip(taken, placed, strict=True):
        relief = min(over, max(0, part - got))
        over -= relief
        found.append((place, got, max(0, part - got) - relief))
    return found


def _place(free: Free, shapes: Sequence[Shape]) -> list[int]:
    """The units of each shape that find a legal place, one shape after the other."""
    placed = []
    for shape in shapes:
        got = shape.take(free)
        placed.append(sum(length for _, length in got[0]) if got else 0)
        free = got[1] if got else free
    return placed


def _stackable(free: Free, shapes: Sequence[Shape]) -> bool:
    """All are plain stretches whose alignment every hole and every size keeps."""
    aligns = {shape.align if type(shape) is Contiguous and not shape.divisible else 0 for shape in shapes}
    if len(aligns) != 1 or 0 in aligns:
        return False
    align = aligns.pop()
    return all(shape.size % align == 0 for shape in shapes) and all(start % align == 0 for start, _ in free)


def _stack(free: Free, shapes: Sequence[Contiguous]) -> tuple[int, int]:
    """What ``_place`` finds, in one walk: sizes only grow, so a hole too short for one is for all after.

    Units in all, and how many shapes, the first ones, got them.
    """
    placed, holes = 0, iter(length for _, length in free)
    room = next(holes, 0)
    for count, shape in enumerate(shapes):
        while room < shape.size:
            room = next(holes, None)
            if room is None:
                return placed, count
        room -= shape.size
        placed += shape.size
    return placed, len(shapes)


@final
class Line:
    """The claims that wait at one resource, by size, and how far the free units reach into them.

    Where none of them is divisible the reach is the longest beginning of the line that fits, kept up to date
    by moving its end: a change costs what it moves, not the length of the line.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []  # sorted
        self.wanted = 0  # units of all of them
        self.count = self.units = 0  # of those in reach
        self.moved: dict[int, bool] = {}  # claims that came into reach, or left it, since this was emptied
        self.looks = 0  # how often a claim was looked at, for tests

    def add(self, size: int, claim: int) -> None:
        """``claim`` begins to wait."""
        index = bisect_left(self.entries, (size, claim))
        self.entries.insert(index, (size, claim))
        self.wanted += size
        if index < self.count:
            self._move(1, size, claim)

    def remove(self, size: int, claim: int) -> bool:
        """``claim`` waits no more; False if it did not."""
        index = bisect_left(self.entries, (size, claim))
        if index == len(self.entries) or self.entries[index] != (size, claim):
            return False
        del self.entries[index]
        self.wanted -= size
        if index < self.count:
            self._move(-1, size, claim)
        return True

    def settle(self, free: int) -> None:
        """Let the reach be that of ``free`` units; none of the claims is divisible."""
        entries = self.entries
        while self.units > free:
            self._move(-1, *entries[self.count - 1])
        while self.count < len(entries) and self.units + entries[self.count][0] <= free:
            self._move(1, *entries[self.count])

    def _move(self, step: int, size: int, claim: int) -> None:
        self.looks += 1
        self.count += step
        self.units += step * size
        self.moved[claim] = step > 0
