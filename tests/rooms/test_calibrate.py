"""gpulab/device/calibrate.py and ``gpulab calibrate``: a device is measured into a spec that simulates it."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.device.calibrate import calibrate
from gpulab.device.device import open_device
from gpulab.device.spec import CONSTANTS, load, parse
from gpulab.report.audit import check
from tests.devices import sim
from tests.fakecupy import FakeCupy

EXACT = ("launch_ns", "graph_launch_ns", "alloc_ns", "alloc_ns_per_mib", "alloc_most_ns", "free_ns")
STAY = ("sms", "max_threads_per_sm", "hardware_queues", "memory_bytes", "pool_hit_ns")


@pytest.fixture(scope="module")
def found():
    """A simulated T4, measured: the spec, the device and what it said meanwhile."""
    device, steps = sim("t4"), []
    spec = calibrate(device, day="2026-11-30", driver="580.1", values=1 << 20, gemm=4096, tell=steps.append)
    return spec, device, steps


def test_calibrating_the_simulated_device_finds_its_constants_again(found):
    (spec, device, steps), wanted = found, load("t4")
    assert {name: getattr(spec, name) for name in EXACT} == {name: getattr(wanted, name) for name in EXACT}
    for name in CONSTANTS:
        assert getattr(spec, name) == pytest.approx(getattr(wanted, name), rel=2e-3), name
    assert steps == ["launches", "memory", "copies", "bandwidth", "matmul"]
    check(device.ledger)
    assert device.used_bytes == 0


def test_what_was_measured_says_when_and_with_which_driver_and_the_rest_stays(found):
    spec, before = found[0], load("t4")
    assert spec.badge == "simulated: NVIDIA T4, constants measured 2026-11-30, driver 580.1"
    assert spec.sources["launch_ns"] == "[M] gpulab calibrate on 2026-11-30, driver 580.1"
    assert {name: spec.sources[name] for name in STAY} == {name: before.sources[name] for name in STAY}


def test_what_is_measured_on_one_device_is_simulated_by_another(found, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(found[0].to_toml(), encoding="utf-8")
    assert sim(str(path)).badge == found[0].badge
    assert load(path) == found[0]


def test_a_real_device_is_asked_in_the_same_way(monkeypatch):
    functions = {
        "spin": lambda done, spin_ns: done.fill(1),
        "copy": lambda source, target, n: np.copyto(target, source),
        "gather": lambda table, index, target, n: np.copyto(target[:n], table[index]),
    }
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(functions, most=128 << 20))
    device = open_device("cuda")
    spec = calibrate(device, day="2026-11-30", driver="580.1", values=1 << 20, gemm=16)
    measured = {name for name in CONSTANTS if spec.sources[name].startswith("[M] gpulab calibrate")}
    assert {*EXACT, "pinned_in_bytes_per_s", "copy_efficiency_permille", "tensor_flops_per_s"} <= measured
    assert parse(spec.to_toml(), "real") == spec
    check(device.ledger)


def run(*arguments):
    return CliRunner().invoke(app, ["calibrate", *arguments])


def test_without_a_device_nothing_is_written_and_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(count=0))
    result = run("--out", str(tmp_path / "x.toml"))
    assert result.exit_code == 1
    assert "the driver shows no device" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("mine")
    result = run("--out", str(path))
    assert (result.exit_code, path.read_text()) == (1, "mine")
    assert "--force" in result.stderr


def test_the_command_writes_a_spec_and_says_what_changed(found, tmp_path, monkeypatch):
    before, path = load("t4"), tmp_path / "x.toml"
    monkeypatch.setattr(
        "gpulab.cli.calibrate.measured", lambda index, tell: (tell("all") or found[0], before)
    )
    result = run("--out", str(path), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["was_and_is"]["launch_ns"] == [2100, 2100]
    assert load(path) == found[0]
    result = run("--out", str(path), "--force")
    assert "measuring all" in result.stderr
    assert "launch_ns" in result.stdout
    assert f'open_device("sim", spec="{path}")' in result.stdout.replace("\n", "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.toml"]
