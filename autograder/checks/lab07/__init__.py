"""Lab 07, serve: the case."""

from autograder.checks.lab07.break_it import ServeBreak
from autograder.checks.lab07.plan import PlanExercise
from autograder.checks.lab07.policy import PolicyExercise
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [PlanExercise(), PolicyExercise(), ServeBreak()]
