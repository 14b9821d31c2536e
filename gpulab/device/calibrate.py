"""Measures a device into a spec, so that the simulated device can stand in for it.

It asks through the same calls as any program, on either device: on the simulated one it finds the constants
again, and a test holds it to that. Durations are read from the ledger where the device timed them itself.
"""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np

from gpulab.device.device import Device, Stream
from gpulab.device.kernels import COPY, GATHER, SPIN
from gpulab.device.spec import Spec
from gpulab.telemetry.events import Ended, Launched, Sent, Started
from gpulab.units import SECOND, KiB, MiB

_TRIES = 3
_LAUNCHES = 200
Tell = Callable[[str], None]


def calibrate(
    device: Device,
    *,
    day: str,
    driver: str,
    values: int = 1 << 26,
    gemm: int = 8192,
    tell: Tell = lambda words: None,
) -> Spec:
    """The spec of ``device`` with what was measured on it; the rest stays as ``device.spec`` has it.

    Takes about half a minute on a real device and 1 GiB of its memory. Open it without ``memory=``, and let
    nothing else use it. ``tell`` is called with what is measured next.

    Args:
        day: today, as YYYY-MM-DD. driver: its version. Both go into the spec.
        values: float32 values that the copy and gather kernels move; below about 2 ** 20 they fill no device.
        gemm: size of the square matmuls.
    """
    stream = device.stream("calibrate")
    found: dict[str, int] = {}
    for words, measure in (
        ("launches", lambda: _launches(device, stream)),
        ("memory", lambda: _memory(device)),
        ("copies", lambda: _copies(device, stream)),
        ("bandwidth", lambda: _bandwidth(device, stream, values)),
        ("matmul", lambda: _arithmetic(device, gemm)),
    ):
        tell(words)
        found.update(measure())
    source = f"[M] gpulab calibrate on {day}, driver {driver}"
    sources = {**device.spec.sources, **dict.fromkeys(found, source)}
    return replace(device.spec, date=day, driver=driver, sources=sources, **found)


