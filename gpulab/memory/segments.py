"""The books of a caching pool: segments that came from the device, cut into chunks that touch.

A segment is one piece of device memory. The chunks inside it lie side by side and are held or free; two
free ones never touch, because they join when the second is released. Free chunks stand on a *shelf*,
sorted by size, then address, so that the best fit is one bisection away. These books know no rule and
record nothing; `pool` does both.
"""

from typing import TYPE_CHECKING, final

from gpulab.telemetry.shape import Free
from gpulab.units import MiB

if TYPE_CHECKING:
    from sortedcontainers import SortedList

    from gpulab.memory.extent import Extent

# Segments start on what one page of device memory holds with the stock driver (vAttention, section 6), and
# one page stays empty between them: what does not touch cannot be taken for one stretch.
SEGMENT_PAGE = 2 * MiB


@final
class Segment:
    """Device memory ``[start, start + size)`` that the pool got with claim ``claim``.

    ``live`` counts the bytes of it that are held now; ``told`` is what the ledger says they are.
    """

    __slots__ = ("claim", "live", "shelf", "size", "start", "told")

    def __init__(self, start: int, size: int, shelf: "SortedList", claim: int) -> None:
        self.start, self.size, self.shelf, self.claim = start, size, shelf, claim
        self.live, self.told = 0, size


@final
class Chunk:
    """Bytes ``[start, start + size)`` of ``segment``: free, or held as ``extent`` since ``since_ns``.

    ``before`` and ``after`` are the chunks that touch it in the same segment.
    """

    __slots__ = ("after", "before", "extent", "segment", "since_ns", "size", "start")

    def __init__(self, segment: Segment, start: int, size: int) -> None:
        self.segment, self.start, self.size = segment, start, size
        self.before: Chunk | None = None
        self.after: Chunk | None = None
        self.extent: Extent | None = None
        self.since_ns = 0


@final
class Segments:
    """All segments of one pool. Costs are O(log free chunks) unless said."""

    def __init__(self) -> None:
        self.reserved_bytes = 0  # of all segments
        self.held_bytes = 0  # of all held chunks
        self.free_chunks = 0
        self.whole: dict[int, Chunk] = {}  # free chunks that are their segment, by start
        self.whole_bytes = 0
        self._shelves: list[SortedList] = []
        self._next_start = 0

    def new_shelf(self) -> "SortedList":
        """An empty shelf; a segment keeps to the one it was made for."""
        from sortedcontainers import SortedList

        self._shelves.append(SortedList())
        return self._shelves[-1]

    def best_fit(self, shelf: "SortedList", size: int) -> Chunk | None:
        """The smallest free chunk of ``size`` bytes or more, ties to the lower address."""
        index = shelf.bisect_left((size,))
        return shelf[index][2] if index < len(shelf) else None

    def add(self, size: int, shelf: "SortedList", claim: int) -> Chunk:
        """A new segment, free and in one chunk. Its address is above all earlier ones."""
        start = self._next_start
        self._next_start = (-(-(start + size) // SEGMENT_PAGE) + 1) * SEGMENT_PAGE
        self.reserved_bytes += size
        chunk = Chunk(Segment(start, size, shelf, claim), start, size)
        self._shelve(chunk)
        return chunk

    def remove(self, chunk: Chunk) -> Segment:
        """Take the whole, free ``chunk`` off the books; the segment it was."""
        self._unshelve(chunk)
        self.reserved_bytes -= chunk.size
        return chunk.segment

    def hold(self, chunk: Chunk, size: int) -> None:
        """Hold the first ``size`` bytes of the free ``chunk``; the rest becomes a free chunk after it."""
        self._unshelve(chunk)
        if size < chunk.size:
            rest = Chunk(chunk.segment, chunk.start + size, chunk.size - size)
            rest.before, rest.after = chunk, chunk.after
            if rest.after is not None:
                rest.after.before = rest
            chunk.after, chunk.size = rest, size
            self._shelve(rest)
        chunk.segment.live += size
        self.held_bytes += size

    def release(self, chunk: Chunk) -> None:
        """The held ``chunk`` is free again and joins the free chunks that touch it."""
        chunk.extent = None
        chunk.segment.live -= chunk.size
        self.held_bytes -= chunk.size
        after, before = chunk.after, chunk.before
        if after is not None and after.extent is None:
            self._unshelve(after)
            self._join(chunk, after)
        if before is not None and before.extent is None:
            self._unshelve(before)
            self._join(before, chunk)
            chunk = before
        self._shelve(chunk)

    def largest(self) -> int:
        """Bytes of the largest free chunk, 0 when there is none."""
        chunk = self.largest_chunk()
        return chunk.size if chunk else 0

    def largest_chunk(self) -> Chunk | None:
        """The largest free chunk; of equal ones, one of the highest address."""
        return max((shelf[-1] for shelf in self._shelves if shelf), default=(0, 0, None))[2]

    def holes(self) -> Free:
        """The free chunks ``((start, size), ...)`` in order of address. O(n log n) in their number."""
        return tuple(sorted((start, size) for shelf in self._shelves for size, start, _ in shelf))

    def whole_chunks(self) -> list[Chunk]:
        """The free chunks that may go back to the device, in order of address. O(n log n) in their number."""
        return [self.whole[start] for start in sorted(self.whole)]

    def _join(self, left: Chunk, right: Chunk) -> None:
        left.size += right.size
        left.after = right.after
        if left.after is not None:
            left.after.before = left

    def _shelve(self, chunk: Chunk) -> None:
        chunk.segment.shelf.add((chunk.size, chunk.start, chunk))
        self.free_chunks += 1
        if chunk.size == chunk.segment.size:
            self.whole[chunk.start] = chunk
            self.whole_bytes += chunk.size

    def _unshelve(self, chunk: Chunk) -> None:
        chunk.segment.shelf.remove((chunk.size, chunk.start, chunk))
        self.free_chunks -= 1
        if chunk.size == chunk.segment.size:
            del self.whole[chunk.start]
            self.whole_bytes -= chunk.size
