"""What ``run.py`` finds out on a real device: one function a part, each in a process of its own.

A part is called with CuPy, a folder to write into and a function that shows progress, and gives rows. A row's
``held`` is True, False, or None where a number is only noted.
"""

import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy

from gpulab.device.kernel import Kernel
from gpulab.device.kernels import COPY, SAXPY, SPIN
from gpulab.units import GiB, MiB
from tests.gpu import cases, pool_trace

OPERATIONS = 10_000  # of each random trace for the pools
LAUNCHES = 512  # of one kernel, behind a spin that is longer than handing them over takes
SPIN_NS = 20_000_000


@dataclass(frozen=True)
class Row:
    """One thing that was compared, or only noted (``held`` None)."""

    what: str
    expected: str
    got: str
    held: bool | None = None


@dataclass(frozen=True)
class Gpu:
    """CuPy (or a stand-in), where files go, and how progress is shown."""

    cupy: object
    folder: Path
    say: Callable[[str], None]


def machine(gpu: Gpu) -> Iterator[Row]:
    """Which device, driver and CuPy this is, and whether a small kernel runs."""
    from gpulab.device.cuda import try_cuda

    found = try_cuda()
    yield Row("a small kernel runs", "yes", found.reason, found.usable)
    if not found.usable:
        return
    runtime = gpu.cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    yield Row("device", "", properties["name"].decode())
    yield Row("compute capability", "", f"{properties['major']}.{properties['minor']}")
    yield Row("multiprocessors", "", str(properties["multiProcessorCount"]))
    yield Row("driver, runtime (CUDA)", "", f"{runtime.driverGetVersion()}, {runtime.runtimeGetVersion()}")
    yield Row("CuPy, NumPy", "", f"{gpu.cupy.__version__}, {numpy.__version__}")
    yield Row("free memory", "", f"{runtime.memGetInfo()[0] / GiB:.1f} GiB")


def kernels(gpu: Gpu) -> Iterator[Row]:
    """Every kernel's CUDA C against its NumPy meaning, on small ragged shapes and on large ones."""
    functions = {}
    for label, kernel, arrays, shape in [*cases.small_cases(), *cases.large_cases()]:
        gpu.say(label)
        if kernel.name not in functions:
            functions[kernel.name] = compiled(gpu, kernel)
        there = [gpu.cupy.asarray(array) for array in arrays]
        launch(functions[kernel.name], kernel, there, shape)
        got = [gpu.cupy.asnumpy(array) for array in there]
        error = cases.largest_error(kernel, got, cases.expected(kernel, arrays, shape))
        limit = 0.0 if kernel.name in cases.EXACT else cases.TOLERANCE
        yield Row(label, "every bit" if limit == 0 else f"{limit:g}", f"{error:.2g}", error <= limit)


def compiled(gpu: Gpu, kernel: Kernel) -> object:
    """The kernel's function, compiled by NVRTC for the device."""
    return gpu.cupy.RawModule(code=kernel.source).get_function(kernel.name)


def launch(function: object, kernel: Kernel, arrays: list, shape: dict) -> None:
    """Hand one launch over to the current stream."""
    dynamic = kernel.shared_bytes(**shape) if kernel.dynamic else 0
    arguments = kernel.arguments(*arrays, **shape)
    function((kernel.blocks(**shape),), (kernel.threads,), arguments, shared_mem=dynamic)


def pool(gpu: Gpu) -> Iterator[Row]:
    """gpulab's CuPyPool against cupy.cuda.MemoryPool: every address, size and count of a random trace."""
    for seed in (1, 2, 3):
        trace = pool_trace.random_trace(OPERATIONS, seed)
        ours = pool_trace.play(pool_trace.Ours(pool_trace.LIMIT), trace)
        theirs = pool_trace.play(pool_trace.Theirs(gpu.cupy, pool_trace.LIMIT), trace)
        different = pool_trace.first_difference(trace, ours, theirs)
        yield Row(
            f"seed {seed}, {pool_trace.summary(trace, ours)}",
            "no difference",
            different or "no difference",
            not different,
        )


