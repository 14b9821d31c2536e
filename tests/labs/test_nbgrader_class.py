"""A class by the README's lines alone: each fetches, works, hands in, is graded, fetches feedback; marks as in process."""

import copy
import csv
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder import learner
from autograder.better import counted
from autograder.channel import InProcess
from autograder.checks import alternatives, exercises, played
from autograder.course import Course
from autograder.desk import Desk
from autograder.notebooks import graded_exercise
from gpulab.report import charts

sys.path.insert(0, str(Path(__file__).parents[1] / "graders"))
from sheets import loaded

LAB = "02-allocate"
REPO = Path(__file__).parents[2]
SOURCE = REPO / "labs" / LAB / f"{LAB}.ipynb"
COMMANDS = """\
import json, os, sys
from nbgrader.apps import FetchAssignmentApp, FetchFeedbackApp, SubmitApp
from nbgrader.apps.nbgraderapp import NbGraderApp

for line in sys.stdin:
    folder, environment, arguments = json.loads(line)
    said, tell = os.pipe()
    if not os.fork():
        os.chdir(folder)
        os.environ.update(environment)
        os.dup2(tell, 1), os.dup2(tell, 2)
        os.close(said)
        try:
            NbGraderApp.launch_instance(arguments)
            status = 0
        except SystemExit as end:
            status = end.code or 0
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)
    os.close(tell)
    with os.fdopen(said) as text:
        told = text.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.wait()[1]), told]), flush=True)
"""
"""Each line is one ``nbgrader`` command, typed by somebody in a folder; what it needs is imported once for all."""

HOW_MANY = 30 if os.environ.get("GPULAB_SOAK") == "1" else 8


def cell(nb, grade_id: str):
    return next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def solved(nb, source, only=lambda name: True) -> None:
    """Put the source's answers into those solution cells of the released ``nb`` whose grade id is in ``only``."""
    for one in source.cells:
        meta = one.metadata.get("nbgrader", {})
        if meta.get("solution") and only(meta["grade_id"]):
            cell(nb, meta["grade_id"]).source = one.source


def builds_alone(nb, source, number) -> None:
    solved(nb, source, lambda name: name == "who" or name.endswith("-build"))


def half(nb, source, number) -> None:
    solved(nb, source, lambda name: "pool" not in name and "strand" not in name and "break" not in name)


def wrong_allocator(nb, source, number) -> None:
    solved(nb, source)
    mutants = loaded("lab02_mutants")
    sheet = next(s for s in loaded("sheet_lab02_bytes").SHEETS if s.exercise == "02.first-fit")
    classes = [w.hands_in for w in sheet.wrong.values() if inspect.isclass(w.hands_in)]
    plain = [
        c for c in classes if c.__module__ == mutants.__name__ and c.__bases__[0].__name__ == "MyAllocator"
    ]
    mine = plain[number % len(plain)]
    cell(
        nb, "02-first-fit-build"
    ).source += f"\n\n\n{inspect.getsource(mine)}\n\nMyAllocator = {mine.__name__}"


def wrong_choice(nb, source, number) -> None:
    solved(nb, source)
    sheet = loaded("sheet_lab02")
    wrong = [w.hands_in for w in sheet.BEST_FIT.wrong.values()][number % 6]
    helpers = [sheet.fits, sheet.raw_size, wrong]
    text = "\n\n".join(inspect.getsource(part) for part in helpers)
    cell(nb, "02-best-fit-build").source = f"{text}\n\nchoose = {wrong.__name__}"


def guessed(nb, source, number) -> None:
    solved(nb, source, lambda name: not name.endswith("-build"))
    cell(nb, "who").source += f'\nlearner("learner {number}")'


def everything(nb, source, number) -> None:
    solved(nb, source)


def nothing(nb, source, number) -> None:
    pass


WORK = (
    everything,
    half,
    wrong_allocator,
    builds_alone,
    wrong_choice,
    guessed,
    nothing,
    everything,
    half,
    wrong_choice,
)


def as_it_is(nb) -> bytes:
    return nbformat.writes(nb).encode()


