"""PyTorch's published rule for a caching pool, with its options."""

from typing import TYPE_CHECKING, final

from gpulab.errors import AllocatorFault, shown
from gpulab.memory.chunks import Chunk
from gpulab.memory.costs import Costs
from gpulab.memory.extent import ALIGNMENT
from gpulab.memory.pool import Pool
from gpulab.memory.ranges import Ranges, could_be
from gpulab.memory.streams import Progress
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB, whole

if TYPE_CHECKING:
    from sortedcontainers import SortedList

# PyTorch, CUDACachingAllocator: kSmallSize, kSmallBuffer, kMinLargeAlloc, kLargeBuffer, kRoundLarge.
SMALL_CLAIM = 1 * MiB
SMALL_SEGMENT = 2 * MiB
LARGE_CLAIM = 10 * MiB
LARGE_SEGMENT = 20 * MiB
SEGMENT_STEP = 2 * MiB


@final
class PyTorchPool(Pool):
    """PyTorch's native caching allocator: claims up to 1 MiB share segments of 2 MiB, larger ones theirs.

    A claim above 1 MiB and below 10 MiB grows the pool by 20 MiB, a larger one by itself rounded up to
    2 MiB. A chunk is cut if at least 512 B (small) or more than 1 MiB (large) would be left. When the
    device has no more: first, with ``max_split_size``, oversize chunks that suffice go back, then every
    whole free segment.

    Args:
        max_split_size: chunks of this size or more (*oversize*) are never cut: a smaller claim may not take
            one, a claim as large may take one only if that is less than ``oversize_rest`` larger. A whole
            number of MiB, 20 or more, as in ``max_split_size_mb``; None: every chunk may be cut.
        oversize_rest: as in ``max_non_split_rounding_mb``, 20 MiB or more.
        garbage_permille: above this share of the device (or ``limit``), in thousandths, segments of the large
            pool that have been free for longest go back before it grows: ``garbage_collection_threshold``,
            which PyTorch obeys only under a memory fraction. None: never.
        expandable: one range of addresses a stream and pool, into which pages of 2 MiB (small) and 20 MiB
            (large) are mapped at the lowest address that fits; every chunk is cut to size, and pages that are
            free in full go back: ``expandable_segments``. Then garbage is not collected.

    Source: pytorch, c10/cuda/CUDACachingAllocator.cpp: ``get_free_block``, ``should_split``,
    ``release_available_cached_blocks``, ``release_cached_blocks``, ``garbage_collect_cached_blocks``,
    ``try_allocate_expandable_block``; the option's lower bound: AcceleratorAllocatorConfig.
    """

    def __init__(
        self,
        capacity: int,
        *,
        limit: int | None = None,
        max_split_size: int | None = None,
        oversize_rest: int = LARGE_SEGMENT,
        garbage_permille: int | None = None,
        expandable: bool = False,
        costs: Costs | None = None,
        progress: Progress | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.max_split_size = None if max_split_size is None else _mib("max_split_size", max_split_size)
        self.oversize_rest = _mib("oversize_rest", oversize_rest)
        self.garbage_permille = None if garbage_permille is None else _permille(garbage_permille)
        self.expandable = expandable
        books = Ranges(capacity, _page_of) if expandable else None
        super().__init__(
            capacity, limit=limit, books=books, costs=costs, progress=progress, clock=clock, ledger=ledger
        )

    def prepare(self) -> None:
        self._small: dict[int, SortedList] = {}  # stream -> free chunks
        self._large: dict[int, SortedList] = {}
        self._turn = 0  # claims on the large pool so far
        self._freed: dict[int, int] = {}  # whole large chunk -> the turn at which it became free
        self._missed: tuple[int, int] | None = None  # size and stream of the claim that grows the pool now

    def take(self, size: int, stream: int) -> list:
        if self.garbage_permille is not None and size > SMALL_CLAIM:
            self._turn += 1
        chunk = self._fit(size, stream)
        if chunk is not None:
            return ["chunk", chunk.start]
        self._missed = size, stream
        return ["grow", size if self.expandable else self.segment_size(size)]

    def give(self, chunk: int, stream: int) -> list[int]:
        if self.garbage_permille is not None:
            self._freed[chunk] = self._turn
        return []

    def trim(self, need: int) -> list[int]:
        missed, self._missed = self._missed, None
        chunks = self._oversize_for(*missed) if missed else []
        return [chunk.start for chunk in chunks or self.segments.returnable()]

    def grown(self, chunk: int, size: int, stream: int) -> None:
        self._missed = None

    def collect(self, need: int) -> list[int]:
        if self.garbage_permille is None or self.expandable:
            return []
        most = min(self.capacity, self.limit or self.capacity)
        surplus = self.total_bytes - most * self.garbage_permille // 1000
        large = [chunk for chunk in self.segments.returnable() if chunk.size > SMALL_SEGMENT]
        ages = {chunk: self._turn - self._freed[chunk.start] for chunk in large}
        return [chunk.start for chunk in _oldest(ages, surplus)]

    def segment_size(self, size: int) -> int:
        if size <= SMALL_CLAIM:
            return SMALL_SEGMENT
        if self.expandable:
            return -(-size // LARGE_SEGMENT) * LARGE_SEGMENT
        return LARGE_SEGMENT if size < LARGE_CLAIM else -(-size // SEGMENT_STEP) * SEGMENT_STEP

    def shelf_for(self, size: int, stream: int) -> "SortedList":
        shelves = self._small if size <= SMALL_CLAIM else self._large
        if stream not in shelves:
            shelves[stream] = self.segments.new_shelf()
        return shelves[stream]

    def keep(self, held: int, size: int) -> int:
        rest = held - size
        if size <= SMALL_CLAIM or self.expandable:
            return size if rest >= ALIGNMENT else held
        cut = rest > SMALL_CLAIM and (self.max_split_size is None or size < self.max_split_size)
        return size if cut else held

    def largest_cached(self) -> int:
        """The largest claim that a free chunk serves now, 0 when none does."""
        small, large = self.shelf_for(0, 0), self.shelf_for(LARGE_CLAIM, 0)
        if large:
            return self.segments.on(large, -1).size
        return min(self.segments.on(small, -1).size, SMALL_CLAIM) if small else 0

    def largest_grown(self, room: int) -> int:
        """The largest claim whose segment is at most ``room`` bytes, 0 when there is none."""
        if room >= LARGE_CLAIM:
            return room // SEGMENT_STEP * SEGMENT_STEP
        return SMALL_CLAIM if room >= SMALL_SEGMENT else 0

    def _fit(self, size: int, stream: int) -> Chunk | None:
        shelf = self.shelf_for(size, stream)
        chunk = self.segments.best_fit(shelf, size)
        if chunk is None:
            return None
        if self.expandable:
            chunk = self._least_expandable(shelf, chunk)
        if self.max_split_size is None or chunk.size < self.max_split_size:
            return chunk
        return chunk if self.max_split_size <= size and chunk.size < size + self.oversize_rest else None

    def _least_expandable(self, shelf: "SortedList", chunk: Chunk) -> Chunk:
        """``chunk``, or a larger one behind it on the shelf, as long as each could grow to less than the one before."""
        index = self.segments.rank(shelf, chunk) + 1
        while index < len(shelf) and could_be(self.segments.on(shelf, index)) < could_be(chunk):
            chunk, index = self.segments.on(shelf, index), index + 1
        return chunk

    def _oversize_for(self, size: int, stream: int) -> list[Chunk]:
        """The smallest oversize chunk that suffices, else several, largest first; none if too few."""
        if self.max_split_size is None or self.expandable:
            return []
        shelf, wanted = self.shelf_for(size, stream), size
        one = self.segments.best_fit(shelf, wanted)  # oversize, or `take` had taken it
        if one is not None:
            return [one]
        several = []
        for index in range(len(shelf) - 1, -1, -1):
            chunk = self.segments.on(shelf, index)
            if chunk.size < self.max_split_size or wanted <= 0:
                break
            several.append(chunk)
            wanted -= chunk.size
        return several if wanted <= 0 else []


def _oldest(ages: dict[Chunk, int], surplus: int) -> list[Chunk]:
    """Those of the chunks to hand back for ``surplus`` bytes: in each round all that are of mean age or older."""
    gone: list[Chunk] = []
    while surplus > 0 and ages:
        old = [chunk for chunk in ages if ages[chunk] * len(ages) >= sum(ages.values())]
        surplus -= sum(chunk.size for chunk in old)
        gone += old
        for chunk in old:
            del ages[chunk]
    return gone


def _page_of(size: int) -> int:
    return SMALL_SEGMENT if size <= SMALL_CLAIM else LARGE_SEGMENT


def _mib(name: str, value: int) -> int:
    size = whole(value)
    if size is None or size < LARGE_SEGMENT or size % MiB:
        raise AllocatorFault(
            f"{name} is {shown(value)}; it is a whole number of MiB in bytes, {LARGE_SEGMENT:,} (20 MiB) or more"
            f"{', or None to cut every chunk' if name == 'max_split_size' else ''}.",
            law="size",
            **{name: shown(value)},
        )
    return size


def _permille(value: int) -> int:
    permille = whole(value)
    if permille is None or not 0 < permille < 1000:
        raise AllocatorFault(
            f"garbage_permille is {shown(value)}; it is a whole number from 1 to 999 (800 for PyTorch's 0.8), or None.",
            law="size",
            garbage_permille=shown(value),
        )
    return permille
