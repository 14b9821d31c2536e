"""Many at once, and cut off at any moment: the marks and pages are those of an undisturbed run."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from autograder.__main__ import app

CODES = {
    "right": "def double(number): return 2 * number",
    "wrong": "def double(number): return number",
    "error": "def double(number): return 1 / 0",
    "broken": "def double(number) return",
    "loud": "print('x' * 3000)\ndef double(number): return 2 * number",
}
POINTS = {"right": 3.0, "wrong": 0.0, "error": 0.0, "broken": 0.0, "loud": 3.0}


def hand_in(built, count: int) -> dict[str, float]:
    """``count`` submissions of all kinds; the points that each must get."""
    shutil.rmtree(built.places.course / "submitted", ignore_errors=True)
    kinds = [(f"{kind}-{number}", kind) for number in range(-(-count // len(CODES))) for kind in CODES][
        :count
    ]
    for student, kind in kinds:
        nb = nbformat.read(built.released, as_version=4)
        nb.cells[2].source = CODES[kind]
        built.hand_in(student, nb)
    return {student: POINTS[kind] for student, kind in sorted(kinds)}


def start_over(built) -> None:
    """As if nothing had been graded yet."""
    for name in ("journal", "autograded", "feedback"):
        shutil.rmtree(built.places.course / name, ignore_errors=True)
    with closing(sqlite3.connect(built.places.course / "gradebook.db")) as book:
        for table in ("comment", "grade", "submitted_notebook", "submitted_assignment", "student"):
            book.execute(f"DELETE FROM {table}")
        book.commit()


def marks(built) -> dict[str, float]:
    with closing(sqlite3.connect(built.places.course / "gradebook.db")) as book:
        return dict(
            book.execute(
                "SELECT s.student_id, sum(g.auto_score) FROM grade g JOIN submitted_notebook n ON g.notebook_id = n.id "
                "JOIN submitted_assignment s ON n.assignment_id = s.id GROUP BY s.student_id ORDER BY s.student_id"
            )
        )


def pages(built) -> dict[str, bytes]:
    return {path.parts[-3]: path.read_bytes() for path in (built.places.course / "feedback").rglob("*.html")}


def grade(built, *options: str):
    return CliRunner().invoke(app, ["grade", built.name, "--no-collect", *options])


@pytest.fixture(scope="module")
def undisturbed(built):
    """Five submissions graded one by one: marks and pages."""
    wanted = hand_in(built, 5)
    told = grade(built, "--workers", "1")
    assert (told.exit_code, marks(built)) == (0, wanted)
    return wanted, pages(built)


def test_two_workers_give_the_same_marks_and_the_same_bytes_of_feedback(built, undisturbed):
    wanted, written = undisturbed
    start_over(built)
    told = grade(built, "--workers", "2")
    assert (told.exit_code, marks(built)) == (0, wanted)
    assert pages(built) == written
    assert b"ZeroDivisionError" in written["error-0"] and b"SyntaxError" in written["broken-0"]


def test_what_is_graded_is_not_graded_again_unless_something_changed_or_it_is_forced(built, undisturbed):
    told = grade(built, "--workers", "1")
    assert told.output.count(", as before") == 5
    again = built.places.step("submitted", "wrong-0", built.name) / f"{built.name}.ipynb"
    again.write_bytes(
        (built.places.step("submitted", "right-0", built.name) / f"{built.name}.ipynb").read_bytes()
    )
    told = grade(built, "--workers", "1")
    assert (told.output.count(", as before"), marks(built)["wrong-0"]) == (4, 3.0)
    shutil.rmtree(built.places.step("feedback", "loud-0", built.name))
    told = grade(built, "--workers", "1")
    assert (told.output.count(", as before"), "loud-0" in pages(built)) == (4, True)
    assert grade(built, "--only", "right-0", "--force", "--workers", "1").output.count(", as before") == 0


def test_a_persons_mark_stays_and_comes_onto_the_page(built, undisturbed):
    with closing(sqlite3.connect(built.places.course / "gradebook.db")) as book:
        book.execute(
            "UPDATE grade SET manual_score = 2.5, needs_manual_grade = 0 WHERE notebook_id IN (SELECT n.id FROM "
            "submitted_notebook n JOIN submitted_assignment s ON n.assignment_id = s.id WHERE s.student_id = 'error-0')"
        )
        book.commit()
    told = grade(built, "--workers", "1")
    assert told.output.count(", as before") == 4
    assert "error-0: 2.5 of 3" in told.output
    assert b"Score: 2.5 / 3.0" in pages(built)["error-0"]
    assert grade(built, "--workers", "1").output.count(", as before") == 5


def test_a_regrade_shows_what_moved(built, undisturbed, tmp_path):
    old = tmp_path / "old.csv"
    old.write_bytes((built.places.course / "summary.csv").read_bytes())
    told = grade(built, "--workers", "1", "--only", "right-0", "--regrade-from", str(old))
    assert (told.output.count(", as before"), "nothing has moved" in told.output) == (0, True)
    old.write_text(old.read_text().replace("right-0,graded,3.0,3.0,3.0", "right-0,graded,2.0,3.0,2.0"))
    told = grade(built, "--workers", "1", "--only", "right-0", "--regrade-from", str(old))
    assert "right-0: double 2.0 before, 3.0 now" in told.output
    old.write_text("a,b")
    told = grade(built, "--regrade-from", str(old))
    assert (told.exit_code, "is no summary of a grading" in told.output) == (2, True)


def tree(root: int) -> list[int]:
    """``root`` and the processes below it."""
    below = [root]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            below += [int(name)] if parent in below else []
    return below


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
def test_a_run_that_is_killed_anywhere_is_finished_by_the_next_one(built, scale):
    wanted = hand_in(built, scale(4))
    environment = {
        **os.environ,
        "GPULAB_LABS": str(built.places.labs),
        "GPULAB_COURSE": str(built.places.course),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-m", "autograder", "grade", built.name, "--no-collect", "--workers", "2"]
    draw = random.Random("kill")
    for _ in range(scale(3)):
        start_over(built)
        running = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        journal = built.places.course / "journal" / f"{built.name}.jsonl"
        lines = draw.randrange(1, 2 * len(wanted))  # a moment by what is done, not by the clock
        while running.poll() is None and (not journal.is_file() or journal.read_text().count("\n") < lines):
            time.sleep(0.01)
        victims = [running.pid, *tree(running.pid)]
        if running.poll() is None:
            os.kill(draw.choice(victims), signal.SIGKILL)
        running.wait()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        assert marks(built) == wanted
        begun = [json.loads(line) for line in journal.read_text().splitlines()]
        begun = [line["student"] for line in begun if line["state"] == "begun"]
        assert max(begun.count(student) for student in wanted) <= 2
        assert sorted(pages(built)) == sorted(wanted)


def test_a_platforms_zip_is_taken_and_graded(built, tmp_path):
    wanted = hand_in(built, 2)
    file = tmp_path / "moodle.zip"
    with zipfile.ZipFile(file, "w") as packed:
        for number, path in enumerate(sorted((built.places.course / "submitted").rglob("*.ipynb"))):
            packed.write(path, f"{path.parts[-3]}_{number}_assignsubmission_file_/final.ipynb")
    shutil.rmtree(built.places.course / "submitted")
    start_over(built)
    told = grade(built, "--workers", "1", "--from", str(file))
    assert (told.exit_code, marks(built)) == (0, wanted)
    assert "taken from moodle.zip: 2 students" in told.output
    assert grade(built, "--from", str(built.source)).exit_code == 2
