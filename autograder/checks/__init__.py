"""What the judge knows of each exercise: its cases, its laws, its bands and what feedback says."""

from autograder.judge import Exercise


def exercises() -> dict[str, Exercise]:
    """All exercises by id, in the order of the labs."""
    from autograder.checks import lab00, lab01, lab02, lab03, lab04, lab07

    labs = (lab00, lab01, lab02, lab03, lab04, lab07)
    return {exercise.id: exercise for lab in labs for exercise in lab.exercises()}


def alternatives() -> dict[str, str]:
    """Exercise to the one in whose place it may be done; the better of the two counts."""
    return {name: exercise.instead_of for name, exercise in exercises().items() if exercise.instead_of}
