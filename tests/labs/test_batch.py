"""The instructor's one command: one submission never costs another, our own failures are nobody's zero."""

import csv
import shutil

import nbformat
import pytest
from nbgrader.preprocessors import Execute
from typer.testing import CliRunner

from autograder import batch
from autograder.__main__ import app
from autograder.execute import JudgedExecute
from autograder.sandbox import NoSandbox


@pytest.fixture
def grade(built):
    """Runs ``autograder grade`` with options; its exit status, what it said, and the summary's rows."""

    def run(*options: str):
        result = CliRunner().invoke(app, ["grade", built.name, "--workers", "1", *options])
        file = built.places.course / "summary.csv"
        rows = list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []
        return result.exit_code, result.output, {row["student"]: row for row in rows}

    return run


def solved(built, code: str):
    nb = nbformat.read(built.released, as_version=4)
    nb.cells[2].source = code
    return nb


RIGHT = "def double(number): return number + number"


def test_with_nothing_handed_in_the_command_says_so_and_ends_well(grade):
    code, said, _ = grade()
    assert (code, "90-tiny: nothing was handed in" in said) == (0, True)


def test_a_lab_that_is_not_there_is_named_with_the_labs_there_are(built):
    result = CliRunner().invoke(app, ["grade", "91-no"])
    assert (result.exit_code, "There is: 90-tiny" in result.output) == (1, True)


def test_one_learner_graded_again_leaves_the_summary_of_the_others(built, grade):
    for student, code in (("ann", RIGHT), ("bob", "def double(number): return 0")):
        built.hand_in(student, solved(built, code))
    _, _, before = grade()
    assert [row["score"] for row in before.values()] == ["3.0", "0.0"]
    code, said, rows = grade("--only", "nemo")
    assert (code, rows) == (1, before)
    assert "nothing was handed in by nemo; there is something of ann, bob" in " ".join(said.split())
    handed_in = built.places.course / "submitted" / "bob" / built.name / f"{built.name}.ipynb"
    nbformat.write(solved(built, RIGHT), handed_in)
    code, _, rows = grade("--only", "bob")
    assert (code, list(rows), rows["ann"]) == (0, ["ann", "bob"], before["ann"])
    assert rows["bob"]["score"] == "3.0"


@pytest.mark.parametrize("tag", ["watch", "skip-execution", "raises-exception"])
def test_no_tag_on_a_released_cell_keeps_its_check_from_running(built, grade, tag):
    nb = solved(built, "def double(number): return 0")
    for cell in nb.cells:
        cell.metadata["tags"] = [tag]
    built.hand_in("tag", nb)
    _, _, rows = grade("--only", "tag")
    assert rows["tag"]["score"] == "0.0"
    shutil.rmtree(built.places.course / "submitted" / "tag")


def test_a_time_that_is_none_is_not_believed_and_stops_nothing(built, grade):
    built.hand_in("odd", solved(built, RIGHT)).with_name("timestamp.txt").write_text("garbage")
    code, _, rows = grade("--only", "odd")
    assert (code, rows["odd"]["score"]) == (0, "3.0")
    shutil.rmtree(built.places.course / "submitted" / "odd")


def test_a_failure_of_ours_is_told_apart_and_the_others_are_graded(built, grade, monkeypatch):
    for student in ("ann", "bob", "cyd"):
        built.hand_in(student, solved(built, RIGHT))

    def open_sitting(self, course, student):
        if student == "bob":
            raise OSError("no socket left")
        return JudgedExecute_open_sitting(self, course, student)

    JudgedExecute_open_sitting = JudgedExecute.open_sitting
    monkeypatch.setattr(JudgedExecute, "open_sitting", open_sitting)
    code, said, rows = grade("--force")
    assert code == 2
    assert [rows[name]["status"] for name in ("ann", "bob", "cyd")] == ["graded", "failed", "graded"]
    assert rows["bob"]["reason"] == "nbgrader autograde: OSError: no socket left"
    assert "[2/3] bob: failed" in said
    log = built.places.course / "logs" / built.name / "bob.txt"
    assert "open_sitting" in log.read_text()
    assert rows["bob"]["score"] == ""


def test_one_student_can_be_graded_again_alone(built, grade):
    if not built.places.step("submitted", "bob", built.name).exists():
        built.hand_in("bob", solved(built, RIGHT))
    code, _, rows = grade("--only", "bob")
    assert (code, rows["bob"]["score"]) == (0, "3.0")