def f2(gpu: Gpu) -> Iterator[Row]:
    """F2: CuPy's documented and reported numbers, by CuPy's own pool on this device."""
    own = gpu.cupy.cuda.MemoryPool()
    asked, used = pool_trace.SMALLEST
    kept = own.malloc(asked)
    got = own.used_bytes(), own.total_bytes()
    yield Row(f"{asked} B: used, total", f"{(used, used)}", f"{got}", got == (used, used))
    del kept
    limit, freed, asked = pool_trace.BEFORE_7679
    own = gpu.cupy.cuda.MemoryPool()
    own.set_limit(size=limit)
    own.malloc(freed)  # nobody keeps it
    try:
        own.malloc(asked)
        got = own.total_bytes()
    except gpu.cupy.cuda.memory.OutOfMemoryError:
        got = None
    own.free_all_blocks()
    yield Row(
        "limit 1 GiB, 512 MiB freed, 768 MiB asked: total", f"{asked}", f"{got or 'refused'}", got == asked
    )
    for with_c, granted in ((True, False), (False, True)):
        told = pool_trace.httomo(pool_trace.Theirs(gpu.cupy, 8 * GiB), with_c=with_c)
        words = {True: "granted", False: "refused"}
        what = f"httomo on 8 GiB {'with' if with_c else 'without'} c: the last 4 GiB (addresses only)"
        yield Row(what, words[granted], words[told], told == granted)


def f10(gpu: Gpu) -> Iterator[Row]:
    """F10: launches one by one against a graph, and what utilization.gpu says of a one-block spinner."""
    cupy, stream = gpu.cupy, gpu.cupy.cuda.Stream(non_blocking=True)
    small = [cupy.zeros(8192, "f4"), cupy.zeros(8192, "f4")]  # 64 KiB of traffic, as gpu-benches
    copy, spin = compiled(gpu, COPY), compiled(gpu, SPIN)
    done = cupy.zeros(4096, "i4")
    cupy.cuda.Device().synchronize()
    with stream:
        launch(copy, COPY, small, {"n": 8192})
        stream.begin_capture()
        for _ in range(LAUNCHES):
            launch(copy, COPY, small, {"n": 8192})
        graph = stream.end_capture()

    def one_by_one() -> None:
        for _ in range(LAUNCHES):
            launch(copy, COPY, small, {"n": 8192})

    def as_graph() -> None:
        graph.launch(stream=stream)

    intervals = {}
    for name, hand_over in (("one by one", one_by_one), ("in a graph", as_graph)):
        gpu.say(f"launches {name}")
        device_ns, host_ns = behind_a_spin(gpu, stream, spin, done, hand_over)
        intervals[name] = device_ns
        yield Row(f"interval of launches {name}, on the device", "", f"{device_ns:,.0f} ns")
        yield Row(f"what handing over {name} takes this Python, each", "", f"{host_ns:,.0f} ns")
    ratio = intervals["one by one"] / intervals["in a graph"]
    yield Row("one by one / in a graph", "1.7 to 2.0, +-0.4", f"{ratio:.2f}", 1.3 <= ratio <= 2.4)
    yield from spinner(gpu, stream, spin, done)


def behind_a_spin(
    gpu: Gpu, stream: object, spin: object, done: object, hand_over: Callable
) -> tuple[float, float]:
    """``(ns on the device, ns of the host)`` for each of the launches, the middle of five tries.

    A block spins while the host hands over, so that the device finds all launches waiting.
    """
    tries = []
    for _ in range(6):  # the first warms up
        before, after = gpu.cupy.cuda.Event(), gpu.cupy.cuda.Event()
        with stream:
            launch(spin, SPIN, [done], {"blocks": 1, "spin_ns": SPIN_NS})
            before.record(stream)
            start = time.perf_counter_ns()
            hand_over()
            host_ns = time.perf_counter_ns() - start
            after.record(stream)
        stream.synchronize()
        tries.append((gpu.cupy.cuda.get_elapsed_time(before, after) * 1e6 / LAUNCHES, host_ns / LAUNCHES))
    return median(device for device, _ in tries[1:]), median(host for _, host in tries[1:])


