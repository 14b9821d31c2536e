"""Lab 03, page: the KV cache in blocks."""

from autograder.checks.lab03.block_table import BlockTableExercise
from autograder.checks.lab03.share import ShareExercise
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [BlockTableExercise(), ShareExercise()]
