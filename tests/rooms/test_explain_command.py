"""`gpulab explain`: what a platform engineer types, what comes out, and what a broken file says."""

import io
import itertools
import json
import pickle
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.cli.patience import patience
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import PyTorchPool
from gpulab.memory.to_snapshot import save_snapshot, to_snapshot
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, MiB

FILES = Path(__file__).parents[1] / "golden" / "snapshots"
VLLM, HTTOMO, OLD = FILES / "vllm-41268.pickle.gz", FILES / "httomo-667.jsonl", FILES / "pytorch-35901.json"


def run(*words):
    return CliRunner().invoke(app, ["explain", *map(str, words)])


def refused(*words) -> str:
    shown = run(*words)
    assert shown.exit_code == 1, shown.output
    assert "Traceback" not in shown.output
    return shown.output


def test_everything_is_said_in_order():
    shown = run(VLLM)

    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[:4] == [
        "vllm-41268.pickle.gz, PyTorch snapshot, device 0: 36 segments at its end, 181 events of history.",
        "The allocator could reach 24 GiB of the device when the claim failed.",
        "Failed at 108.000 µs, event #401: 8 GiB for allocate_kv_cache (worker.py:210).",
        "device→pool: used 9.49 GiB (39.6%), stranded 9.14 GiB (38.1%), fragmented 0 B (0.0%), unscheduled 0 B "
        "(0.0%), spare 5.37 GiB (22.4%).",
    ]
    assert lines[4].startswith("pool→extent: ")
    assert lines[5].startswith(
        "device→extent: used 9.49 GiB (39.6%), stranded 0 B (0.0%), fragmented 8 GiB (33.3%)"
    )
    assert lines[6] == (
        "Largest free extent: 5.37 GiB. The device has 5.37 GiB left, whole cached segments included; 36 holes in other "
        "segments, the largest 260 MiB."
    )
    assert lines[7] == "Who strands what: the first 10 of 36 owners"
    assert lines[8].split() == ["owner", "blocks", "holds", "unused", "pins"]
    assert lines[9].split()[-7:] == ["1", "270", "MiB", "0", "B", "260", "MiB"]
    assert lines[19].startswith("Fragmented: 14.51 GiB are free in all, enough for 8 GiB")
    assert len(lines) == 20


def test_the_json_says_the_same_in_numbers():
    told = json.loads(run(VLLM, "--json").output)

    assert told["failed_claim"]["size"] == 8 * GiB
    assert told["failed_claim"]["owner"] == "allocate_kv_cache (worker.py:210)"
    assert told["largest_free_bytes"] == 24 * GiB - 19_080 * MiB
    assert told["account"]["device→pool"]["stranded"] == 9_360 * MiB
    assert (len(told["owners"]), told["owners_in_all"], told["owners"][0]["pinned"]) == (10, 36, 260 * MiB)
    for terms in told["account"].values():
        assert sum(terms.values()) == 2 * terms["capacity"]
    assert told["diagnosis"].startswith("Fragmented: ")


def test_the_facts_and_the_map_are_written(tmp_path):
    shown = run(VLLM, "--ledger", tmp_path / "facts.jsonl", "--chart", tmp_path / "map.svg")

    assert shown.exit_code == 0, shown.output
    facts = Ledger.from_jsonl(tmp_path / "facts.jsonl")
    check(facts)
    assert Account(facts, "device→pool").at(facts.end_ns).stranded == 9_360 * MiB
    assert "<svg" in (tmp_path / "map.svg").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.jsonl", "map.svg"]


def test_a_recording_is_explained_and_a_ledger_written_before_says_the_same(tmp_path):
    told = json.loads(run(HTTOMO, "--json").output)
    assert told["source"] == "a ledger of 29 facts"
    assert told["account"]["device→extent"]["fragmented"] == 4 * GiB
    assert told["owners"][0]["owner"].startswith("method_b (httomo.py:")

    run(VLLM, "--ledger", tmp_path / "facts.jsonl")
    again = json.loads(run(tmp_path / "facts.jsonl", "--json").output)
    first = json.loads(run(VLLM, "--json").output)
    for told in (again, first):
        del told["source"], told["notes"]
    assert again == first


def test_a_snapshot_without_a_failure_says_so_and_takes_the_capacity_given(tmp_path):
    ledger = run_operations(PyTorchPool(8 * MiB), [["alloc", "a", 1 * MiB]])
    path = save_snapshot(to_snapshot(ledger, history=False), tmp_path / "a.json")

    assert "No claim failed; this is the end" in run(path).output
    assert json.loads(run(path, "--json").output)["capacity"] == 2 * MiB
    assert json.loads(run(path, "--json", "--capacity", "8MiB").output)["capacity"] == 8 * MiB
    assert "The capacity 1 MiB is less than the 2 MiB" in refused(path, "--capacity", "1 MiB")


