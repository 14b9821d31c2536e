"""Lab 04, schedule: time."""

from autograder.checks.lab04.batching import Batching
from autograder.checks.lab04.chunk import Chunk
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [
        Batching(),
        Chunk(),
    ]
