"""What is drawn alike for every answer to an exercise, remembered: drawing often takes longer than judging."""

import pickle
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module

from autograder.checks import exercises
from autograder.checks.lab07 import planning
from autograder.checks.lab07.claims import Claims
from autograder.course import Course

PUZZLE = Claims.puzzle
DRAWN = (  # module of autograder.checks, and what draws a graded input there (of 07.policy: plays the two baselines)
    ("lab02.first_fit", "graded_case"),
    ("lab02.pool", "graded_case"),
    ("lab03.block_pool", "drawn"),
    ("lab04.chunk", "graded_load"),
    ("lab04.deadline", "graded_case"),
    ("lab04.fair", "graded_case"),
    ("lab04.rank", "graded_case"),
    ("lab04.victim", "graded_case"),
    ("lab07.policy", "baseline"),
)
MOST = 100  # draws of each kind that are kept: two courses' graded cases and some public ones

_REACHED: dict[tuple, dict] = {}
_play = planning.reached


def once(draws: Callable) -> Callable:
    """``draws``, called once for equal arguments among the last ``MOST``; what it gives is shared."""
    kept: OrderedDict[bytes, object] = OrderedDict()

    @wraps(draws)
    def remembered(*given, **named):
        key = pickle.dumps((given, named))
        if key not in kept:
            kept[key] = draws(*given, **named)
        kept.move_to_end(key)
        while len(kept) > MOST:
            kept.popitem(last=False)
        return kept[key]

    return remembered


def draw_once(replace: Callable) -> None:
    """Let graded inputs and learners' tasks be drawn once; ``replace`` is ``setattr`` or a test's."""
    for (owner, name), draws in _draws().items():
        replace(owner, name, draws)


@cache
def _draws() -> dict[tuple[object, str], Callable]:
    """What to put in whose place; made once, so that one test finds what another has drawn."""
    drawn = [(import_module(f"autograder.checks.{place}"), name) for place, name in DRAWN]
    drawn += [(type(exercise), "puzzle") for exercise in exercises().values()]
    return {(owner, name): once(getattr(owner, name)) for owner, name in drawn}


def reached(case, plan, draw, shift):
    """``planning.reached``; equal plans on equal traces reach the same."""
    key = pickle.dumps((case, plan["devices"], plan["router"], draw, shift))
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
