"""As much of CuPy as ``parts.py`` uses, without a device: kernels run on the CPU shim, time is counted.

``FakeCupy`` is handed in where the real one would be. Its pool is CuPy's published rule in its plainest form
(a list of chunks, walked from the start), so that it shares no code with gpulab's. ``flaws`` breaks it on purpose.
"""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy

from gpulab.units import MiB
from tests.cudacpu import shim

STREAM_MS, GRAPH_MS = 0.0025, 0.0013  # a launch one by one, and in a graph: gpu-benches, H200


class FakeCupy:
    """Stands in for the module ``cupy``. ``flaws`` is a set of words that its parts look for."""

    __version__ = "fake"

    def __init__(self, flaws: frozenset[str] = frozenset()) -> None:
        self.flaws, self.now_ms, self.recording = flaws, 0.0, None
        self.allocator = PythonFunctionAllocator(lambda size, device: 1, lambda pointer, device: None)
        errors = SimpleNamespace(OutOfMemoryError=MemoryError)
        properties = {"name": b"Fake GPU", "major": 9, "minor": 0, "multiProcessorCount": 132}
        self.cuda = SimpleNamespace(
            memory=errors,
            runtime=SimpleNamespace(
                deviceGetPCIBusId=lambda index: "0000:00:00.0", getDeviceProperties=lambda index: properties
            ),
            MemoryPool=lambda allocator=None: FakePool(allocator or DriverAddresses().malloc, flaws),
            PythonFunctionAllocator=PythonFunctionAllocator,
            Memory=lambda size: SimpleNamespace(ptr=1 << 40),
            Event=lambda: FakeEvent(self),
            Stream=lambda non_blocking: FakeStream(self),
            Device=lambda: SimpleNamespace(synchronize=lambda: None),
            get_elapsed_time=lambda before, after: after.at_ms - before.at_ms,
            using_allocator=self._using,
        )

    def asarray(self, array: numpy.ndarray) -> numpy.ndarray:
        return array.copy()

    def asnumpy(self, array: numpy.ndarray) -> numpy.ndarray:
        return array

    def zeros(self, count: int, dtype: str) -> numpy.ndarray:
        return numpy.zeros(count, dtype)

    def full(self, count: int, value: float, dtype: str) -> "Placed":
        placed = numpy.full(count, value, dtype).view(Placed)
        placed.data_ = self.allocator(placed.nbytes)
        return placed

    def RawModule(self, code: str) -> SimpleNamespace:
        return SimpleNamespace(get_function=lambda name: FakeFunction(self, code, name))

    @contextmanager
    def _using(self, allocator):
        before, self.allocator = self.allocator, allocator
        yield
        self.allocator = before


class Placed(numpy.ndarray):
    """An array with a pointer: ``array.data.ptr``."""

    data_ = None

    @property
    def data(self) -> object:
        return self.data_


class FakeFunction:
    """A kernel on the shim; where only time is asked for (``spin``, ``copy`` of a stream), nothing runs."""

    def __init__(self, cupy: FakeCupy, code: str, name: str) -> None:
        self.cupy, self.name = cupy, name
        self.program = shim.program(code, name)

    def __call__(self, grid: tuple, block: tuple, arguments: tuple, shared_mem: int) -> None:
        if self.cupy.recording is not None:
            self.cupy.recording.launches += 1
            return
        self.cupy.now_ms += STREAM_MS
        arrays = [value for value in arguments if isinstance(value, numpy.ndarray)]
        if FakeStream.entered:
            return
        # The shim makes arrays read-only that a kernel does not write; here all may be written.
        after = shim.launch_program(
            self.program,
            *grid,
            *block,
            arguments,
            names=[str(number) for number in range(len(arguments))],
            written=[True] * len(arrays),
            dynamic_bytes=shared_mem,
        )
        for array, values in zip(arrays, after, strict=True):
            array[...] = values
        if "kernel" in self.cupy.flaws and self.name == "saxpy":
            arrays[1][-1] += 1


class FakeGraph:
    """What was recorded."""

    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy, self.launches = cupy, 0

    def launch(self, stream: object) -> None:
        each = STREAM_MS if "graph" in self.cupy.flaws else GRAPH_MS
        self.cupy.now_ms += each * self.launches


