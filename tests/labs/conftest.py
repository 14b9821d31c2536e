"""A lab of six cells and a course folder of its own, for tests that need no real lab."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder import release
from autograder.places import Places

SOLUTION = """\
def double(number):
    ### BEGIN SOLUTION
    return 2 * number
    ### END SOLUTION"""

ANSWERS = """\
reserved_mib = 19080  # ANSWER
kept = dict(
    stranded_mib=9360,  # ANSWER
    shown=[1, 2],
)"""

TESTS = """\
assert double(4) == 8
### BEGIN HIDDEN TESTS
assert double(21) == 42, "expected 42"
### END HIDDEN TESTS"""


def meta(grade_id: str, **flags) -> dict:
    """nbgrader's metadata of one cell."""
    plain = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
    return {"nbgrader": {**plain, "grade_id": grade_id, **flags}}


def tiny_notebook():
    """Solution, answers, a test cell with a hidden part, a demonstration; saved on somebody's machine."""
    tests = meta("double", grade=True, locked=True, points=3, cell_type="code")
    cells = [
        new_markdown_cell("# Tiny", id="title"),
        new_code_cell("import math", id="setup", metadata=meta("setup", locked=True)),
        new_code_cell(SOLUTION, id="double-code", metadata=meta("double-code", solution=True)),
        new_code_cell(ANSWERS, id="answers", metadata=meta("answers", solution=True)),
        new_code_cell(TESTS, id="double", metadata=tests),
        new_code_cell("raise SystemError('watched')", id="watch", metadata={"tags": ["watch"]}),
    ]
    cells[1].outputs = [new_output("stream", text="/home/somebody\n")]
    cells[1].execution_count = 7
    nb = new_notebook(cells=cells)
    nb.metadata["kernelspec"] = {"display_name": "my own 3.11", "language": "python", "name": "python3"}
    nb.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    return nb


@dataclass
class Tiny:
    """The tiny lab's folders, and ways to hand something in."""

    places: Places
    name: str = "90-tiny"

    @property
    def source(self) -> Path:
        return self.places.labs / self.name / f"{self.name}.ipynb"

    @property
    def released(self) -> Path:
        return self.places.course / "release" / self.name / f"{self.name}.ipynb"

    def save(self, nb) -> None:
        """Write ``nb`` as the lab's source."""
        self.source.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, self.source)
        (self.source.parent / "instructor.md").write_text("The answer is 42.\n")

    def hand_in(self, student: str, nb) -> Path:
        """Put ``nb`` where nbgrader collects to, as ``student``'s."""
        path = self.places.step("submitted", student, self.name) / f"{self.name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, path)
        return path


def _tiny_in(folder: Path, environment: pytest.MonkeyPatch) -> Tiny:
    environment.setenv("GPULAB_LABS", str(folder / "labs"))
    environment.setenv("GPULAB_COURSE", str(folder / "course"))
    environment.delenv("GPULAB_EXCHANGE", raising=False)
    lab = Tiny(Places.found())
    lab.save(tiny_notebook())
    return lab


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Tiny:
    """The tiny lab in a course of its own, with its source written and nothing built."""
    return _tiny_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[Tiny]:
    """A tiny lab with its release, shared by the tests of a module that change nothing of it."""
    with pytest.MonkeyPatch.context() as environment:
        lab = _tiny_in(tmp_path_factory.mktemp("built"), environment)
        release.build(lab.name)
        yield lab


@pytest.fixture(scope="session")
def cell_meta():
    """A function that makes nbgrader's metadata of one cell."""
    return meta