def test_one_device_of_several_is_explained(tmp_path):
    plain = json.loads(OLD.read_text())
    plain["segments"].append({**plain["segments"][0], "device": 3})
    (tmp_path / "two.json").write_text(json.dumps(plain))

    assert "device 0 of 0, 3: 1 segments at its end, 1 events" in run(tmp_path / "two.json").output
    assert (
        "device 3 of 0, 3: 1 segments at its end, 0 events"
        in run(tmp_path / "two.json", "--device", 3).output
    )
    assert "There is nothing of device 1 in this snapshot; there is: 0, 3." in refused(
        tmp_path / "two.json", "--device", 1
    )


class RunsCode:
    def __reduce__(self):
        return Path.touch, (Path("pwned"),)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"hello", "no pickle of protocol 2 to 5"),
        (
            pickle.dumps({"a": RunsCode()}),
            "would load or call code; only plain data is read, and nothing was run",
        ),
        (VLLM.read_bytes()[:-50], "the gzip file is cut off or damaged"),
        (OLD.read_bytes()[:-50], "it is cut off or no JSON"),
        (pickle.dumps({"state_dict": {}}), "no memory snapshot, or one of another version"),
        (pickle.dumps({"segments": [], "device_traces": []}), "it has no segments and no history"),
        (
            HTTOMO.read_bytes()[:-20],
            "line 29, column 40: '[\"Refused\",12000,6,6442450944,322122547' is no fact",
        ),
        (b'{"gpulab":"ledger","version":2}\n', "is no fact of a ledger"),
        (
            HTTOMO.read_bytes().replace(b'["Freed",5000,3]\n', b'["Freed",5000,3]\n["Freed",5000,3]\n'),
            "BrokenLaw: Fact #15",
        ),
    ],
)
def test_what_cannot_be_explained_says_why_and_is_left_as_it_was(tmp_path, monkeypatch, data, said):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(data)

    shown = refused(path, "--ledger", tmp_path / "out.jsonl")

    assert said in shown
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("file", data)]


def test_a_recording_that_was_cut_off_is_explained_up_to_there_when_asked(tmp_path):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(HTTOMO.read_bytes()[:-20])

    shown = run(path, "--skip-broken")

    assert shown.exit_code == 0, shown.output
    assert "Only the 27 facts before a broken line are told." in shown.output


def test_what_cannot_be_written_is_said_before_any_work(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(OLD.read_bytes())

    assert "is the snapshot itself" in refused(path, "--ledger", path)
    assert "is the snapshot itself" in refused(path, "--chart", path)
    assert "map.gif is no picture; its name ends in one of .svg, .png, .html" in refused(
        path, "--chart", tmp_path / "map.gif"
    )
    assert "No such file or directory" in refused(path, "--ledger", tmp_path / "nowhere" / "out.jsonl")
    assert path.read_bytes() == OLD.read_bytes()


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    out = tmp_path / "out.jsonl"
    out.write_text("mine")

    def full(self, path):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Ledger, "to_jsonl", full)

    assert "No space left on device" in refused(OLD, "--ledger", out)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("out.jsonl", "mine")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.pickle",), "nowhere.pickle is no file"),
        ((FILES,), "is no file"),
        ((OLD, "--capacity", "12 apples"), "'12 apples' is not a size"),
        ((HTTOMO, "--device", 0), "it has one device and says its capacity; leave the options out"),
    ],
)
def test_wrong_options_are_said(words, said):
    assert said in refused(*words)


# -- patience ------------------------------------------------------------------------------------


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=60)


def test_after_two_seconds_the_terminal_says_what_is_done_and_how_much_of_it():
    console, now = terminal(), itertools.count(0.0, 1.5)

    with patience(console, clock=lambda: next(now)) as say:
        say("reading", 1, 4)  # at 1.5 s
        say("replaying", 1, 4)  # at 3 s
        say("writing")

    written = console.file.getvalue()
    assert "replaying … 25 %" in written or "writing …" in written
    assert "reading" not in written


def test_before_that_and_on_what_is_no_terminal_nothing_shows():
    quick, piped = terminal(), Console(file=io.StringIO(), force_terminal=False)

    with patience(quick) as say:
        say("reading", 1, 4)
    with patience(piped, after_s=0) as say:
        say("reading", 1, 4)

    assert quick.file.getvalue() == piped.file.getvalue() == ""
