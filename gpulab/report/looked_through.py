"""A device seen through its pools: the level at which the reason of a failed request is read."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from gpulab.report.books import Books
from gpulab.report.reach import shares, split_sorted
from gpulab.telemetry.events import Fact, Opened
from gpulab.telemetry.shape import Free

_BEYOND = 1 << 62  # an address after every segment, for the stretch that has none


class LookedThrough:
    """A device seen through its pools: what a claim on one could get if all of them gave all they can.

    Whole cached segments can go back to the device, so with what the device has left they are one liquid
    stretch; a hole in a segment that still holds something is a stretch of its own. Of segments that touch
    (mapped pages) each goes back by itself; what is left of a hole before and after them stays a stretch.

    What a device with several pools granted belongs to the pool that its owner names; the grants and claims of
    other owners are its own. With one pool, all that it granted is the pool's.
    """

    def __init__(self, device: str, pools: Sequence[str]) -> None:
        self.device, self.capacity = device, 0
        several = len(pools) > 1
        self.books = [Books(pool, device, shared=several) for pool in pools]
        if several:
            self.books.append(Books(device, liquid=True, without=frozenset(pools)))

    def note(self, serial: int, fact: Fact) -> bool:
        """Take ``fact`` in; True if it may change a term."""
        mine = isinstance(fact, Opened) and fact.resource == self.device
        if mine:
            self.capacity = fact.capacity
        return any([books.note(serial, fact) for books in self.books]) or mine

    def terms(self) -> tuple[int, ...]:
        """Capacity and the five terms now."""
        granted, used = sum(b.granted for b in self.books), sum(b.used for b in self.books)
        free, waiting = self.capacity - granted, self._waiting()
        if not waiting or free <= 0:
            return self.capacity, used, granted - used, 0, 0, free
        shapes = (books.mine[claim] for _, claim, books in waiting)
        unscheduled, fragmented, spare = split_sorted(self._layout(free), shapes, self._divisible())
        return self.capacity, used, granted - used, fragmented, unscheduled, spare

    def charged(self) -> dict[int, tuple[int, int]]:
        """Unscheduled and fragmented units of each waiting claim that has some, now."""
        free, waiting = self.capacity - sum(b.granted for b in self.books), self._waiting()
        if not waiting or free <= 0:
            return {}
        shapes = (books.mine[claim] for _, claim, books in waiting)
        found = shares(self._layout(free), shapes, self._divisible())
        return {waiting[place][1]: terms for place, *terms in found}

    def _divisible(self) -> bool:
        return any(books.divisible for books in self.books)

    def _waiting(self) -> list[tuple[int, int, Books]]:
        """Size, claim and book of what waits, smallest first."""
        waiting = [(*entry, books) for books in self.books for entry in books.line.entries]
        return sorted(waiting, key=lambda entry: entry[:2]) if len(self.books) > 1 else waiting

    def _layout(self, free: int) -> Free:
        pieces = tuple(sorted(piece for books in self.books if books.outside for piece in _pieces(books)))
        liquid = free - sum(length for _, length in pieces)
        return (*pieces, (_BEYOND, liquid)) if liquid else pieces


def _pieces(pool: Books) -> Iterator[tuple[int, int]]:
    """The holes without the whole segments in them. Cost: O(n log n) in holes and segments."""
    segments = sorted(segment for segment in pool.outer.values() if segment)
    for hole, length in pool.free():
        at, end, index = hole, hole + length, bisect_left(segments, (hole,))
        while index < len(segments) and sum(segments[index]) <= end:
            if segments[index][0] > at:
                yield at, segments[index][0] - at
            at, index = sum(segments[index]), index + 1
        if end > at:
            yield at, end - at
