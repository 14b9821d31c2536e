"""Lab 04, schedule: who is served next."""

from autograder.checks.lab04.break_order import BreakOrder
from autograder.checks.lab04.fair import FairExercise
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [FairExercise(), BreakOrder()]
