"""gpulab/telemetry/nvml.py: one reading of a real or a simulated device, each field optional."""

import sys
from types import SimpleNamespace

import pytest

from gpulab.telemetry.nvml import FIELDS, read
from gpulab.units import SECOND
from tests.devices import WAIT, sim


class NVMLError(Exception):
    """As in pynvml."""


def fail(text):
    def call(*_):
        raise NVMLError(text)

    return call


def nvml(without=(), **replaced):
    """A pynvml with one device; ``replaced`` functions behave otherwise, ``without`` are missing."""
    working = {
        "NVMLError": NVMLError,
        "nvmlMemory_v2": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "shut": [],
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: "NVIDIA L4",
        "nvmlDeviceGetMemoryInfo": lambda handle, version=1: SimpleNamespace(total=100, used=40, reserved=3),
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=55, memory=20),
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [1, 2],
        "nvmlDeviceGetMigMode": lambda handle: [0, 0],
        "nvmlDeviceGetTemperature": lambda handle, sensor: 40,
        "nvmlDeviceGetPowerUsage": lambda handle: 30_000,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 72_000,
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1_000 * kind,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 4,
    }
    module = SimpleNamespace(
        **{key: value for key, value in {**working, **replaced}.items() if key not in without}
    )
    module.nvmlShutdown = lambda: module.shut.append(1)
    return module


def real(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return read(0)


def test_every_field_is_read_and_the_library_is_shut_again(monkeypatch):
    module = nvml()
    reading = real(monkeypatch, module)
    assert reading.badge == "measured: NVIDIA L4, through NVML"
    assert reading.values == {
        "name": "NVIDIA L4",
        "memory_total_bytes": 100,
        "memory_reserved_bytes": 3,
        "memory_used_bytes": 40,
        "utilization_gpu_percent": 55,
        "utilization_memory_percent": 20,
        "sm_active_permille": None,
        "processes": 2,
        "mig": 0,
        "temperature_celsius": 40,
        "power_milliwatts": 30_000,
        "power_limit_milliwatts": 72_000,
        "sm_clock_mhz": 1_000,
        "memory_clock_mhz": 2_000,
        "clocks_event_reasons": 4,
    }
    assert reading.missing == {"sm_active_permille": "NVML does not count it; DCGM does"}
    assert len(module.shut) == 1


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilization_gpu_percent"),  # MIG
        ("nvmlDeviceGetPowerUsage", "power_milliwatts"),  # WSL
        ("nvmlDeviceGetMigMode", "mig"),  # T4
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetTemperature", "temperature_celsius"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
    ],
)
def test_a_field_that_is_not_supported_is_none_with_its_reason_and_the_rest_is_read(
    monkeypatch, function, field
):
    reading = real(monkeypatch, nvml(**{function: fail("Not Supported")}))
    assert (reading.values[field], reading.missing[field]) == (None, "Not Supported")
    assert reading.values["memory_total_bytes"] == 100


def test_a_function_that_this_wheel_lacks_is_a_missing_field(monkeypatch):
    reading = real(monkeypatch, nvml(without=["nvmlDeviceGetEnforcedPowerLimit"]))
    assert reading.values["power_limit_milliwatts"] is None
    assert "nvmlDeviceGetEnforcedPowerLimit" in reading.missing["power_limit_milliwatts"]


def test_older_drivers_and_wheels_are_asked_the_older_way(monkeypatch):
    reading = real(
        monkeypatch,
        nvml(
            without=["nvmlDeviceGetCurrentClocksEventReasons", "nvmlMemory_v2"],
            nvmlDeviceGetName=lambda handle: b"NVIDIA L4",
            nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=100, used=40),
            nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 8,
            nvmlDeviceGetComputeRunningProcesses=fail("library mismatch"),
            nvmlDeviceGetComputeRunningProcesses_v2=lambda handle: [1],
        ),
    )
    values = reading.values
    assert (values["name"], values["processes"], values["clocks_event_reasons"]) == ("NVIDIA L4", 1, 8)
    assert (values["memory_used_bytes"], values["memory_reserved_bytes"]) == (40, None)
    assert reading.missing["memory_reserved_bytes"] == "the driver does not say"


def test_more_memory_used_than_there_is_is_not_passed_on(monkeypatch):
    lying = nvml(nvmlDeviceGetMemoryInfo=lambda handle, version=1: SimpleNamespace(total=100, used=17_000))
    reading = real(monkeypatch, lying)
    assert reading.values["memory_used_bytes"] is None
    assert reading.missing["memory_used_bytes"].startswith("NVML says 17,000 of 100 bytes")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "the package nvidia-ml-py is not installed"),
        (nvml(nvmlInit=fail("no permission")), "no NVIDIA driver answers (no permission)"),
        (
            nvml(nvmlDeviceGetHandleByIndex=fail("GPU is lost")),
            "device 0 does not answer (GPU is lost)",
        ),
    ],
)
def test_where_nothing_can_be_read_every_field_has_the_reason(monkeypatch, module, reason):
    reading = real(monkeypatch, module)
    assert reading.values == dict.fromkeys(FIELDS)
    assert reading.missing == dict.fromkeys(FIELDS, reason)
    assert reading.badge == f"nothing read: {reason}"


def test_the_simulated_device_gives_the_same_fields_labelled_so():
    device = sim("t4")
    device.empty(1 << 20, "uint8")
    device.stream().launch(WAIT, [], grid=1, ns=2 * SECOND)
    device.wait_until(device.now_ns() + SECOND)
    reading = read(device)
    assert tuple(reading.values) == FIELDS
    assert reading.badge == "simulated: NVIDIA T4, published constants"
    assert {name: value for name, value in reading.values.items() if value is not None} == {
        "name": "NVIDIA T4",
        "memory_total_bytes": 15_360 << 20,
        "memory_reserved_bytes": 448 << 20,
        "memory_used_bytes": 1 << 20,
        "utilization_gpu_percent": 100,
        "utilization_memory_percent": 0,
        "sm_active_permille": 25,
        "mig": 0,
    }
    assert set(reading.missing.values()) == {"not simulated"}


def test_a_simulated_device_to_which_no_time_has_passed_reads_nothing_rather_than_zero():
    assert read(sim()).missing["utilization_gpu_percent"] == "no time has passed"