def broken_up(nb) -> bytes:
    """Check cells deleted, renamed or copied, cells that fail, what was left over."""
    nb = copy.deepcopy(nb)
    new = nbformat.v4.new_code_cell
    nb.cells = [c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") != "02-pool"]
    nb.cells.insert(3, new("def broken(:"))
    nb.cells.insert(4, new("exit()"))
    cell(nb, "02-best-fit").source = "check = 6.0"
    nb.cells.insert(6, nbformat.from_dict({**cell(nb, "02-strand"), "id": "copied"}))
    nb.cells.append(new("import sys; print('late', file=sys.stderr); 1 / 0"))
    return nbformat.writes(nb).encode()


def from_another_editor(nb) -> bytes:
    """A byte order mark, other line ends, no ids, and 3 MB of stored output."""
    nb = copy.deepcopy(nb)
    nb.cells[2].outputs = [nbformat.v4.new_output("stream", text="x" * 3_000_000)]
    nb.nbformat_minor = 4
    for one in nb.cells:
        one.pop("id", None)
    return b"\xef\xbb\xbf" + json.dumps(nb, indent=1).replace("\n", "\r\n").encode()


MESS = (as_it_is, broken_up, from_another_editor)


def in_process(nb, course: Course, monkeypatch) -> dict[str, float]:
    """The points of ``nb`` by exercise, its cells run one by one in this process and judged in it."""
    scores, names = {}, {"display": lambda *_: None}
    monkeypatch.setattr(learner, "_desk", Desk())

    def check(name, make=None):
        exercise = exercises()[name]
        asker = InProcess(learner._maker(exercise, make)) if exercise.builds else None
        scores[name] = exercise.grade(course, learner._desk.said(name), asker)
        if asker is not None:
            asker.close()

    monkeypatch.setattr(learner, "check", check)
    monkeypatch.setattr(played, "PLAYS", 3)
    for picture in ("memory_map", "lanes"):  # drawing takes longer than judging
        monkeypatch.setattr(charts, picture, lambda *_, **__: None)
    for one in nb.cells:
        if one.cell_type == "code" and "watch" not in one.metadata.get("tags", []):
            try:
                exec(one.source, names)
            except Exception:
                exercise = graded_exercise(one)
                if exercise:
                    check(exercise)
    given = counted(scores, alternatives())
    return {name: given.get(name, (score.points, ""))[0] for name, score in scores.items()}


@pytest.fixture(scope="module")
def class_room(tmp_path_factory):
    """The class after the last command: its folder, what each handed in (before the mess), and what was said."""
    folder = tmp_path_factory.mktemp("class")
    (folder / "course").mkdir()
    (folder / "course" / "secret").write_text("self\n")  # the source's answers are those of the open door
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
    environment = kept | {
        "JUPYTER_CONFIG_PATH": str(REPO / "autograder"),
        "GPULAB_COURSE": str(folder / "course"),
        "GPULAB_EXCHANGE": str(folder / "exchange"),
    }
    source, works, said = nbformat.read(SOURCE, as_version=4), {}, {}

    def instructor(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "autograder", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    said["release"] = instructor("release", LAB, "--exchange")
    commands = [sys.executable, "-c", COMMANDS]
    shell = subprocess.Popen(
        commands, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with shell:

        def types(home: Path, *arguments: str) -> str:
            own = {"HOME": str(home), "JUPYTER_DATA_DIR": str(home / "jupyter")}
            print(json.dumps([str(home), own, arguments]), file=shell.stdin, flush=True)
            status, told = json.loads(shell.stdout.readline())
            assert status == 0, told
            return told

        homes = {f"learner{number:02}": folder / f"learner{number:02}" for number in range(HOW_MANY)}
        for number, (name, home) in enumerate(homes.items()):
            home.mkdir()
            types(home, "fetch_assignment", LAB)
            handed_in = home / LAB / f"{LAB}.ipynb"
            nb = nbformat.read(handed_in, as_version=4)
            WORK[number % len(WORK)](nb, source, number)
            works[name] = nb
            handed_in.write_bytes(MESS[number % len(MESS)](nb))
            types(home, "submit", LAB, f"--student={name}")
        said["grade"] = instructor("grade", LAB)
        for name, home in homes.items():
            said[name] = types(home, "fetch_feedback", LAB, f"--student={name}")
        shell.stdin.close()
    return folder, works, said


@pytest.mark.soak
def test_a_class_gets_the_marks_that_its_work_gets_in_process(class_room, monkeypatch):
    folder, works, said = class_room
    assert said["grade"].returncode == 0, said["grade"].stdout + said["grade"].stderr
    rows = {
        row["student"]: row
        for row in csv.DictReader((folder / "course" / "summary.csv").read_text().splitlines())
    }
    names = [name for name in exercises() if name.startswith("02.")]
    found = {name: {e: float(row[e.replace(".", "-")]) for e in names} for name, row in rows.items()}
    course = Course.load(folder / "course")
    monkeypatch.chdir(folder / "learner00" / LAB)  # beside the course's card
    assert found == {name: in_process(nb, course, monkeypatch) for name, nb in works.items()}
    assert {row["status"] for row in rows.values()} == {"graded"}
    assert len({row["score"] for row in rows.values()}) >= 5
    with open(folder / "course" / "grades.csv", encoding="utf-8") as file:
        exported = {row["student_id"]: round(float(row["score"]), 6) for row in csv.DictReader(file)}
    assert exported == {name: float(row["score"]) for name, row in rows.items()}


@pytest.mark.soak
def test_each_of_a_class_fetches_a_page_of_their_own(class_room):
    folder, works, _ = class_room
    for name in works:
        (page,) = (folder / name / LAB / "feedback").rglob("*.html")
        text = page.read_text(encoding="utf-8")
        assert 'class="gpulab-feedback"' in text
        assert [other for other in works if other != name and other in text] == []
