"""A class by the README's lines alone: each fetches, works, hands in, is graded, fetches feedback; marks as in process.

One of them hands in the text of lab 01 besides, and an instructor reads it in nbgrader's form grader.
"""

import copy
import csv
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import final

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
from tests.labs.formgrader import opened

sys.path.insert(0, str(Path(__file__).parents[1] / "graders"))
from sheets import loaded

LAB, WRITTEN = "02-allocate", "01-define"
WRITER, CELL = "learner00", "01-sentence"
COMMENT = "Names a unit; what would be an exception?"
SCRIPT = "<script>steal()</script>"
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


@final
class ClassRoom:
    """A course in ``folder``: who teaches and who learns type commands there; what each handed in, before the mess."""

    def __init__(self, folder: Path) -> None:
        kept = {n: os.environ[n] for n in ("PATH", "LANG", "TMPDIR", "PYTHONPATH") if n in os.environ}
        self.folder, self.works = folder, {}
        self.course = folder / "course"
        self.environment = kept | {
            "JUPYTER_CONFIG_PATH": str(REPO / "autograder"),
            "GPULAB_COURSE": str(self.course),
            "GPULAB_EXCHANGE": str(folder / "exchange"),
        }
        commands = [sys.executable, "-c", COMMANDS]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.shell = subprocess.Popen(commands, cwd=folder, env=self.environment, text=True, **pipes)

    def instructor(self, *arguments: str) -> str:
        """What the command says, which must end with 0."""
        command = [sys.executable, "-m", "autograder", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def types(self, name: str, *arguments: str) -> str:
        """What nbgrader says to the learner ``name``."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "JUPYTER_DATA_DIR": str(home / "jupyter")}
        print(json.dumps([str(home), own, arguments]), file=self.shell.stdin, flush=True)
        status, told = json.loads(self.shell.stdout.readline())
        assert status == 0, told
        return told

    def hands_in(self, name: str, lab: str, work) -> None:
        """``name`` fetches ``lab``, makes the bytes ``work(notebook)`` of it and hands them in."""
        self.types(name, "fetch_assignment", lab)
        file = self.folder / name / lab / f"{lab}.ipynb"
        file.write_bytes(work(nbformat.read(file, as_version=4)))
        self.types(name, "submit", lab, f"--student={name}")

    def summary(self) -> dict[str, dict[str, str]]:
        """The rows of the last grading by student."""
        lines = (self.course / "summary.csv").read_text().splitlines()
        return {row["student"]: row for row in csv.DictReader(lines)}


@pytest.fixture(scope="module")
def class_room(tmp_path_factory):
    """The class after the last command of lab 02."""
    folder = tmp_path_factory.mktemp("class")
    (folder / "course").mkdir()
    (folder / "course" / "secret").write_text("self\n")  # the source's answers are those of the open door
    room, source = ClassRoom(folder), nbformat.read(SOURCE, as_version=4)
    room.instructor("release", LAB, WRITTEN, "--exchange")
    for number in range(HOW_MANY):
        name = f"learner{number:02}"

        def work(nb, number=number, name=name) -> bytes:
            WORK[number % len(WORK)](nb, source, number)
            room.works[name] = nb
            return MESS[number % len(MESS)](nb)

        room.hands_in(name, LAB, work)
    room.instructor("grade", LAB)
    for name in room.works:
        room.types(name, "fetch_feedback", LAB, f"--student={name}")
    with room.shell:  # closes what it reads from, then waits for it
        yield room


@pytest.mark.soak
def test_a_class_gets_the_marks_that_its_work_gets_in_process(class_room, monkeypatch):
    rows = class_room.summary()
    names = [name for name in exercises() if name.startswith("02.")]
    found = {name: {e: float(row[e.replace(".", "-")]) for e in names} for name, row in rows.items()}
    course = Course.load(class_room.course)
    monkeypatch.chdir(class_room.folder / "learner00" / LAB)  # beside the course's card
    assert found == {name: in_process(nb, course, monkeypatch) for name, nb in class_room.works.items()}
    assert {row["status"] for row in rows.values()} == {"graded"}
    assert len({row["score"] for row in rows.values()}) >= 5
    with open(class_room.course / "grades.csv", encoding="utf-8") as file:
        exported = {row["student_id"]: round(float(row["score"]), 6) for row in csv.DictReader(file)}
    assert exported == {name: float(row["score"]) for name, row in rows.items()}


@pytest.mark.soak
def test_each_of_a_class_fetches_a_page_of_their_own(class_room):
    for name in class_room.works:
        (page,) = (class_room.folder / name / LAB / "feedback").rglob("*.html")
        text = page.read_text(encoding="utf-8")
        assert 'class="gpulab-feedback"' in text
        assert [other for other in class_room.works if other != name and other in text] == []


@pytest.fixture(scope="module")
def read_by_a_person(class_room):
    """One of the class hands in a text; what the form grader shows; a mark and a comment are given there.

    The class's scores, what was shown by name, and the text's row of the summary before and after.
    """
    source = nbformat.read(REPO / "labs" / WRITTEN / f"{WRITTEN}.ipynb", as_version=4)
    shown = {"scores": {name: float(row["score"]) for name, row in class_room.summary().items()}}

    def work(nb) -> bytes:
        solved(nb, source, lambda name: name in ("who", "01-sentence"))
        nb.cells.insert(1, nbformat.v4.new_markdown_cell(SCRIPT))
        nb.cells.insert(2, nbformat.v4.new_code_cell(f"from IPython.display import HTML; HTML({SCRIPT!r})"))
        return as_it_is(nb)

    class_room.hands_in(WRITER, WRITTEN, work)
    class_room.instructor("grade", WRITTEN)
    before = class_room.summary()
    with opened(class_room.folder, class_room.environment) as grader:
        shown["stranger"] = grader.asks("GET", "api/assignments", token="")[0]
        shown["labs"] = {one["name"]: one for one in grader.api("assignments")}
        shown["marks"] = {one["student"]: one for one in grader.api(f"submitted_notebooks/{LAB}/{LAB}")}
        (text,) = grader.api(f"submitted_notebooks/{WRITTEN}/{WRITTEN}")
        shown["page"] = grader.page(f"submissions/{text['id']}/")
        grades, comments = (
            {one["name"]: one for one in grader.api(f"{kind}?submission_id={text['id']}")}
            for kind in ("grades", "comments")
        )
        shown["text"] = text, grades[CELL]
        grader.api(f"grade/{grades[CELL]['id']}", "PUT", {"manual_score": 2.5})
        grader.api(f"comment/{comments[CELL]['id']}", "PUT", {"manual_comment": COMMENT})
        shown["after"] = grader.api(f"submission/{WRITTEN}/{WRITER}")
    class_room.instructor("grade", WRITTEN, "--force")
    return shown, before[WRITER], class_room.summary()[WRITER]


def test_the_form_grader_lists_the_class_with_the_marks_of_the_gradebook(read_by_a_person):
    shown, _, _ = read_by_a_person
    assert shown["stranger"] in (302, 403)
    handed_in = {name: lab["num_submissions"] for name, lab in shown["labs"].items()}
    assert {name: count for name, count in handed_in.items() if count} == {LAB: HOW_MANY, WRITTEN: 1}
    assert {shown["labs"][name]["status"] for name in (LAB, WRITTEN)} == {"released"}
    assert {name: round(one["score"], 6) for name, one in shown["marks"].items()} == shown["scores"]
    assert not any(one["needs_manual_grade"] for one in shown["marks"].values())


def test_a_submission_opens_in_the_form_grader_and_nothing_of_it_runs_there(read_by_a_person):
    shown, before, _ = read_by_a_person
    text, grade = shown["text"]
    assert text["needs_manual_grade"] and (grade["auto_score"], grade["max_score"]) == (None, 3.0)
    assert f'id="{CELL}-comment"' in shown["page"]
    assert "The resource is what is counted" in shown["page"]
    assert SCRIPT not in shown["page"]
    assert shown["page"].count("&lt;script&gt;steal()&lt;/script&gt;") >= 2
    assert f"{CELL}: to be read by a person (3 points)" in before["notes"]


def test_a_mark_and_a_comment_given_in_the_form_grader_stay_and_reach_the_learner(
    class_room, read_by_a_person
):
    shown, before, after = read_by_a_person
    assert shown["after"]["score"] == float(before["score"]) + 2.5 == float(after["score"])
    assert (before[CELL], after[CELL]) == ("", "2.5")
    assert f"{CELL}: the mark that a person gave stands" in after["notes"]
    class_room.types(WRITER, "fetch_feedback", WRITTEN, f"--student={WRITER}")
    (page,) = (class_room.folder / WRITER / WRITTEN / "feedback").rglob("*.html")
    text = page.read_text(encoding="utf-8")
    assert COMMENT in text and "Score: 2.5 / 3.0" in text
