"""Lab 00, meet the device: submit once, end to end."""

from autograder.checks.lab00.read import Read
from autograder.checks.lab00.trap import Trap
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [Read(), Trap()]
