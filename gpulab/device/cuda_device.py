"""The real device, through CuPy, which ``cuda.open_cuda`` hands in.

What the driver or the compiler refuses becomes an error of ours: ``DeviceUnavailable`` when the machine cannot
(no driver, too old, no such device, compiler broken, device lost), ``KernelFault`` when a source does not compile.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, final

import numpy as np

from gpulab.device import explain
from gpulab.device.array import Array
from gpulab.device.cuda_streams import CudaStream, elapsed_ns
from gpulab.device.device import Device, Runnable, attached
from gpulab.device.observed import Observed, in_order
from gpulab.device.real_memory import RealMemory
from gpulab.device.real_spec import real_spec
from gpulab.errors import DeviceUnavailable, GpulabError, KernelFault, StreamFault
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB

if TYPE_CHECKING:
    from gpulab.device.device import OpensMemory

_HEADROOM_BYTES = 512 * MiB  # of the free memory, left for contexts and libraries
_TRIES = 5
# CUDA runtime API, cudaError_t: after these the process can use the device no more.
_LOST = (
    "IllegalAddress",
    "LaunchFailure",
    "ECCUncorrectable",
    "DevicesUnavailable",
    "HardwareStackError",
    "IllegalInstruction",
    "MisalignedAddress",
    "LaunchTimeout",
    "DeviceUninitialized",
    "ContextIsDestroyed",
)


@final
class CudaDevice(Device):
    """Device ``index`` of this machine. Its ledger is written when the host synchronizes with the whole device.

    ``spec`` has what the device says of itself; the other constants are of the board most like it, each
    source says so. ``gpulab calibrate`` measures them.
    """

    path = "cuda"

    def __init__(
        self,
        cupy: object,
        index: int,
        *,
        memory: "OpensMemory | None" = None,
        ledger: Ledger | None = None,
        reason: str = "cuda was asked for",
    ) -> None:
        self.xp, self.index, self.reason = cupy, index, reason
        self._cuda = cupy.cuda.Device(index)
        self._cuda.use()
        runtime = cupy.cuda.runtime
        self.spec = real_spec(runtime.getDeviceProperties(index), str(runtime.driverGetVersion()))
        self.badge = f"measured: {self.spec.name}, {date.today().isoformat()}"
        self.clock, self.ledger = Clock(), ledger if ledger is not None else Ledger()
        self._inbox = Ledger()  # what memory wrote; the first `_told` facts of it are in the ledger
        self._told = self._works = self._since_ns = 0
        self._functions: dict[tuple[str, str], object] = {}
        self._streams: list[CudaStream] = []
        self.observed: list[Observed] = []  # since the last synchronize
        self._base = cupy.cuda.Event()
        self._base.record()
        self._base.synchronize()
        self._base_ns = time.perf_counter_ns()  # time 0 of the ledger
        self.ledger.append(attached(self))
        self._tick()
        free = runtime.memGetInfo()[0]
        capacity = max(free - _HEADROOM_BYTES, free // 2) // (2 * MiB) * (2 * MiB)
        self._memory = RealMemory(cupy, memory, capacity, self.clock, self._inbox)
        self.memory = self._memory.memory

    def stream(self, name: str = "", priority: int = 0) -> CudaStream:
        name = name or f"stream {len(self._streams) + 1}"
        if any(stream.name == name for stream in self._streams):
            raise StreamFault(f"There is a stream {name!r} already; give each a name of its own.", law="name")
        self._streams.append(CudaStream(self, name, priority))
        return self._streams[-1]

    def empty(self, shape, dtype="float32", owner="", claim=None) -> Array:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = np.dtype(dtype)
        self._tick()
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with self.calls("allocating"):
            extent, pointer = self._memory.allocate(size, owner, claim)
            if extent.asked != size:
                self._memory.free(extent)
                raise explain.other_claim(self, extent.claim, extent.asked, size)
        array = Array(self, extent, shape, dtype)
        cuda = self.xp.cuda
        unowned = cuda.UnownedMemory(pointer, extent.size, self, self.index)
        array.data = self.xp.ndarray(shape, dtype, memptr=cuda.MemoryPointer(unowned, 0))
        return array

    def free(self, array: Array) -> None:
        self.usable(array)
        array.held, array.data = False, None
        self._tick()
        with self.calls("freeing"):
            self._memory.free(array.extent)

    @property
    def used_bytes(self) -> int:
        return self._memory.taken_bytes

    def time(self, kernel: Runnable, **shape: float) -> int:
        arrays = self._operands(kernel, shape)
        return self._timed(lambda: self.start(kernel, arrays, shape))

    def gemm_ns(self, size: int, bits: int) -> int:
        left = self.xp.random.rand(size, size).astype(f"float{bits}")
        right = self.xp.random.rand(size, size).astype(f"float{bits}")
        return self._timed(lambda: self.xp.matmul(left, right))

    def now_ns(self) -> int:
        return max(time.perf_counter_ns() - self._base_ns, self._since_ns)

    def wait_until(self, time_ns: int) -> None:
        time.sleep(max(0, time_ns - self.now_ns()) / 1e9)

    def synchronize(self) -> None:
        with self.calls("synchronizing"):
            self._cuda.synchronize()
        for stream in self._streams:
            stream.measure(self._base)
        told, self._told = self._inbox[self._told :], len(self._inbox)
        facts = in_order(self.observed, told, self._since_ns)
        self.observed = []
        for fact in facts:
            self.ledger.append(fact)
        self._since_ns = self.ledger.end_ns

    @contextmanager
    def placing(self) -> Iterator[None]:
        """While it is open, CuPy's own new arrays lie where the plugged-in allocator places them, in its slab.

        The facts are in the ledger after ``synchronize``. Free such arrays before the allocator's last use.

        Raises:
            StreamFault: there is no slab: open the device with ``memory=`` a subclass of ``Allocator``.
            AllocatorFault: at the end of the block, if a free broke a rule inside it.
        """
        faults: list[GpulabError] = []
        with self.xp.cuda.using_allocator(self._memory.cupy_allocator(faults, self._tick).malloc):
            yield
        if faults:
            raise faults[0]

    # -- what its streams use --------------------------------------------------------------------

    def next_work(self) -> int:
        """The serial of the next work."""
        self._works += 1
        return self._works - 1

    def usable(self, array: Array) -> object:
        """The CuPy array; ``StreamFault`` if it is not this device's, or freed."""
        if not isinstance(array, Array) or array.device is not self:
            raise explain.misplaced(self, array)
        if not array.held:
            raise explain.gone(self, array)
        return array.data

    def start(self, kernel: Runnable, arrays: list, shape: dict) -> None:
        """Launch ``kernel`` on the current stream."""
        blocks, arguments = kernel.blocks(**shape), kernel.arguments(*arrays, **shape)
        dynamic = kernel.shared_bytes(**shape) if kernel.dynamic else 0
        with self.calls(f"launching {kernel.name}"):
            function = self._function(kernel)
            function((blocks,), (kernel.threads,), arguments, shared_mem=dynamic)

    @contextmanager
    def calls(self, doing: str) -> Iterator[None]:
        """Turn what CUDA refuses inside the block into ``DeviceUnavailable`` with the reason."""
        cuda = self.xp.cuda
        try:
            yield
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
            lost = any(word in str(error).replace("_", "") for word in _LOST)
            advice = (
                "The device is lost to this process: restart the kernel (or the program). If it happens again without "
                "a kernel of yours, look at `nvidia-smi` and the system log."
                if lost
                else "Look at `gpulab doctor`; the simulated device, open_device('sim'), runs everywhere."
            )
            raise DeviceUnavailable(f"{self.spec.name} failed while {doing}: {error}. {advice}") from error

    def _operands(self, kernel: Runnable, shape: dict) -> list:
        """Arrays of zeros for one launch of ``kernel``."""
        sizes = SimpleNamespace(**shape)
        return [self.xp.zeros(each.length(sizes), each.dtype) for each in kernel.operands]

    def _function(self, kernel: Runnable) -> object:
        """The compiled kernel. Messages name ``NAME.cu`` and the line of its source."""
        key = kernel.name, kernel.source
        if key not in self._functions:
            try:
                module = self.xp.RawModule(code=f'#line 1 "{kernel.name}.cu"\n{kernel.source}')
                module.compile()  # now, and not at the first launch: its errors are told apart here
                self._functions[key] = module.get_function(kernel.name)
            except self.xp.cuda.compiler.CompileException as error:
                told = [line for line in str(error).splitlines() if "error" in line] or [str(error)]
                raise KernelFault(
                    f"{kernel.name} does not compile for {self.spec.name}: {told[0].strip()} Correct that line of its "
                    f"source." + "".join(f"\n  {line.strip()}" for line in told[1:6]),
                    law="compile",
                ) from error
            except self.xp.cuda.runtime.CUDARuntimeError:
                raise
            except Exception as error:  # NVRTC missing, of another CUDA, or without its headers: many classes
                raise DeviceUnavailable(
                    f"The CUDA compiler (NVRTC) cannot be used: {type(error).__name__}: {error}. Reinstall gpulab with "
                    f'the extra "cuda12" or "cuda13" that fits the driver; `gpulab doctor` names it.'
                ) from error
        return self._functions[key]

    def _timed(self, run: Callable[[], object]) -> int:
        """The median time of ``run`` on an idle device, by the device's own events, after one run to warm up."""
        taken = []
        with self.calls("timing"):
            for _ in range(_TRIES + 1):
                self._cuda.synchronize()
                before, after = self.xp.cuda.Event(), self.xp.cuda.Event()
                before.record()
                run()
                after.record()
                after.synchronize()
                taken.append(elapsed_ns(self.xp, before, after))
        return round(median(taken[1:]))

    def _tick(self) -> None:
        self.clock.now_ns = self.now_ns()
