"""What a pool's calls keep the host for."""

from dataclasses import dataclass

from gpulab.units import US, MiB


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds of a hit in the cache, of asking the device, and of giving back to it.

    The start values are the middle of public measurements: a hit 0.8-1.8 us and a growth of 60 us + 15 us a
    MiB up to 1.5 ms (rtj1/cuda-mempool, University of Virginia), a free of the same order *after the device
    is idle* (cupy pull request 2898: cudaFree synchronises, cudaMalloc does not). A mapped page costs
    cuMemCreate 29 + cuMemMap 2 + cuMemSetAccess 38 us, giving one back cuMemUnmap 34 + cuMemRelease 23 us,
    whatever its size (vAttention, table of call latencies; PyTorch's note on expandable segments).
    """

    hit_ns: int = 1_500
    grow_ns: int = 60 * US
    grow_mib_ns: int = 15 * US
    grow_most_ns: int = 1_500 * US
    free_ns: int = 50 * US
    map_ns: int = 69 * US
    unmap_ns: int = 57 * US

    def growth_ns(self, size: int) -> int:
        """What a segment of ``size`` bytes costs: the part of a MiB in proportion, rounded down to the ns."""
        return min(self.grow_ns + self.grow_mib_ns * size // MiB, self.grow_most_ns)
