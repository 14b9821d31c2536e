"""``SAXPY(x, y; n, a)``: ``y = a x + y``, n values of float32.

==========  ==================================================
n           values
a           a real number, as float32
x           float32 [n], read
y           float32 [n], read and written
blocks      ceil(n / 256), one thread a value
bytes       12 n: two reads and one write a value
flops       2 n: one product, one sum a value
==========  ==================================================

Source of name and counts: BLAS level 1, Lawson and others, 1979.
"""

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape

SOURCE = r"""
extern "C" __global__ void saxpy(const float* x, float* y, float a, long long n)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""


def _meaning(x: numpy.ndarray, y: numpy.ndarray, s: Shape) -> None:
    y += numpy.float32(s.a) * x


SAXPY = Kernel(
    "saxpy",
    source=SOURCE,
    meaning=_meaning,
    operands=(
        Operand("x", "float32", lambda s: s.n),
        Operand("y", "float32", lambda s: s.n, written=True),
    ),
    shape=("n",),
    real=("a",),
    scalars=("a", "n"),
    threads=256,
    blocks=lambda s: -(-s.n // 256),
    bytes_moved=lambda s: 12 * s.n,
    flops=lambda s: 2 * s.n,
)
