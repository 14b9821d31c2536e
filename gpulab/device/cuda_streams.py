"""Streams and graphs of the real device, timed with its events. CuPy comes in as ``device.xp``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from gpulab.device import explain
from gpulab.device.array import Array, Mark
from gpulab.device.device import Graph, Runnable, Stream
from gpulab.device.observed import Observed
from gpulab.telemetry.events import Launched, Sent

if TYPE_CHECKING:
    from gpulab.device.cuda import CudaDevice


@final
class CudaGraph(Graph):
    """A CUDA graph. It keeps the host memory that its copies use; ``kept`` also says what it moves."""

    def __init__(self, stream: "CudaStream") -> None:
        self.stream, self.graph = stream, None
        self.blocks = self.size_bytes = 0
        self.kept: list[object] = []
        self.arrivals: list[tuple[np.ndarray, np.ndarray]] = []

    def __enter__(self) -> "CudaGraph":
        self.stream.record_into(self)
        self.stream.cuda.begin_capture()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stream.record_into(None)
        with self.stream.device.calls("recording a graph"):
            self.graph = self.stream.cuda.end_capture()


@final
class CudaStream(Stream):
    """A stream of the real device. Priorities are CUDA's: about -5 to 0, lower first."""

    def __init__(self, device: "CudaDevice", name: str, priority: int) -> None:
        self.device, self.name, self.priority = device, name, priority
        with device.calls("making a stream"):
            if priority:  # older CuPys do not know the keyword
                self.cuda = device.xp.cuda.Stream(non_blocking=True, priority=priority)
            else:
                self.cuda = device.xp.cuda.Stream(non_blocking=True)
        self._graph: CudaGraph | None = None
        self._timed: list[tuple[Observed, object, object]] = []  # with the events around it
        self._kept: list[object] = []  # pinned memory under way
        self._arrivals: list[tuple[np.ndarray, np.ndarray]] = []  # what to copy where once it is here

    def launch(self, kernel: Runnable, arrays: Sequence[Array], **shape: float) -> int:
        return self._launch(kernel, [self.device.usable(array) for array in arrays], shape)

    def copy_in(self, array: Array, values: np.ndarray, *, pinned: bool = True) -> int:
        data = self.device.usable(array)
        explain.check_values(array, values)
        source = self._pinned(values.shape, values.dtype) if pinned else values
        if pinned:
            source[...] = values
        return self._copy(array, "in", pinned, lambda: data.set(source, stream=self.cuda))

    def copy_out(self, array: Array, *, pinned: bool = True, into: np.ndarray | None = None) -> np.ndarray:
        data = self.device.usable(array)
        arrived = self._pinned(array.shape, array.dtype) if pinned else np.empty(array.shape, array.dtype)
        target = arrived if into is None else into
        explain.check_values(array, target)
        self._copy(array, "out", pinned, lambda: data.get(stream=self.cuda, out=arrived, blocking=not pinned))
        if into is not None and pinned:
            (self._arrivals if self._graph is None else self._graph.arrivals).append((into, arrived))
        elif into is not None:
            into[...] = arrived
        return target

    def mark(self) -> Mark:
        self._not_recording("mark")
        seen = Observed(self.device.next_work(), self.name, self.device.now_ns())
        event = self.device.xp.cuda.Event()
        with self.device.calls("setting a mark"):
            event.record(self.cuda)
        self.device.observed.append(seen)
        return Mark(self.device, self.name, (seen.work, event), {})

    def wait(self, mark: Mark) -> None:
        self._not_recording("wait")
        if not isinstance(mark, Mark) or mark.device is not self.device:
            raise explain.foreign_mark(self, mark)
        work, event = mark.work
        with self.device.calls("waiting for a mark"):
            self.cuda.wait_event(event)
        seen = Observed(self.device.next_work(), self.name, self.device.now_ns(), mark=work)
        self.device.observed.append(seen)

    def synchronize(self) -> None:
        self._not_recording("synchronize")
        with self.device.calls("synchronizing a stream"):
            self.cuda.synchronize()
        self._settle()

    def capture(self) -> CudaGraph:
        return CudaGraph(self)

    def launch_graph(self, graph: CudaGraph) -> None:
        self._not_recording("launch_graph")
        if not isinstance(graph, CudaGraph) or graph.stream.device is not self.device or graph.graph is None:
            raise explain.foreign_graph(self, graph)
        serial, now_ns = self.device.next_work(), self.device.now_ns()
        fact = Launched(now_ns, serial, self.name, "graph", max(1, graph.blocks), graph.size_bytes)
        self._run(fact, lambda: graph.graph.launch(stream=self.cuda))
        self._arrivals += graph.arrivals

    # -- what the device and graphs use ------------------------------------------------------------

    def record_into(self, graph: CudaGraph | None) -> None:
        """Record what follows into ``graph``; None: hand it over again."""
        if graph is not None:
            self._not_recording("capture")
        self._graph = graph

    def measure(self, base: object) -> None:
        """Write the times of this stream's work, all over, into what was observed: ns after ``base``."""
        for seen, before, after in self._timed:
            seen.start_ns = round(elapsed_ns(self.device.xp, base, before))
            seen.end_ns = round(elapsed_ns(self.device.xp, base, after))
        self._timed = []
        self._settle()

    def _launch(self, kernel: Runnable, data: list, shape: dict) -> int:
        blocks, moved = kernel.blocks(**shape), kernel.bytes_moved(**shape)
        if self._graph is not None:
            self._graph.blocks += blocks
            self._graph.size_bytes += moved
            with self.cuda:
                self.device.start(kernel, data, shape)
            return -1
        serial, now_ns = self.device.next_work(), self.device.now_ns()
        fact = Launched(now_ns, serial, self.name, kernel.name, blocks, moved)
        self._run(fact, lambda: self.device.start(kernel, data, shape))
        return serial

    def _copy(self, array: Array, way: str, pinned: bool, run) -> int:
        if self._graph is not None:
            if not pinned:
                self._not_recording("a pageable copy")
            with self.device.calls(f"recording a copy {way}"):
                run()
            return -1
        host, serial = "pinned" if pinned else "pageable", self.device.next_work()
        size = array.dtype.itemsize * int(np.prod(array.shape, dtype=np.int64))
        self._run(Sent(self.device.now_ns(), serial, self.name, way, size, host), run)
        if not pinned:
            self.synchronize()
        return serial

    def _run(self, fact: Launched | Sent, run) -> None:
        """Hand over by ``run``, with an event before and after."""
        before, after = self.device.xp.cuda.Event(), self.device.xp.cuda.Event()
        with self.device.calls("handing over work"), self.cuda:
            before.record(self.cuda)
            run()
            after.record(self.cuda)
        seen = Observed(fact.work, self.name, fact.time_ns, fact)
        self.device.observed.append(seen)
        self._timed.append((seen, before, after))

    def _pinned(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Host memory that the device may reach, kept until the host has waited, or as long as the graph."""
        count = int(np.prod(shape, dtype=np.int64))
        with self.device.calls("pinning host memory"):
            memory = self.device.xp.cuda.alloc_pinned_memory(max(1, count * dtype.itemsize))
        made = np.frombuffer(memory, dtype, count).reshape(shape)
        (self._kept if self._graph is None else self._graph.kept).append(made)
        return made

    def _settle(self) -> None:
        """Everything handed over is done: deliver what arrived."""
        for into, arrived in self._arrivals:
            into[...] = arrived
        self._arrivals, self._kept = [], []

    def _not_recording(self, what: str) -> None:
        if self._graph is not None:
            raise explain.recording(self, what)


def elapsed_ns(cupy: object, before: object, after: object) -> float:
    """Nanoseconds between two events that are over; CUDA counts in steps of about half a microsecond."""
    return cupy.cuda.get_elapsed_time(before, after) * 1e6
