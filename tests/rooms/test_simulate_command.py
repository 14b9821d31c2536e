"""`gpulab simulate`, `compare`, `capacity` and `swap`: what a practitioner types, and what comes back."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gpulab import cli
from gpulab.cli import app
from gpulab.cli.serving_options import cost_of, promises_of
from gpulab.errors import SpecFault
from gpulab.report.audit import check
from gpulab.report.metrics import Slo
from gpulab.serving.cost import load, names
from gpulab.serving.named import REFERENCES, ROUTERS
from gpulab.telemetry.events import Extrapolated
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND, parse_ns

BOARD = """
model = "plain"
gpu = "board"
constant_ps = 1_000_000_000
weights_ps = 0
token_ps = 1_000_000
cached_token_ps = 0
square_token_ps = 0
host_ns = 0
kv_blocks = 100
block_tokens = 4
kv_bytes_per_token = 1024
most_tokens = 10_000
most_cached_tokens = 10_000
source = "made up"
badge = "by head"
"""


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def result_of(*words):
    shown = run(*words, "--json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


@pytest.fixture
def board(tmp_path):
    """A step takes 1 ms and 1 us a token."""
    path = tmp_path / "board.toml"
    path.write_text(BOARD)
    return path


@pytest.fixture
def two_tenants(tmp_path):
    """Ten requests of each of two, 2 ms apart; the batch tenant's are ten times as long."""
    path = tmp_path / "two.csv"
    rows = [f"{4 * n},10,5,chat\n{4 * n + 2},100,5,batch\n" for n in range(10)]
    path.write_text("arrival_ms,prompt_tokens,output_tokens,tenant\n" + "".join(rows))
    return path


def test_a_run_by_head(tmp_path, board):
    path = tmp_path / "one.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,3\n1,10,3\n")
    found = result_of(
        "simulate", path, "--model", board, "--slo", "ttft=1.01ms,tpot=2ms", "--host-gap", "1ms"
    )
    # A step of ten tokens takes 1.01 ms, two of one 1.001; before each the host takes 1 ms.
    assert found["ttft_ns"] == {"p50": 2_010_000, "p90": 2_010_000, "p99": 2_010_000}
    assert found["tpot_ns"]["p50"] == 2_001_000 and found["latency_ns"]["p99"] == 6_012_000
    assert (found["requests"], found["outcomes"], found["attainment"]) == (2, {"finished": 2}, 0.0)
    assert found["window_ns"] == SECOND + 6_012_000
    assert found["waiting_ns"] == {
        "alone": 6_024_000,
        "slowed": 0,
        "behind": 0,
        "blocked": 0,
        "outside": 6_000_000,
    }
    assert sum(found["account"]["kv→extent"].values()) == 100 * found["window_ns"]
    assert found["fault"] is None and found["starved"] == [] and found["too_long"] is None
    kept = result_of("simulate", path, "--model", board, "--slo", "ttft=1.01ms,tpot=2ms")
    assert kept["attainment"] == 1.0 and kept["goodput_per_s"] == pytest.approx(2 / 1.003012)


def test_a_run_is_told_and_its_ledger_is_written(tmp_path, board, two_tenants):
    ledger = tmp_path / "facts.jsonl"
    words = (
        "simulate",
        two_tenants,
        "--model",
        board,
        "--replicas",
        2,
        "--slo",
        "chat:ttft=3ms",
        "--slo",
        "ttft=1s",
    )
    shown = run(*words, "--ledger", ledger)
    assert shown.exit_code == 0, shown.output
    for said in (
        "two.csv on 2 x plain (board, round-robin) under chunked: 20 requests",
        "20 finished",
        "TTFT",
        "chat: ",
        "batch: 10 of 10 kept their promise",
        "Jain's index",
        "Occupancy of kv 1",
        "Capacity, kv 0→extent: used",
        "Waiting: alone",
        "by head",
    ):
        assert said in shown.output
    facts = Ledger.from_jsonl(ledger)
    check(facts)
    found = result_of(*words)
    assert facts.digest() == found["digest"]
    assert found["tenants"]["batch"] == {"requests": 10, "kept": 10}


def test_a_report_of_the_run_is_written(tmp_path, board):
    trace, page = tmp_path / "one.csv", tmp_path / "page.html"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,3\n")
    shown = run("simulate", trace, "--model", board, "--report", page)
    assert shown.exit_code == 0, shown.output
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "Report of one.csv" in text and "kv→extent" in text


