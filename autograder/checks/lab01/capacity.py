"""01.capacity: when do grants exceed what there is? A sweep over time, with two gaps."""

from collections.abc import Callable
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
    visible_score,
)
from autograder.checks.lab01.hints import HINTS
from autograder.checks.lab01.ledgers import of_grants, use_of
from autograder.course import Course
from autograder.judge import Exercise
from autograder.verdict import Commitments, Score
from gpulab.telemetry.ledger import Ledger

_PAGE, _TICK_NS = 512, 100
_OWNERS = ("chat", "code", "summary")


def _held(case: Case, at: int, *, size: str = "size", ends: bool = True, keeps: bool = False) -> int:
    """Bytes held at ``at``. ``keeps``: also those whose end is ``at``; without ``ends`` nothing ever ends."""
    return sum(
        grant[size]
        for grant in case.lists["grants"]
        if grant["start"] <= at and (not ends or at < grant["end"] or (keeps and at == grant["end"]))
    )


def _changes(case: Case) -> list[int]:
    return sorted({at for grant in case.lists["grants"] for at in (grant["start"], grant["end"])})


def _first(case: Case, over: Callable[[int], bool], **read: object) -> int | None:
    return next((at for at in _changes(case) if over(_held(case, at, **read))), None)


def _over(case: Case, **read: object) -> int | None:
    capacity = case.numbers["capacity"]
    return _first(case, lambda held: held > capacity, **read)


def _full(case: Case) -> int | None:
    capacity = case.numbers["capacity"]
    return _first(case, lambda held: held >= capacity)


def _grants_first(case: Case) -> int | None:
    """Over at an instant when what comes is added before what goes is taken away."""
    starts = {grant["start"] for grant in case.lists["grants"]}
    capacity = case.numbers["capacity"]
    return next(
        (at for at in _changes(case) if at in starts and _held(case, at, keeps=True) > capacity), None
    )


def _peak(case: Case) -> int | None:
    if _over(case) is None:
        return None
    return max(_changes(case), key=lambda at: (_held(case, at), -at))


def _who(case: Case) -> int | None:
    """The number of the grant that goes over, in the order in which grants came."""
    at = _over(case)
    if at is None:
        return None
    held = sum(g["size"] for g in case.lists["grants"] if g["start"] < at < g["end"])
    for grant in case.lists["grants"]:
        held += grant["size"] * (grant["start"] == at)
        if held > case.numbers["capacity"] and grant["start"] == at:
            return grant["id"]
    return None


_MISREAD = {
    "full-is-over": Misreading(
        "At {at} ns exactly the capacity is held. Is a full glass overfull?", (_full,)
    ),
    "grant-before-free": Misreading(
        "At {at} ns a grant ends and another one starts. Which comes first by the rule?", (_grants_first,)
    ),
    "peak-time": Misreading(
        "{at} ns is the worst instant. Which one was the first over the capacity?", (_peak,)
    ),
    "never-subtracts": Misreading(
        "Some grants had ended by {at} ns. Do you still count them?", (lambda case: _over(case, ends=False),)
    ),
    "asked-not-granted": Misreading(
        "A grant asked for less than it holds. Which of the two fills the device?",
        (lambda case: _over(case, size="asked"),),
    ),
    "returns-id": Misreading("The contract asks *when*, in ns. Is {at} an instant, or a grant?", (_who,)),
}


def _drawn(draw: Random, rows: int) -> Case:
    """Grants on a coarse grid; the capacity is a level that is reached exactly, sometimes the highest."""
    grants = []
    ticks = max(6, rows)
    starts = sorted(draw.randrange(ticks) for _ in range(rows))
    for number, start in zip(sorted(draw.sample(range(1, 3 * rows + 1), rows)), starts, strict=True):
        asked = draw.randint(1, 8 * _PAGE)
        grants.append(
            {
                "id": number,
                "owner": draw.choice(_OWNERS),
                "asked": asked,
                "size": -(-asked // _PAGE) * _PAGE,
                "start": start * _TICK_NS,
                "end": (start + draw.randint(1, 6)) * _TICK_NS,
            }
        )
    case = Case({"grants": tuple(grants)}, {"capacity": 0})
    levels = sorted({_held(case, at) for at in _changes(case)} - {0})
    highest = levels[-1] + _PAGE * draw.randrange(2)
    capacity = draw.choice((highest, *levels[len(levels) // 2 :]))
    return Case(case.lists, {"capacity": capacity})


def _names(case: Case, answer: object, key: object) -> tuple[str, dict]:
    when = "grants never exceed the capacity" if key is None else f"first over the capacity at {key:,} ns"
    return when, {"at": answer if type(answer) is int else key}


def _picture(case: Case) -> object:
    return use_of(_ledger(case), "Bytes held, against the capacity")


def _ledger(case: Case) -> Ledger:
    placed, top = [], 0  # stacked: where they lie does not matter here
    for grant in case.lists["grants"]:
        placed.append(grant | {"offset": top})
        top += grant["size"]
    return of_grants(placed, case.numbers["capacity"])


DEFINITION = Definition(
    exercise="01.capacity",
    function="first_over",
    rule="At every instant the granted bytes are at most the capacity; what ends at an instant is gone then.",
    right=_over,
    misread=_MISREAD,
    drawn=_drawn,
    names=_names,
    picture=_picture,
    rows=(8, 30),
    small=(2, 6),
    empties=True,
)


@final
class Capacity(Exercise):
    """``first_over(grants, capacity)``: the first instant at which more is granted than there is."""

    id = "01.capacity"
    points = 2.0
    builds = True
    function = "first_over"
    hints = HINTS["01.capacity"]

    def example(self, course: Course) -> tuple[list, Callable]:
        grant = {"id": 1, "owner": "chat", "asked": 700, "size": 1024, "start": 0, "end": 200}
        other = {"id": 2, "owner": "code", "asked": 512, "size": 512, "start": 100, "end": 300}
        questions = [[1, "new", [{}], []], [2, "first_over", [[grant, other], 1024], []]]
        return questions, lambda: SimpleNamespace(first_over=lambda grants, capacity: 100)

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """A practice case with its answer; there is no task of one's own."""
        return practice_case(DEFINITION, course.public(self.id + "/variant", variant or 0), size)

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """The grants as a ledger, stacked on each other."""
        return _ledger(puzzle)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return graded_score(self, DEFINITION, course, said, asker)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return visible_score(self, DEFINITION, course, said, asker)
