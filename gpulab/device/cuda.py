"""The real device. The only file that imports ``cupy``; so far it only finds out what would work."""

from dataclasses import dataclass

_KERNEL = 'extern "C" __global__ void add_one(int* x) { x[threadIdx.x] += 1; }'


@dataclass(frozen=True, slots=True)
class CudaPath:
    """Whether kernels run on a real GPU here. ``reason`` is a sentence; ``cupy`` a version or None."""

    usable: bool
    reason: str
    cupy: str | None
    device: str | None


def try_cuda() -> CudaPath:
    """What the first kernel on a real GPU would meet: it compiles and runs one, on the first device.

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
        return CudaPath(False, f"the CUDA runtime finds no usable driver ({error})", cupy.__version__, None)
    if count == 0:
        return CudaPath(False, "the driver shows no device", cupy.__version__, None)
    try:
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        numbers = cupy.arange(32, dtype=cupy.int32)
        cupy.RawKernel(_KERNEL, "add_one")((1,), (32,), (numbers,))
        total = int(numbers.sum())
    except Exception as error:  # CuPy, NVRTC and the driver each have their own; all mean "not here"
        why = f"a device is there, but a small kernel fails ({type(error).__name__}: {error})"
        return CudaPath(False, why, cupy.__version__, None)
    if total != sum(range(1, 33)):
        return CudaPath(False, f"a small kernel gives {total} instead of 528", cupy.__version__, name)
    return CudaPath(True, "a small kernel was compiled, run and checked", cupy.__version__, name)


class CudaDevice: pass