@pytest.mark.parametrize("words", [("--router", name, "--replicas", 3) for name in ROUTERS])
def test_each_router_can_be_named(two_tenants, board, words):
    assert result_of("simulate", two_tenants, "--model", board, *words)["outcomes"] == {"finished": 20}


def test_the_help_names_the_policies_and_routers_that_there_are():
    text = " ".join(run("simulate", "--help").output.replace("│", " ").split())
    for name in (*REFERENCES, *ROUTERS):
        assert name in text


def test_a_models_pair_is_found_by_its_names_and_what_is_not_clear_is_asked():
    assert cost_of("llama2-7b-a100", None) == cost_of("Llama-2-7B", "A100-80") == load("llama2-7b-a100")
    assert cost_of("llama2-7b", None) == load("llama2-7b-a100")
    with pytest.raises(SpecFault, match="several fit"):
        cost_of("Llama-3-8B", None)
    with pytest.raises(SpecFault, match="none fits") as wrong:
        cost_of("gpt-9", None)
    assert all(name in str(wrong.value) for name in names())


def test_a_promise_is_read_for_all_or_for_a_tenant():
    assert promises_of(["ttft=1s,tpot=50ms", "b:latency=10 s"], ["a", "b"]) == {
        "a": Slo(SECOND, 50 * MS),
        "b": Slo(latency_ns=10 * SECOND),
    }
    assert promises_of(["b:ttft=1ms"], ["a", "b"]) == {"a": Slo(), "b": Slo(ttft_ns=MS)}
    assert promises_of([], ["a"]) == {}
    for wrong in ("ttft", "ttft=5", "ttft=1s,ttft=2s", "speed=1s", "c:ttft=1s", ""):
        with pytest.raises(ValueError, match=r"time|promise|tenant"):
            promises_of([wrong], ["a", "b"])


def test_times_are_read_exactly():
    assert [parse_ns(text) for text in ("50ms", "1.5 s", "2min", "7 ns", "0.001us")] == [
        *(50 * MS, 1_500 * MS, 120 * SECOND, 7, 1)
    ]
    for wrong in ("50", "ms", "-1s", "1.0000000001s", "1 h"):
        with pytest.raises(ValueError, match=r"not a (time|whole)"):
            parse_ns(wrong)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "fastest"), "There is no policy 'fastest'"),
        (("--router", "nearest"), "There is no router 'nearest'"),
        (("--model", "gpt-9"), "none fits"),
        (("--rate", "0"), "'0' is no number above 0"),
        (("--slo", "chat:speed=1s"), "is no promise"),
        (("--host-gap", "3"), "is not a time"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_sentence(two_tenants, board, words, said):
    shown = run("simulate", two_tenants, "--model", board, *words)
    assert shown.exit_code == 1 and said in shown.stderr and "Traceback" not in shown.output


def test_a_broken_trace_is_named_or_skipped(tmp_path, board):
    path = tmp_path / "broken.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,3\n1,-4,3\n")
    shown = run("simulate", path, "--model", board)
    assert shown.exit_code == 1
    assert f"{path}, line 3, column prompt_tokens: '-4' cannot be read. 1 row(s) of 2" in shown.stderr
    assert result_of("simulate", path, "--model", board, "--skip-broken")["requests"] == 1


def test_a_ledger_never_takes_the_place_of_the_trace(two_tenants, board):
    before = two_tenants.read_text()
    shown = run("simulate", two_tenants, "--model", board, "--ledger", two_tenants)
    assert shown.exit_code == 1 and two_tenants.read_text() == before


def test_what_no_pool_can_hold_and_what_was_never_measured_is_said(tmp_path, two_tenants, board):
    small = tmp_path / "small.toml"
    small.write_text(BOARD.replace("most_tokens = 10_000", "most_tokens = 50"))
    shown = run("simulate", two_tenants, "--model", small, "--blocks", 20)
    assert "Turned away: 10, the first request 1, which may come to 105 tokens" in shown.output
    assert "10 finished, 10 rejected" in shown.output
    assert "the whole pool of a replica serves 81 (--blocks)." in shown.output
    shown = run("simulate", two_tenants, "--model", board, "--window", 100)
    assert (
        "Turned away: 10, the first request 1, which may come to 105 tokens; the model's window is 100"
        in shown.output
    )
    windowed = tmp_path / "windowed.toml"
    windowed.write_text(BOARD + "window_tokens = 104\n")
    told = result_of("simulate", two_tenants, "--model", windowed)["too_long"]
    assert told == {"requests": 10, "first": 1, "tokens": 105, "longest_tokens": 104, "limit": "window"}
    assert result_of("simulate", two_tenants, "--model", windowed, "--window", 0)["too_long"] is None
    shown = run("simulate", two_tenants, "--model", small)
    assert "Extrapolated: " in shown.output and "larger than what was measured" in shown.output
    facts, page = tmp_path / "facts.jsonl", tmp_path / "page.html"
    told = result_of(
        "simulate", two_tenants, "--model", small, "--replicas", 2, "--ledger", facts, "--report", page
    )
    said = Ledger.from_jsonl(facts).of(Extrapolated)
    assert 0 < told["extrapolated"] == sum(fact.steps for fact in said) < told["steps"]
    assert {fact.resource for fact in said} <= {"kv 0", "kv 1"}
    assert f"{told['extrapolated']:,} of {told['steps']:,}" in page.read_text()
    assert "Extrapolated" not in run("simulate", two_tenants, "--model", board).output


