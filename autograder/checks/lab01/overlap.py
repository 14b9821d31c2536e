"""01.overlap: which grants hold the same byte at the same time? A worked solution with one wrong line."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab01.case import Case
from autograder.checks.lab01.definition import (
    Definition,
    Misreading,
    graded_score,
    practice_case,
    trapped,
    visible_score,
)
from autograder.checks.lab01.hints import HINTS
from autograder.checks.lab01.ledgers import map_of, of_grants
from autograder.course import Course
from autograder.judge import Exercise
from autograder.verdict import Commitments, Score
from gpulab.telemetry.ledger import Ledger

OWNERS = ("chat", "code", "summary")
_PAGE, _TICK_NS = 512, 100

# The worked solution. Each line that can be planted wrong stands in braces.
_WORKED = '''def overlaps(grants):
    """Pairs of grants that hold one byte at one time."""
    # 1. leave out what holds nothing
    real = [g for g in grants if g["size"] > 0 and g["start"] < g["end"]]
    # 2. put the rest in order of address
    real.sort(key=lambda g: g["offset"])
    found = []
    for n, one in enumerate(real):
        # 3. look at those behind it, until one begins after its last byte
        end = one["offset"] + one["size"]
{behind}
{stop}
                break
            # 4. they share bytes: is there an instant at which both are held?
{apart}
                found.append(sorted([one["id"], other["id"]]))
    return sorted(found)
'''
_RIGHT = {
    "behind": "        for other in real[n + 1 :]:",
    "stop": '            if other["offset"] >= end:',
    "apart": '            if one["start"] < other["end"] and other["start"] < one["end"]:',
}
_PLANTED = {  # tag -> the line that stands there instead
    "touching-counts": {"stop": '            if other["offset"] > end:'},
    "neighbours-only": {"behind": "        for other in real[n + 1 : n + 2]:"},
    "time-only": {"stop": '            if other["offset"] < one["offset"]:'},
    "bytes-only": {"apart": '            if one["start"] < one["end"] and other["start"] < other["end"]:'},
    "same-owner-forgiven": {
        "apart": '            if one["owner"] != other["owner"] and '
        'one["start"] < other["end"] and other["start"] < one["end"]:'
    },
    "containment-missed": {
        "apart": '            if other["start"] <= one["start"] < other["end"] or '
        'other["start"] < one["end"] <= other["end"]:'
    },
}


def worked(tag: str = "") -> str:
    """The source of the worked solution, with the line of misconception ``tag`` planted in it."""
    return _WORKED.format_map(_RIGHT | _PLANTED.get(tag, {}))


def _as_written(tag: str = "") -> Callable[[Case], list]:
    """What the printed solution answers: the very text is run, so it cannot say otherwise."""
    made: dict = {}
    exec(compile(worked(tag), "<worked>", "exec"), made)
    return lambda case: made["overlaps"](case.lists["grants"])


def _end(grant: dict) -> int:
    return grant["offset"] + grant["size"]


def _touching_in_time(case: Case) -> list:
    return _pairs(case, lambda a, b: a["start"] <= b["end"] and b["start"] <= a["end"])


def _inside_in_space(case: Case) -> list:
    """Is an edge of the later grant in the earlier one?"""

    def edge_in(a: dict, b: dict) -> bool:
        return a["offset"] <= b["offset"] < _end(a) or a["offset"] < _end(b) <= _end(a)

    return _pairs(case, lambda a, b: _at_once(a, b) and edge_in(a, b))


def _at_once(a: dict, b: dict) -> bool:
    return a["start"] < b["end"] and b["start"] < a["end"]


def _pairs(case: Case, meet: Callable[[dict, dict], bool]) -> list:
    """The pairs that share bytes and ``meet``, the one with the smaller number given first."""
    real = [g for g in case.lists["grants"] if g["size"] and g["start"] < g["end"]]
    real.sort(key=lambda g: g["offset"])
    found = []
    for n, one in enumerate(real):
        for other in takewhile(lambda g, end=_end(one): g["offset"] < end, real[n + 1 :]):
            a, b = sorted((one, other), key=lambda g: g["id"])
            found += [[a["id"], b["id"]]] if meet(a, b) else []
    return sorted(found)


_MISREAD = {
    "touching-counts": Misreading(
        "Do grants {a} and {b} share a byte, or an instant? What does the bracket `)` say?",
        (_as_written("touching-counts"), _touching_in_time),
    ),
    "neighbours-only": Misreading(
        "Grant {a} also meets grant {b}, further down your order. When may you stop looking?",
        (_as_written("neighbours-only"),),
    ),
    "time-only": Misreading(
        "Grants {a} and {b} live at one time, at different addresses. Do they hold the same byte?",
        (_as_written("time-only"),),
    ),
    "bytes-only": Misreading(
        "One of grants {a} and {b} began when the other had ended. Was their byte ever held twice?",
        (_as_written("bytes-only"),),
    ),
    "same-owner-forgiven": Misreading(
        "Grants {a} and {b} have one owner: one byte, granted twice. Who frees it?",
        (_as_written("same-owner-forgiven"),),
    ),
    "containment-missed": Misreading(
        "Of grants {a} and {b} one lies wholly inside the other: whose edges do you look at?",
        (_as_written("containment-missed"), _inside_in_space),
    ),
}


def _drawn(draw: Random, rows: int) -> Case:
    """Grants on a coarse grid, so that edges touch; long ones among many short ones."""
    width, ticks = 2 * rows + 4, max(8, rows // 2)
    grants = []
    for number in draw.sample(range(1, 3 * rows + 1), rows):
        size = draw.choice((0, 1, 1, 2, 2, 3, 4, draw.randint(4, max(5, width // 8))))
        held = draw.choice((0, 1, 2, 2, 3, 4, draw.randint(3, 8)))
        offset, start = draw.randrange(width), draw.randrange(ticks)
        grants.append(
            {
                "id": number,
                "owner": draw.choice(OWNERS),
                "offset": offset * _PAGE,
                "size": size * _PAGE,
                "start": start * _TICK_NS,
                "end": (start + held) * _TICK_NS,
            }
        )
    return Case({"grants": tuple(grants)}, {})


def _names(case: Case, answer: object, key: list) -> tuple[str, dict]:
    given = answer if type(answer) is list else []
    missed, extra = ([p for p in key if p not in given], [p for p in given if p not in key])
    first = (missed + extra)[0] if missed + extra else [0, 0]
    event = f"the pair {first} is {'missing' if missed else 'one too many' if extra else 'out of order'}"
    if type(answer) is not list:
        event = "your answer is no list of pairs"
    a, b = first if type(first) is list and len(first) == 2 else (first, first)
    return event, {"a": a, "b": b}


def _picture(case: Case) -> object:
    return map_of(_ledger(case), "Who held which bytes when")


def _ledger(case: Case) -> Ledger:
    return of_grants(case.lists["grants"])


DEFINITION = Definition(
    exercise="01.overlap",
    function="overlaps",
    rule="Two grants overlap when one byte is held by both at one instant; [start, end) is without its end.",
    right=_as_written(),
    misread=_MISREAD,
    drawn=_drawn,
    names=_names,
    picture=_picture,
    large=400,
    empties=True,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """The learner's map, and the worked solution with the learner's wrong line."""

    grants: tuple[dict, ...]
    planted: str

    @property
    def source(self) -> str:
        """The worked solution, to copy."""
        return worked(self.planted)

    @property
    def ledger(self) -> Ledger:
        """The grants as a ledger, for a picture."""
        return of_grants(self.grants)

    def text(self) -> str:
        """The worked solution as text: one line of it is wrong."""
        return self.source


@final
class Overlap(Exercise):
    """``overlaps(grants)``: the pairs that hold a byte at one time."""

    id = "01.overlap"
    points = 3.0
    builds = True
    function = "overlaps"
    predicts = ("pairs",)
    hints = HINTS["01.overlap"]

    def example(self, course: Course) -> tuple[list, Callable]:
        grants = [
            {"id": 1, "owner": "chat", "offset": 0, "size": 1024, "start": 0, "end": 200},
            {"id": 2, "owner": "code", "offset": 512, "size": 1024, "start": 100, "end": 300},
        ]
        questions = [[1, "new", [{}], []], [2, "overlaps", [grants], []]]
        return questions, lambda: SimpleNamespace(overlaps=lambda grants: [[1, 2]])

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> object:
        if variant is not None:
            return practice_case(DEFINITION, course.public(self.id + "/variant", variant), size)
        draw = course.of_learner(self.id, learner)
        planted = draw.choice(list(_PLANTED))
        while True:  # a map on which the wrong line shows, and can be seen
            case = trapped(DEFINITION, draw, 9, planted)
            if 2 <= len(DEFINITION.right(case)) <= 7:
                return Shown(case.lists["grants"], planted)

    def watched(self, puzzle: object, part: str = "") -> Ledger:
        """The grants as a ledger."""
        return puzzle.ledger if isinstance(puzzle, Shown) else _ledger(puzzle)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return graded_score(self, DEFINITION, course, said, asker)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return visible_score(self, DEFINITION, course, said, asker)
