"""One mark explained: the same questions as when it was given, and nothing is touched."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from typer.testing import CliRunner

from autograder import release
from autograder.__main__ import app
from autograder.places import Places

LAB = "02-small"
CODE = "from autograder.learner import check\ndef choose(holes, size, alignment):\n    return None"


@pytest.fixture(scope="module")
def course(tmp_path_factory, cell_meta):
    """A course with one exercise of lab 02, handed in by ann, who never finds a hole, and by bob, who wrote nothing."""
    folder = tmp_path_factory.mktemp("why")
    graded = cell_meta("02-best-fit", grade=True, locked=True, points=2, cell_type="code")
    reading = cell_meta("02-strand", grade=True, locked=True, points=3, cell_type="code")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPULAB_LABS", str(folder / "labs"))
        environment.setenv("GPULAB_COURSE", str(folder / "course"))
        places = Places.found()
        (places.labs / LAB).mkdir(parents=True)
        cells = [
            new_code_cell(CODE, id="code", metadata=cell_meta("code", solution=True)),
            new_code_cell("check('02.best-fit', choose)", id="02-best-fit", metadata=graded),
            new_code_cell("check('02.strand')", id="02-strand", metadata=reading),
        ]
        nbformat.write(new_notebook(cells=cells), places.labs / LAB / f"{LAB}.ipynb")
        release.build(LAB)
        for student, code in (("ann", CODE), ("bob", "")):
            cells[0].source = code
            path = places.step("submitted", student, LAB) / f"{LAB}.ipynb"
            path.parent.mkdir(parents=True)
            nbformat.write(new_notebook(cells=cells), path)
        yield places


def why(*words: str):
    return CliRunner().invoke(app, ["why", *words, "--lab", LAB])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_the_conversation_is_told_and_kept_and_equal_each_time(course):
    before = contents(course.course)
    told = why("ann", "02.best-fit")
    assert told.exit_code == 0, told.output
    assert "02.best-fit: 0 of 2 points" in told.output
    assert "tag: " in told.output and '  judge [1, "new", [{}], []]' in told.output
    kept = course.course / "why" / LAB / "ann" / "02.best-fit.jsonl"
    pairs = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [question[0] for question, _ in pairs] == list(range(1, len(pairs) + 1))
    assert {answer[2] for _, answer in pairs} == {None}
    first = kept.read_bytes()
    assert why("ann", "02.best-fit").exit_code == 0 and kept.read_bytes() == first
    shutil.rmtree(course.course / "why")
    assert contents(course.course) == before  # no mark, no page


def test_where_nothing_was_asked_that_is_said(course):
    assert "The judge asked nothing" in why("ann", "02.strand").output
    told = why("bob", "02.best-fit")  # no code reached the judge, and that is an answer
    assert '  code  [1, "raised", ' in told.output and "1 questions" in told.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cyd", "02.best-fit"), "'cyd' has handed in nothing for 02-small; there is: ann, bob"),
        (("ann", "02.pool"), "02-small has no exercise '02.pool'; it has: 02.best-fit, 02.strand"),
    ],
)
def test_a_wrong_name_is_told_with_the_right_ones(course, words, said):
    told = why(*words)
    assert (told.exit_code, said in told.output.replace("\n", " ")) == (1, True)
