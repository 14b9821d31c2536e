"""Runs of real servers: what is read of them, what is refused, and that an engine compared with itself is not off."""

import gzip
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.cli.fidelities import cost_for, served
from gpulab.cli.measured import Measured, read_run
from gpulab.errors import SpecFault, TraceFault
from gpulab.report.metrics import Distribution, summarize
from gpulab.serving import cost
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.request import Request, Trace

BOARD = cost.load("llama3.1-8b-rtx4090")
ROWS = (
    {"input_toks": 30, "output_toks": 5, "queued_ts": 100.5, "first_token_ts": 101.5, "last_token_ts": 103.5},
    {
        "input_toks": 20,
        "output_toks": 1,
        "queued_ts": 100.0,
        "first_token_ts": 100.25,
        "last_token_ts": 100.25,
    },
)
META = {
    "model": "meta-llama/Llama-3.1-8B",
    "engine_kwargs": {"max_num_seqs": 7, "max_num_batched_tokens": 512, "tensor_parallel_size": 2},
    "kv_cache": {"num_gpu_blocks": 99},
}
SECOND = 1_000_000_000


def command(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["fidelity", *map(str, words)])


def lines(folder, *rows, name="a_requests.jsonl"):
    path = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_json_lines_are_read_in_order_of_arrival_with_what_the_server_was_started_with(tmp_path):
    path = lines(tmp_path, *ROWS, name="vllm_board_requests.jsonl.gz")
    (tmp_path / "vllm_board_meta.json.gz").write_bytes(gzip.compress(json.dumps(META).encode()))
    run = read_run(path)
    assert list(run.trace) == [Request(0, 0, 20, 1), Request(1, SECOND // 2, 30, 5)]
    assert run.ttft == Distribution.of([SECOND // 4, SECOND])
    assert run.tpot == Distribution.of([SECOND // 2])  # of one token there is none
    assert run.latency == Distribution.of([SECOND // 4, 3 * SECOND])
    assert (run.makespan_ns, run.model) == (3_500_000_000, "Llama-3.1-8B")
    assert (run.max_jobs, run.token_budget, run.kv_blocks, run.gpus) == (7, 512, 99, 2)
    alone = read_run(lines(tmp_path, *ROWS))
    assert (alone.model, alone.max_jobs, alone.token_budget, alone.kv_blocks) == ("", 256, 2_048, 0)
    assert alone.blocks_for_all(16) == 256 * 3


def result(**changes):
    """What vLLM's benchmark writes with --save-detailed, as far as it is read."""
    whole = {
        "model_id": "Qwen/Qwen3-8B",
        "input_lens": [20, 9, 30],
        "output_lens": [1, 0, 5],
        "start_times": [100.0, 100.1, 100.5],
        "ttfts": [0.25, 0.0, 1.0],
        "itls": [[], [], [0.5, 0.5, 0.5, 0.5]],
        "errors": ["", "refused", ""],
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def test_vllms_own_benchmark_result_is_the_same_run_without_its_failed_requests(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result()), encoding="utf-8")
    run, same = read_run(path), read_run(lines(tmp_path, *ROWS))
    assert list(run.trace) == list(same.trace)
    assert replace(run, name=same.name, trace=same.trace, model="") == same
    assert run.model == "Qwen3-8B"


BROKEN = {
    "no time": ({**ROWS[0], "queued_ts": None}, "request 2: queued_ts is None"),
    "no number": ({**ROWS[0], "input_toks": "30"}, "request 2: input_toks is '30'"),
    "infinite": ({**ROWS[0], "last_token_ts": float("inf")}, "request 2: last_token_ts is inf"),
    "backwards": ({**ROWS[0], "first_token_ts": 99.0}, "request 2: first_token_ts is 99.0"),
    "a list": ([1, 2], r"request 2: input_toks is \[1, 2\]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_row_that_is_not_whole_is_refused_by_its_place_and_field(name, tmp_path):
    row, words = BROKEN[name]
    with pytest.raises(TraceFault, match=words):
        read_run(lines(tmp_path, ROWS[1], row))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start_times": None}, "start_times is None"),
        ({"ttfts": [0.25]}, "lists of different lengths"),
        ({"ttfts": [0.25, 0, -1.0]}, "request 3: ttfts is -1.0"),
        ({"errors": ["x", "x", "x"]}, "no request that was answered"),
    ],
)
def test_a_benchmark_result_that_is_not_whole_is_refused(changes, words, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result(**changes)), encoding="utf-8")
    with pytest.raises(TraceFault, match=words):
        read_run(path)


def test_files_that_are_no_run_are_refused(tmp_path):
    cut = tmp_path / "cut_requests.jsonl.gz"
    cut.write_bytes(gzip.compress(bytes(range(256)))[:30])
    for path, words in ((tmp_path / "nowhere", "cannot be read"), (cut, "cannot be read")):
        with pytest.raises(TraceFault, match=words):
            read_run(path)
    (tmp_path / "text").write_text("not JSON\n", encoding="utf-8")
    with pytest.raises(TraceFault, match="request 1: row is 'not JSON'"):
        read_run(tmp_path / "text")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    with pytest.raises(TraceFault, match="no request that was answered"):
        read_run(tmp_path / "empty")


def run_of(board, count=40):
    """A run measured on the engine itself."""
    trace = Trace(Request(n, n * 30_000_000, 100 + 37 * n % 400, 20 + 11 * n % 90) for n in range(count))
    summary = summarize(Engine(board, Chunked(spare_permille=0), max_jobs=16, token_budget=512).run(trace))
    ends = max(row.arrived_ns + row.latency_ns for row in summary.requests)
    times = (summary.ttft, summary.tpot, summary.latency, ends)
    return Measured("itself", board.model, trace, *times, max_jobs=16, token_budget=512)


def test_an_engine_compared_with_itself_is_not_off_and_one_twice_as_slow_is_twice_as_late():
    board = replace(BOARD, kv_blocks=300)
    run = run_of(board)
    errors = {name: row["error"] for name, row in served(run, board)["rows"].items()}
    assert set(errors.values()) == {0.0} and len(errors) == 10
    slow = served(run, replace(board, weights_ps=2 * board.weights_ps, constant_ps=2 * board.constant_ps))
    assert slow["rows"]["tpot p50"]["error"] > 0.7


def test_what_the_run_says_of_its_blocks_counts_more_than_the_spec():
    board = replace(BOARD, kv_blocks=300)
    run = replace(run_of(board), kv_blocks=60)
    found = served(run, board)
    assert found["kv_blocks"] == 60
    assert found["rows"]["ttft p99"]["error"] > 0.5
    with pytest.raises(SpecFault, match="longer than all 20 KV blocks together"):
        served(replace(run, kv_blocks=20), board)


def test_tables_are_chosen_by_the_name_of_the_run_and_unknown_blocks_are_enough_for_all(tmp_path):
    from gpulab.datasets import path_of

    path = path_of("vllm-rtxpro6000-requests")
    run = read_run(path)
    fitted = cost_for(run, path.parent, "", ())
    assert "profile_rtxpro6000_llama31-8b_dense.csv.gz" in fitted.source
    assert "does not say how many KV blocks" in fitted.badge
    assert (fitted.kv_blocks, fitted.host_ns) == (run.blocks_for_all(16), 0)
    assert "GPUs" not in fitted.badge
    split = cost_for(replace(run, gpus=2, kv_blocks=9_000), path.parent, "", ())
    assert (
        split.badge.endswith("; what 2 GPUs say to each other is not in the tables")
        and split.kv_blocks == 9_000
    )
    spec = cost.load("llama3.1-8b-rtxpro6000")
    assert (fitted.token_ps, fitted.weights_ps) == pytest.approx((spec.token_ps, spec.weights_ps), rel=1e-3)


def test_the_command_takes_a_run_and_a_spec_and_says_what_lacks(tmp_path):
    path = lines(tmp_path, *ROWS)
    done = command(path, "--model", "llama3.1-8b-rtx4090", "--kv-blocks", 50, "--host-gap-ms", 2, "--json")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["runs"]
    assert (found["kv_blocks"], found["host_ns"], found["gpu"]) == (50, 2_000_000, "RTX 4090")
    assert found["rows"]["makespan"]["measured_ns"] == 3_500_000_000
    shown = command(path, "--model", "llama3.1-8b-rtx4090")
    assert "2,588 KV blocks, host gap 0 ms" in shown.stdout and "latency p99" in shown.stdout
    for words, complaint in (
        ((), "Name a RUN, or say --all"),
        ((path,), "Say what to serve the run with"),
        ((path, "--model", "h900"), "There is no h900"),
        ((path, "--model", "llama3.1-8b-rtx4090", "--kv-blocks", 2), "longer than all 2 KV blocks"),
        ((path, "--profile", tmp_path / "none", "--model", "Llama-3-8B"), "There is no folder"),
        ((path, "--profile", tmp_path), "There is no model ''"),
    ):
        wrong = command(*words)
        assert wrong.exit_code == 1 and complaint in wrong.stderr
