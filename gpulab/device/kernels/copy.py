"""``COPY(source, target; n)``: ``target = source``, n values of float32.

==========  ==================================================
n           values
source      float32 [n], read
target      float32 [n], written
blocks      ceil(n / 256), one thread a value
bytes       8 n: each value read once and written once
==========  ==================================================

The bytes are what STREAM's *copy* counts (McCalpin, STREAM benchmark).
"""

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape

SOURCE = r"""
extern "C" __global__ void copy(const float* source, float* target, long long n)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) target[i] = source[i];
}
"""


def _meaning(source: numpy.ndarray, target: numpy.ndarray, s: Shape) -> None:
    target[:] = source


COPY = Kernel(
    "copy",
    source=SOURCE,
    meaning=_meaning,
    operands=(
        Operand("source", "float32", lambda s: s.n),
        Operand("target", "float32", lambda s: s.n, written=True),
    ),
    shape=("n",),
    threads=256,
    blocks=lambda s: -(-s.n // 256),
    bytes_moved=lambda s: 8 * s.n,
)
