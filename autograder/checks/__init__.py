"""What the judge knows of each exercise: its cases, its laws, its bands and what feedback says."""

from autograder.judge import Exercise


def exercises() -> dict[str, Exercise]:
    """All exercises by id, in the order of the labs."""
    from autograder.checks import lab02

    return {exercise.id: exercise for exercise in lab02.exercises()}


def exercise_of(grade_id: str) -> str | None:
    """The exercise a notebook cell's ``grade_id`` names, None for any other cell.

    nbgrader refuses dots in a grade id, so ``02-first-fit`` there is ``02.first-fit`` here.
    """
    name = grade_id.replace("-", ".", 1)
    return name if name in exercises() else None
