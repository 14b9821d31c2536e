"""Lab 04, schedule: who is served next."""

from autograder.checks.lab04.deadline import Deadline
from autograder.checks.lab04.victim import VictimExercise
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [Deadline(), VictimExercise()]
