"""Four plain rules for an arena. All sizes are multiples of the alignment, so every hole starts on one.

Knuth, The Art of Computer Programming, volume 1, section 2.5 names and compares first fit and best fit.
"""

from bisect import bisect_left, insort
from typing import final

from gpulab.memory.allocator import Allocator


@final
class Bump(Allocator):
    """Hands out the next bytes and never looks back: freed bytes stay unused until all are free."""

    def prepare(self) -> None:
        self._next = 0
        self._live = 0

    def place(self, size: int) -> int | None:
        if self._next + size > self.capacity:
            return None
        offset, self._next = self._next, self._next + size
        self._live += 1
        return offset

    def reclaim(self, offset: int, size: int) -> None:
        self._live -= 1
        if not self._live:
            self._next = 0


@final
class FirstFit(Allocator):
    """The lowest hole that is long enough; freed bytes join the holes they touch. O(holes) a place."""

    def prepare(self) -> None:
        self._starts = [0]  # of the holes, sorted; their lengths beside them
        self._lengths = [self.capacity]

    def place(self, size: int) -> int | None:
        for index, length in enumerate(self._lengths):
            if length >= size:
                offset = self._starts[index]
                if length == size:
                    del self._starts[index], self._lengths[index]
                else:
                    self._starts[index], self._lengths[index] = offset + size, length - size
                return offset
        return None

    def reclaim(self, offset: int, size: int) -> None:
        starts, lengths = self._starts, self._lengths
        index = bisect_left(starts, offset)
        if index < len(starts) and starts[index] == offset + size:
            size += lengths[index]
            del starts[index], lengths[index]
        if index and starts[index - 1] + lengths[index - 1] == offset:
            lengths[index - 1] += size
        else:
            starts.insert(index, offset)
            lengths.insert(index, size)


@final
class BestFit(Allocator):
    """The smallest hole that is long enough, ties to the lower address. O(log holes) a place."""

    def prepare(self) -> None:
        self._by_size: list[tuple[int, int]] = []  # (length, start), sorted
        self._length: dict[int, int] = {}  # start -> length
        self._start_of_end: dict[int, int] = {}  # end -> start, so that a left neighbour is one look-up away
        self._add(0, self.capacity)

    def place(self, size: int) -> int | None:
        index = bisect_left(self._by_size, (size, 0))
        if index == len(self._by_size):
            return None
        length, offset = self._by_size[index]
        self._remove(offset)
        if length > size:
            self._add(offset + size, length - size)
        return offset

    def reclaim(self, offset: int, size: int) -> None:
        if offset + size in self._length:
            size += self._remove(offset + size)
        if offset in self._start_of_end:
            offset = self._start_of_end[offset]
            size += self._remove(offset)
        self._add(offset, size)

    def _add(self, start: int, length: int) -> None:
        insort(self._by_size, (length, start))
        self._length[start] = length
        self._start_of_end[start + length] = start

    def _remove(self, start: int) -> int:
        length = self._length.pop(start)
        del self._start_of_end[start + length]
        del self._by_size[bisect_left(self._by_size, (length, start))]
        return length


@final
class Buddy(Allocator):
    """Halves a hole until it just holds the claim; two freed halves join again. O(log holes + log capacity).

    A hole is a power of two times the alignment and starts on a multiple of its own size. A claim that is
    no such size keeps the rest of its hole from everybody: ask for ``buddy_size``. Knowlton, A fast
    storage allocator (CACM 8, 1965); Orca's KV cache in Kwon et al., PagedAttention (SOSP 2023), section 6.1.
    """

    def prepare(self) -> None:
        self._holes: dict[int, list[int]] = {}  # size -> starts, sorted
        start = 0
        while start < self.capacity:
            size = buddy_size(self.capacity - start, self.alignment)
            size = size if size <= self.capacity - start else size // 2
            self._holes[size] = [start]
            start += size

    def alignment_of(self, size: int) -> int:
        return buddy_size(size, self.alignment)

    def place(self, size: int) -> int | None:
        want = buddy_size(size, self.alignment)
        hole = min((size for size, starts in self._holes.items() if starts and size >= want), default=None)
        if hole is None:
            return None
        offset = self._holes[hole].pop(0)
        while hole > want:
            hole //= 2
            insort(self._holes.setdefault(hole, []), offset + hole)
        return offset

    def reclaim(self, offset: int, size: int) -> None:
        size = buddy_size(size, self.alignment)
        while True:
            starts = self._holes.setdefault(size, [])
            twin = offset - size if offset // size % 2 else offset + size
            index = bisect_left(starts, twin)
            if index == len(starts) or starts[index] != twin:
                insort(starts, offset)
                return
            del starts[index]
            offset, size = min(offset, twin), size * 2


def buddy_size(size: int, unit: int = 1) -> int:
    """The smallest power of two times ``unit`` that holds ``size``."""
    return unit << (-(-size // unit) - 1).bit_length()