def _launches(device: Device, stream: Stream) -> dict[str, int]:
    """The interval of back-to-back launches, one by one and in a graph: what twice as many take more."""
    done = device.empty(1, "int32")

    def launch(count: int) -> None:
        for _ in range(count):
            stream.launch(SPIN, [done], blocks=1, spin_ns=1)

    graphs = []
    for count in (_LAUNCHES, 2 * _LAUNCHES):
        with stream.capture() as graph:
            launch(count)
        graphs.append(graph)
    launch(_LAUNCHES)
    few, many = (_host_ns(device, lambda n=n: launch(n)) for n in (_LAUNCHES, 2 * _LAUNCHES))
    short, long = (_host_ns(device, lambda g=g: stream.launch_graph(g)) for g in graphs)
    device.free(done)
    return {
        "launch_ns": max(1, (many - few) // _LAUNCHES),
        "graph_launch_ns": max(1, (long - short) // _LAUNCHES),
    }


def _memory(device: Device) -> dict[str, int]:
    """What asking for memory and giving it back keeps the host for."""
    times: dict[int, int] = {}
    frees = []
    for size in (4 * KiB, MiB, 17 * MiB, min(512 * MiB, device.spec.usable_bytes // 4)):
        tries = []
        for _ in range(_TRIES):
            device.synchronize()
            start = device.now_ns()
            array = device.empty(size, "uint8")
            tries.append(device.now_ns() - start)
            start = device.now_ns()
            device.free(array)
            frees.append(device.now_ns() - start)
        times[size] = round(median(tries))
    smallest, one, seventeen, most = times.values()
    per_mib = max(0, (seventeen - one) // 16)
    return {
        "alloc_ns": max(1, smallest + -per_mib * 4 * KiB // MiB),
        "alloc_ns_per_mib": per_mib,
        "alloc_most_ns": max(most, smallest),
        "free_ns": max(1, round(median(frees))),
    }


def _copies(device: Device, stream: Stream) -> dict[str, int]:
    """Rates of the four kinds of copy, and the part of a pinned one that does not grow with its size."""
    found, starts = {}, []
    sizes = (MiB, 65 * MiB)
    for pinned, kind in ((True, "pinned"), (False, "pageable")):
        for way in ("in", "out"):
            times = []
            for size in sizes:
                array, host = device.empty(size, "uint8"), np.zeros(size, np.uint8)

                def copy(array=array, host=host, way=way, pinned=pinned) -> None:
                    if way == "in":
                        stream.copy_in(array, host, pinned=pinned)
                    else:
                        stream.copy_out(array, pinned=pinned)

                times.append(_device_ns(device, copy))
                device.free(array)
            rate = (sizes[1] - sizes[0]) * SECOND // max(1, times[1] - times[0])
            found[f"{kind}_{way}_bytes_per_s"] = rate
            if pinned:
                starts.append(times[0] - sizes[0] * SECOND // rate)
    return {**found, "copy_start_ns": max(0, round(median(starts)))}


def _bandwidth(device: Device, stream: Stream, values: int) -> dict[str, int]:
    """What a copy kernel and a gather of values far apart reach of the memory's rate."""
    wave = device.spec.sms * device.spec.blocks_per_sm(COPY.threads) * COPY.threads
    values = (
        max(1, values // (4 * wave)) * 4 * wave
    )  # whole waves, else a nearly empty last one counts as slow
    source, target = device.empty(values), device.empty(values)
    index = device.empty(values // 4, "int32")
    stream.copy_in(source, np.zeros(values, np.float32))
    # Neighbours in the index are 2,654,435,761 entries apart, modulo the table (Knuth's multiplier): far apart.
    picked = (np.arange(values // 4, dtype=np.uint64) * np.uint64(2_654_435_761)) % np.uint64(values)
    stream.copy_in(index, picked.astype(np.int32))
    copied = _device_ns(device, lambda: stream.launch(COPY, [source, target], n=values))
    picking = _device_ns(
        device,
        lambda: stream.launch(GATHER, [source, index, target], n=values // 4, entries=values),
    )
    for array in (source, target, index):
        device.free(array)
    reached = COPY.bytes_moved(n=values) * SECOND // copied
    gathered = GATHER.bytes_moved(n=values // 4, entries=values) * SECOND // picking
    rate = max(device.spec.bandwidth_bytes_per_s, reached)
    found = {
        "copy_efficiency_permille": max(1, _rounded(reached * 1000, rate)),
        "gather_efficiency_permille": min(1000, max(1, _rounded(gathered * 1000, rate))),
    }
    return found if rate == device.spec.bandwidth_bytes_per_s else {**found, "bandwidth_bytes_per_s": rate}


def _arithmetic(device: Device, size: int) -> dict[str, int]:
    """Rates of a library's square matmul."""
    rates = {bits: 2 * size**3 * SECOND // max(1, device.gemm_ns(size, bits)) for bits in (16, 32)}
    return {"tensor_flops_per_s": rates[16], "fp32_flops_per_s": rates[32]}


def _host_ns(device: Device, run: Callable[[], object]) -> int:
    """The shortest of a few runs from an idle device to an idle device, on the host's clock."""
    taken = []
    for _ in range(_TRIES):
        device.synchronize()
        start = device.now_ns()
        run()
        device.synchronize()
        taken.append(device.now_ns() - start)
    return min(taken)


def _device_ns(device: Device, run: Callable[[], object]) -> int:
    """The median time that the last work of ``run`` took on the device, after one run to warm up."""
    taken = []
    for _ in range(_TRIES + 1):
        device.synchronize()
        since = len(device.ledger)
        run()
        device.synchronize()
        facts = device.ledger[since:]
        work = next(fact.work for fact in reversed(facts) if isinstance(fact, Launched | Sent))
        start, end = (
            next(fact.time_ns for fact in facts if isinstance(fact, kind) and fact.work == work)
            for kind in (Started, Ended)
        )
        taken.append(end - start)
    return max(1, round(median(taken[1:])))


def _rounded(part: int, whole: int) -> int:
    return (2 * part + whole) // (2 * whole)