def spinner(gpu: Gpu, stream: object, spin: object, done: object) -> Iterator[Row]:
    """NVML's readings while nothing, one block, and a full grid spin."""
    counters = Counters(gpu.cupy.cuda.runtime.deviceGetPCIBusId(0))
    sms = gpu.cupy.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"]
    for label, blocks in (("nothing", 0), ("one block", 1), ("a full grid", 16 * sms)):
        gpu.say(f"counters while {label} spins")
        for _ in range(25 if blocks else 0):
            with stream:
                launch(spin, SPIN, [done], {"blocks": blocks, "spin_ns": 100_000_000})
        time.sleep(0.2)
        counters.begin()
        time.sleep(1.5)
        util, sm_active = counters.end()
        stream.synchronize()
        expected = 100 if blocks else 0
        held = None if util is None else abs(util - expected) <= 5
        yield Row(f"utilization.gpu, {label} spins", f"{expected} %, +-5", shown(util, "%"), held)
        share = 100 * min(blocks, sms) / sms
        near = None if sm_active is None else abs(sm_active - share) <= max(1.0, share / 2)
        yield Row(f"SM active, {label} spins", f"{share:.2f} %, +-50 %", shown(sm_active, "%"), near)


class Counters:
    """utilization.gpu, and SM active where NVML has it (GPM: Hopper and later); None where it does not."""

    def __init__(self, bus: str) -> None:
        import pynvml

        self.nvml = pynvml
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
        self.before = None

    def begin(self) -> None:
        """From here on SM active is counted."""
        self.before = self._sample()

    def end(self) -> tuple[int | None, float | None]:
        """``(utilization.gpu in percent, SM active in percent since begin)``."""
        try:
            util = self.nvml.nvmlDeviceGetUtilizationRates(self.handle).gpu
        except self.nvml.NVMLError:  # MIG has none
            util = None
        return util, self._active(self._sample())

    def _sample(self) -> object:
        try:
            sample = self.nvml.nvmlGpmSampleAlloc()
            self.nvml.nvmlGpmSampleGet(self.handle, sample)
        except self.nvml.NVMLError:
            return None
        return sample

    def _active(self, after: object) -> float | None:
        if self.before is None or after is None:
            return None
        asked = self.nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = self.nvml.NVML_GPM_METRICS_GET_VERSION, 1
        asked.sample1, asked.sample2 = self.before, after
        asked.metrics[0].metricId = self.nvml.NVML_GPM_METRIC_SM_UTIL
        try:
            self.nvml.nvmlGpmMetricsGet(asked)
        except self.nvml.NVMLError:
            return None
        return float(asked.metrics[0].value)


def device(gpu: Gpu) -> Iterator[Row]:
    """Two streams and a mark, on the simulated and on the real device: equal numbers, legal ledgers."""
    from gpulab.device.device import open_device
    from gpulab.report.audit import check

    results = {}
    for path in ("sim", "cuda"):
        gpu.say(path)
        opened = open_device(path)
        first, second = opened.stream("first"), opened.stream("second")
        x, y = opened.empty(100_000, owner="x"), opened.empty(100_000, owner="y")
        first.copy_in(x, numpy.arange(100_000, dtype=numpy.float32))
        first.copy_in(y, numpy.ones(100_000, numpy.float32))
        second.wait(first.mark())
        second.launch(SAXPY, [x, y], n=100_000, a=0.5)
        results[path] = second.copy_out(y)
        opened.synchronize()
        check(opened.ledger)
        kinds = ", ".join(dict.fromkeys(type(fact).__name__ for fact in opened.ledger))
        yield Row(f"{path}: a legal ledger", "legal", f"legal: {len(opened.ledger)} facts ({kinds})", True)
    error = float((numpy.abs(results["sim"] - results["cuda"]) / results["sim"]).max())
    yield Row("the two differ by at most", f"{cases.TOLERANCE:g}", f"{error:.2g}", error <= cases.TOLERANCE)


