"""What each exercise must give to whom: the right answer, the stub, each misconception, each shortcut.

One ``Sheet`` an exercise, in ``sheet_labNN.py`` beside this file (a list called ``SHEETS``). The same tests
run over all sheets (test_exercises.py); what only one exercise has stands in test_labNN*.py.
"""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.course import Course
from autograder.verdict import Commitments, Score

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Wrong:
    """One misconception: what it hands in, the share it must get (lowest, highest) and the tag.

    ``rarely`` is a tag that it gets instead in at most one course of twenty, where its answers are those of that misreading.

    ``hands_in`` is a class or function for a build; else a function from (course, learner) to the fields
    of ``answer``.
    """

    hands_in: Callable
    lowest: float
    highest: float
    tag: str
    question: str = ""  # a piece of the question that the feedback must ask
    rarely: str = ""


@dataclass(frozen=True)
class Sheet:
    """All that is known of one exercise's marks.

    Attributes:
        right: hands in what earns full marks (a class or function; for answers (course, learner) -> fields).
        said: (course, learner) -> Commitments with the right prediction and reconciling, where there are any.
        wrong: name -> Wrong, at least six.
        stub: the skeleton as handed out, for builds.
        constants: what somebody tries who does not look: classes or functions, or dicts of fields.
        shortcuts: short adapters around what gpulab ships; each stays at half of the build.
        secret_numbers: course -> numbers (>= 1,000) that stand in graded inputs and in no public one.
        cuts: where its bands begin (0 to 1), for builds whose bands are not the standard ones.
    """

    exercise: str
    right: Callable
    wrong: dict[str, Wrong]
    said: Callable[[Course, str], Commitments] = lambda course, learner: Commitments(learner)
    stub: Callable | None = None
    constants: tuple = ()
    shortcuts: tuple = ()
    secret_numbers: Callable[[Course], set[int]] | None = field(default=None)
    cuts: tuple[float, ...] = ()

    @property
    def builds(self) -> bool:
        return exercises()[self.exercise].builds


def course_of(number: int) -> Course:
    """The course of test secret ``number``."""
    return Course.of(f"course {number}", f"secret {number}".encode())


def graded(sheet: Sheet, hands_in: object, course: Course, said: Commitments) -> tuple[Score, int]:
    """The score of a build, judged in process, and how many questions that took."""
    exercise = exercises()[sheet.exercise]
    make = hands_in
    if exercise.function:
        make = lambda **_: SimpleNamespace(**{exercise.function: hands_in})
    asker = InProcess(make)
    try:
        return exercise.grade(course, said, asker), asker.asked
    finally:
        asker.close()


def answered(sheet: Sheet, fields: dict, course: Course, said: Commitments) -> Score:
    """The score of a reading task on which ``fields`` were typed."""
    typed = Commitments(said.learner, said.predicted, said.reconciled, fields)
    return exercises()[sheet.exercise].grade(course, typed, None)


def score_of(sheet: Sheet, hands_in: object, course: Course, learner: str, said: Commitments) -> Score:
    """The score of ``hands_in``, a build or the fields of a reading task (or what makes them)."""
    if sheet.builds:
        return graded(sheet, hands_in, course, said)[0]
    return answered(sheet, hands_in(course, learner) if callable(hands_in) else hands_in, course, said)


def all_sheets() -> list[Sheet]:
    """The sheets of every lab, in order."""
    found = []
    for path in sorted(HERE.glob("sheet_lab*.py")):
        found += loaded(path.stem).SHEETS
    return found


def sheet_files() -> dict[str, Path]:
    """Exercise to the file of its sheet."""
    return {
        sheet.exercise: path
        for path in sorted(HERE.glob("sheet_lab*.py"))
        for sheet in loaded(path.stem).SHEETS
    }


def loaded(name: str):
    """A module beside this file, imported once."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]
