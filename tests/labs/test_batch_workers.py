"""Many at once, and cut off at any moment: the marks and pages are those of an undisturbed run."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from autograder.__main__ import app

COUNTED = Path(__file__).parents[1] / "counted_grade.py"
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


def book(built) -> list[tuple]:
    """Everything in the gradebook that is a learner's, without the ids that are drawn."""
    with closing(sqlite3.connect(built.places.course / "gradebook.db")) as book:
        of_learners = (
            "FROM {0} t JOIN submitted_notebook n ON t.notebook_id = n.id JOIN submitted_assignment s "
            "ON n.assignment_id = s.id JOIN base_cell c ON t.cell_id = c.id"
        )
        grades = "SELECT s.student_id, c.name, auto_score, manual_score, extra_credit, needs_manual_grade, "
        grades += "late_submission_penalty, timestamp " + of_learners.format("grade")
        comments = (
            f"SELECT s.student_id, c.name, auto_comment, manual_comment {of_learners.format('comment')}"
        )
        return sorted((row for question in (grades, comments) for row in book.execute(question)), key=str)


def first_of_kind(student: str) -> str:
    """Who handed in the same code and is in every class."""
    return f"{student.partition('-')[0]}-0"


def pages(built) -> dict[str, bytes]:
    return {path.parts[-3]: path.read_bytes() for path in (built.places.course / "feedback").rglob("*.html")}


def grade(built, *options: str):
    return CliRunner().invoke(app, ["grade", built.name, "--no-collect", *options])


@pytest.fixture(scope="module")
def undisturbed(built):
    """Five submissions graded one by one: marks, pages and the gradebook."""
    wanted = hand_in(built, 5)
    told = grade(built, "--workers", "1")
    assert (told.exit_code, marks(built)) == (0, wanted)
    return wanted, pages(built), book(built)


def test_four_workers_give_the_marks_and_the_bytes_of_feedback_that_one_gives(built, undisturbed):
    wanted, written, _ = undisturbed
    start_over(built)
    told = grade(built, "--workers", "4")
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
    old.write_text(old.read_text().replace("right-0,graded,2.0,3.0,2.0", "right-0,graded,0.0,3.0,3.0"))
    told = grade(built, "--workers", "1", "--only", "right-0", "--regrade-from", str(old))
    assert "right-0: score 0.0 before, 3.0 now" in told.output
    told = grade(built, "--workers", "1", "--only", "right-0", "--regrade-from", str(old), "--no-force")
    assert told.output.count(", as before") == 1  # goes on after a run that was cut off
    assert "right-0: score 0.0 before, 3.0 now" in told.output
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


@pytest.fixture
def apart(built):
    """Starts ``autograder grade`` in processes of its own that share a temporary folder, and notes who is graded."""
    with tempfile.TemporaryDirectory(prefix="short-") as folder:  # pytest's own is too long for sockets
        scratch, played = Path(folder) / "tmp", Path(folder) / "played"
        scratch.mkdir()
        environment = {
            **os.environ,
            "GPULAB_LABS": str(built.places.labs),
            "GPULAB_COURSE": str(built.places.course),
            "TMPDIR": str(scratch),
            "PLAYED": str(played),
        }
        command = [sys.executable, str(COUNTED), "grade", built.name, "--no-collect", "--workers", "2"]

        def start() -> subprocess.Popen:
            return subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

        yield start, scratch, played


@pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
def test_two_workers_are_forked_and_share_one_warm_process(built, undisturbed, apart):
    start, _, played = apart
    wanted = hand_in(built, 4)
    start_over(built)
    running, kinds = start(), {}
    while running.poll() is None:
        for pid in tree(running.pid)[1:]:
            with suppress(OSError):
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                told = Path(f"/proc/{pid}/cmdline").read_text()
                if told:  # else it is ending
                    kinds[pid] = (parent == running.pid, "sandbox_zygote" in told, "counted_grade" in told)
        time.sleep(0.02)
    assert (running.returncode, marks(built)) == (0, wanted)
    assert Counter(played.read_text().split()) == Counter(dict.fromkeys(wanted, 1))
    direct = Counter(kind[1:] for kind in kinds.values() if kind[0])
    assert direct == {(True, False): 1, (False, True): 2}, kinds  # one warm process, two workers like the command


def kill_one(running: subprocess.Popen, journal: Path, lines: int, draw: random.Random) -> str:
    """``kill -9`` of one process of the run, a moment after the journal has so many lines; which one that was."""
    while running.poll() is None and lines > (journal.read_text().count("\n") if journal.is_file() else 0):
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.3))
    victim, told = draw.choice(tree(running.pid)), "it had ended"
    if running.poll() is None:
        with suppress(OSError):
            told = Path(f"/proc/{victim}/cmdline").read_text().replace("\0", " ")
            os.kill(victim, signal.SIGKILL)
    return f"after {lines} lines: {told}"


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
def test_a_run_that_is_killed_anywhere_is_finished_by_the_next_one(built, undisturbed, apart, scale):
    start, scratch, played = apart
    wanted = hand_in(built, scale(4))
    shown = {student: undisturbed[1][first_of_kind(student)] for student in wanted}
    rows = [(one, *row) for one in wanted for who, *row in undisturbed[2] if who == first_of_kind(one)]
    draw, journal = random.Random("kill"), built.places.course / "journal" / f"{built.name}.jsonl"
    for number in range(scale(3)):
        start_over(built)
        played.write_bytes(b"")
        running = start()
        told = kill_one(running, journal, draw.randrange(2 * len(wanted) + 1), draw)
        ended = running.wait(), start().wait()
        counts = Counter(played.read_text().split())
        assert (ended[0] in (0, -signal.SIGKILL), ended[1]) == (True, 0), (number, told, ended)
        assert (marks(built), book(built), pages(built)) == (wanted, sorted(rows, key=str), shown)
        assert (set(counts), max(counts.values()) <= 2) == (set(wanted), True), (number, told, counts)
        assert list(scratch.iterdir()) == [], (number, told)


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
