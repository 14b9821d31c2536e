"""What NVIDIA's management library says about this machine. The only file that imports ``pynvml``.

The same reading is had of a simulated device, from its facts. What cannot be had is None with a reason,
never 0.
"""

from dataclasses import dataclass
from typing import Protocol

from gpulab.telemetry.counters import LONG_WINDOW_NS, sample
from gpulab.telemetry.ledger import Ledger


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


FIELDS = (
    "name",
    "memory_total_bytes",
    "memory_reserved_bytes",
    "memory_used_bytes",
    "utilization_gpu_percent",
    "utilization_memory_percent",
    "sm_active_permille",
    "processes",
    "mig",
    "temperature_celsius",
    "power_milliwatts",
    "power_limit_milliwatts",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "clocks_event_reasons",
)


class Device(Protocol):
    """What is read of an open device; ``gpulab.device.device`` has the class. ``index`` is a real one's."""

    path: str
    badge: str
    ledger: Ledger
    spec: object
    used_bytes: int

    def now_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a device. ``values`` has every name of ``FIELDS``; None where ``missing`` says why not.

    ``badge`` says what was read: a measured device, or the simulated one.
    """

    badge: str
    values: dict[str, int | str | None]
    missing: dict[str, str]


def read(device: int | Device, window_ns: int = LONG_WINDOW_NS) -> Reading:
    """The counters of ``device`` now: of the real one of that index, or of an open device, real or simulated.

    Reading a real device makes no CUDA context on it and takes no memory there. Each field is optional: MIG
    knows no utilisation, containers hide processes, WSL and old drivers know less. Never raises for that.
    ``window_ns`` is the simulated device's sample window; a real one has its own.
    """
    if isinstance(device, int):
        return _read_real(device)
    return _read_real(device.index) if device.path == "cuda" else _read_simulated(device, window_ns)


def _read_simulated(device: Device, window_ns: int) -> Reading:
    seen = sample(device.ledger, device.now_ns(), window_ns)
    known = {
        "name": device.spec.name,
        "memory_total_bytes": device.spec.memory_bytes,
        "memory_reserved_bytes": device.spec.reserved_bytes,
        "memory_used_bytes": device.used_bytes,
        "utilization_gpu_percent": seen.utilization_gpu_percent,
        "utilization_memory_percent": seen.utilization_memory_percent,
        "sm_active_permille": seen.sm_active_permille,
        "mig": 0,
    }
    values = {name: known.get(name) for name in FIELDS}
    reasons = {name: "no time has passed" for name, value in known.items() if value is None}
    missing = {name: reasons.get(name, "not simulated") for name in FIELDS if values[name] is None}
    return Reading(device.badge, values, missing)


def _read_real(index: int) -> Reading:
    try:
        import pynvml
    except ImportError:
        return _nothing("the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _nothing(f"no NVIDIA driver answers ({error})")
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        pynvml.nvmlShutdown()
        return _nothing(f"device {index} does not answer ({error})")
    values: dict[str, int | str | None] = {}
    missing: dict[str, str] = {}
    try:
        for name, ask in _questions(pynvml, handle).items():
            try:
                values[name] = ask()
            # A field that this wheel does not know is as absent as one that the driver refuses.
            except (pynvml.NVMLError, AttributeError, TypeError, ValueError) as error:
                values[name], missing[name] = None, str(error) or type(error).__name__
            else:
                if values[name] is None:
                    missing[name] = "the driver does not say"
    finally:
        pynvml.nvmlShutdown()
    _doubt_memory(values, missing)
    ordered = {name: values[name] for name in FIELDS}
    return Reading(f"measured: {ordered['name'] or f'device {index}'}, through NVML", ordered, missing)


def _questions(nvml: object, handle: object) -> dict:
    """How each field is asked for. Source: NVML API reference; fall-backs for older drivers and wheels."""

    def memory(part: str):
        try:
            info = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
        except (nvml.NVMLError, AttributeError, TypeError):
            info = nvml.nvmlDeviceGetMemoryInfo(handle)  # version 1: no `reserved`, and `used` has it inside
        return getattr(info, part, None)

    def processes() -> int:
        try:
            return len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        except nvml.NVMLError:  # an older driver does not know the newest symbol
            return len(nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle))

    def reasons() -> int:
        newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        return (newer or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle)

    def name() -> str:
        found = nvml.nvmlDeviceGetName(handle)
        return found.decode() if isinstance(found, bytes) else found  # bytes up to nvidia-ml-py 11.510

    def no_counter() -> None:
        raise ValueError("NVML does not count it; DCGM does")

    return {
        "name": name,
        "memory_total_bytes": lambda: memory("total"),
        "memory_reserved_bytes": lambda: memory("reserved"),
        "memory_used_bytes": lambda: memory("used"),
        "utilization_gpu_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "utilization_memory_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory,
        "sm_active_permille": no_counter,
        "processes": processes,
        "mig": lambda: nvml.nvmlDeviceGetMigMode(handle)[0],
        "temperature_celsius": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_milliwatts": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
        "power_limit_milliwatts": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "clocks_event_reasons": reasons,
    }


def _doubt_memory(values: dict, missing: dict) -> None:
    """Do not pass on more used than there is: a library put before the driver's has said so (HAMi issue 1181)."""
    used, total = values["memory_used_bytes"], values["memory_total_bytes"]
    if used is not None and total is not None and used > total:
        values["memory_used_bytes"] = None
        missing["memory_used_bytes"] = f"NVML says {used:,} of {total:,} bytes: something stands in its place"


def _nothing(reason: str) -> Reading:
    return Reading(f"nothing read: {reason}", dict.fromkeys(FIELDS), dict.fromkeys(FIELDS, reason))
