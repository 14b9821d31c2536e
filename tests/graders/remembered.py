"""What plans of 07.plan reached and the runs of 07.claims, remembered: half a second each, and many are played twice."""

import json
from functools import cache

from autograder.checks import exercises
from autograder.checks.lab07 import planning
from autograder.checks.lab07.claims import Claims
from autograder.course import Course

PUZZLE = Claims.puzzle

_REACHED: dict[tuple, dict] = {}
_play = planning.reached


def reached(case, plan, draw, shift):
    """``planning.reached``; equal plans on equal traces reach the same."""
    key = repr(case), json.dumps([plan["devices"], plan["router"]]), draw.getstate(), shift
    if key not in _REACHED:
        _REACHED[key] = _play(case, plan, draw, shift)
    return _REACHED[key]


@cache
def drawn_once(course_id, name, variant):
    """The runs of 07.claims: drawn without the secret, so the name of the course is enough."""
    return PUZZLE(exercises()["07.claims"], Course(course_id, b"", {}), name, variant)


def drawn_runs(self, course, name, variant=None, size=""):
    """``Claims.puzzle``, played once; both give the same, see test_lab07_claims.py."""
    return drawn_once(course.course_id, name, variant)
