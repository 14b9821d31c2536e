"""Launches of every kernel that gpulab ships, for the CPU shim and for a real device.

A case is ``(label, kernel, arrays, shape)``. Written arrays start as NaN or -1, so that a value nobody
wrote is seen; arrays are longer than the shape needs by none, so that reading past them is.
"""

from collections.abc import Iterator

import numpy

from gpulab.device.kernel import Kernel
from gpulab.device.kernels import COPY, FILL, GATHER, MATMUL, PAGED_ATTENTION, SAXPY, SOFTMAX, SPIN

Case = tuple[str, Kernel, list[numpy.ndarray], dict]

RAGGED = (1, 31, 33, 256, 257, 1000)
LENGTHS = (1, 15, 16, 17, 31, 32, 33, 100)
# Results that are moved, not computed, are equal to the bit.
EXACT = ("copy", "fill", "gather", "spin")
TOLERANCE = 1e-5


def small_cases() -> Iterator[Case]:
    """Ragged sizes, one to a few blocks: seconds on the CPU shim."""
    for n in RAGGED:
        yield from vectors(n)
    for rows, columns in ((1, 1), (3, 31), (2, 33), (5, 128), (2, 300)):
        yield softmax(rows, columns)
    for m, n, k in ((1, 1, 1), (1, 31, 33), (16, 16, 16), (33, 17, 31), (40, 50, 20)):
        yield matmul(m, n, k)
    for length in LENGTHS:
        yield attention([length])
    yield attention([5, 0, 33, 16], kv_heads=2, group=3, head_dim=33)
    yield attention([1, 40], head_dim=160, block_tokens=4)
    yield attention([70, 3], kv_heads=3, block_tokens=32)
    yield spin(1, 1000)
    yield spin(3, 500)


def large_cases() -> Iterator[Case]:
    """Sizes that fill a device, with one odd value too many for whole blocks."""
    yield from vectors(1_000_001)
    yield softmax(501, 4_097)
    yield matmul(501, 499, 503)
    yield attention([700, 1, 16, 1_001] * 4, kv_heads=8, group=4, head_dim=128)


def vectors(n: int) -> Iterator[Case]:
    """Copy, fill, saxpy and gather of ``n`` values."""
    draw = numpy.random.default_rng(n)
    x, y = normal(draw, n), normal(draw, n)
    entries = n // 2 + 1
    index = draw.integers(0, entries, n, dtype=numpy.int32)
    yield f"copy {n:,}", COPY, [x, poison(n)], {"n": n}
    yield f"fill {n:,}", FILL, [poison(n)], {"n": n, "value": -0.1}
    yield f"saxpy {n:,}", SAXPY, [x, y], {"n": n, "a": 1.7}
    shape = {"n": n, "entries": entries}
    yield f"gather {n:,}", GATHER, [normal(draw, entries), index, poison(n)], shape


def softmax(rows: int, columns: int) -> Case:
    """Rows whose largest values are far apart, so that a peak of another row shows."""
    draw = numpy.random.default_rng(rows * columns)
    x = normal(draw, rows, columns) * 5 + numpy.arange(rows, dtype=numpy.float32)[:, None] * 90
    return (
        f"softmax {rows:,} x {columns:,}",
        SOFTMAX,
        [x, poison(rows, columns)],
        {"rows": rows, "columns": columns},
    )


def matmul(m: int, n: int, k: int) -> Case:
    """A product of two matrices of random values."""
    draw = numpy.random.default_rng(m * n * k)
    return (
        f"matmul {m:,} x {n:,} x {k:,}",
        MATMUL,
        [normal(draw, m, k), normal(draw, k, n), poison(m, n)],
        {"m": m, "n": n, "k": k},
    )


def attention(
    lengths: list[int], *, kv_heads: int = 1, group: int = 2, head_dim: int = 16, block_tokens: int = 16
) -> Case:
    """Sequences over shuffled blocks; slots that hold no token are NaN, table entries that name none -1."""
    draw = numpy.random.default_rng(sum(lengths) + head_dim)
    needed = [-(-length // block_tokens) for length in lengths]
    pool_blocks, table_blocks = sum(needed) + 3, max(needed) + 1
    physical = iter(draw.permutation(pool_blocks).tolist())
    table = numpy.full((len(lengths), table_blocks), -1, numpy.int32)
    keys, values = (poison(pool_blocks, block_tokens, kv_heads, head_dim) for _ in range(2))
    for b, length in enumerate(lengths):
        table[b, : needed[b]] = [next(physical) for _ in range(needed[b])]
        position = numpy.arange(length)
        where = table[b, position // block_tokens], position % block_tokens
        keys[where] = normal(draw, length, kv_heads, head_dim)
        values[where] = normal(draw, length, kv_heads, head_dim)
    query = normal(draw, len(lengths), kv_heads * group, head_dim)
    shape = {
        "sequences": len(lengths),
        "kv_heads": kv_heads,
        "group": group,
        "head_dim": head_dim,
        "block_tokens": block_tokens,
        "pool_blocks": pool_blocks,
        "table_blocks": table_blocks,
        "tokens": sum(lengths),
    }
    arrays = [query, keys, values, table, numpy.array(lengths, numpy.int32), poison(*query.shape)]
    shown = ", ".join(map(str, lengths[:5])) + ("" if len(lengths) <= 5 else f" ... {len(lengths)}")
    label = f"paged_attention lengths {shown}; {kv_heads} x {group} heads of {head_dim}, block {block_tokens}"
    return label, PAGED_ATTENTION, arrays, shape


def spin(blocks: int, spin_ns: int) -> Case:
    """Blocks that spin."""
    return (
        f"spin {blocks} x {spin_ns:,} ns",
        SPIN,
        [numpy.full(blocks, -1, numpy.int32)],
        {"blocks": blocks, "spin_ns": spin_ns},
    )


def expected(kernel: Kernel, arrays: list[numpy.ndarray], shape: dict) -> list[numpy.ndarray]:
    """The arrays as the kernel's NumPy meaning leaves them."""
    results = [array.copy() for array in arrays]
    kernel.meaning(*results, **shape)
    return results


def largest_error(kernel: Kernel, got: list[numpy.ndarray], wanted: list[numpy.ndarray]) -> float:
    """The largest difference in a written array, against 1 or the value if that is larger; inf if NaN is there.

    For a kernel that only moves values: 0.0 if every bit is equal, else inf.
    """
    worst = 0.0
    for operand, one, other in zip(kernel.operands, got, wanted, strict=True):
        if not operand.written:
            continue
        if kernel.name in EXACT:
            worst = max(worst, 0.0 if one.tobytes() == other.tobytes() else numpy.inf)
            continue
        exact = other.astype(numpy.float64)
        error = numpy.abs(one.astype(numpy.float64) - exact) / numpy.maximum(1.0, numpy.abs(exact))
        worst = max(worst, float(numpy.where(numpy.isfinite(error), error, numpy.inf).max()))
    return worst


def normal(draw: numpy.random.Generator, *shape: int) -> numpy.ndarray:
    """Random float32 values of mean 0 and deviation 1."""
    return draw.standard_normal(shape, dtype=numpy.float32)


def poison(*shape: int) -> numpy.ndarray:
    """An array of NaN, for results and for slots that nobody should read."""
    return numpy.full(shape, numpy.nan, numpy.float32)
