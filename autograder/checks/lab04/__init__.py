"""Lab 04, schedule: who runs next, and for how long."""

from autograder.checks.lab04.batching import Batching
from autograder.checks.lab04.break_order import BreakOrder
from autograder.checks.lab04.chunk import Chunk
from autograder.checks.lab04.convoy import ConvoyExercise
from autograder.checks.lab04.deadline import Deadline
from autograder.checks.lab04.fair import FairExercise
from autograder.checks.lab04.rank import RankExercise
from autograder.checks.lab04.victim import VictimExercise
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order: one server, then one batch."""
    one_server = [ConvoyExercise(), RankExercise(), FairExercise(), BreakOrder()]
    return [*one_server, Batching(), Chunk(), Deadline(), VictimExercise()]
