"""Lab 07, serve: a case with three tenants, a plan, a policy, claims about a run, and a memo."""

from autograder.checks.lab07.break_it import ServeBreak
from autograder.checks.lab07.claims import Claims
from autograder.checks.lab07.plan import PlanExercise
from autograder.checks.lab07.policy import PolicyExercise
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [PlanExercise(), PolicyExercise(), Claims(), ServeBreak()]
