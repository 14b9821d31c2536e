"""``MATMUL(a, b, c; m, n, k)``: ``c = a b`` in tiles of 16 x 16, float32.

==========  ============================================================================
m, n, k     rows of a and c, columns of b and c, columns of a and rows of b
a           float32 [m, k], read
b           float32 [k, n], read
c           float32 [m, n], written
blocks      ceil(m / 16) ceil(n / 16), each 256 threads and one tile of c
bytes       4 (m k ceil(n / 16) + k n ceil(m / 16) + m n): every block reads its strips
flops       2 m n k: one product and one sum a step
shared      2,048 bytes: a tile of a and a tile of b
==========  ============================================================================

The bytes are those of the source, as if no cache stood between blocks; a library's kernel has larger tiles and
moves fewer. Source: CUDA C++ programming guide, section on shared memory; the flops count is BLAS level 3's.
"""

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape

SOURCE = r"""
#define TILE 16

extern "C" __global__ void matmul(const float* a, const float* b, float* c, long long m, long long n, long long k)
{
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    int y = threadIdx.x / TILE, x = threadIdx.x % TILE;
    long long tiles_across = (n + TILE - 1) / TILE;
    long long row = blockIdx.x / tiles_across * TILE + y;
    long long column = blockIdx.x % tiles_across * TILE + x;

    float sum = 0.0f;
    for (long long start = 0; start < k; start += TILE) {
        a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0.0f;
        b_tile[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0.0f;
        __syncthreads();  // both tiles are whole
        for (int i = 0; i < TILE; i++) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();  // nobody reads them any more
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
"""


def _meaning(a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray, s: Shape) -> None:
    left = a.reshape(s.m, s.k).astype(numpy.float64)
    right = b.reshape(s.k, s.n).astype(numpy.float64)
    c[:] = (left @ right).reshape(-1)


def _tiles(values: int) -> int:
    return -(-values // 16)


MATMUL = Kernel(
    "matmul",
    source=SOURCE,
    meaning=_meaning,
    operands=(
        Operand("a", "float32", lambda s: s.m * s.k),
        Operand("b", "float32", lambda s: s.k * s.n),
        Operand("c", "float32", lambda s: s.m * s.n, written=True),
    ),
    shape=("m", "n", "k"),
    threads=256,
    blocks=lambda s: _tiles(s.m) * _tiles(s.n),
    bytes_moved=lambda s: 4 * (s.m * s.k * _tiles(s.n) + s.k * s.n * _tiles(s.m) + s.m * s.n),
    flops=lambda s: 2 * s.m * s.n * s.k,
    shared_bytes=lambda s: 2 * 4 * 16 * 16,
)
