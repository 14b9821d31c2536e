"""gpulab/cli/doctor.py, telemetry/nvml.py, device/cuda.py: what is said about a machine, and why."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.cli.doctor import diagnose
from gpulab.device.cuda import CudaPath, try_cuda
from gpulab.telemetry.nvml import Driver, find_driver
from tests.fakecupy import CUDARuntimeError, FakeCupy

NO_DRIVER = Driver(None, None, (), "no NVIDIA driver answers (Library Not Found)")
DRIVER = Driver("570.1", (12, 8), (("NVIDIA L4", 24 * 2**30),), "")
NO_CUPY = CudaPath(False, "CuPy is not installed", None, None)
WORKS = CudaPath(True, "a small kernel was compiled, run and checked", "14.2.0", "NVIDIA L4")


def run(monkeypatch, driver, cuda, *arguments):
    """The result of ``gpulab doctor`` on a machine with this driver and this CUDA path."""
    monkeypatch.setattr("gpulab.cli.doctor.find_driver", lambda: driver)
    monkeypatch.setattr("gpulab.cli.doctor.try_cuda", lambda: cuda)
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_it_says_five_lines(monkeypatch):
    lines = run(monkeypatch, NO_DRIVER, NO_CUPY).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["python", "arrays", "driver", "device", "path"]
    assert lines[4].startswith("path    sim")
    assert "Library Not Found" in lines[4]


def test_a_working_device_is_named_with_its_memory_and_taken():
    found = diagnose(DRIVER, WORKS)
    assert found["driver"] == "NVIDIA 570.1, runs CUDA up to 12.8"
    assert found["device"] == "NVIDIA L4, 24 GiB"
    assert found["path"] == "cuda: a small kernel was compiled, run and checked"


def test_a_driver_without_cupy_is_not_blamed():
    found = diagnose(DRIVER, NO_CUPY)
    assert found["path"] == "sim (the simulated device): CuPy is not installed"


def test_require_cuda_fails_with_the_reason(monkeypatch):
    result = run(monkeypatch, DRIVER, NO_CUPY, "--require", "cuda")
    assert result.exit_code == 1
    assert result.stderr == "cuda is required and cannot be used here: CuPy is not installed.\n"


@pytest.mark.parametrize("require", ["cuda", "sim"])
def test_require_passes_when_it_can_be_had(monkeypatch, require):
    assert run(monkeypatch, DRIVER, WORKS, "--require", require).exit_code == 0


def test_json_holds_the_same_and_whether_cuda_works(monkeypatch):
    result = run(monkeypatch, DRIVER, WORKS, "--json")
    assert json.loads(result.stdout) == diagnose(DRIVER, WORKS)


class NVMLError(Exception):
    """As in pynvml."""


def fail(text):
    def call(*_):
        raise NVMLError(text)

    return call


def nvml(**replaced):
    """A pynvml with one device; ``replaced`` functions behave otherwise."""
    working = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: "NVIDIA L4",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=24 * 2**30),
    }
    return SimpleNamespace(**{**working, **replaced})


def test_the_driver_is_read_from_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert find_driver() == DRIVER


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "the package nvidia-ml-py is not installed"),
        (nvml(nvmlInit=fail("no library")), "no NVIDIA driver answers (no library)"),
        (nvml(nvmlDeviceGetCount=fail("lost")), "the NVIDIA driver could not be read (lost)"),
    ],
)
def test_each_way_to_have_no_driver_has_its_reason(monkeypatch, module, reason):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert find_driver() == Driver(None, None, (), reason)


def wrong_kernel(array):
    """Adds nothing."""


def broken_compiler(array):
    raise RuntimeError("libnvrtc.so is missing")


def cupy(count=1, kernel=None, **more):
    """A CuPy that counts ``count`` devices and whose kernel does what ``kernel`` does."""
    return FakeCupy({"add_one": kernel} if kernel else None, count=count, **more)


def too_old():
    raise CUDARuntimeError("driver version is insufficient")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (cupy(count=too_old), "the CUDA runtime finds no usable driver (driver version is insufficient)"),
        (cupy(count=0), "the driver shows no device"),
        (
            cupy(kernel=broken_compiler),
            "a device is there, but a small kernel fails (RuntimeError: libnvrtc.so is missing)",
        ),
        (cupy(kernel=wrong_kernel), "a small kernel gives 496 instead of 528"),
    ],
)
def test_each_way_to_have_no_cuda_has_its_reason(monkeypatch, module, reason):
    monkeypatch.setitem(sys.modules, "cupy", module)
    found = try_cuda()
    assert (found.usable, found.reason, found.cupy) == (False, reason, "14.2.0")


def test_a_kernel_that_runs_makes_cuda_usable(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy())
    assert try_cuda() == replace(WORKS, device="NVIDIA H100 80GB HBM3")


def test_without_cupy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    found = try_cuda()
    assert not found.usable
    assert found.reason == 'CuPy is not installed; install gpulab with the extra "cuda12" or "cuda13"'
