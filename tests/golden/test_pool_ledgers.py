"""What the pools write about fixed traces: the same bytes in every process and every later version.

The first five were written before the pools knew streams, costs and pages, and before ledgers were kept flat.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gpulab.memory.costs import Costs
from gpulab.memory.pool import Pool
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.memory.replay import ByteClaim, replay
from gpulab.memory.streams import Streams
from gpulab.report.audit import check
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB

ROOT = Path(__file__).parents[2]
DEVICE = 256 * MiB
TRACES = {
    "cupy": (
        lambda: CuPyPool(DEVICE),
        "dddd416298f9078278fb8557fb2b9552e1f617e395997d74644ec1b41f51fa23",
    ),
    "cupy limit": (
        lambda: CuPyPool(DEVICE, limit=100 * MiB),
        "977c1acdf963519c3992be1da2aaa79f5cf093ef3e3ae782206dc99ce2bf305f",
    ),
    "pytorch": (
        lambda: PyTorchPool(DEVICE),
        "6fb5ca3178b5ff015b085d42605d9005bed4ddb9b558dea9f978346b0150ecfe",
    ),
    "split 20": (
        lambda: PyTorchPool(DEVICE, max_split_size=20 * MiB),
        "c4ade4e58fe620560e6dbe4d2fda929749624ab08255f6090d6a2899964e1c14",
    ),
    "split 31": (
        lambda: PyTorchPool(DEVICE, max_split_size=31 * MiB),
        "9a6453ff7f21df76c3dcbfdcb5bdff669d6b9b50b5084a1dd8e763c5378afa6b",
    ),
    "expandable": (
        lambda: PyTorchPool(DEVICE, expandable=True),
        "c0e3c7fee72ad110f1b6aa65be2df088d4c17ec3da2712b027648feaff304b0b",
    ),
    "garbage": (
        lambda: PyTorchPool(DEVICE, garbage_permille=500),
        "ee59a5e71d84b24ffb258c51c7491de49af3eb5defe1e861e56942d5f907a22a",
    ),
}
STREAMS = "24297a1221d443fc052a32a3a81e2679d9098a5baeac6ed0f58cde1bade4ce6b"  # three streams with work of their own, and all costs


def trace(name: str, count: int = 600) -> list[ByteClaim]:
    """Small, middle and large claims, more than the device has at times."""
    draw, time_ns, claims = random.Random(f"{name}/golden"), 0, []
    for number in range(count):
        time_ns += draw.randrange(3000)
        size = draw.choice(
            (draw.randrange(1, 4096), draw.randrange(1, 3 * MiB), draw.randrange(MiB, 48 * MiB))
        )
        claims.append(ByteClaim(time_ns, size, draw.randrange(1, 60_000), f"o{number % 7}"))
    return claims


def ledger_of(name: str) -> Ledger:
    pool: Pool = TRACES[name][0]()
    ledger = replay(trace(name), pool)
    pool.free_all_blocks()
    return ledger


def ledger_of_streams() -> Ledger:
    """A pool whose extents are used on other streams, too, at the costs of a device."""
    clock, draw = Clock(), random.Random("streams/golden")
    streams = Streams(clock)
    pool = PyTorchPool(4 * DEVICE, costs=Costs(), progress=streams, clock=clock)
    held = []
    for _ in range(400):
        stream = draw.randrange(3)
        streams.run(stream, draw.randrange(200_000))
        held.append(pool.allocate(draw.randrange(1, 24 * MiB), stream=stream))
        if draw.randrange(2):
            pool.record_use(held[-1], draw.randrange(3))
        if len(held) > 20:
            pool.free(held.pop(draw.randrange(len(held))))
    return pool.ledger


@pytest.mark.parametrize("name", TRACES)
def test_a_pool_writes_the_ledger_that_it_always_wrote(name):
    ledger = ledger_of(name)

    assert ledger.digest() == TRACES[name][1]
    check(ledger)


def test_streams_and_costs_write_the_same_ledger_in_another_process_with_another_hash_seed():
    code = "import test_pool_ledgers as t; print(t.ledger_of_streams().digest())"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(__file__).parent))),
        "PYTHONHASHSEED": "7",
    }

    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)

    ledger = ledger_of_streams()
    assert other.stdout.strip() == ledger.digest() == STREAMS
    check(ledger)
