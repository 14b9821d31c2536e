"""`gpulab replay`: what a practitioner types, and what a broken file says."""

import json

import pytest
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.telemetry.ledger import Ledger

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def run(*words):
    return CliRunner().invoke(app, ["replay", *map(str, words)])


@pytest.fixture
def three_requests(tmp_path):
    path = tmp_path / "three.csv"
    rows = ["2023-11-16 18:15:46.5,3,1", "2023-11-16 18:15:46.6,2,2", "2023-11-16 18:15:47.5,10,10"]
    path.write_text(HEADER + "\n".join(rows))
    return path


def test_a_replay_counts_who_waited_and_its_account_fills_the_capacity(three_requests):
    options = ("--capacity", "2560", "--bytes-per-token", 512, "--steps-per-second", 10, "--json")
    result = json.loads(run(three_requests, *options).output)
    # 4 tokens hold 2,048 of 2,560 B for 0.4 s; the second waits 0.3 s; the third is larger than the arena.
    assert (result["claims"], result["granted"], result["waited"]) == (3, 2, 1)
    assert result["longest_wait_ns"] == 300_000_000
    assert sum(result["account"]["arena→extent"].values()) == 2560 * result["run_ns"]


def test_every_rule_replays_the_whole_recorded_hour_and_writes_its_ledger_and_its_picture(tmp_path):
    chart, ledger = tmp_path / "use.svg", tmp_path / "facts.jsonl"
    shown = run("azure-conv-2023", "--allocator", "first-fit", "--chart", chart, "--ledger", ledger)
    assert shown.exit_code == 0, shown.output
    assert "19,366 claims against first-fit on 12 GiB; 19,366 granted" in shown.output
    assert len(Ledger.from_jsonl(ledger)) > 3 * 19_366
    assert "<svg" in chart.read_text()


@pytest.mark.parametrize("rule", ["bump", "first-fit", "best-fit", "cupy", "pytorch"])
def test_each_rule_has_a_name_on_the_command_line(three_requests, rule):
    shown = run(three_requests, "--allocator", rule, "--capacity", "64MiB", "--json")
    assert json.loads(shown.output)["granted"] == 3


def test_a_broken_row_names_file_line_column_and_value_and_the_rest_can_still_be_read(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text(HEADER + "2023-11-16 18:15:46.5,3x4,1\n2023-11-16 18:15:46.6,2,2\n")
    shown = run(path)
    assert shown.exit_code == 1
    for said in (str(path), "line 2", "ContextTokens", "'3x4'"):
        assert said in shown.output
    assert json.loads(run(path, "--skip-broken", "--json").output)["claims"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.csv",), "azure-conv-2023"),
        (("azure-conv-2023", "--capacity", "12 apples"), "'12 apples' is not a size"),
        (("azure-conv-2023", "--capacity", "100"), "multiple of the alignment"),
    ],
)
def test_what_cannot_be_replayed_says_why_and_what_there_is(words, said):
    shown = run(*words)
    assert shown.exit_code == 1
    assert said in shown.output
