"""Lab 02, allocate: bytes."""

from autograder.checks.lab02.best_fit import BestFitExercise
from autograder.checks.lab02.break_it import BreakIt
from autograder.checks.lab02.first_fit import FirstFitExercise
from autograder.checks.lab02.pool import PoolExercise
from autograder.checks.lab02.predict_oom import PredictOom
from autograder.checks.lab02.strand import Strand
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [PredictOom(), FirstFitExercise(), BestFitExercise(), PoolExercise(), Strand(), BreakIt()]
