"""Books of a pool with expandable segments: ranges of addresses into which the device maps pages.

A range has more addresses than the device has bytes, so a stretch can always become longer. The device is
asked for pages of one size, each a claim of its own; a page that is free in full can go back from the
middle of a range and leaves a gap of addresses, which later growth fills first.

Source: pytorch, c10/cuda/CUDACachingAllocator.cpp, note on expandable segments.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, final

from gpulab.memory.chunks import ADDRESS_BITS, Chunk, Chunks, Segment
from gpulab.memory.segments import SEGMENT_PAGE

if TYPE_CHECKING:
    from sortedcontainers import SortedList

    from gpulab.memory.chunks import Granted

# Stands as the holder of addresses without memory, so that no free chunk joins them.
UNMAPPED = "no memory"


@final
class Range:
    """Addresses ``[start, start + size)`` in pages of ``page`` bytes, some of them mapped: ``pages``, by number."""

    __slots__ = ("page", "pages", "shelf", "size", "start")

    def __init__(self, start: int, size: int, page: int, shelf: "SortedList") -> None:
        self.start, self.size, self.page, self.shelf = start, size, page, shelf
        self.pages: dict[int, Segment] = {}

    def note(self, start: int, change: int, now_ns: int) -> list:
        """As a segment's ``note``, page by page."""
        sign, end, facts = (1, start + change, []) if change > 0 else (-1, start - change, [])
        for number in range((start - self.start) // self.page, -(-(end - self.start) // self.page)):
            page = self.pages[number]
            part = min(end, page.start + page.size) - max(start, page.start)
            facts += page.note(start, sign * part, now_ns)
        return facts

    def whole_pages(self, chunk: Chunk) -> range:
        """The numbers of the pages that lie in ``chunk`` from end to end."""
        first = -(-(chunk.start - self.start) // self.page)
        return range(first, max(first, (chunk.start + chunk.size - self.start) // self.page))


@final
class Ranges(Chunks):
    """Chunks in ranges: one for each stream and page size, another when its addresses run out.

    Args:
        capacity: bytes of the device; a range has 1 1/8 of it in addresses.
        page_of: bytes of a page for a claim of so many bytes.
    """

    paged = True

    def __init__(self, capacity: int, page_of: Callable[[int], int]) -> None:
        super().__init__()
        self._capacity, self._page_of = capacity, page_of
        self._ranges: dict[tuple[int, int], list[Range]] = {}  # (stream, page)
        self._next_start = 0

    @property
    def whole_bytes(self) -> int:
        """O(n log n) in the number of chunks."""
        return sum(len(chunk.segment.whole_pages(chunk)) * chunk.segment.page for chunk in self.returnable())

    def growth(self, size: int, stream: int) -> int:
        """Whole pages. O(chunks of the stream) in the worst case, as for ``grow``."""
        page, found = self._page_of(size), self._candidate(size, stream)
        left, pages = size, 0
        for chunk in _from(found):
            part = min(left, chunk.size)
            if chunk.extent is UNMAPPED:
                pages += -(-part // page)
            left -= part
            if not left:
                break
        return (pages + -(-left // page)) * page

    def grow(self, size: int, stream: int, shelf: "SortedList", granted: "Granted") -> Chunk:
        """The stretch at the lowest address that has room for it, after mapping what of it was not mapped."""
        chunk = self._candidate(size, stream) or self._new_range(size, stream, shelf)
        if chunk.extent is UNMAPPED:
            chunk = self._map(chunk, min(chunk.size, size), granted)
        while chunk.size < size:
            chunk = self._map(chunk.after, min(chunk.after.size, size - chunk.size), granted)
        chunk.stream = stream
        return chunk

    def can_go(self, chunk: Chunk) -> bool:
        return len(chunk.segment.whole_pages(chunk)) > 0

    def hand_back(self, chunk: Chunk) -> list[int]:
        home = chunk.segment
        numbers = home.whole_pages(chunk)
        self._unshelve(chunk)
        gap = self._cut(chunk, home.start + numbers.start * home.page)
        if gap is not chunk:
            self._shelve(chunk)
        rest = self._cut(gap, home.start + numbers.stop * home.page)
        if rest is not gap:
            self._shelve(rest)
        gap.extent = UNMAPPED
        self.reserved_bytes -= gap.size
        if gap.after is not None and gap.after.extent is UNMAPPED:
            self._join(gap, gap.after)
        if gap.before is not None and gap.before.extent is UNMAPPED:
            self._join(gap.before, gap)
        return [home.pages.pop(number).claim for number in numbers]

    def returnable(self) -> list[Chunk]:
        free = (self.chunks[at] for at in sorted(self.chunks) if self.chunks[at].extent is None)
        return [chunk for chunk in free if self.can_go(chunk)]

    def _shelve(self, chunk: Chunk) -> None:
        chunk.segment.shelf.add(chunk.size << ADDRESS_BITS | chunk.start)

    def _unshelve(self, chunk: Chunk) -> None:
        chunk.segment.shelf.remove(chunk.size << ADDRESS_BITS | chunk.start)

    def _candidate(self, size: int, stream: int) -> Chunk | None:
        """The lowest chunk from which on ``size`` bytes are free or have no memory; some have none."""
        for home in self._ranges.get((stream, self._page_of(size)), ()):
            for chunk in _from(self.chunks[home.start], through=True):
                if chunk.extent is not UNMAPPED:
                    continue
                first = chunk.before if chunk.before is not None and chunk.before.extent is None else chunk
                if sum(part.size for part in _from(first)) >= size:
                    return first
        return None

    def _new_range(self, size: int, stream: int, shelf: "SortedList") -> Chunk:
        page = self._page_of(size)
        length = -(-max(self._capacity + self._capacity // 8, size) // page) * page
        home = Range(self._next_start, length, page, shelf)
        self._next_start += (-(-length // SEGMENT_PAGE) + 1) * SEGMENT_PAGE
        self._ranges.setdefault((stream, page), []).append(home)
        chunk = self.chunks[home.start] = Chunk(home, home.start, length)
        chunk.extent = UNMAPPED
        return chunk

    def _map(self, gap: Chunk, size: int, granted: "Granted") -> Chunk:
        """Map the pages of the first ``size`` bytes of ``gap``; the free chunk that they are part of."""
        home = gap.segment
        first = (gap.start - home.start) // home.page
        pages = -(-size // home.page)
        self._cut(gap, gap.start + pages * home.page)
        for number in range(first, first + pages):
            start = home.start + number * home.page
            home.pages[number] = Segment(start, home.page, home.shelf, granted(start, home.page))
        self.reserved_bytes += gap.size
        return self._free_at_last(gap)

    def _cut(self, chunk: Chunk, at: int) -> Chunk:
        """The part of ``chunk`` from address ``at`` on, as a chunk of its own; ``chunk`` if there is no other part."""
        if at == chunk.start or at == chunk.start + chunk.size:
            return chunk
        rest = Chunk(chunk.segment, at, chunk.start + chunk.size - at, chunk.stream)
        rest.before, rest.after, rest.extent = chunk, chunk.after, chunk.extent
        if rest.after is not None:
            rest.after.before = rest
        chunk.after, chunk.size = rest, at - chunk.start
        self.chunks[at] = rest
        return rest


def _from(chunk: Chunk | None, through: bool = False) -> Iterator[Chunk]:
    """``chunk`` and those behind it, up to the first that is held; or all, ``through`` the held ones."""
    while chunk is not None and (through or chunk.extent is None or chunk.extent is UNMAPPED):
        yield chunk
        chunk = chunk.after


def could_be(chunk: Chunk) -> int:
    """Bytes that the free ``chunk`` would have if the addresses behind it were mapped."""
    after = chunk.after
    return chunk.size + (after.size if after is not None and after.extent is UNMAPPED else 0)
