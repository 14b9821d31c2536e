"""The books of a caching pool: chunks that lie side by side in device memory, held or free.

Two free chunks never touch, because they join when the second is released. Free chunks stand on a *shelf*,
sorted by size, then address, so that the best fit is one bisection away. These books know no rule: which
chunk, how much of it, and what goes back is decided in ``pools``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from gpulab.memory.extent import Extent
from gpulab.telemetry.events import Used
from gpulab.telemetry.shape import Free

if TYPE_CHECKING:
    from sortedcontainers import SortedList

    from gpulab.memory.ranges import Range

    Granted = Callable[[int, int], int]  # records a grant of the device (start, size); its claim

ADDRESS_BITS = 64  # of an address; a key on a shelf is size and address in one number, which compares fast
_LOW = (1 << ADDRESS_BITS) - 1


@final
class Segment:
    """Device memory ``[start, start + size)`` that the pool got with claim ``claim``, as one piece.

    ``live`` counts the bytes of it that are held now; ``told`` is what the ledger says they are. Its free
    chunks stand on ``shelf``.
    """

    __slots__ = ("claim", "live", "shelf", "size", "start", "told")

    def __init__(self, start: int, size: int, shelf: "SortedList", claim: int) -> None:
        self.start, self.size, self.shelf, self.claim = start, size, shelf, claim
        self.live, self.told = 0, size

    def note(self, start: int, change: int, now_ns: int) -> tuple:
        """``change`` bytes from ``start`` on are held (or no more, if negative); what the ledger must be told.

        That is ``(Used, now_ns, claim, live)``, or nothing if it knows.
        """
        self.live = live = self.live + change
        if live == self.told:
            return ()
        self.told = live
        return Used, now_ns, self.claim, live


@final
class Chunk:
    """Bytes ``[start, start + size)``: free, or held as ``extent`` since ``since_ns``. Its id is ``start``.

    ``before`` and ``after`` are the chunks that touch it. ``stream`` is the stream it is, or was, held for.
    """

    __slots__ = ("after", "before", "extent", "segment", "since_ns", "size", "start", "stream")

    def __init__(self, segment: "Segment | Range", start: int, size: int, stream: int = 0) -> None:
        self.segment, self.start, self.size, self.stream = segment, start, size, stream
        self.before: Chunk | None = None
        self.after: Chunk | None = None
        self.extent: Extent | str | None = None
        self.since_ns = 0


class Chunks(ABC):
    """All chunks of one pool. Costs are O(log free chunks) unless said.

    ``Segments`` and ``Ranges`` say what the device gives: pieces, or pages in ranges of addresses.
    """

    paged = False  # the device is asked for pages of a fixed size

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}  # by start, held ones too
        self.reserved_bytes = 0  # what the device gave
        self.held_bytes = 0  # of all held chunks
        self._shelves: list[SortedList] = []
        self.uncut = self.new_shelf()  # of segments whose rule never cuts them

    # -- what the device gives -------------------------------------------------------------------

    @abstractmethod
    def growth(self, size: int, stream: int) -> int:
        """Bytes that the device must give so that ``size`` bytes in one stretch come free for ``stream``."""

    @abstractmethod
    def grow(self, size: int, stream: int, shelf: "SortedList", granted: "Granted") -> Chunk:
        """That stretch, free, after the device gave ``growth(size, stream)`` bytes."""

    @abstractmethod
    def can_go(self, chunk: Chunk) -> bool:
        """True if some of the free ``chunk`` can go back to the device."""

    @abstractmethod
    def hand_back(self, chunk: Chunk) -> list[int]:
        """Take off the books what of the free ``chunk`` can go back; the claims that end."""

    @abstractmethod
    def returnable(self) -> list[Chunk]:
        """The free chunks of which some can go back, in order of address. O(n log n) in their number."""

    @property
    @abstractmethod
    def whole_bytes(self) -> int:
        """Bytes that could go back to the device now."""

    @abstractmethod
    def _shelve(self, chunk: Chunk) -> None:
        """Count ``chunk`` as free and put it on its shelf."""

    @abstractmethod
    def _unshelve(self, chunk: Chunk) -> None:
        """Undo that."""

    # -- chunks and shelves ----------------------------------------------------------------------

    @property
    def free_chunks(self) -> int:
        """How many free chunks there are. O(shelves)."""
        return sum(map(len, self._shelves))

    def new_shelf(self) -> "SortedList":
        """An empty shelf; a segment keeps to the one it was made for."""
        from sortedcontainers import SortedList

        self._shelves.append(SortedList())
        return self._shelves[-1]

    def best_fit(self, shelf: "SortedList", size: int) -> Chunk | None:
        """The smallest free chunk of ``size`` bytes or more, ties to the lower address."""
        try:
            return self.chunks[shelf[shelf.bisect_left(size << ADDRESS_BITS)] & _LOW]
        except IndexError:
            return None

    def rank(self, shelf: "SortedList", chunk: Chunk) -> int:
        """Where the free ``chunk`` stands on ``shelf``."""
        return shelf.index(chunk.size << ADDRESS_BITS | chunk.start)

    def on(self, shelf: "SortedList", index: int) -> Chunk:
        """The free chunk at ``index`` of ``shelf``, which is in order of size, then address."""
        return self.chunks[shelf[index] & _LOW]

    def hold(self, chunk: Chunk, size: int) -> None:
        """Hold the first ``size`` bytes of the free ``chunk``; the rest becomes a free chunk after it."""
        self._unshelve(chunk)
        if size < chunk.size:
            start, after = chunk.start + size, chunk.after
            rest = self.chunks[start] = Chunk(chunk.segment, start, chunk.size - size, chunk.stream)
            rest.before, rest.after = chunk, after
            if after is not None:
                after.before = rest
            chunk.after, chunk.size = rest, size
            self._shelve(rest)
        self.held_bytes += size

    def set_free(self, chunk: Chunk) -> Chunk:
        """The held ``chunk`` is free: the free chunk that it is now, with those that touched it."""
        self.held_bytes -= chunk.size
        return self._free_at_last(chunk)

    def largest(self) -> int:
        """Bytes of the largest free chunk, 0 when there is none."""
        chunk = self.largest_chunk()
        return chunk.size if chunk else 0

    def largest_chunk(self) -> Chunk | None:
        """The largest free chunk; of equal ones, one of the highest address. O(shelves)."""
        keys = [shelf[-1] for shelf in self._shelves if shelf]
        return self.chunks[max(keys) & _LOW] if keys else None

    def holes(self) -> Free:
        """The free chunks ``((start, size), ...)`` in order of address. O(n log n) in the number of chunks."""
        return tuple(
            (at, self.chunks[at].size) for at in sorted(self.chunks) if self.chunks[at].extent is None
        )

    def held(self) -> list[Chunk]:
        """The chunks that are not free, in order of address."""
        chunks = (self.chunks[at] for at in sorted(self.chunks))
        return [chunk for chunk in chunks if type(chunk.extent) is Extent]

    def _join(self, left: Chunk, right: Chunk) -> None:
        left.size += right.size
        left.after = right.after
        if left.after is not None:
            left.after.before = left
        del self.chunks[right.start]

    def _free_at_last(self, chunk: Chunk) -> Chunk:
        chunk.extent = None
        after, before = chunk.after, chunk.before
        if after is not None and after.extent is None:
            self._unshelve(after)
            self._join(chunk, after)
        if before is not None and before.extent is None:
            self._unshelve(before)
            self._join(before, chunk)
            chunk = before
        self._shelve(chunk)
        return chunk
