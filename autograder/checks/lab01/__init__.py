"""Lab 01, define: definitions as code that rejects what is not one."""

from autograder.checks.lab01.sort import Sort
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [Sort()]
