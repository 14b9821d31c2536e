"""Where CuPy comes in. The only file that imports it, and only when a real device is asked for.

It finds out what would work, opens the real device, and lets CuPy's own pool be watched.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpulab.errors import DeviceUnavailable
from gpulab.telemetry.ledger import Ledger

if TYPE_CHECKING:
    from gpulab.device.cuda_device import CudaDevice
    from gpulab.device.device import OpensMemory

_KERNEL = 'extern "C" __global__ void add_one(int* x) { x[threadIdx.x] += 1; }'


@dataclass(frozen=True, slots=True)
class CudaPath:
    """Whether kernels run on a real GPU here. ``reason`` is a sentence; ``cupy`` a version or None."""

    usable: bool
    reason: str
    cupy: str | None
    device: str | None


def try_cuda(index: int = 0) -> CudaPath:
    """What the first kernel on a real GPU would meet: it compiles and runs one, on device ``index``.

    Takes a few seconds the first time (driver start, NVRTC). Each way to fail has its own reason: no CuPy,
    no usable driver, no device, NVRTC missing or broken, a wrong result.
    """
    try:
        import cupy
    except ImportError as error:
        why = (
            "CuPy is not installed"
            if isinstance(error, ModuleNotFoundError)
            else f"CuPy does not load: {error}"
        )
        return CudaPath(False, f'{why}; install gpulab with the extra "cuda12" or "cuda13"', None, None)
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return CudaPath(False, _no_driver(cupy, error), cupy.__version__, None)
    if count == 0:
        return CudaPath(False, "the driver shows no device", cupy.__version__, None)
    if not 0 <= index < count:
        last = f"0 to {count - 1}" if count > 1 else "0 only"
        return CudaPath(False, f"there is no device {index}, but {last}", cupy.__version__, None)
    try:
        name = cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
        with cupy.cuda.Device(index):
            numbers = cupy.arange(32, dtype=cupy.int32)
            cupy.RawKernel(_KERNEL, "add_one")((1,), (32,), (numbers,))
            total = int(numbers.sum())
    except Exception as error:  # CuPy, NVRTC and the driver each have their own; all mean "not here"
        why = f"a device is there, but a small kernel fails ({type(error).__name__}: {error})"
        return CudaPath(False, why, cupy.__version__, None)
    if total != sum(range(1, 33)):
        return CudaPath(False, f"a small kernel gives {total} instead of 528", cupy.__version__, name)
    return CudaPath(True, "a small kernel was compiled, run and checked", cupy.__version__, name)


def _no_driver(cupy: object, error: Exception) -> str:
    """Why the runtime finds no driver: it reports version 0 where there is none, and an old one by its number."""
    try:
        has, needs = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    except Exception:
        has = needs = 0
    if has and has < needs:
        words = [f"{number // 1000}.{number % 1000 // 10}" for number in (has, needs)]
        return f"the driver is too old: it runs CUDA {words[0]} at most, this CuPy needs {words[1]} ({error})"
    return f"the CUDA runtime finds no usable driver ({error})"


def open_cuda(
    index: int = 0,
    *,
    memory: "OpensMemory | None" = None,
    ledger: Ledger | None = None,
    reason: str = "cuda was asked for",
) -> "CudaDevice":
    """Device ``index`` of this machine. Takes a few seconds the first time: a small kernel is tried first.

    Raises:
        DeviceUnavailable: it cannot be used here; the message says what was found.
    """
    found = try_cuda(index)
    if not found.usable:
        raise DeviceUnavailable(
            f"The real device {index} cannot be used: {found.reason}. `gpulab doctor` says more; the simulated "
            f"device, open_device('sim'), runs everywhere."
        )
    import cupy

    from gpulab.device.cuda_device import CudaDevice

    return CudaDevice(cupy, index, memory=memory, ledger=ledger, reason=reason)


@contextmanager
def watched_pool(teller: object, now_ns: Callable[[], int]) -> Iterator[None]:
    """While it is open, CuPy's pool tells ``teller`` what it does in this thread.

    ``teller.grow(now, address, size)`` for memory from the device, ``teller.allocate(now, address, asked, size, owner)``
    and ``teller.free(now, address)`` for what programs hold. Source: CuPy's ``MemoryHook``; ``MemoryAsyncPool`` calls
    none, and memory that goes back to the device is not told.

    Raises:
        DeviceUnavailable: CuPy is not here.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceUnavailable(f"CuPy cannot be watched: it is not installed here ({error}).") from None

    class Watch(cupy.cuda.MemoryHook):
        name = "gpulab"

        def alloc_postprocess(self, *, device_id: int, mem_size: int, mem_ptr: int) -> None:
            if mem_ptr:
                teller.grow(now_ns(), mem_ptr, mem_size)

        def malloc_postprocess(
            self, *, device_id: int, size: int, mem_size: int, mem_ptr: int, pmem_id: int
        ) -> None:
            if mem_ptr:
                teller.allocate(now_ns(), mem_ptr, size, mem_size, "")

        def free_postprocess(self, *, device_id: int, mem_size: int, mem_ptr: int, pmem_id: int) -> None:
            teller.free(now_ns(), mem_ptr)

    with Watch():
        yield
