"""Numbers that others published, beside what gpulab computes. Each function runs one row of ``PUBLISHED``.

A new row: write a function that yields ``Row``s and add it to ``PUBLISHED`` at the end of this page.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

from gpulab.cli.published_queue import one_server
from gpulab.cli.published_row import Row
from gpulab.cli.published_serving import batching, fair_service, mix_served, slots_in_use, stall_free
from gpulab.device.device import Device, open_device
from gpulab.device.kernels import SPIN
from gpulab.errors import OutOfMemory
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.memory.prefix import PrefixCache
from gpulab.memory.reservation import replay_plan
from gpulab.mixes import chat_mix
from gpulab.report.account import Account
from gpulab.telemetry.counters import LONG_WINDOW_NS, sample
from gpulab.telemetry.events import Started
from gpulab.units import GiB, MiB


def stranded_segments() -> Iterator[Row]:
    """F1: 36 layers of a temporary of 530 MiB freed and a weight of 270 MiB kept, under PyTorch's rule."""
    source = "vllm-project/vllm pull request 41268"
    steps = []
    for layer in range(36):
        steps += [["alloc", f"temporary {layer}", 530 * MiB], ["free", f"temporary {layer}"]]
        steps += [["alloc", f"weight {layer}", 270 * MiB]]
    for cap, name, expected in (
        (None, "no cap", (9_720, 9_360)),
        (20 * MiB, "split up to 20 MiB", (9_720, 530)),
    ):
        ledger = run_operations(PyTorchPool(80 * GiB, max_split_size=cap), steps)
        terms = Account(ledger, "device→pool").at(ledger.end_ns)
        yield Row("F1", f"live MiB, {name}", source, expected[0], terms.used // MiB)
        yield Row("F1", f"stranded MiB, {name}", source, expected[1], terms.stranded // MiB)
        reserved = (terms.used + terms.stranded) // MiB
        yield Row("F1", f"reserved MiB, {name}", source, sum(expected), reserved)
    source = "PyTorch, c10/cuda/CUDACachingAllocator.cpp"
    pool = PyTorchPool(80 * GiB)
    yield Row("F1", "bytes granted for 513", source, 1_024, pool.allocate(513).size)
    for asked, name, segment in (
        (MiB, "1 MiB", 2),
        (MiB + 1, "1 MiB + 1 B", 20),
        (10 * MiB, "10 MiB", 10),
        (11 * MiB, "11 MiB", 12),
    ):
        pool = PyTorchPool(80 * GiB)
        pool.allocate(asked)
        yield Row("F1", f"segment MiB for {name}", source, segment, pool.total_bytes // MiB)


def cupy_pool() -> Iterator[Row]:
    """F2: CuPy's pool rounds, hands back before its limit refuses, and fails with 6 GiB free of 8."""
    pool = CuPyPool(8 * GiB)
    pool.allocate(400)
    source = "CuPy user guide, memory management"
    yield Row("F2", "bytes used, total for 400", source, "512, 512", f"{pool.used_bytes}, {pool.total_bytes}")

    pool = CuPyPool(8 * GiB, limit=GiB)
    pool.free(pool.allocate(512 * MiB))
    source = "cupy/cupy issue 7678, pull request 7679"
    yield Row("F2", "768 MiB after 512 MiB freed, limit 1 GiB", source, "granted", _asked(pool, 768 * MiB))

    pool = CuPyPool(8 * GiB)
    steps = [["alloc", "a", GiB], ["alloc", "t", 4 * GiB], ["free", "t"], ["alloc", "b", GiB], ["free", "a"]]
    ledger = run_operations(pool, [*steps, ["alloc", "c", GiB], ["alloc", "again", 4 * GiB]])
    source = "DiamondLightSource/httomo issue 667"
    terms = Account(ledger, "device→extent").at(ledger.end_ns)
    yield Row("F2", "the last 4 GiB", source, "refused", _asked(pool, 4 * GiB))
    yield Row("F2", "GiB free then", source, 6, terms.free // GiB)
    yield Row("F2", "GiB of them fragmented", source, 4, terms.fragmented // GiB)


def kv_paging() -> Iterator[Row]:
    """F3: the share of reserved KV slots that hold a token, under four plans, on the drawn chat mix; then while it is served."""
    source = "Kwon et al., PagedAttention (SOSP 2023), figure 2"
    requests = chat_mix()
    for plan, expected, tolerance in (
        ("max", 20.4, 5),
        ("pow2", 26.8, 5),
        ("oracle", 38.2, 5),
        ("paged", 96.3, 2.5),
    ):
        terms = Account(replay_plan(requests, plan))()
        share = round(100 * terms.used / (terms.used + terms.stranded), 2)
        what = f"% of reserved slots in use, {plan}"
        yield Row("F3", what, source, expected, share, tolerance)
        yield Row("F3", f"{what}, served", source, expected, slots_in_use(mix_served(plan)), tolerance)


def prefix_trace() -> Iterator[Row]:
    """F4: ten blocks of four tokens and the documented three requests."""
    source = "vLLM, design page Automatic Prefix Caching"
    pool = FreeQueue(10, block_tokens=4)
    cache = PrefixCache(pool)
    first = list(range(100, 115))
    cache.admit("request 0", first)
    for token in (115, 116):
        cache.append("request 0", token)
    hits = cache.admit("request 1", [*first[:10], 200, 201, 202, 203]).hits
    yield Row("F4", "blocks that request 1 hits", source, 2, len(hits))
    cache.finish("request 0")
    cache.finish("request 1")
    yield Row("F4", "free queue then", source, "7-8-9-4-3-2-6-5-1-0", _listed(pool.order()))
    third = cache.admit("request 2", [*first[:12], *range(300, 317)])
    yield Row("F4", "blocks that request 2 hits", source, "0-1-2", _listed(third.hits))
    yield Row("F4", "blocks that it is given", source, "7-8-9-4-3", _listed(third.new))


def _asked(pool: CuPyPool, size: int) -> str:
    try:
        pool.allocate(size)
    except OutOfMemory:
        return "refused"
    return "granted"


def _launch_gaps(device: Device) -> list[int]:
    """The longest time in ns from one start to the next of 100 short kernels: launched singly, then as a graph."""
    stream, done = device.stream(), device.empty(1, "int32")

    def launch() -> None:
        for _ in range(100):
            stream.launch(SPIN, [done], blocks=1, spin_ns=100)

    with stream.capture() as graph:
        launch()
    gaps = []
    for run in (launch, lambda: stream.launch_graph(graph)):
        since = len(device.ledger)
        run()
        device.synchronize()
        starts = [fact.time_ns for fact in device.ledger[since:] if isinstance(fact, Started)]
        gaps.append(max(after - before for before, after in pairwise(starts)))
    return gaps


def _listed(blocks: list[int] | tuple[int, ...]) -> str:
    return "-".join(map(str, blocks))


def launch_and_trap() -> Iterator[Row]:
    """F10: launches one by one and in a graph; the counter that reads 100 % of one block."""
    device = open_device("sim", spec="h100-80")
    gaps = _launch_gaps(device)
    spec = device.spec
    yield Row(
        "F10",
        "launch interval, stream over graph",
        "gpu-benches, small kernels",
        1.85,
        round(gaps[0] / gaps[1], 3),
        0.15,
    )
    yield Row(
        "F10",
        "the same as a quotient",
        "spec of the H100",
        f"{spec.launch_ns}/{spec.graph_launch_ns}",
        f"{gaps[0]}/{gaps[1]}",
    )
    for board, sms in (("t4", 40), ("a100-80", 108), ("h100-80", 132)):
        device = open_device("sim", spec=board)
        stream, done = device.stream(), device.empty(1, "int32")
        stream.launch(SPIN, [done], blocks=1, spin_ns=2 * LONG_WINDOW_NS)
        device.wait_until(device.now_ns() + LONG_WINDOW_NS)
        seen = sample(device.ledger, device.now_ns())
        yield Row(
            "F10",
            f"utilization.gpu, one block, {board}",
            "NVML API reference",
            100,
            seen.utilization_gpu_percent,
        )
        yield Row(
            "F10",
            f"SM-active, one block, {board}",
            "1 / multiprocessors",
            f"1/{sms}",
            str(Fraction(seen.sm_ns, seen.sms * LONG_WINDOW_NS)),
        )


PUBLISHED: dict[str, Callable[[], Iterator[Row]]] = {
    "F1": stranded_segments,
    "F2": cupy_pool,
    "F3": kv_paging,
    "F4": prefix_trace,
    "F6": batching,
    "F7": stall_free,
    "F8": fair_service,
    "F10": launch_and_trap,
    "F12": one_server,
}
