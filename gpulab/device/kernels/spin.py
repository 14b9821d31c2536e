"""``SPIN(done; blocks, spin_ns)``: every block does nothing useful for ``spin_ns``, then says so.

==========  ============================================================
blocks      blocks of 32 threads, one warp
spin_ns     how long each block spins, in nanoseconds
done        int32 [blocks], written: 1 for each block that has spun
bytes       4 blocks
cost        spin_ns; of a grid larger than the device, in proportion more
==========  ============================================================

For F10: one block keeps ``utilization.gpu`` at 100 % on one multiprocessor. On a device the time is that of
``%globaltimer`` (PTX manual, special registers), which ticks each microsecond on some boards: spin for longer.
"""

from typing import TYPE_CHECKING

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape

if TYPE_CHECKING:
    from gpulab.device.spec import Spec

SOURCE = r"""
static __device__ long long now_ns()
{
#ifdef __CUDA_ARCH__
    long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
#else
    return host_now_ns();  // where a CPU runs this source
#endif
}

extern "C" __global__ void spin(int* done, long long spin_ns)
{
    long long start = now_ns();
    while (now_ns() - start < spin_ns) {
    }
    if (threadIdx.x == 0) done[blockIdx.x] = 1;
}
"""


def _meaning(done: numpy.ndarray, s: Shape) -> None:
    done[:] = 1


def _cost(spec: "Spec", s: Shape) -> int:
    """A block spins however many are beside it; only those that find no room make it longer."""
    room = spec.sms * min(spec.max_blocks_per_sm, spec.max_threads_per_sm // 32)
    return -(-s.spin_ns * max(s.blocks, room) // room)


SPIN = Kernel(
    "spin",
    source=SOURCE,
    meaning=_meaning,
    operands=(Operand("done", "int32", lambda s: s.blocks, written=True),),
    shape=("blocks", "spin_ns"),
    scalars=("spin_ns",),
    threads=32,
    blocks=lambda s: s.blocks,
    bytes_moved=lambda s: 4 * s.blocks,
    cost=_cost,
)
