"""How much a pool and its ledger do for one operation, counted: a clock would tell of the machine."""

import gc
import random
import sys

import pytest

from gpulab.errors import OutOfMemory
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.telemetry.events import Granted, Used
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB

PAIRS = 300


def busy(pool_class, live: int):
    """A pool that holds ``live`` extents of random sizes, with many holes between them, and what it holds."""
    draw = random.Random(f"effort/{live}")
    pool = pool_class(1 << 46)
    held = [pool.allocate(draw.randrange(512, 1 << 24)) for _ in range(2 * live)]
    draw.shuffle(held)
    while len(held) > live:
        pool.free(held.pop())
    return pool, held, draw


def calls_a_pair(pool_class, live: int) -> float:
    """Calls of Python and C functions that freeing one extent and allocating another takes."""
    pool, held, draw = busy(pool_class, live)
    work = [(held[draw.randrange(live)], draw.randrange(512, 1 << 24)) for _ in range(PAIRS)]
    work = list({extent.claim: (extent, size) for extent, size in work}.values())
    calls = 0

    def count(frame, event, argument) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for extent, size in work:
            pool.free(extent)
            pool.allocate(size)
    finally:
        sys.setprofile(None)
    return calls / len(work)


@pytest.mark.parametrize("pool_class", [CuPyPool, PyTorchPool])
def test_an_operation_among_twenty_times_as_many_extents_takes_hardly_more_calls(pool_class):
    few, many = calls_a_pair(pool_class, 500), calls_a_pair(pool_class, 10_000)

    assert few < 70
    assert many < 1.2 * few


def lines_of_a_refusal(facts: int) -> int:
    """Lines of Python that a refusal runs, message and all, in a pool that wrote ``facts`` facts before."""
    pool = CuPyPool(6 * MiB)
    pool.free(pool.allocate(4 * MiB))
    pool.allocate(1 * MiB)
    while len(pool.ledger) < facts:
        pool.free(pool.allocate(512))
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with pytest.raises(OutOfMemory, match="cannot go back while claim"):
            pool.allocate(4 * MiB)
    finally:
        sys.settrace(before)
    return lines


def test_a_refusal_after_twenty_times_as_many_facts_runs_no_more_lines():
    lines_of_a_refusal(100)  # imports

    assert lines_of_a_refusal(4_000) < 1.2 * lines_of_a_refusal(200)


def test_facts_are_kept_without_an_object_for_the_garbage_collector():
    ledger = Ledger()
    gc.collect()
    before = len(gc.get_objects())

    for number in range(5_000):
        ledger.write(Granted, number, number, 512 * number, 512, Used, number, number, 400)

    assert len(gc.get_objects()) - before < 50
    assert len(ledger) == 10_000
