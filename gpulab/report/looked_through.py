"""A device seen through its pool: the level at which the reason of a failed request is read."""

from bisect import bisect_left
from collections.abc import Iterator

from gpulab.report.books import Books, split_sorted
from gpulab.telemetry.events import Fact, Opened

_BEYOND = 1 << 62  # an address after every segment, for the stretch that has none


class LookedThrough:
    """A device seen through its pool: what a claim on the pool could get if the pool gave all it can.

    Whole cached segments can go back to the device, so with what the device has left they are one liquid
    stretch; a hole in a segment that still holds something is a stretch of its own. Of segments that touch
    (mapped pages) each goes back by itself; what is left of a hole before and after them stays a stretch.
    """

    def __init__(self, device: str, pool: str) -> None:
        self.device, self.capacity = device, 0
        self.pool = Books(pool, device)

    def note(self, serial: int, fact: Fact) -> bool:
        if isinstance(fact, Opened) and fact.resource == self.device:
            self.capacity = fact.capacity
            return True
        return self.pool.note(serial, fact)

    def terms(self) -> tuple[int, ...]:
        pool = self.pool
        free, stranded = self.capacity - pool.granted, pool.granted - pool.used
        if not pool.waiting or free == 0:
            return self.capacity, pool.used, stranded, 0, 0, free
        pieces = tuple(self._pieces())
        liquid = free - sum(length for _, length in pieces)
        layout = (*pieces, (_BEYOND, liquid)) if liquid else pieces
        shapes = (pool.mine[claim] for _, claim in pool.waiting)
        unscheduled, fragmented, spare = split_sorted(layout, shapes, pool.divisible)
        return self.capacity, pool.used, stranded, fragmented, unscheduled, spare

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """The holes without the whole segments in them. Cost: O(n log n) in holes and segments."""
        segments = sorted(segment for segment in self.pool.outer.values() if segment)
        for hole, length in self.pool.free():
            at, end, index = hole, hole + length, bisect_left(segments, (hole,))
            while index < len(segments) and sum(segments[index]) <= end:
                if segments[index][0] > at:
                    yield at, segments[index][0] - at
                at, index = sum(segments[index]), index + 1
            if end > at:
                yield at, end - at
