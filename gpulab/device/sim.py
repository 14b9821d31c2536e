"""The simulated device: right numbers from each kernel's NumPy meaning, exact times from a spec.

Meanings run when work is handed over, in that order: one of the orders that the marks allow, so a program
without a race gets the same numbers on a real device. A program with one gets ``StreamFault`` at the line that makes it.
"""

from typing import TYPE_CHECKING, final

import numpy as np

from gpulab.device import explain
from gpulab.device.array import Array
from gpulab.device.device import Device, Runnable, attached
from gpulab.device.engine import Engine, Work
from gpulab.device.heap import Heap
from gpulab.device.multiprocessors import Grid
from gpulab.device.order import Accesses, Ghosts, Known, merge
from gpulab.device.spec import Spec
from gpulab.device.streams import SimStream, unset
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.ledger import Ledger
from gpulab.units import SECOND, whole

if TYPE_CHECKING:
    from gpulab.device.device import OpensMemory


@final
class SimDevice(Device):
    """A device that exists in integers: equal programs write byte-equal ledgers, on every machine.

    Its time moves with the host's, and the host's with what a call costs: a launch ``launch_ns``, a claim or a
    free what ``heap`` says, a wait as long as it takes. Move it by ``wait_until``, never by the clock itself.
    """

    path, xp = "sim", np

    def __init__(
        self,
        spec: Spec,
        *,
        memory: "OpensMemory | None" = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
        reason: str = "sim was asked for",
    ) -> None:
        self.spec, self.reason, self.badge = spec, reason, spec.badge
        self.clock = clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self.ledger.append(attached(self))
        self._engine = Engine(spec, self.ledger, self.now_ns())
        self._heap = Heap(spec, memory, self.clock, self.ledger)
        self.memory = self._heap.memory
        self._streams: list[SimStream] = []
        self._known: Known = {}  # what the host has seen end
        self._ghosts = Ghosts()
        self._works = 0

    def stream(self, name: str = "", priority: int = 0) -> "SimStream":
        number = len(self._streams) + 1
        name = name or f"stream {number}"
        level = whole(priority)
        if level is None or type(name) is not str or any(stream.name == name for stream in self._streams):
            raise explain.bad_stream(self, name, priority)
        self._streams.append(SimStream(self, number, name, level))
        return self._streams[-1]

    def empty(self, shape, dtype="float32", owner="", claim=None) -> Array:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = np.dtype(dtype)
        size = dtype.itemsize
        for length in shape:
            size *= length
        try:
            extent = self._heap.allocate(size, owner, claim)
            if extent.asked != size:
                self._heap.free(extent)
                raise explain.other_claim(self, extent.claim, extent.asked, size)
        finally:
            self._charge()
        array = Array(self, extent, shape, dtype)
        array.touched = Accesses()
        array.earlier = self._ghosts.under(extent.offset, extent.end)
        return array

    def free(self, array: Array) -> None:
        self.check(array)
        if self._heap.own:
            self.synchronize()
        array.held = False
        words = f"{array!r} of {array.owner!r}" if array.owner else repr(array)
        self._ghosts.add(array.extent.offset, array.extent.end, words, array.touched, self._known)
        array.data = None
        try:
            self._heap.free(array.extent)
        finally:
            self._charge()

    @property
    def used_bytes(self) -> int:
        return self._heap.taken_bytes

    def time(self, kernel: Runnable, **shape: int) -> int:
        return self.grid(kernel, shape).alone_ns

    def gemm_ns(self, size: int, bits: int) -> int:
        rate = self.spec.tensor_flops_per_s if bits == 16 else self.spec.fp32_flops_per_s
        return max(-(-2 * size**3 * SECOND // rate), self.spec.memory_ns(3 * size * size * bits // 8))

    def now_ns(self) -> int:
        return self.clock.now_ns

    def wait_until(self, time_ns: int) -> None:
        self._engine.run_until(max(time_ns, self.now_ns()))
        self.clock.advance_to(max(time_ns, self.now_ns()))

    def synchronize(self) -> None:
        for stream in self._streams:
            stream.synchronize()

    # -- what its streams and graphs use ---------------------------------------------------------

    def streams(self) -> tuple[SimStream, ...]:
        """Its streams, in the order in which they were made."""
        return tuple(self._streams)

    def grid(self, kernel: Runnable, shape: dict) -> Grid:
        """``kernel`` as blocks that take room and time; ``KernelFault`` if they fit no multiprocessor."""
        blocks, shared = kernel.blocks(**shape), kernel.shared_bytes(**shape)
        explain.check_grid(kernel, self.spec, blocks, shared)
        return Grid(
            self.spec,
            blocks,
            kernel.threads,
            kernel.cost_ns(self.spec, **shape),
            memory_ns=self.spec.memory_ns(kernel.bytes_moved(**shape)),
            arithmetic_ns=self.spec.arithmetic_ns(kernel.flops(**shape)),
            shared_bytes=shared,
        )

    def spend(self, host_ns: int) -> None:
        """Keep the host busy for ``host_ns``."""
        self.wait_until(self.now_ns() + host_ns)

    def next_work(self) -> int:
        """The serial of the next work."""
        self._works += 1
        return self._works - 1

    def hand_over(self, work: Work) -> None:
        """Give ``work`` to the device."""
        self._engine.add(work)

    def wait_for(self, stream: "SimStream", work: Work | None) -> None:
        """Let the host wait for ``work`` of ``stream``, and know what it knew."""
        if work is not None and not self._engine.run_while(work):
            raise explain.stalled(self, work)
        self.clock.advance_to(max(self._engine.now_ns, self.now_ns()))
        merge(self._known, stream.known)

    def host_knows(self) -> Known:
        """What the host has seen end: work handed over later comes after it."""
        return self._known

    def usable(self, array: Array) -> np.ndarray:
        """The bytes of ``array`` as NumPy sees them; ``StreamFault`` if it is not there to be used."""
        self.check(array)
        if array.data is None:
            array.data = unset(array.shape, array.dtype)
        return array.data

    def check(self, array: object) -> None:
        """``StreamFault`` if ``array`` is not this device's, or freed."""
        if not isinstance(array, Array) or array.device is not self:
            raise explain.misplaced(self, array)
        if not array.held:
            raise explain.gone(self, array)

    def _charge(self) -> None:
        cost = self._heap.settle()
        if cost.waits:
            self.synchronize()
        self.spend(cost.host_ns)
