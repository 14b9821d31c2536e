"""One misconception of each exercise in the sandbox, as learners hand it in: tag and points are those given in process."""

import inspect
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder import references
from autograder.checks import exercises, played
from autograder.execute import JudgedExecute
from autograder.sandbox_warm import warm
from autograder.verdict import Commitments
from gpulab.report import charts

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, loaded, score_of, sheet_files

HERE = Path(__file__).parent
SHEETS = {
    name: next(s for s in loaded(path.stem).SHEETS if s.exercise == name)
    for name, path in sheet_files().items()
}
QUICK = {"07.policy": "over-budget"}  # others take 10 s
LABS = sorted({name[:2] for name in SHEETS})


class Graded(JudgedExecute):
    """JudgedExecute for the course of a test secret."""

    def load_course(self):
        return course_of(0)


class Texts:
    """Imports modules from their texts: neither sheets nor references lie in the sandbox."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec

        if name not in self.texts:
            return None
        return ModuleSpec(name, self, origin=f"{name}.py", is_package=name == "autograder.references")

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        module.__file__ = module.__spec__.origin
        exec(compile(self.texts[module.__name__], module.__file__, "exec"), vars(module))


def texts() -> dict[str, str]:
    """The modules beside this file and the references, by the name they are imported under."""
    beside = [path for path in HERE.glob("*.py") if not path.stem.startswith(("test_", "conftest", "table"))]
    found = {path.stem: path.read_text(encoding="utf-8") for path in beside}
    for path in Path(references.__path__[0]).glob("*.py"):
        found[f"autograder.references.{path.stem}"] = path.read_text(encoding="utf-8")
    return found | {"autograder.references": ""}


def chosen(name: str):
    """The name and the misconception that is handed in for the exercise ``name``."""
    wrong = SHEETS[name].wrong
    return next((w, wrong[w]) for w in (QUICK.get(name), *wrong) if w)


def handed_in(lab: str):
    """A notebook with a misconception for each exercise of ``lab``; ``{exercise: index of its check cell}``."""
    setup = (
        f"import sys\n{inspect.getsource(Texts)}\n"
        f"sys.meta_path.insert(0, Texts({texts()!r}))\n"
        "import lab02_adapters, lab02_mutants\n"  # which a sheet loads from its own folder
        "from autograder.learner import *\nlearner('ann')"
    )
    cells, checks = [new_code_cell(setup)], {}
    for name, exercise in exercises().items():
        if name[:2] != lab or name not in SHEETS:
            continue
        wrong = chosen(name)[0]
        if exercise.builds:
            module = sheet_files()[name].stem
            found = f"next(s for s in {module}.SHEETS if s.exercise == {name!r}).wrong[{wrong!r}].hands_in"
            cells.append(new_code_cell(f"import {module}\nmine = {found}"))
        else:
            cells.append(new_code_cell(f"answer({name!r}, **{answers(name)!r})"))
        checks[name] = len(cells)
        source = f"check({name!r}, mine)" if exercise.builds else f"check({name!r})"
        meta = {
            "grade_id": name.replace(".", "-"),
            "grade": True,
            "points": exercise.points,
            "cell_type": "code",
        }
        meta |= {"schema_version": 3, "solution": False, "locked": True, "task": False}
        cells.append(new_code_cell(source, metadata={"nbgrader": meta}))
    nb = new_notebook(cells=cells)
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nb, checks


def answers(name: str) -> dict:
    """The fields that somebody with the chosen misconception types."""
    hands_in = chosen(name)[1].hands_in
    return hands_in(course_of(0), "ann") if callable(hands_in) else hands_in


@pytest.mark.parametrize("lab", LABS)
def test_a_misconception_handed_in_gets_the_tag_and_the_points_it_gets_in_process(lab, tmp_path, monkeypatch):
    for picture in ("memory_map", "lanes"):  # drawing takes longer than judging
        monkeypatch.setattr(charts, picture, lambda *_, **__: None)
    monkeypatch.setattr(played, "PLAYS", 3)
    nb, checks = handed_in(lab)
    grade = Graded(timeout=60)

    grade.preprocess(nb, {"nbgrader": {"student": "ann"}, "metadata": {"path": str(tmp_path)}})

    assert nb.metadata["gpulab"] == {"sandbox": warm().way}
    marks = {name: nb.cells[index].outputs[0].metadata["gpulab"] for name, index in checks.items()}
    found = {name: (mark["points"], mark["tag"]) for name, mark in marks.items()}
    said = Commitments("ann")
    scores = {
        name: score_of(SHEETS[name], chosen(name)[1].hands_in, course_of(0), "ann", said) for name in checks
    }
    assert found == {name: (score.points, score.tag) for name, score in scores.items()}
    assert {name: tag for name, (_, tag) in found.items()} == {name: chosen(name)[1].tag for name in checks}


def test_each_exercise_with_a_sheet_is_in_one_of_the_notebooks():
    assert sorted(name for lab in LABS for name in handed_in(lab)[1]) == sorted(SHEETS)
