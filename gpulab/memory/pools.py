"""The published rules for a caching pool: CuPy's, and PyTorch's from ``pytorch_pool``.

Both round to 512 B, keep what they free for the stream that had it, and give back to the device only
segments of which nothing is held. They differ in how much they ask the device for, and in which chunks they
cut.
"""

from typing import TYPE_CHECKING, final

from gpulab.memory.extent import ALIGNMENT
from gpulab.memory.pool import Pool
from gpulab.memory.pytorch_pool import (
    LARGE_CLAIM,
    LARGE_SEGMENT,
    SEGMENT_STEP,
    SMALL_CLAIM,
    SMALL_SEGMENT,
    PyTorchPool,
)

if TYPE_CHECKING:
    from sortedcontainers import SortedList

__all__ = [
    "LARGE_CLAIM",
    "LARGE_SEGMENT",
    "SEGMENT_STEP",
    "SMALL_CLAIM",
    "SMALL_SEGMENT",
    "CuPyPool",
    "PyTorchPool",
    "largest_next",
]


def largest_next(pool: "CuPyPool | PyTorchPool") -> int:
    """The largest claim, in bytes and a multiple of 512, that ``pool`` would serve next; it is not changed.

    On stream 0, without waiting for others. That is the larger of what a free chunk serves, and what a new
    segment serves once every whole free segment has gone back to the device. A smaller claim may still fail:
    with PyTorch's rule 5 MiB need a segment of 20 MiB, 12 MiB only one of 12. Cost: O(log free chunks).

    Raises:
        ValueError: the pool has expandable segments, where a growth continues a chunk.
    """
    if pool.segments.paged:
        raise ValueError(
            "largest_next knows pools of plain segments only; try a claim on a copy of this expandable one."
        )
    return max(pool.largest_cached(), pool.largest_grown(pool.room_bytes + pool.segments.whole_bytes))


@final
class CuPyPool(Pool):
    """CuPy's memory pool: the tightest free chunk of the stream, always cut to size; else exactly what is needed.

    When the device or ``limit`` has no more, all whole free segments go back and it is tried again.
    CuPy answers a claim of 0 B with a null pointer; here 0 B is refused like any size that holds nothing.

    Source: cupy/cuda/memory.pyx, ``SingleDeviceMemoryPool``: an arena for each stream; freeing before the
    limit refuses since cupy pull request 7679.
    """

    def prepare(self) -> None:
        self._arenas: dict[int, SortedList] = {}  # stream -> its free chunks

    def take(self, size: int, stream: int) -> list:
        shelf = self._arenas.get(stream)
        chunk = self.segments.best_fit(shelf, size) if shelf is not None else None
        return ["grow", size] if chunk is None else ["chunk", chunk.start]

    def give(self, chunk: int, stream: int) -> list[int]:
        return []

    def trim(self, need: int) -> list[int]:
        return [chunk.start for chunk in self.segments.returnable()]

    def shelf_for(self, size: int, stream: int) -> "SortedList":
        if stream not in self._arenas:
            self._arenas[stream] = self.segments.new_shelf()
        return self._arenas[stream]

    def keep(self, held: int, size: int) -> int:
        return size

    def largest_cached(self) -> int:
        """The largest claim that a free chunk serves now, 0 when none does."""
        shelf = self.shelf_for(0, 0)
        return self.segments.on(shelf, -1).size if shelf else 0

    def largest_grown(self, room: int) -> int:
        """The largest claim whose segment is at most ``room`` bytes, 0 when there is none."""
        return room // ALIGNMENT * ALIGNMENT
