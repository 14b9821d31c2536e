"""The two devices as one: what a program may ask of a device and of its streams.

``open_device`` chooses which one it is. The same program then runs on both: streams in order, marks between
them, copies, kernels, memory. The simulated device takes the time that its spec says and is exact; the real
one takes the time it takes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gpulab.device.array import Array, Mark
from gpulab.device.spec import Spec, load
from gpulab.errors import DeviceUnavailable, shown
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Attached
from gpulab.telemetry.ledger import Ledger

if TYPE_CHECKING:
    import numpy as np

    from gpulab.memory.allocator import Allocator
    from gpulab.memory.pool import Pool

    Memory = Allocator | Pool
    OpensMemory = Callable[..., Memory]  # (capacity, clock=, ledger=)

PATHS = ("auto", "sim", "cuda")


class Operand(Protocol):
    """An array of a kernel. ``length`` gives its values for a shape; ``written`` if the kernel writes it."""

    dtype: str
    written: bool


class Runnable(Protocol):
    """What a device needs of a kernel; ``gpulab.device.kernel`` has the class. Shapes go by keyword."""

    name: str
    threads: int
    source: str
    operands: tuple[Operand, ...]

    def blocks(self, **shape: float) -> int: ...
    def shared_bytes(self, **shape: float) -> int: ...
    def cost_ns(self, spec: Spec, **shape: float) -> int: ...
    def bytes_moved(self, **shape: float) -> int: ...
    def flops(self, **shape: float) -> int: ...
    def arguments(self, *arrays: object, **shape: float) -> tuple: ...
    def meaning(self, *arrays: "np.ndarray", **shape: float) -> None: ...


class Graph(ABC):
    """Work recorded once, to be launched as one. Record by ``with stream.capture() as graph:``."""

    @abstractmethod
    def __enter__(self) -> "Graph":
        """Begin to record: launches and pinned copies of the stream are kept, not run."""

    @abstractmethod
    def __exit__(self, *raised: object) -> None:
        """Stop recording."""


class Stream(ABC):
    """Work done in the order in which it was handed over. ``device.stream(name)`` makes one.

    Work of different streams may overlap, in any order that no mark forbids. Every call records what it
    hands over and returns before the device has done it, unless said.
    """

    name: str
    priority: int

    @abstractmethod
    def launch(self, kernel: Runnable, arrays: Sequence[Array], **shape: float) -> int:
        """Hand over ``kernel`` on ``arrays``; its serial of work, or -1 while a graph is recorded.

        Raises:
            KernelFault: it does not compile, or its blocks fit no multiprocessor.
            StreamFault: an array was freed, is another device's, or may still be in use elsewhere (a race).
        """

    @abstractmethod
    def copy_in(self, array: Array, values: "np.ndarray", *, pinned: bool = True) -> int:
        """Hand over a copy of ``values`` into ``array``. Pageable: the host waits until it is done."""

    @abstractmethod
    def copy_out(
        self, array: Array, *, pinned: bool = True, into: "np.ndarray | None" = None
    ) -> "np.ndarray":
        """The host array that will hold ``array``'s values once the host has waited for this stream.

        Until then it holds what it held (``into``) or bytes 0xFF. Pageable: the host waits at once.
        """

    @abstractmethod
    def mark(self) -> Mark:
        """A mark behind all work of this stream so far."""

    @abstractmethod
    def wait(self, mark: Mark) -> None:
        """Let later work of this stream start only after ``mark``. The host does not wait.

        Raises:
            StreamFault: the mark can never be reached from here: it is of another device, or no mark.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Let the host wait until all work of this stream is done."""

    @abstractmethod
    def capture(self) -> Graph:
        """A graph to record into: ``with stream.capture() as graph:``."""

    @abstractmethod
    def launch_graph(self, graph: Graph) -> None:
        """Hand over everything that ``graph`` recorded, at the price of one launch."""


class Device(ABC):
    """A device that takes time. Close to CUDA's runtime in what it does, and in what it leaves to you.

    Attributes:
        spec: its constants. clock: the host's time. ledger: all facts. xp: numpy, or cupy.
        memory: the allocator or pool that its arrays come from. badge: what its times are worth.
        path: ``'sim'`` or ``'cuda'``. reason: why this path was taken.
    """

    spec: Spec
    clock: Clock
    ledger: Ledger
    memory: "Memory"
    xp: object
    path: str
    badge: str
    reason: str

    @abstractmethod
    def stream(self, name: str = "", priority: int = 0) -> Stream:
        """A new stream. Lower numbers go first; running blocks are never evicted. Names differ."""

    @abstractmethod
    def empty(
        self,
        shape: int | tuple[int, ...],
        dtype: object = "float32",
        owner: str = "",
        claim: int | None = None,
    ) -> Array:
        """An array whose bytes nobody set. ``claim`` retries a refused one.

        Raises:
            OutOfMemory: its claim waits; free something and retry, or ``memory.withdraw`` it.
            AllocatorFault: the plugged-in allocator broke a rule; nothing was granted.
        """

    @abstractmethod
    def free(self, array: Array) -> None:
        """Give the bytes back. Without a plugged-in allocator or pool the host waits until the device is idle."""

    @property
    @abstractmethod
    def used_bytes(self) -> int:
        """Bytes of the device that its arrays, the pool or the slab behind them take."""

    @abstractmethod
    def time(self, kernel: Runnable, **shape: float) -> int:
        """Nanoseconds that ``kernel`` takes alone on the idle device, launch not included."""

    @abstractmethod
    def gemm_ns(self, size: int, bits: int) -> int:
        """Nanoseconds of a square library matmul of ``size``, in floats of 16 or 32 ``bits``."""

    @abstractmethod
    def now_ns(self) -> int:
        """The host's time."""

    @abstractmethod
    def wait_until(self, time_ns: int) -> None:
        """Let the host do nothing until ``time_ns``; the device goes on."""

    @abstractmethod
    def synchronize(self) -> None:
        """Let the host wait until everything handed over is done."""