def test_a_forced_run_that_is_cut_off_goes_on_without_force_and_what_was_told_is_kept(
    built, grade, monkeypatch
):
    for student in ("ann", "bob"):
        built.hand_in(student, solved(built, RIGHT))
    everybody = grade()[1].count("of 3")
    store, stored = batch.Batch._store, []

    def cut_off(self, submission, result):
        if stored:
            raise KeyboardInterrupt
        stored.append(submission.student)
        return store(self, submission, result)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(batch.Batch, "_store", cut_off)
        code, said, _ = grade("--force")
    assert (code, "with --no-force" in said, len(stored)) == (130, True, 1)
    _, said, _ = grade()
    assert said.count(", as before") == 1 + said.count("refused") < everybody
    assert any(f"{stored[0]}: " in line and "as before" in line for line in said.splitlines())


def test_a_refused_second_submission_keeps_no_mark_and_no_page_of_the_first(built, grade):
    path = built.hand_in("eve", solved(built, RIGHT))
    assert grade("--only", "eve")[2]["eve"]["score"] == "3.0"
    path.write_text("{")
    code, _, rows = grade("--only", "eve")
    assert (code, rows["eve"]["status"], rows["eve"]["score"]) == (1, "refused", "")
    assert ",eve,,,,0.0,0.0,0.0,3.0" in (built.places.course / "grades.csv").read_text()
    assert not built.places.step("autograded", "eve", built.name).exists()
    page = built.places.step("feedback", "eve", built.name) / f"{built.name}.html"
    assert "90-tiny.ipynb is not JSON" in page.read_text()


def test_feedback_shows_neither_a_hidden_test_nor_what_it_expected(built, grade):
    built.hand_in("dan", solved(built, "def double(number): return 8"))
    _, _, rows = grade("--only", "dan")
    page = (built.places.step("feedback", "dan", built.name) / f"{built.name}.html").read_text()
    assert rows["dan"]["score"] == "0.0"
    assert "AssertionError: a test did not pass" in page
    assert [word for word in ("42", "HIDDEN", "2 * number") if word in nbcontent(page)] == []


def nbcontent(page: str) -> str:
    """The page without its style sheets, which hold all sorts of numbers."""
    return page[page.index("<body") :]


def test_a_source_changed_after_the_release_is_spoken_of_and_grading_goes_by_the_release(built, grade):
    nb = nbformat.read(built.source, as_version=4)
    nb.cells[4].source = "assert False"
    built.save(nb)
    code, said, rows = grade("--only", "dan")
    assert "the source has changed since the release" in said
    assert (code, rows["dan"]["status"]) == (0, "graded")
    saved = built.source.read_bytes()
    built.source.write_text('{"cells": [ half of one, while it is edited')
    try:
        code, said, rows = grade("--only", "dan")
    finally:
        built.source.write_bytes(saved)
    assert (code, rows["dan"]["status"], "grading goes by the release" in said) == (0, "graded", True)


def test_cells_run_under_our_execute_and_not_nbgraders_own(built, grade, monkeypatch):
    def refuse(self, nb, resources):
        raise AssertionError("the wrong preprocessor")

    monkeypatch.setattr(Execute, "preprocess", refuse, raising=False)
    assert grade("--only", "dan")[0] == 0


def test_without_a_sandbox_the_command_ends_before_anything_is_run(built, grade, monkeypatch):
    def refused(ways=()):
        raise NoSandbox("There is no sandbox on this machine. What helps: this and that.")

    monkeypatch.setattr("autograder.batch.warm", refused)
    code, said, _ = grade("--only", "dan")
    assert (code, "What helps: this and that." in said) == (2, True)


def test_the_way_round_the_sandbox_is_printed_in_every_result(built, grade):
    if not built.places.step("submitted", "una", built.name).exists():
        built.hand_in("una", solved(built, RIGHT + "\nimport os; print('pid', os.getpid())"))
    code, said, rows = grade("--only", "una", "--unsafe-no-sandbox")
    page = (built.places.step("feedback", "una", built.name) / f"{built.name}.html").read_text()
    note = "Run without a sandbox (--unsafe-no-sandbox)."
    assert (code, rows["una"]["score"], rows["una"]["notes"]) == (0, "3.0", note)
    assert said.startswith(note)
    assert (note in page, "pid 1\n" in page) == (True, False)
    code, said, rows = grade("--only", "una")
    page = (built.places.step("feedback", "una", built.name) / f"{built.name}.html").read_text()
    assert (code, rows["una"]["score"], rows["una"]["notes"], note in said) == (0, "3.0", "", False)
    assert (note in page, "pid 1\n" in page) == (False, True)
