"""``SOFTMAX(x, y; rows, columns)``: each row of ``y`` is exp(row of x) divided by its sum, float32.

==========  ================================================================
rows        rows, each a block of 128 threads
columns     values in a row
x           float32 [rows, columns], read; finite
y           float32 [rows, columns], written
blocks      rows
bytes       8 rows columns: a block reads its row three times, counted once
flops       5 rows columns: maximum, difference, exponential, sum, quotient
shared      512 bytes: one value a thread
==========  ================================================================

The largest value of a row is taken off first, so that no exponential overflows; the result is the same.
Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, "safe softmax".
"""

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape

SOURCE = r"""
#define THREADS 128

extern "C" __global__ void softmax(const float* x, float* y, long long rows, long long columns)
{
    __shared__ float part[THREADS];
    int thread = threadIdx.x;
    const float* from = x + blockIdx.x * columns;
    float* to = y + blockIdx.x * columns;

    float peak = -3.402823466e+38f;
    for (long long i = thread; i < columns; i += THREADS) peak = fmaxf(peak, from[i]);
    part[thread] = peak;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) part[thread] = fmaxf(part[thread], part[thread + half]);
    }
    __syncthreads();
    peak = part[0];
    __syncthreads();  // all have read the peak before part[0] holds a sum

    float sum = 0.0f;
    for (long long i = thread; i < columns; i += THREADS) sum += expf(from[i] - peak);
    part[thread] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) part[thread] += part[thread + half];
    }
    __syncthreads();
    for (long long i = thread; i < columns; i += THREADS) to[i] = expf(from[i] - peak) / part[0];
}
"""


def _meaning(x: numpy.ndarray, y: numpy.ndarray, s: Shape) -> None:
    table = x.reshape(s.rows, s.columns).astype(numpy.float64)
    powers = numpy.exp(table - table.max(axis=1, keepdims=True))
    y[:] = (powers / powers.sum(axis=1, keepdims=True)).reshape(-1)


SOFTMAX = Kernel(
    "softmax",
    source=SOURCE,
    meaning=_meaning,
    operands=(
        Operand("x", "float32", lambda s: s.rows * s.columns),
        Operand("y", "float32", lambda s: s.rows * s.columns, written=True),
    ),
    shape=("rows", "columns"),
    threads=128,
    blocks=lambda s: s.rows,
    bytes_moved=lambda s: 8 * s.rows * s.columns,
    flops=lambda s: 5 * s.rows * s.columns,
    shared_bytes=lambda s: 4 * 128,
)
