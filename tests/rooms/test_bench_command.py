"""`gpulab bench serving`: what it says, on a short trace. How long things take is held nowhere."""

import json

from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.cli.bench_serving import HOUR, Measured, measurements, repeated
from gpulab.serving.request import Request, Trace

SHORT = "\n".join(
    json.dumps({"arrival_ns": n * 10**7, "prompt_tokens": 100 + n, "output_tokens": 20}) for n in range(40)
)


def run(*words):
    return CliRunner().invoke(app, ["bench", *map(str, words)])


def test_every_number_has_a_name_a_unit_and_no_verdict_on_a_trace_of_ones_own(tmp_path):
    path = tmp_path / "short.jsonl"
    path.write_text(SHORT)
    shown = run("serving", "--trace", path, "--runs", "1", "--json")
    assert shown.exit_code == 0, shown.output
    said = json.loads(shown.stdout)
    rows = said.pop("rows")
    assert said == {"trace": str(path), "requests": 40, "runs": 1}
    assert {tuple(row) for row in rows} == {("what", "got", "unit", "bar", "holds")}
    assert {(row["bar"], row["holds"]) for row in rows} == {(None, None)}
    found = {(row["what"], row["unit"]): row["got"] for row in rows}
    assert len(found) == len(rows) == 17
    assert found["the hour: ledgers that differ", ""] == 0
    one_step = found["conv x1.25: passes, one by one", ""]
    assert found["conv x1.25: passes, leaping", ""] <= 0.35 * one_step
    assert 10 < found["process, 3 replicas, rank", "MB"] < 300


def test_a_table_for_a_person(tmp_path):
    path = tmp_path / "short.jsonl"
    path.write_text(SHORT)
    shown = run("serving", "--trace", path, "--runs", "1")
    assert shown.exit_code == 0
    assert "10 times the requests" in shown.stdout
    assert "times the time" in shown.stdout


def test_a_number_at_its_bar_holds():
    at, above, told = Measured("a", "s", 4.0, 4), Measured("a", "s", 4.1, 4), Measured("a", "s", 9)
    assert (at.holds, above.holds, told.holds) == (True, False, None)


def test_the_bars_are_those_of_the_issue():
    trace = Trace([Request(n, n, 10, 3) for n in range(10)])
    found = [one for measure in list(measurements(HOUR, trace, trace, 1))[2:] for one in measure()]
    assert [one.bar for one in found if one.bar is not None] == [11, 0.125, 0, 0.35, 0]


def test_a_load_ten_times_as_long_is_the_same_load_ten_times():
    trace = Trace([Request(0, 5, 10, 3), Request(1, 8, 20, 4)])
    assert [(r.id, r.arrival_ns, r.prompt_tokens) for r in repeated(trace, 2)] == [
        *((0, 5, 10), (1, 8, 20)),
        *((2, 14, 10), (3, 17, 20)),
    ]


def test_what_cannot_be_measured_is_refused_by_name(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("arrival_ns,prompt_tokens,output_tokens\n")
    for words, status, expected in (
        (("memory",), 2, "There is no bench of 'memory'; there is: serving."),
        (("serving", "--trace", "nowhere.csv"), 1, "nowhere.csv"),
        (("serving", "--trace", empty), 1, "no request that"),
    ):
        shown = run(*words)
        assert shown.exit_code == status, words
        assert expected in shown.output