class FakeStream:
    """A stream whose launches only take time."""

    entered = 0

    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy = cupy

    def __enter__(self) -> "FakeStream":
        FakeStream.entered += 1
        return self

    def __exit__(self, *raised: object) -> None:
        FakeStream.entered -= 1

    def begin_capture(self) -> None:
        self.cupy.recording = FakeGraph(self.cupy)

    def end_capture(self) -> FakeGraph:
        graph, self.cupy.recording = self.cupy.recording, None
        return graph

    def synchronize(self) -> None:
        pass


class FakeEvent:
    """Notes the time when it is recorded."""

    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy, self.at_ms = cupy, 0.0

    def record(self, stream: object) -> None:
        self.at_ms = self.cupy.now_ms


class DriverAddresses:
    """Where the driver would place memory: anywhere, as long as it is apart."""

    def __init__(self) -> None:
        self.next = 1 << 45

    def malloc(self, size: int) -> SimpleNamespace:
        pointer, self.next = self.next, self.next + size + 2 * MiB
        return SimpleNamespace(ptr=pointer)


class PythonFunctionAllocator:
    """``malloc(size)`` gives something with ``ptr``; the bytes come back when nobody holds it."""

    def __init__(self, malloc, free) -> None:
        self._malloc, self._free = malloc, free

    def malloc(self, size: int) -> "Pointer":
        return Pointer(self._malloc(size, 0), size, lambda held: self._free(held.ptr, 0))


class Pointer:
    """A held stretch of memory; ``mem.size`` are its bytes."""

    def __init__(self, pointer: int, size: int, give_back) -> None:
        self.ptr, self.size, self.mem, self._give_back = pointer, size, SimpleNamespace(size=size), give_back

    def __del__(self) -> None:
        self._give_back(self)


class FakePool:
    """CuPy's rule over a plain list of ``[segment, start, size, free]``, in order of address."""

    def __init__(self, allocator, flaws: frozenset[str]) -> None:
        self.allocator, self.flaws = allocator, flaws
        self.chunks: list[list] = []
        self.limit = 0

    def set_limit(self, size: int) -> None:
        self.limit = size

    def malloc(self, size: int) -> Pointer:
        size = -(-size // 512) * 512
        fits = [chunk for chunk in self.chunks if chunk[3] and chunk[2] >= size]
        if not fits:
            fits = [self._grown(size)]
        chunk = fits[0] if "first fit" in self.flaws else min(fits, key=lambda each: (each[2], each[1]))
        rest = chunk[2] - size
        if rest:
            self.chunks.append([chunk[0], chunk[1] + size, rest, True])
        chunk[2:] = [size, False]
        self._sort()
        return Pointer(chunk[1], size, self._take_back)

    def used_bytes(self) -> int:
        return sum(chunk[2] for chunk in self.chunks if not chunk[3])

    def total_bytes(self) -> int:
        return sum(chunk[2] for chunk in self.chunks)

    def n_free_blocks(self) -> int:
        return sum(chunk[3] for chunk in self.chunks)

    def free_all_blocks(self) -> None:
        parts = [chunk[0] for chunk in self.chunks]
        self.chunks = [chunk for chunk in self.chunks if not (chunk[3] and parts.count(chunk[0]) == 1)]

    def _grown(self, size: int) -> list:
        if self.limit and self.total_bytes() + size > self.limit:
            if "before 7679" not in self.flaws:
                self.free_all_blocks()
            if self.total_bytes() + size > self.limit:
                raise MemoryError
        start = self.allocator(size).ptr
        self.chunks.append([start, start, size, True])
        self._sort()
        return next(chunk for chunk in self.chunks if chunk[1] == start)

    def _take_back(self, held: Pointer) -> None:
        next(chunk for chunk in self.chunks if chunk[1] == held.ptr)[3] = True
        joined: list[list] = []
        for chunk in self.chunks:
            last = joined[-1] if joined else None
            joins = last and last[3] and chunk[3] and last[0] == chunk[0]
            if joins and "no joining" not in self.flaws:
                last[2] += chunk[2]
            else:
                joined.append(chunk)
        self.chunks = joined

    def _sort(self) -> None:
        self.chunks.sort(key=lambda chunk: chunk[1])
