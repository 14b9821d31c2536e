"""No submission gets more than its honest part earns, reads what it should not, or leaves anything behind."""

import hashlib
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import nbgrader
import pytest

from autograder.course import Course
from autograder.execute import JudgedExecute
from autograder.feedback import FeedbackPage, HideGradedInputs
from autograder.sandbox_tree import processes
from autograder.sandbox_warm import warm
from tests.hostile.corpus import CANARY, batches, corpus, notebook, shown

GRADED = re.compile(r"graded[-_\W]{1,9}\d+|\[\d{6}\]|line \d{6}")
"""What those who carry graded inputs out make of them; their sources hold nothing of this form."""
FORMGRADER = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader"
TEMPLATES, STATIC = str(FORMGRADER / "templates"), str(FORMGRADER / "static/node_modules/bootstrap/dist/css")
REPO = Path(__file__).resolve().parents[2]


class Graded(JudgedExecute):
    """JudgedExecute for a course whose secret is the canary."""

    def load_course(self) -> Course:
        return Course.of("hostile", CANARY.encode())


@pytest.fixture
def course(tmp_path, monkeypatch) -> Iterator[Path]:
    """A course folder with a secret, a gradebook, another's submission; the canary is in each, and in the environment."""
    folder = tmp_path / "course"
    mine, other = (folder / "submitted" / name / "02-allocate" for name in ("ann", "bob"))
    for place in (mine, other):
        place.mkdir(parents=True)
    for path in (folder / "secret", folder / "gradebook.db", other / "02-allocate.ipynb"):
        path.write_text(CANARY)
    monkeypatch.setenv("GPULAB_COURSE_SECRET", CANARY)
    monkeypatch.setenv("GPULAB_COURSE", str(folder))
    with tempfile.TemporaryDirectory(
        prefix="short-"
    ) as scratch:  # pytest's own is too long for a socket's path
        monkeypatch.setattr(tempfile, "tempdir", scratch)
        yield folder


@pytest.fixture
def listening(tmp_path):
    """A port and a socket of the host that nobody may reach."""
    port, path = socket.create_server(("127.0.0.1", 0)), tmp_path / "host-socket"
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(path))
    local.listen()
    with port, local:
        yield port, path, local


def state_of(folder: Path) -> dict[str, str]:
    """Every path below ``folder`` with a digest of what is there."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def hand_in_beside(head: dict[str, str], folder: Path, course: Path) -> None:
    """Put beside the notebook what the head of a submission names."""
    if "Link" in head:
        link, _, target = head["Link"].partition(" -> ")
        (folder / link).symlink_to(target.replace("@COURSE@", str(course)))
    if "Large" in head:
        (folder / head["Large"]).write_bytes(bytes(2_000_000))
    if "Pipe" in head:
        os.mkfifo(folder / head["Pipe"])


def page_of(nb) -> str:
    """The feedback page of a graded notebook, which must be one that can be written and read."""
    read = nbformat.reads(nbformat.writes(nb).encode(), as_version=4)
    nbformat.validate(read)
    for cell in read.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader.update(score=0, comment="")
    page = FeedbackPage(
        template_name="feedback", extra_template_basedirs=[TEMPLATES], extra_template_paths=[STATIC]
    )
    page.register_preprocessor(HideGradedInputs, enabled=True)
    grades = {"score": 0.6, "max_score": 6, "late_penalty": 0}
    return page.from_notebook_node(read, {"nbgrader": grades})[0]


def reached(listener: socket.socket) -> bool:
    listener.settimeout(0)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("name", list(batches()))
def test_a_hostile_submission_gets_its_honest_mark_reads_nothing_and_leaves_nothing(name, course, listening):
    submissions = batches()[name]
    folder = course / "submitted" / "ann" / "02-allocate"
    port, path, local = listening
    knows = {
        "COURSE": str(course),
        "REPO": str(REPO),
        "PID": str(warm().pid),
        "PORT": str(port.getsockname()[1]),
        "SOCKET": str(path),
    }
    limits, points, timeout = {}, {one.head["Points"] for one in submissions}, 30
    for one in submissions:
        limits |= one.limits
        timeout = int(one.head.get("Timeout", timeout))
        hand_in_beside(one.head, folder, course)
    grade = Graded(limits=limits, timeout=timeout, iopub_timeout=3)
    grade.write_card(folder, grade.load_course())
    nb, before = notebook(submissions, knows), state_of(course)

    grade.preprocess(nb, {"nbgrader": {"student": "ann"}, "metadata": {"path": str(folder)}})

    (checked,) = (cell for cell in nb.cells if "nbgrader" in cell.metadata)
    feedback = checked.outputs
    assert {str(feedback[0].metadata["gpulab"]["points"])} == points, shown(checked)
    for one in submissions:
        told = "\n".join(shown(cell) for cell in nb.cells if cell.metadata.get("hostile") == one.name)
        told = f"{told} {' '.join(told.split())}"  # a line may arrive in two messages
        assert [word for word in one.words("Says") if word not in told] == [], (one.name, told)
        noted = feedback[0].data["text/plain"]
        assert [word for word in one.words("Note") if word not in noted] == [], (one.name, noted)
    assert CANARY not in "".join(shown(cell) for cell in nb.cells)
    assert GRADED.findall(page_of(nb)) == []
    assert nb.metadata["gpulab"] == {"sandbox": warm().way}
    assert len(str(grade.widget_state)) < 2_000_000
    assert state_of(course) == before
    assert [reached(port), reached(local)] == [False, False]
    assert list(processes(warm().pid)) == [warm().pid]
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert [
        str(p) for place in ("/tmp", "/dev/shm", "/var/tmp") for p in Path(place).glob("hostile-mark*")
    ] == []


def test_every_hostile_submission_says_what_it_tries_and_what_must_happen():
    assert [one.name for one in corpus() if not (one.head["Tries"] and one.head["Must"])] == []
    assert len(corpus()) >= 80
