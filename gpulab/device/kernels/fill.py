"""``FILL(target; n, value)``: ``target = value``, n values of float32.

==========  ==================================================
n           values
value       a real number, as float32
target      float32 [n], written
blocks      ceil(n / 256), one thread a value
bytes       4 n: each value written once
==========  ==================================================
"""

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape

SOURCE = r"""
extern "C" __global__ void fill(float* target, float value, long long n)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) target[i] = value;
}
"""


def _meaning(target: numpy.ndarray, s: Shape) -> None:
    target[:] = s.value


FILL = Kernel(
    "fill",
    source=SOURCE,
    meaning=_meaning,
    operands=(Operand("target", "float32", lambda s: s.n, written=True),),
    shape=("n",),
    real=("value",),
    scalars=("value", "n"),
    threads=256,
    blocks=lambda s: -(-s.n // 256),
    bytes_moved=lambda s: 4 * s.n,
)
