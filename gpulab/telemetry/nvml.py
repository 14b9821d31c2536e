"""What NVIDIA's management library says about this machine. The only file that imports ``pynvml``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver as NVML reports it.

    ``version`` is None where there is none, and ``reason`` then says why. ``cuda`` is the newest CUDA
    version the driver runs, e.g. ``(12, 8)``. ``devices`` holds a name and the memory in bytes of each GPU.
    """

    version: str | None
    cuda: tuple[int, int] | None
    devices: tuple[tuple[str, int], ...]
    reason: str


def find_driver() -> Driver:
    """The driver of this machine, or a ``Driver`` without version that says why there is none.

    Never raises for what NVML can answer: no library, no permission, a driver that does not match its
    kernel module. Source: NVML API reference, ``nvmlInit_v2`` and ``nvmlSystemGetCudaDriverVersion``
    (an integer, 1000 x major + 10 x minor).
    """
    try:
        import pynvml
    except ImportError:
        return Driver(None, None, (), "the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Driver(None, None, (), f"no NVIDIA driver answers ({error})")
    try:
        number = pynvml.nvmlSystemGetCudaDriverVersion()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        devices = tuple(
            (pynvml.nvmlDeviceGetName(h), pynvml.nvmlDeviceGetMemoryInfo(h).total) for h in handles
        )
        return Driver(pynvml.nvmlSystemGetDriverVersion(), (number // 1000, number % 1000 // 10), devices, "")
    except pynvml.NVMLError as error:
        return Driver(None, None, (), f"the NVIDIA driver could not be read ({error})")
    finally:
        pynvml.nvmlShutdown()
