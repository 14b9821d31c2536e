"""Kernels and devices that the tests of the device share. Plain objects: no kernel that gpulab ships."""

import numpy as np

from gpulab.device.device import open_device
from gpulab.device.kernel import Kernel, Operand

# A kernel of any grid that lasts `ns` and demands neither bandwidth nor arithmetic.
WAIT = Kernel(
    "wait",
    source="",
    meaning=lambda shape: None,
    operands=(),
    shape=("grid", "ns"),
    threads=64,
    blocks=lambda s: s.grid,
    bytes_moved=lambda s: 0,
    cost=lambda spec, s: s.ns,
)
# The same in blocks of 1,024 threads: two fill a multiprocessor of 2,048.
BROAD = Kernel(
    "broad",
    source="",
    meaning=lambda shape: None,
    operands=(),
    shape=("grid", "ns"),
    threads=1024,
    blocks=lambda s: s.grid,
    bytes_moved=lambda s: 0,
    cost=lambda spec, s: s.ns,
)


def mover(name, threads=64, share=1000):
    """A kernel whose bytes take ``share`` permille of its time at full rate, in a grid of ``grid`` blocks."""
    return Kernel(
        name,
        source="",
        meaning=lambda shape: None,
        operands=(),
        shape=("grid", "size"),
        threads=threads,
        blocks=lambda s: s.grid,
        bytes_moved=lambda s: s.size,
        cost=lambda spec, s: spec.memory_ns(s.size) * 1000 // share,
    )


# Blocks of one warp that take all the shared memory a block may: four on a multiprocessor of 228 KiB.
ROOMY = Kernel(
    "roomy",
    source="",
    meaning=lambda shape: None,
    operands=(),
    shape=("grid", "ns"),
    threads=32,
    blocks=lambda s: s.grid,
    bytes_moved=lambda s: 0,
    shared_bytes=lambda s: 48 * 1024,
    cost=lambda spec, s: s.ns,
)
# One block a multiprocessor that keeps the arithmetic busy all the time.
BUSY = Kernel(
    "busy",
    source="",
    meaning=lambda shape: None,
    operands=(),
    shape=("flops",),
    threads=64,
    blocks=lambda s: 132,
    bytes_moved=lambda s: 0,
    flops=lambda s: s.flops,
)


def _add(source, target, shape):
    target[:] += source


ADD = Kernel(
    "add",
    source="",
    meaning=_add,
    operands=(
        Operand("source", "float32", lambda s: s.n),
        Operand("target", "float32", lambda s: s.n, written=True),
    ),
    shape=("n",),
    threads=64,
    blocks=lambda s: -(-s.n // 64),
    bytes_moved=lambda s: 12 * s.n,
)


def sim(spec="h100-80", **more):
    """A simulated device."""
    return open_device("sim", spec=spec, **more)


def filled(device, stream, values):
    """An array of ``device`` that holds ``values``, copied in on ``stream``."""
    values = np.asarray(values, np.float32)
    array = device.empty(values.shape)
    stream.copy_in(array, values)
    return array


def runs(device):
    """``work -> (start_ns, end_ns)`` of all work that is over."""
    from gpulab.telemetry.events import Ended, Started

    starts = {fact.work: fact.time_ns for fact in device.ledger.of(Started)}
    return {fact.work: (starts[fact.work], fact.time_ns) for fact in device.ledger.of(Ended)}


HUNGRY = mover("hungry")
STEPS = ("wait", "broad", "hungry", "in", "out", "mark", "pause", "graph")
KERNELS = {"wait": (WAIT, "ns"), "broad": (BROAD, "ns"), "hungry": (HUNGRY, "size")}


def play(program, device):
    """Run ``program``; a mark is waited for by the next stream."""
    streams = [device.stream(f"s{number}", priority=number % 3) for number in range(10)]
    array = {stream: device.empty(1_000, "uint8") for stream in streams}
    values = {stream: array[stream].dtype.type(0).repeat(1_000) for stream in streams}
    for number, kind, grid, amount in program:
        stream = streams[number]
        if kind in KERNELS:
            kernel, keyword = KERNELS[kind]
            stream.launch(kernel, [], grid=grid, **{keyword: amount})
        elif kind == "in":
            stream.copy_in(array[stream], values[stream], pinned=grid % 2 == 0)
        elif kind == "out":
            stream.copy_out(array[stream])
        elif kind == "mark":
            streams[(number + 1) % 10].wait(stream.mark())
        elif kind == "pause":
            device.wait_until(device.now_ns() + amount)
        else:
            with stream.capture() as graph:
                stream.launch(WAIT, [], grid=1, ns=amount)
                stream.launch(WAIT, [], grid=grid, ns=amount)
            stream.launch_graph(graph)
    device.synchronize()
    return device
