"""Two published rules for a caching pool, on one stream and over a byte budget as device.

Both round to 512 B and give back to the device only segments of which nothing is held. They differ in how
much they ask the device for, and in which chunks they cut.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from gpulab.errors import AllocatorFault, shown
from gpulab.memory.extent import ALIGNMENT
from gpulab.memory.pool import Pool
from gpulab.memory.segments import Chunk
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


def largest_next(pool: Pool) -> int:
    """The largest claim, in bytes and a multiple of 512, that ``pool`` would serve next; it is not changed.

    That is the larger of what a free chunk serves, and what a new segment serves once every whole free
    segment has gone back to the device. A smaller claim may still fail: with PyTorch's rule 5 MiB need a
    segment of 20 MiB, 12 MiB only one of 12. Cost: O(log free chunks).
    """
    return max(pool.largest_cached(), pool.largest_grown(pool.room_bytes + pool.segments.whole_bytes))


@final
class CuPyPool(Pool):
    """CuPy's memory pool: the tightest free chunk, always cut to size; otherwise exactly what is needed.

    When the device or ``limit`` has no more, all whole free segments go back and it is tried again.
    CuPy answers a claim of 0 B with a null pointer; here 0 B is refused like any size that holds nothing.

    Source: cupy/cuda/memory.pyx, ``SingleDeviceMemoryPool``; freeing before the limit refuses since
    cupy pull request 7679.
    """

    def prepare(self) -> None:
        self._shelf = self.segments.new_shelf()

    def shelf_for(self, size: int) -> "SortedList":
        return self._shelf

    def take(self, size: int) -> Chunk | None:
        return self.segments.best_fit(self._shelf, size)

    def segment_size(self, size: int) -> int:
        return size

    def splits(self, chunk: Chunk, size: int) -> bool:
        return chunk.size > size

    def trim(self, size: int) -> Iterator[list[Chunk]]:
        if self.segments.whole:
            yield self.segments.whole_chunks()

    def largest_cached(self) -> int:
        return self.segments.largest()

    def largest_grown(self, room: int) -> int:
        return room // ALIGNMENT * ALIGNMENT


@final
class PyTorchPool(Pool):
    """PyTorch's native caching allocator: claims up to 1 MiB share segments of 2 MiB, larger ones theirs.

    A claim above 1 MiB and below 10 MiB grows the pool by 20 MiB, a larger one by itself rounded up to
    2 MiB. A chunk is cut if at least 512 B (small) or more than 1 MiB (large) would be left. When the
    device has no more: first, with ``max_split_size``, oversize chunks that suffice go back, then every
    whole free segment.

    Args:
        max_split_size: chunks of this size or more (*oversize*) are never cut: a smaller claim may not take
            one, a claim as large may take one only if that is less than 20 MiB larger. A whole number of
            MiB, 20 or more, as in ``max_split_size_mb``; None: every chunk may be cut.

    Source: pytorch, c10/cuda/CUDACachingAllocator.cpp, ``get_free_block``, ``should_split``,
    ``release_available_cached_blocks``; the option's lower bound: AcceleratorAllocatorConfig.
    """

    def __init__(
        self,
        capacity: int,
        *,
        max_split_size: int | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.max_split_size = None if max_split_size is None else _split_size(max_split_size)
        super().__init__(capacity, clock=clock, ledger=ledger)

    def prepare(self) -> None:
        self._small, self._large = self.segments.new_shelf(), self.segments.new_shelf()

    def shelf_for(self, size: int) -> "SortedList":
        return self._small if size <= SMALL_CLAIM else self._large

    def take(self, size: int) -> Chunk | None:
        chunk = self.segments.best_fit(self.shelf_for(size), size)
        if chunk is None or self.max_split_size is None or chunk.size < self.max_split_size:
            return chunk
        return chunk if self.max_split_size <= size and chunk.size < size + LARGE_SEGMENT else None

    def segment_size(self, size: int) -> int:
        if size <= SMALL_CLAIM:
            return SMALL_SEGMENT
        return LARGE_SEGMENT if size < LARGE_CLAIM else -(-size // SEGMENT_STEP) * SEGMENT_STEP

    def splits(self, chunk: Chunk, size: int) -> bool:
        rest = chunk.size - size
        if size <= SMALL_CLAIM:
            return rest >= ALIGNMENT
        return rest > SMALL_CLAIM and (self.max_split_size is None or size < self.max_split_size)

    def trim(self, size: int) -> Iterator[list[Chunk]]:
        enough = self._oversize_for(size)
        if enough:
            yield enough
        if self.segments.whole:
            yield self.segments.whole_chunks()

    def largest_cached(self) -> int:
        small = min(self._small[-1][0], SMALL_CLAIM) if self._small else 0
        return self._large[-1][0] if self._large else small

    def largest_grown(self, room: int) -> int:
        if room >= LARGE_CLAIM:
            return room // SEGMENT_STEP * SEGMENT_STEP
        return SMALL_CLAIM if room >= SMALL_SEGMENT else 0

    def _oversize_for(self, size: int) -> list[Chunk]:
        """The smallest oversize chunk that suffices, else several, largest first; none if too few."""
        if self.max_split_size is None:
            return []
        shelf, wanted = self.shelf_for(size), size
        one = self.segments.best_fit(shelf, wanted)  # oversize, or `take` had taken it
        if one is not None:
            return [one]
        several = []
        for length, _, chunk in reversed(shelf):
            if length < self.max_split_size or wanted <= 0:
                break
            several.append(chunk)
            wanted -= length
        return several if wanted <= 0 else []


def _split_size(value: int) -> int:
    size = whole(value)
    if size is None or size < LARGE_SEGMENT or size % MiB:
        raise AllocatorFault(
            f"max_split_size is {shown(value)}; it is a whole number of MiB in bytes, {LARGE_SEGMENT:,} (20 MiB) "
            f"or more, or None to cut every chunk.",
            law="size",
            max_split_size=shown(value),
        )
    return size
