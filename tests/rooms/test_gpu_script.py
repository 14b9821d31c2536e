"""The script for a real GPU, as far as it runs without one: its parts over a stand-in for CuPy, its report."""

import json
import sys
from types import SimpleNamespace

import pytest

from tests.gpu import cases, parts, pool_trace, run
from tests.gpu.fake_cupy import FakeCupy


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """Makes a ``Gpu`` over a stand-in with these flaws; nothing sleeps, large cases are left out."""
    monkeypatch.setattr(parts.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(parts.cases, "large_cases", lambda: [])
    return lambda *flaws: parts.Gpu(FakeCupy(frozenset(flaws)), tmp_path, lambda words: None)


def broken(rows) -> list[str]:
    return [row.what for row in rows if row.held is False]


# -- parts -----------------------------------------------------------------------------------------


def test_every_kernel_is_compared_and_a_wrong_value_is_seen(gpu):
    wanted = [label for label, *_ in cases.small_cases()]

    assert [row.what for row in parts.kernels(gpu()) if row.held] == wanted
    assert broken(parts.kernels(gpu("kernel"))) == [name for name in wanted if name.startswith("saxpy")]


def test_the_large_cases_fill_a_device_and_have_an_odd_end():
    large = list(cases.large_cases())

    assert {kernel.name for _, kernel, _, _ in large} >= {
        "copy",
        "gather",
        "softmax",
        "matmul",
        "paged_attention",
    }
    assert all(kernel.blocks(**shape) > 132 for _, kernel, _, shape in large)


def test_the_pool_of_gpulab_is_cupys_rule_over_random_operations(gpu, monkeypatch, scale):
    monkeypatch.setattr(parts, "OPERATIONS", scale(1_000))
    rows = list(parts.pool(gpu()))

    assert [(row.got, row.held) for row in rows] == [("no difference", True)] * 3


@pytest.mark.parametrize("flaw", ["no joining", "first fit", "before 7679"])
def test_a_pool_of_another_rule_is_told_by_its_first_operation(flaw):
    trace = pool_trace.random_trace(2_000)
    ours = pool_trace.play(pool_trace.Ours(pool_trace.LIMIT), trace)
    theirs = pool_trace.play(pool_trace.Theirs(FakeCupy(frozenset([flaw])), pool_trace.LIMIT), trace)

    assert pool_trace.first_difference(trace, ours, theirs).startswith("operation ")


def test_the_random_trace_reuses_cuts_joins_grows_and_is_refused():
    trace = pool_trace.random_trace(10_000)
    states = pool_trace.play(pool_trace.Ours(pool_trace.LIMIT), trace)

    kinds = [kind for kind, _, _ in trace]
    assert min(kinds.count(kind) for kind in ("malloc", "free", "free all")) >= 5
    assert (
        sum(kind == "malloc" and state.offset is None for kind, state in zip(kinds, states, strict=True))
        > 100
    )
    assert max(state.free_blocks for state in states) > 50
    assert pool_trace.random_trace(10_000) == trace


def test_the_documented_numbers_of_cupys_pool_are_asked_of_it(gpu):
    assert [row.held for row in parts.f2(gpu())] == [True] * 4
    assert broken(parts.f2(gpu("before 7679"))) == [
        "limit 1 GiB, 512 MiB freed, 768 MiB asked: total",
        "httomo on 8 GiB without c: the last 4 GiB (addresses only)",
    ]


class FakeNvml(SimpleNamespace):
    """NVML as a device without GPM has it, or whatever ``changes`` say."""

    def __init__(self, **changes: object) -> None:
        def refuse(*given: object) -> None:
            raise RuntimeError("not supported")

        values = {
            "NVMLError": RuntimeError,
            "nvmlInit": lambda: None,
            "nvmlDeviceGetHandleByPciBusId": lambda bus: bus,
            "nvmlDeviceGetUtilizationRates": refuse,
            "nvmlGpmSampleAlloc": refuse,
        }
        super().__init__(**{**values, **changes})


def test_the_ratio_of_launches_is_taken_on_the_device_behind_a_spin(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    rows = {row.what: row for row in parts.f10(gpu())}

    assert rows["interval of launches one by one, on the device"].got == "2,500 ns"
    assert rows["interval of launches in a graph, on the device"].got == "1,300 ns"
    assert (rows["one by one / in a graph"].got, rows["one by one / in a graph"].held) == ("1.92", True)
    assert broken(parts.f10(gpu("graph"))) == ["one by one / in a graph"]


def test_counters_that_a_board_does_not_have_are_neither_held_nor_broken(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    rows = [row for row in parts.f10(gpu()) if "spins" in row.what]

    assert [(row.got, row.held) for row in rows] == [("not available", None)] * 6


def test_a_spinner_that_one_multiprocessor_carries_reads_100_percent(gpu, monkeypatch):
    readings = iter([0, 100, 100])
    active = iter([0.0, 0.8, 70.0])
    metrics = lambda: SimpleNamespace(metrics=[SimpleNamespace(metricId=None, value=None)])

    def measure(asked) -> None:
        asked.metrics[0].value = next(active)

    nvml = FakeNvml(
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=next(readings)),
        nvmlGpmSampleAlloc=object,
        nvmlGpmSampleGet=lambda handle, sample: None,
        c_nvmlGpmMetricsGet_t=metrics,
        nvmlGpmMetricsGet=measure,
        NVML_GPM_METRICS_GET_VERSION=1,
        NVML_GPM_METRIC_SM_UTIL=2,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    rows = [row for row in parts.f10(gpu()) if "spins" in row.what]

    assert [row.held for row in rows] == [True] * 6
    assert rows[3].expected == "0.76 %, +-50 %"


def test_first_fit_places_cupys_own_arrays(gpu):
    assert [row.held for row in parts.placing(gpu())] == [True] * 4


# -- the script ------------------------------------------------------------------------------------


@pytest.fixture
def cupy_that(tmp_path, monkeypatch):
    """Lets ``import cupy`` in the processes of the parts run these lines."""

    def write(lines: str) -> None:
        (tmp_path / "modules").mkdir()
        (tmp_path / "modules" / "cupy.py").write_text(lines, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))

    return write


def report(folder) -> dict:
    parts_of = json.loads((folder / "report.json").read_text(encoding="utf-8"))["parts"]
    return {part["part"]: (part["verdict"], part["error"].strip().splitlines()[-1:]) for part in parts_of}


def test_without_a_device_the_report_says_why_and_the_other_parts_are_left_out(cupy_that, tmp_path):
    cupy_that("raise ImportError('libcuda is not here')")

    assert run.main([str(tmp_path / "out")]) == 2

    why = "CuPy cannot be imported: ImportError: libcuda is not here"
    assert report(tmp_path / "out") == {"machine": ("failed", [why])}
    assert why in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["report.json", "report.md"]


def test_a_part_that_dies_raises_or_hangs_stops_no_other(cupy_that, tmp_path, monkeypatch):
    cupy_that(
        "import os, sys, time\n"
        "if 'pool' in sys.argv: os._exit(7)\n"
        "if 'f2' in sys.argv: time.sleep(60)\n"
    )  # fmt: skip
    monkeypatch.setitem(run.PARTS, "f2", (parts.f2, 1))

    assert run.main([str(tmp_path), "--parts", "pool,f2,placing"]) == 1

    assert report(tmp_path) == {
        "pool": ("failed", ["its process died with status 7"]),
        "f2": ("too slow", ["not done after 1 s"]),
        "placing": ("failed", ["AttributeError: module 'cupy' has no attribute 'cuda'"]),
    }


def test_when_the_time_is_over_the_parts_left_are_not_reached(tmp_path):
    assert run.main([str(tmp_path), "--parts", "pool,f2", "--seconds", "1"]) == 1

    assert report(tmp_path) == {"pool": ("not reached", []), "f2": ("not reached", [])}


def test_rows_found_before_a_part_fails_are_kept(gpu, monkeypatch):
    def half(gpu):
        """Half a part."""
        yield parts.Row("first", "1", "1", True)
        raise RuntimeError("device lost")

    monkeypatch.setitem(run.PARTS, "f2", (half, 10))
    there = gpu()

    assert run.run_part("f2", there) == 1

    saved = json.loads((there.folder / "f2.json").read_text(encoding="utf-8"))
    assert [row["what"] for row in saved["rows"]] == ["first"]
    assert saved["error"].endswith("RuntimeError: device lost\n")
    assert run.verdict_of(saved["rows"], saved["error"]) == "failed"


def test_a_part_is_held_only_if_it_found_something_and_nothing_is_wrong():
    held, noted, wrong = ({"held": value} for value in (True, None, False))

    assert run.verdict_of([held, noted], "") == "held"
    assert run.verdict_of([held, wrong], "") == "not held"
    assert run.verdict_of([], "") == "failed"


def test_the_report_for_people_has_a_line_for_each_part_and_row():
    row = {"what": "a|b", "expected": "1\n2", "got": "3", "held": False}
    part = {
        "part": "f2",
        "verdict": "not held",
        "seconds": 1.5,
        "question": "F2?",
        "rows": [row],
        "error": "",
    }

    text = run.as_text({"report": "title", "date": "today", "parts": [part]})

    assert "| f2 | not held | 1 | 1.5 |" in text
    assert "| a\\|b | 1 2 | 3 | **no** |" in text


def test_a_part_that_does_not_exist_is_refused_with_those_that_do(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        run.main([str(tmp_path), "--parts", "f2,f3"])

    assert stopped.value.code == 2
    assert "there is no part f3; the parts are machine, kernels, pool" in capsys.readouterr().err


def test_all_parts_together_are_stopped_before_five_minutes():
    assert run.TOTAL_S < 300
