"""Streams and graphs of the simulated device: what is handed over, what comes before it, and what races."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from gpulab.device import explain
from gpulab.device.array import Array, Mark
from gpulab.device.device import Graph, Runnable, Stream
from gpulab.device.engine import Work
from gpulab.device.order import Access, Known, merge
from gpulab.telemetry.events import Launched, Sent

if TYPE_CHECKING:
    from gpulab.device.sim import SimDevice

    Node = Callable[["SimStream", int], int]  # hands itself over on that stream, reaching the device then


@final
class SimGraph(Graph):
    """Launches and pinned copies of one stream, recorded."""

    def __init__(self, stream: "SimStream") -> None:
        self.stream = stream
        self.nodes: list[Node] = []

    def __enter__(self) -> "SimGraph":
        self.stream.record_into(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self.stream.record_into(None)


@final
class SimStream(Stream):
    """A stream of the simulated device. ``known`` is what comes before its next work."""

    def __init__(self, device: "SimDevice", number: int, name: str, priority: int) -> None:
        self.device, self.number, self.name, self.priority = device, number, name, priority
        self.known: Known = {}
        self._queue = (number - 1) % device.spec.hardware_queues
        self._last: Work | None = None
        self._graph: SimGraph | None = None

    def launch(self, kernel: Runnable, arrays: Sequence[Array], **shape: int) -> int:
        arrays = tuple(arrays)
        for array in arrays:
            self.device.check(array)
        self.device.grid(kernel, shape)  # its errors come at this line, also when recorded
        return self._submit(lambda stream, ready_ns: stream.hand_over_kernel(kernel, arrays, shape, ready_ns))

    def copy_in(self, array: Array, values: np.ndarray, *, pinned: bool = True) -> int:
        self.device.check(array)
        explain.check_values(array, values)
        if self._graph is not None:
            values = values.copy()  # a graph keeps what it recorded
        serial = self._submit(
            lambda stream, ready_ns: stream.hand_over_copy(array, values, "in", pinned, ready_ns),
            recordable=pinned,
        )
        if not pinned:
            self.synchronize()
        return serial

    def copy_out(self, array: Array, *, pinned: bool = True, into: np.ndarray | None = None) -> np.ndarray:
        self.device.check(array)
        arrived = unset(array.shape, array.dtype) if into is None else into
        explain.check_values(array, arrived)
        self._submit(
            lambda stream, ready_ns: stream.hand_over_copy(array, arrived, "out", pinned, ready_ns),
            recordable=pinned,
        )
        if not pinned:
            self.synchronize()
        return arrived

    def mark(self) -> Mark:
        self._not_recording("mark")
        work = self._put(self._next()[0], self.device.now_ns())
        return Mark(self.device, self.name, work, dict(self.known))

    def wait(self, mark: Mark) -> None:
        self._not_recording("wait")
        if not isinstance(mark, Mark) or mark.device is not self.device:
            raise explain.foreign_mark(self, mark)
        self._put(self._next()[0], self.device.now_ns(), mark=mark.work)
        merge(self.known, mark.known)

    def synchronize(self) -> None:
        self._not_recording("synchronize")
        self.device.wait_for(self, self._last)

    def capture(self) -> SimGraph:
        return SimGraph(self)

    def launch_graph(self, graph: SimGraph) -> None:
        self._not_recording("launch_graph")
        if not isinstance(graph, SimGraph) or graph.stream.device is not self.device:
            raise explain.foreign_graph(self, graph)
        self.device.spend(self.device.spec.launch_ns)
        now_ns, gap_ns = self.device.now_ns(), self.device.spec.graph_launch_ns
        for number, node in enumerate(graph.nodes):
            node(self, now_ns + number * gap_ns)

    # -- what graphs use -------------------------------------------------------------------------

    def record_into(self, graph: SimGraph | None) -> None:
        """Record what follows into ``graph``; None: hand it over again."""
        if graph is not None:
            self._not_recording("capture")
        self._graph = graph

    def hand_over_kernel(
        self, kernel: Runnable, arrays: tuple[Array, ...], shape: dict, ready_ns: int
    ) -> int:
        """Give ``kernel`` to the device, which it reaches at ``ready_ns``; its serial."""
        device, grid, moved = self.device, self.device.grid(kernel, shape), kernel.bytes_moved(**shape)
        data = [device.usable(array) for array in arrays]
        uses = [(array, each.written) for array, each in zip(arrays, kernel.operands, strict=False)]
        self._check_order(uses, kernel.name)
        kernel.meaning(*data, **shape)  # its errors come before anything is handed over
        serial = self._begin(uses, kernel.name)
        device.ledger.append(Launched(device.now_ns(), serial, self.name, kernel.name, grid.blocks, moved))
        self._put(serial, ready_ns, grid=grid)
        return serial

    def hand_over_copy(self, array: Array, values: np.ndarray, way: str, pinned: bool, ready_ns: int) -> int:
        """Give a copy to the device; its serial. Out: the values of now arrive when it ends."""
        device, data = self.device, self.device.usable(array)
        uses = [(array, way == "in")]
        self._check_order(uses, f"copy {way}")
        serial = self._begin(uses, f"copy {way}")
        host = "pinned" if pinned else "pageable"
        device.ledger.append(Sent(device.now_ns(), serial, self.name, way, data.nbytes, host))
        copy_ns = device.spec.copy_cost_ns(data.nbytes, way, pinned=pinned)
        if way == "in":
            data[...] = values
            self._put(serial, ready_ns, copy_ns=copy_ns, way=way)
        else:
            now = data.copy()
            self._put(serial, ready_ns, copy_ns=copy_ns, way=way, at_end=lambda: np.copyto(values, now))
        return serial

    # -- order -----------------------------------------------------------------------------------

    def _submit(self, node: "Node", *, recordable: bool = True) -> int:
        """Record ``node``, or hand it over at the price of a launch; its serial or -1."""
        if self._graph is None:
            self.device.spend(self.device.spec.launch_ns)
            return node(self, self.device.now_ns())
        if not recordable:
            self._not_recording("a pageable copy")
        self._graph.nodes.append(node)
        return -1

    def _check_order(self, uses: list[tuple[Array, bool]], words: str) -> None:
        """``StreamFault`` if work that uses (and writes) these arrays would race with what came before."""
        merge(self.known, self.device.host_knows())
        for array, writes in uses:
            other = array.touched.first_unordered(self.known, writes=writes)
            if other is not None:
                raise explain.race(self, words, array, other)
            for freed, accesses in array.earlier:
                other = accesses.first_unordered(self.known, writes=True)
                if other is not None:
                    raise explain.race(self, words, array, other, freed)

    def _begin(self, uses: list[tuple[Array, bool]], words: str) -> int:
        """The serial of work that uses these arrays, which takes its place in the order."""
        serial, position = self._next()
        for array, writes in uses:
            array.touched.note(Access(serial, self.number, position, writes, words))
        return serial

    def _next(self) -> tuple[int, int]:
        """The serial of this stream's next work and its position in the stream."""
        self.known[self.number] = position = self.known.get(self.number, 0) + 1
        return self.device.next_work(), position

    def _put(self, serial: int, ready_ns: int, **what: object) -> Work:
        self._last = Work(
            serial,
            stream=self.name,
            priority=self.priority,
            queue=self._queue,
            ready_ns=ready_ns,
            before=self._last,
            **what,
        )
        self.device.hand_over(self._last)
        return self._last

    def _not_recording(self, what: str) -> None:
        if self._graph is not None:
            raise explain.recording(self, what)


def unset(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of bytes 0xFF: NaN as floats, -1 as integers."""
    made = np.empty(shape, dtype)
    made.reshape(-1).view(np.uint8)[...] = 0xFF
    return made