# -- a policy of one's own ----------------------------------------------------------------------------

MINE = """
from gpulab.serving.policies.rank import RankPolicy
from gpulab.serving.policy import Policy

class Short(RankPolicy):
    def rank(self, job):
        return job.prompt_tokens

class Raises(RankPolicy):
    def rank(self, job):
        return job.secret if job.id > 5 else 0

class Nobody(Policy):
    def decide(self, view):
        return {}
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_a_policy_of_ones_own_runs_like_a_reference_and_in_a_comparison(two_tenants, board, mine):
    found = result_of("simulate", two_tenants, "--model", board, "--policy", f"{mine}:Short")
    assert found["outcomes"] == {"finished": 20}
    both = result_of(
        "compare", two_tenants, "--model", board, "--policies", f"chunked,{mine}:Short", "--workers", 1
    )
    assert both["policies"][f"{mine}:Short"]["mean"]["ttft_p99_ns"] == found["ttft_ns"]["p99"]


def test_a_policy_that_raises_ends_with_request_and_time_and_what_was_is_told_and_written(
    tmp_path, two_tenants, board, mine
):
    ledger = tmp_path / "facts.jsonl"
    shown = run(
        "simulate", two_tenants, "--model", board, "--policy", f"{mine}:Raises", "--ledger", ledger, "--json"
    )
    found = json.loads(shown.stdout)
    assert shown.exit_code == 1
    for said in ("PolicyFault: At 12,", "AttributeError", "mine.py, line 11: return job.secret"):
        assert said in shown.stderr
    assert found["fault"]["law"] == "raised" and found["fault"]["request"] == 6
    assert found["fault"]["now_ns"] >= 12 * MS and found["outcomes"]["finished"] > 0
    facts = Ledger.from_jsonl(ledger)
    check(facts)
    assert facts.digest() == found["digest"]


def test_a_policy_that_serves_nobody_is_told_who_starves(two_tenants, board, mine):
    shown = run("simulate", two_tenants, "--model", board, "--policy", f"{mine}:Nobody")
    assert shown.exit_code == 1 and "request 0 is waiting, 38,000,000 ns after it arrived" in shown.stderr
    both = run(
        "compare", two_tenants, "--model", board, "--policies", f"chunked,{mine}:Nobody", "--workers", 1
    )
    assert both.exit_code == 1 and "1 of 1 runs ended early" in both.output


def test_starvation_is_said_with_the_request_and_how_long(tmp_path, board, mine):
    path = tmp_path / "long.csv"
    # A short one takes 0.951 s and another comes each 0.9 s: under Short the long one, id 3, waits for the last.
    rows = ["0,4,950\n"] * 3 + ["0.1,40,950\n"] + [f"{(n + 1) * 0.9:.1f},4,950\n" for n in range(90)]
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(rows))
    words = ("simulate", path, "--model", board, "--blocks", 300, "--max-jobs", 1)
    assert "Starvation" not in run(*words).output
    words = (*words, "--policy", f"{mine}:Short")
    (starved,) = result_of(*words)["starved"]
    assert starved["request"] == 3 and starved["overtakers"] == 90
    assert starved["waited_ns"] == 93 * (1_004_000 + 949 * 1_001_000) - 100 * MS
    shown = run(*words).output
    assert "Starvation: request 3 waited 88." in shown and "90 that came later were finished" in shown


# -- sweeps -------------------------------------------------------------------------------------------


def test_policies_are_compared_on_the_same_days_with_intervals(two_tenants, board):
    words = ("compare", two_tenants, "--model", board, "--policies", "chunked,reserving", "--slo", "ttft=4ms")
    found = result_of(*words, "--seeds", 3, "--workers", 1)
    one, other = found["policies"].values()
    assert len(set(one["digests"])) == 3 and one["digests"] != other["digests"]
    assert one["more"] == dict.fromkeys(one["mean"], 0.0)
    for column in ("ttft_p99_ns", "attainment"):
        assert other["more"][column] == pytest.approx(other["mean"][column] - one["mean"][column])
    alone = result_of(*words, "--workers", 1)["policies"]["chunked"]
    assert alone["digests"] == one["digests"][:1] and alone["half"]["attainment"] == 0.0
    shown = run(*words, "--seeds", 3, "--workers", 1)
    assert "±" in shown.output and "Means of 3 seeds" in shown.output and "attainment" in shown.output
    assert "±" not in run(*words, "--workers", 1).output


def test_any_number_of_workers_gives_the_same_numbers(two_tenants, board, monkeypatch):
    words = ("swap", two_tenants, "--model", board, "--slo", "ttft=4ms")
    alone = result_of(*words, "--workers", 1)
    assert result_of(*words, "--workers", 2) == alone
    with ThreadPoolExecutor(3) as threads:
        asked = []

        class Client:
            def __init__(self, address):
                asked.append(address)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def get_executor(self):
                return threads

        monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
        assert result_of(*words, "--scheduler", "tcp://cluster:8786") == alone
    assert asked == ["tcp://cluster:8786"]


def test_without_dask_a_scheduler_is_one_sentence(two_tenants, board, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    shown = run(
        "swap", two_tenants, "--model", board, "--slo", "ttft=4ms", "--scheduler", "tcp://cluster:8786"
    )
    assert shown.exit_code == 1 and "gpulab[dask]" in shown.stderr


def test_a_swap_names_what_each_rule_moves_and_the_verdict(two_tenants, board):
    words = ("swap", two_tenants, "--model", board, "--slo", "ttft=4ms", "--workers", 1)
    found = result_of(*words, "--policy", "request-level")
    assert set(found["moved_points"]) == set(REFERENCES) == set(found["digests"]) - {"own"}
    assert found["verdict"] == "ours" and found["moved_points"]["request-level"] == 0
    shown = run(*words, "--policy", "request-level")
    assert "under request-level: " in shown.output and "It is ours" in shown.output
    assert "It is not ours" in run(*words, "--rate", "1/10").output
    assert "Nothing was promised" in run("swap", two_tenants, "--model", board, "--workers", 1).stderr


def test_a_capacity_is_found_again_from_its_journal(tmp_path, two_tenants, board):
    journal = tmp_path / "runs.jsonl"
    words = ("capacity", two_tenants, "--model", board, "--slo", "ttft=4ms", "--share", 90, "--workers", 1)
    found = result_of(*words, "--journal", journal)
    assert len(journal.read_text().splitlines()) == len(found["tried"]) > 3
    assert result_of(*words, "--journal", journal) == found == result_of(*words)
    assert len(journal.read_text().splitlines()) == len(found["tried"])
    best = next(row for row in found["tried"] if row["per_s"] == found["per_s"])
    assert best["enough"] and best["share"] >= 0.9 and found["too_much_per_s"] <= 1.02 * found["per_s"]
    at_best = result_of("simulate", two_tenants, "--model", board, "--slo", "ttft=4ms", "--rate", 1)
    assert at_best["attainment"] == next(row["share"] for row in found["tried"] if row["factor"] == 1.0)
    shown = run(*words)
    assert f"{found['per_s']:.3f} requests/s" in shown.output and "is too much" in shown.output
    never = run("capacity", two_tenants, "--model", board, "--slo", "ttft=1ns", "--workers", 1)
    assert never.exit_code == 1 and "at no rate" in never.output


def test_a_name_between_colons_stays_a_name(tmp_path, two_tenants, board):
    """``sleepy.py:Sleepy:`` is a policy, not a picture of a face; held for every command that prints."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from gpulab.serving.policies.rank import RankPolicy\n\n\n"
        "class Sleepy(RankPolicy):\n    def rank(self, job):\n        return job.id\n",
        encoding="utf-8",
    )
    said = run("simulate", two_tenants, "--model", board, "--policy", f"{file}:Sleepy").output
    assert "mine.py:Sleepy: " in said.replace("\n", "")
    sources = Path(cli.__file__).parent.glob("*.py")
    opened = [line for path in sources for line in path.read_text("utf-8").splitlines() if "Console(" in line]
    assert len(opened) > 10
    assert [line for line in opened if "emoji=False" not in line] == []
