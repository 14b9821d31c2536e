"""What learners watch keeps the laws of the audit, but where breaking them is the exercise."""

import pytest

from autograder.checks import exercises
from autograder.course import Course
from gpulab.errors import BrokenLaw
from gpulab.report.audit import check
from gpulab.telemetry.ledger import Ledger

UNLAWFUL = {"01.overlap", "01.capacity"}  # grants that meet, a device that is over full
COURSE = Course.self_study()


def ledgers(exercise, learner):
    """Every ledger that ``learner`` can watch or step through for ``exercise``."""
    task = exercise.puzzle(COURSE, learner)
    for part in ("a", "b"):
        try:
            yield exercise.watched(task, part)
        except NotImplementedError:
            break
    practice = exercise.puzzle(COURSE, "", 1, "tiny")
    try:
        found = exercise.reference(COURSE, practice)
    except NotImplementedError:
        return
    yield found


@pytest.mark.parametrize("name", [name for name in exercises() if name not in UNLAWFUL])
def test_each_ledger_that_a_learner_sees_is_sound(name):
    for learner in ("sam", "ann"):
        for ledger in ledgers(exercises()[name], learner):
            if isinstance(ledger, Ledger):
                check(ledger)


@pytest.mark.parametrize("name", sorted(UNLAWFUL))
def test_where_a_law_is_broken_on_purpose_the_audit_says_so(name):
    for ledger in ledgers(exercises()[name], "sam"):
        with pytest.raises(BrokenLaw):
            check(ledger)


def test_most_exercises_have_a_ledger_to_watch():
    seen = {name: len(list(ledgers(exercise, "sam"))) for name, exercise in exercises().items()}
    assert sum(count > 0 for count in seen.values()) >= 12