def attached(device: Device) -> Attached:
    """The fact that ``device`` came into being now."""
    rate = device.spec.bandwidth_bytes_per_s
    return Attached(
        device.now_ns(), device.spec.name, device.path, device.spec.sms, rate, device.badge, device.reason
    )


def open_device(
    path: str = "auto",
    *,
    spec: str | Spec = "h100-80",
    memory: "OpensMemory | None" = None,
    clock: Clock | None = None,
    ledger: Ledger | None = None,
    index: int = 0,
) -> Device:
    """The device that ``path`` names: ``'sim'``, ``'cuda'``, or ``'auto'`` for a real one if it works here.

    Nothing falls back silently: the first fact of the ledger, ``device.badge`` and ``device.reason`` say which
    one it is and why.

    Args:
        spec: of the simulated device: a board's name, a file, or a ``Spec``.
        memory: makes what places the arrays, called as ``memory(capacity, clock=clock, ledger=ledger)``: a
            subclass of ``Allocator`` or a pool. None: the device's own, with its costs and its waiting free.
        index: which real device.

    Raises:
        DeviceUnavailable: ``'cuda'`` was asked for and cannot be had; the message says what was found.
        SpecFault: no such spec.
    """
    if path not in PATHS:
        raise DeviceUnavailable(
            f"There is no path {shown(path)} to a device; the paths are {', '.join(PATHS)}."
        )
    from gpulab.device.cuda import open_cuda, try_cuda
    from gpulab.device.sim import SimDevice

    reason = f"{path} was asked for"
    if path == "auto":
        found = try_cuda()
        path = "cuda" if found.usable else "sim"
        reason = f"auto: {found.reason}"
    if path == "cuda":
        return open_cuda(index, memory=memory, ledger=ledger, reason=reason)
    chosen = spec if isinstance(spec, Spec) else load(spec)
    return SimDevice(chosen, memory=memory, clock=clock, ledger=ledger, reason=reason)
