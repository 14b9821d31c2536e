"""``GATHER(table, index, target; n, entries)``: ``target[i] = table[index[i]]``, n values of float32.

==========  =======================================================
n           values picked
entries     values in the table
table       float32 [entries], read
index       int32 [n], read; each from 0 to entries - 1
target      float32 [n], written
blocks      ceil(n / 256), one thread a value
bytes       12 n: index, value, result
==========  =======================================================

A device fetches 32 bytes for a value of 4 that has no neighbour wanted. That is no matter of shape but of the
index, so it is in the rate (``gather_efficiency_permille``, measured by ``gpulab calibrate``), not in the bytes.
"""

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape
from gpulab.errors import KernelFault

SOURCE = r"""
extern "C" __global__ void gather(const float* table, const int* index, float* target, long long n)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) target[i] = table[index[i]];
}
"""


def _meaning(table: numpy.ndarray, index: numpy.ndarray, target: numpy.ndarray, s: Shape) -> None:
    outside = numpy.flatnonzero((index < 0) | (index >= s.entries))
    if outside.size:
        first = int(outside[0])
        raise KernelFault(
            f"gather: index[{first}] is {index[first]}, but the table has entries 0 to {s.entries - 1}. "
            f"On a device this reads what lies beside the table.",
            law="index",
        )
    target[:] = table[index]


GATHER = Kernel(
    "gather",
    source=SOURCE,
    meaning=_meaning,
    operands=(
        Operand("table", "float32", lambda s: s.entries),
        Operand("index", "int32", lambda s: s.n),
        Operand("target", "float32", lambda s: s.n, written=True),
    ),
    shape=("n", "entries"),
    scalars=("n",),
    threads=256,
    blocks=lambda s: -(-s.n // 256),
    bytes_moved=lambda s: 12 * s.n,
    efficiency="gather_efficiency_permille",
)
