"""The map of the labs and the instructors' pages name what there is: exercises, points, misconceptions."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.checks import alternatives, exercises

sys.path.insert(0, str(Path(__file__).parents[1] / "graders"))
from sheets import all_sheets

ROOT = Path(__file__).parents[2]

MAP = (ROOT / "labs" / "README.md").read_text(encoding="utf-8")
LABS = sorted(path.parent.name for path in ROOT.glob("labs/*/*.ipynb"))


def graded_points(lab):
    """Points by exercise id, as the notebook's graded cells say."""
    cells = nbformat.read(ROOT / "labs" / lab / f"{lab}.ipynb", as_version=4).cells
    found = {}
    for cell in cells:
        meta = cell.metadata.get("nbgrader", {})
        if meta.get("grade"):
            found[meta["grade_id"].replace("-", ".", 1)] = meta["points"]
    return found


def test_the_map_has_a_row_for_every_exercise_with_its_points():
    """One that may be done in another's place has them in words: in a notebook its cell is worth 0."""
    found = re.findall(r"^\| (\d\d\.[\w-]+) \| (\d+)(?: instead of ([\d.\w-]+))? \|", MAP, re.MULTILINE)
    rows = {name: 0.0 if other else float(points) for name, points, other in found}
    graded = {name: points for lab in LABS for name, points in graded_points(lab).items()}
    assert rows == graded
    assert {name: 0.0 if one.instead_of else one.points for name, one in exercises().items()}.items() <= (
        graded.items()
    )
    instead = {name: (float(points), other) for name, points, other in found if other}
    assert instead == {name: (exercises()[name].points, other) for name, other in alternatives().items()}


def test_what_may_be_done_in_anothers_place_is_of_the_same_lab_and_worth_as_much():
    for name, other in alternatives().items():
        assert (name[:2], exercises()[name].points) == (other[:2], exercises()[other].points)
        assert not exercises()[other].instead_of


def test_the_map_sums_the_points_of_each_lab():
    points = re.findall(r"^\| (\d\d) \| \[[^|]+\|[^|]+\| \d+ \| (\d+) \|", MAP, re.MULTILINE)
    assert {lab: float(total) for lab, total in points} == {
        lab[:2]: sum(graded_points(lab).values()) for lab in LABS
    }


@pytest.mark.parametrize("lab", LABS)
def test_an_instructors_page_names_misconceptions_that_are_acted_out(lab):
    page = (ROOT / "labs" / lab / "instructor.md").read_text(encoding="utf-8")
    table = page[page.index("**Misconceptions to expect**") :].split("\n\n")[1]
    named = set(re.findall(r"`([\w-]+)`", table.partition("|---|---|")[2]))
    acted = {name for sheet in all_sheets() if sheet.exercise[:2] == lab[:2] for name in sheet.wrong}
    graders = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "graders").glob("*.py"))
    assert {name for name in named - acted if f'"{name}"' not in graders} == set()
    assert len(named) >= 6
