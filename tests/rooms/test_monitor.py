"""``gpulab monitor``: a device followed in the terminal, real or simulated, and labelled so."""

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.cli.demo_load import DemoLoad
from gpulab.cli.monitor import line, shown, table
from gpulab.report.audit import check
from gpulab.telemetry.nvml import FIELDS, Reading, read
from tests.devices import sim

REASON = "no NVIDIA driver answers (Library Not Found)"
NOTHING = Reading("nothing read", dict.fromkeys(FIELDS), dict.fromkeys(FIELDS, REASON))
REAL = Reading(
    "measured: NVIDIA L4, through NVML",
    {
        **dict.fromkeys(FIELDS),
        "name": "NVIDIA L4",
        "utilization_gpu_percent": 41,
        "memory_used_bytes": 3 << 30,
    },
    {
        name: "Not Supported"
        for name in FIELDS
        if name not in ("name", "utilization_gpu_percent", "memory_used_bytes")
    },
)


def run(monkeypatch, reading, *arguments):
    """``gpulab monitor`` for one look, on a machine whose NVML gives ``reading``."""
    monkeypatch.setattr(
        "gpulab.cli.monitor.read",
        lambda device, *more: reading if isinstance(device, int) else read(device, *more),
    )
    return CliRunner().invoke(app, ["monitor", "--seconds", "0", *arguments])


def test_without_a_device_a_demo_load_is_shown_and_labelled(monkeypatch):
    result = run(monkeypatch, NOTHING)
    assert result.exit_code == 0
    assert result.stdout.startswith("[simulated: NVIDIA H100 80GB HBM3, published constants] ")
    assert f"(no real device: {REASON}; demo load: idle)" in result.stdout


def test_a_real_device_is_followed_where_there_is_one(monkeypatch):
    assert run(monkeypatch, REAL).stdout == (
        "[measured: NVIDIA L4, through NVML] memory_used_bytes 3 GiB, utilization_gpu_percent 41 %, "
        "utilization_memory_percent not available, sm_active_permille not available\n"
    )


def test_a_real_device_that_was_asked_for_and_is_not_there_is_an_error(monkeypatch):
    result = run(monkeypatch, NOTHING, "--device", "cuda")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"There is no real device 0 to follow: {REASON}.")


def test_json_has_every_field_and_why_some_are_missing(monkeypatch):
    result = run(monkeypatch, NOTHING, "--device", "sim", "--spec", "t4", "--json")
    row = json.loads(result.stdout)
    assert row.keys() == {"badge", "doing", "missing", *FIELDS}
    assert (row["name"], row["power_milliwatts"]) == ("NVIDIA T4", None)
    assert row["missing"]["power_milliwatts"] == "not simulated"


def test_an_unknown_board_is_an_error_with_the_names(monkeypatch):
    result = run(monkeypatch, NOTHING, "--device", "sim", "--spec", "b200")
    assert result.exit_code == 1
    assert "h100-80" in result.stderr


def test_it_looks_again_until_the_time_is_over(monkeypatch):
    result = CliRunner().invoke(
        app,
        ["monitor", "--device", "sim", "--spec", "t4", "--seconds", "0.25", "--interval", "0.05", "--json"],
    )
    doing = [json.loads(row)["doing"] for row in result.stdout.splitlines()]
    assert len(doing) > 2
    assert doing[:2] == ["demo load: idle", "demo load: one block spins"]


def test_the_demo_load_shows_that_one_block_reads_100_percent_too():
    load = DemoLoad(sim("t4"))
    seen = {}
    for _ in range(4):
        words = load.go_on(10**9)
        values = read(load.device, 10**9).values
        seen[words] = (values["utilization_gpu_percent"], values["sm_active_permille"])
    check(load.device.ledger)
    assert seen == {
        "idle": (0, 0),
        "one block spins": (99, 24),
        "a grid on every multiprocessor": (99, 999),
        "copies": (0, 0),
    }


def test_the_table_says_what_is_missing_and_why():
    out = io.StringIO()
    Console(file=out, width=120).print(table(REAL, "busy"))
    text = out.getvalue()
    assert "not available: Not Supported" in text
    assert "measured: NVIDIA L4" in text
    assert "any kernel ran" in text


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("memory_used_bytes", 3 << 30, "3 GiB"),
        ("utilization_gpu_percent", 99, "99 %"),
        ("sm_active_permille", 7, "7 ‰"),
        ("temperature_celsius", 40, "40 °C"),
        ("power_milliwatts", 5, "5 mW"),
        ("sm_clock_mhz", 1980, "1980 MHz"),
        ("processes", 2, "2"),
        ("processes", None, "not available"),
    ],
)
def test_values_have_their_units(name, value, words):
    assert shown(name, value) == words


def test_one_line_has_the_badge_and_what_is_being_done():
    assert line(REAL, "demo").endswith("(demo)")
