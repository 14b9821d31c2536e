"""04.deadline or 04.victim: what a learner hears of it, and what stands in the gradebook's cells."""

import importlib
import inspect

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade

from autograder import learner as lab
from autograder.better import counted, shared
from autograder.checks import alternatives, exercises
from autograder.course import Course
from autograder.execute import JudgedExecute
from autograder.references.lab04_victim import victim
from autograder.shown import Shown
from autograder.verdict import Score

PAIR = ["04.deadline", "04.victim"]
RIGHT, STUB = True, False


def code(solved: bool, exercise: str, function: str) -> str:
    """The reference's own text, since a learner's kernel cannot read that file, or what is handed out."""
    if solved:
        return inspect.getsource(importlib.import_module(f"autograder.references.lab04_{exercise}"))
    return f'def {function}(view):\n    raise NotImplementedError("yours to write")'


class SelfStudy(JudgedExecute):
    def load_course(self) -> Course:
        return Course.self_study()


@pytest.mark.parametrize(
    ("deadline", "other", "grade"),
    [(RIGHT, STUB, 4.0), (STUB, RIGHT, 4.0), (RIGHT, RIGHT, 4.0), (STUB, STUB, 0.0)],
    ids=["deadline", "victim", "both", "neither"],
)
def test_whichever_is_solved_counts_in_the_first_ones_cell(deadline, other, grade, cell_meta, tmp_path):
    """Judged as builds alone: nobody predicted or reconciled, so that 70 % of the four points are there."""
    cells = [
        new_code_cell('from autograder.learner import *\nlearner("ann")'),
        new_code_cell(code(deadline, "deadline", "decide")),
        new_code_cell(
            'check("04.deadline", decide)',
            metadata=cell_meta("04-deadline", grade=True, locked=True, points=4),
        ),
        new_code_cell(code(other, "victim", "victim")),
        new_code_cell(
            'check("04.victim", victim)', metadata=cell_meta("04-victim", grade=True, locked=True, points=0)
        ),
    ]
    nb = new_notebook(cells=cells)
    SelfStudy().preprocess(nb, {"nbgrader": {"student": "ann"}, "metadata": {"path": str(tmp_path)}})
    assert determine_grade(nb.cells[2]) == (0.7 * grade, 4.0)
    assert determine_grade(nb.cells[4]) == (0.0, 0.0)
    for cell in (nb.cells[2], nb.cells[4]):
        assert "The better of 04.deadline and 04.victim counts" in cell.outputs[0].data["text/plain"]


def test_a_learners_own_check_says_which_two_share_their_points(capsys):
    shown = lab.check("04.victim", victim)
    assert shown.passed
    assert shown.text.splitlines()[-1] == "The better of 04.deadline and 04.victim counts."
    alone = Shown(Score("02.pool", 0.0, 3.5, "", ("",)), exercises()["02.pool"])
    assert "The better of" not in alone.text


def test_exercises_know_with_whom_they_share():
    assert alternatives()["04.victim"] == "04.deadline"
    assert [shared(name, alternatives()) for name in PAIR] == [PAIR, PAIR]
    assert shared("02.pool", alternatives()) == []


def test_of_three_for_the_same_points_the_best_counts():
    scores = {name: Score(name, points, 4.0) for name, points in (("a", 1.0), ("b", 3.0), ("c", 2.0))}
    found = counted(scores, {"b": "a", "c": "a"})
    assert {name: points for name, (points, _) in found.items()} == {"a": 3.0, "b": 0.0, "c": 0.0}
    assert "(a 1, b 3, c 2 of 4 points): b. Its points stand at a." in found["a"][1]