def placing(gpu: Gpu) -> Iterator[Row]:
    """PythonFunctionAllocator: CuPy's own arrays lie where gpulab's FirstFit puts them, in a slab."""
    from gpulab.memory.arena import FirstFit

    slab = gpu.cupy.cuda.Memory(64 * MiB)
    arena, held = FirstFit(64 * MiB), {}

    def malloc(size: int, device: int) -> int:
        extent = arena.allocate(size)
        held[slab.ptr + extent.offset] = extent
        return slab.ptr + extent.offset

    def free(pointer: int, device: int) -> None:
        arena.free(held.pop(pointer))

    ours = gpu.cupy.cuda.PythonFunctionAllocator(malloc, free)
    with gpu.cupy.cuda.using_allocator(ours.malloc):
        a, b = gpu.cupy.full(1000, 2, "f4"), gpu.cupy.full(1000, 3, "f4")
        offsets = [array.data.ptr - slab.ptr for array in (a, b)]
        yield Row("offsets of two arrays of 4,000 B", "[0, 4096]", f"{offsets}", offsets == [0, 4096])
        total = float((a * b).sum())
        yield Row("what they compute", "6000.0", f"{total}", total == 6000)
        del a
        c = gpu.cupy.full(100, 1, "f4")
        offset = c.data.ptr - slab.ptr
        yield Row("an array in the hole that the first left", "0", f"{offset}", offset == 0)
        del b, c
    gaps = arena.gaps()
    yield Row("all came back and joined", f"{((0, 64 * MiB),)}", f"{gaps}", gaps == ((0, 64 * MiB),))


def slab(gpu: Gpu) -> Iterator[Row]:
    """The same through ``device.placing()``: every placing is a fact, and the ledger is legal."""
    from gpulab.device.device import open_device
    from gpulab.memory.arena import FirstFit
    from gpulab.report.audit import check
    from gpulab.telemetry.events import Freed, Granted

    opened = open_device(
        "cuda", memory=lambda capacity, *, clock, ledger: FirstFit(64 * MiB, clock=clock, ledger=ledger)
    )
    with opened.placing():
        a = gpu.cupy.full(1000, 2, "f4")
        b = a * 3
        total = float(b.sum())
        del a, b
    opened.synchronize()
    check(opened.ledger)
    yield Row("what CuPy's arrays compute", "6000.0", f"{total}", total == 6000)
    granted, freed = (sum(isinstance(fact, kind) for fact in opened.ledger) for kind in (Granted, Freed))
    yield Row("grants, frees", "equal, 2 or more", f"{granted}, {freed}", granted == freed >= 2)


def calibrate(gpu: Gpu) -> Iterator[Row]:
    """``gpulab calibrate``: the constants of this device, beside those of the board most like it."""
    from gpulab.device import calibrate as room
    from gpulab.device.device import open_device

    opened = open_device("cuda")
    driver = str(gpu.cupy.cuda.runtime.driverGetVersion())
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    measured = room.calibrate(opened, day=day, driver=driver, tell=gpu.say)
    path = gpu.folder / "calibrated.toml"
    path.write_text(measured.to_toml(), encoding="utf-8")
    yield Row("written", "", path.name, True)
    for name, source in measured.sources.items():
        if source.startswith("[M]"):
            yield Row(name, f"{getattr(opened.spec, name):,}", f"{getattr(measured, name):,}")


def shown(value: float | None, unit: str) -> str:
    """The number with its unit, or that there is none."""
    return "not available" if value is None else f"{value:.4g} {unit}"


# part -> (function, most seconds)
PARTS = {
    "machine": (machine, 60),
    "kernels": (kernels, 90),
    "pool": (pool, 60),
    "f2": (f2, 30),
    "f10": (f10, 60),
    "device": (device, 40),
    "placing": (placing, 30),
    "slab": (slab, 30),
    "calibrate": (calibrate, 90),
}
