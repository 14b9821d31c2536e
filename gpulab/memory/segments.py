"""Books of a pool that asks the device for pieces: each is one segment, and goes back only whole."""

from typing import TYPE_CHECKING, final

from gpulab.memory.chunks import ADDRESS_BITS, Chunk, Chunks, Segment
from gpulab.units import MiB

if TYPE_CHECKING:
    from sortedcontainers import SortedList

    from gpulab.memory.chunks import Granted

# Segments start on what one page of device memory holds with the stock driver (vAttention, section 6), and
# one page stays empty between them: what does not touch cannot be taken for one stretch.
SEGMENT_PAGE = 2 * MiB


@final
class Segments(Chunks):
    """Chunks in segments of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: dict[int, Chunk] = {}  # free chunks that are their segment, by start
        self._next_start = 0

    @property
    def whole_bytes(self) -> int:
        """O(whole free segments)."""
        return sum(chunk.size for chunk in self.whole.values())

    def growth(self, size: int, stream: int) -> int:
        return size

    def grow(self, size: int, stream: int, shelf: "SortedList", granted: "Granted") -> Chunk:
        """A new segment, free and in one chunk. Its address is above all earlier ones."""
        start = self._next_start
        self._next_start = (-(-(start + size) // SEGMENT_PAGE) + 1) * SEGMENT_PAGE
        self.reserved_bytes += size
        segment = Segment(start, size, shelf, granted(start, size))
        chunk = self.chunks[start] = Chunk(segment, start, size, stream)
        self._shelve(chunk)
        return chunk

    def can_go(self, chunk: Chunk) -> bool:
        return chunk.size == chunk.segment.size

    def hand_back(self, chunk: Chunk) -> list[int]:
        self._unshelve(chunk)
        del self.chunks[chunk.start]
        self.reserved_bytes -= chunk.size
        return [chunk.segment.claim]

    def returnable(self) -> list[Chunk]:
        return [self.whole[start] for start in sorted(self.whole)]

    def _shelve(self, chunk: Chunk) -> None:
        segment, size = chunk.segment, chunk.size
        segment.shelf.add(size << ADDRESS_BITS | chunk.start)
        if size == segment.size:
            self.whole[chunk.start] = chunk

    def _unshelve(self, chunk: Chunk) -> None:
        segment, size = chunk.segment, chunk.size
        segment.shelf.remove(size << ADDRESS_BITS | chunk.start)
        if size == segment.size:
            del self.whole[chunk.start]
