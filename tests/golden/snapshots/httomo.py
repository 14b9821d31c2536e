"""DiamondLightSource/httomo issue 667 on a card of 8 GiB: the program that httomo-667.jsonl records.

Method A leaves 1 GiB and needs 4 GiB for a while, method B leaves 1 GiB, then A runs again.
"""

from contextlib import suppress

from gpulab.units import GiB


def method_a(cupy):
    return cupy.pool.malloc(1 * GiB), cupy.pool.malloc(4 * GiB)


def method_b(cupy):
    return cupy.pool.malloc(1 * GiB)


def run(cupy):
    out, temporary = method_a(cupy)
    cupy.pool.free(temporary)
    kept = method_b(cupy)
    cupy.pool.free(out)
    with suppress(MemoryError):
        method_a(cupy)
    return kept
