"""Lab 01, define: definitions as code that rejects what is not one."""

from autograder.checks.lab01.account import AccountExercise
from autograder.checks.lab01.capacity import Capacity
from autograder.checks.lab01.choice import ChoiceExercise
from autograder.checks.lab01.lawful import Lawful
from autograder.checks.lab01.overlap import Overlap
from autograder.checks.lab01.sort import Sort
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [Overlap(), Capacity(), Lawful(), ChoiceExercise(), AccountExercise(), Sort()]
