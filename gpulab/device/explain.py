"""What a device says when work is handed over that races, can never go on, or does not fit.

Each message: what happened, the numbers, since when, what to do; then the story of the work in question.
"""

from typing import TYPE_CHECKING

from gpulab.errors import KernelFault, StreamFault, shown
from gpulab.units import format_ns, whole

if TYPE_CHECKING:
    import numpy as np

    from gpulab.device.array import Array
    from gpulab.device.device import Device, Runnable, Stream
    from gpulab.device.engine import Work
    from gpulab.device.order import Access
    from gpulab.device.spec import Spec

_LAST = 6  # facts of a story


def race(
    stream: "Stream", words: str, array: "Array", other: "Access", freed: str | None = None
) -> StreamFault:
    """The error for work on ``stream`` that uses bytes which ``other`` may still be using.

    ``freed`` names the array that ``other`` used, when it is not this one but one that lay here before.
    """
    device = stream.device
    there = next(s.name for s in device.streams() if s.number == other.stream)
    if freed is None:
        does = "writes" if other.writes else "reads"
        what = f"which work #{other.work} ({other.words}) on stream {there!r} {does}"
        law = "race"
    else:
        what = f"bytes that work #{other.work} ({other.words}) on stream {there!r} uses as {freed}"
        law = "use-after-free"
    return StreamFault(
        f"{words} on stream {stream.name!r} at {_now(device)} uses {array!r}, {what}; nothing makes it wait until "
        f"that is done. Set a mark on {there!r} after #{other.work} and let {stream.name!r} wait for it"
        + ("." if freed is None else ", or free only what no stream uses any more.")
        + _story(device, other.work),
        law=law,
        work=other.work,
        offset=array.extent.offset,
    )


def stalled(device: "Device", work: "Work") -> StreamFault:
    """The error for a host that waits for work which can never be over."""
    return StreamFault(
        f"The host waits at {_now(device)} for work #{work.serial} of stream {work.stream!r}, which can never be over: "
        f"what is before it waits for a mark that nothing reaches. Set marks before they are waited for."
        + _story(device, work.serial),
        law="stalled",
        work=work.serial,
    )


def foreign_mark(stream: "Stream", mark: object) -> StreamFault:
    """The error for a wait that could never end: the mark is of another device, or no mark."""
    work = getattr(getattr(mark, "work", None), "serial", None)
    where = (
        f"of {mark.device.spec.name}, set there on {mark.stream!r}" if work is not None else "no mark at all"
    )
    return StreamFault(
        f"Stream {stream.name!r} was told at {_now(stream.device)} to wait for {shown(mark)}, {where}: no work of "
        f"this device reaches it, so the wait would never end. Wait for a mark of a stream of this device, or let "
        f"the host synchronize with the other one.",
        law="foreign-mark",
    )


def foreign_graph(stream: "Stream", graph: object) -> StreamFault:
    """The error for a graph that this device did not record."""
    return StreamFault(
        f"Stream {stream.name!r} was told at {_now(stream.device)} to launch {shown(graph)}, which this device did "
        f"not record. Record one by `with stream.capture() as graph:` and launch it after that block.",
        law="graph",
    )


def recording(stream: "Stream", what: str) -> StreamFault:
    """The error for something that cannot be part of a graph."""
    return StreamFault(
        f"Stream {stream.name!r} records a graph at {_now(stream.device)}, and {what} cannot be part of it: nothing "
        f"runs while it is recorded, so the wait would never end. Record launches and pinned copies only, and do this "
        f"after the `with` block.",
        law="capture",
    )


def bad_stream(device: "Device", name: object, priority: object) -> StreamFault:
    """The error for a stream whose name is taken or whose priority is no whole number."""
    if whole(priority) is None:
        what = f"The priority of stream {shown(name)} is {shown(priority)}; it is a whole number, lower ones go first."
        return StreamFault(what, law="priority")
    return StreamFault(
        f"A stream of {device.spec.name} was to be called {shown(name)} at {_now(device)}; a name is a text that no "
        f"other stream has.",
        law="name",
    )


def misplaced(device: "Device", array: object) -> StreamFault:
    """The error for something that is no array of this device."""
    return StreamFault(
        f"{device.spec.name} was given {shown(array)} at {_now(device)}, which is no array of its own. Make one with "
        f"`device.empty` and fill it with `stream.copy_in`.",
        law="array",
    )


def gone(device: "Device", array: "Array") -> StreamFault:
    """The error for an array that was freed before."""
    return StreamFault(
        f"{array!r} of {shown(array.owner)} is used at {_now(device)} after it was freed: its bytes may be another "
        f"array's now. Free an array once, after the last work that uses it.",
        law="freed",
        claim=array.extent.claim,
        offset=array.extent.offset,
    )


def other_claim(device: "Device", claim: int, asked: int, size: int) -> StreamFault:
    """The error for a retry with an array of another size than the claim that waited."""
    return StreamFault(
        f"Claim {claim} of {device.spec.name} waited for {asked:,} bytes and was retried at {_now(device)} for an array "
        f"of {size:,}. It was granted and given back; ask for the same shape and type, or make a new claim.",
        law="claim",
        claim=claim,
    )


def check_values(array: "Array", values: "np.ndarray") -> None:
    """Refuse a host array that is not of ``array``'s shape and type (``StreamFault``)."""
    if getattr(values, "shape", None) != array.shape or getattr(values, "dtype", None) != array.dtype:
        what = f"{getattr(values, 'dtype', type(values).__name__)}{list(getattr(values, 'shape', ()))}"
        raise StreamFault(
            f"A copy between {array!r} and a host array {what} was asked for: a copy moves bytes, so both need the "
            f"same shape and type. Convert on the host first.",
            law="shape",
        )


def check_grid(kernel: "Runnable", spec: "Spec", blocks: int, shared_bytes: int) -> None:
    """Refuse blocks that no multiprocessor of ``spec`` can hold, or no blocks (``KernelFault``)."""
    threads = kernel.threads
    most = min(1024, spec.max_threads_per_sm)  # 1,024 a block: CUDA programming guide, all devices
    if not 1 <= threads <= most or blocks < 1 or not spec.blocks_per_sm(threads, shared_bytes):
        raise KernelFault(
            f"{kernel.name} asks for {blocks:,} blocks of {threads:,} threads and {shared_bytes:,} B of shared "
            f"memory; {spec.name} runs 1 block or more, of 1 to {most:,} threads and at most "
            f"{spec.shared_bytes_per_sm:,} B. Make the blocks smaller, or launch nothing for an empty shape.",
            law="grid",
            blocks=blocks,
            threads=threads,
        )


def _now(device: "Device") -> str:
    return format_ns(device.now_ns())


def _story(device: "Device", work: int) -> str:
    """The last facts about ``work``, a line each."""
    told = [(n, fact) for n, fact in enumerate(device.ledger) if getattr(fact, "work", None) == work]
    return "".join(f"\n  #{serial} {fact}" for serial, fact in told[-_LAST:])
