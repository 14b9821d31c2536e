"""Three plain rules for an arena. All sizes are multiples of the alignment, so every hole starts on one.

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
