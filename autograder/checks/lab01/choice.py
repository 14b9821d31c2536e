"""01.choice: when did a rule have to choose? *Scarce* and *managed* as code."""

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
    same,
    visible_score,
)
from autograder.checks.lab01.hints import HINTS
from autograder.checks.lab01.ledgers import of_runs, use_of
from autograder.course import Course
from autograder.judge import Exercise
from autograder.verdict import Commitments, Score
from gpulab.telemetry.ledger import Ledger

_TICK_NS = 100
_INSTANTS_WORTH = 0.7  # of a case, when the instants are right and the candidates are not


def _free(case: Case, at: int) -> int:
    """Units nobody holds at ``at``: what ended is back, what starts at this instant is not granted yet."""
    held = sum(claim["size"] for claim in case.lists["claims"] if claim["start"] < at < claim["end"])
    return case.numbers["capacity"] - held


def _waiting(case: Case, at: int) -> list[dict]:
    return [claim for claim in case.lists["claims"] if claim["ready"] <= at <= claim["start"]]


def _instants(case: Case, *names: str) -> list[int]:
    return sorted({claim[name] for claim in case.lists["claims"] for name in names})


def _chosen(
    case: Case,
    *,
    instants: tuple[str, ...] = ("ready", "end"),
    free: Callable[[Case, int], int] = _free,
    fits: bool = True,
    short: bool = True,
    all_waiting: bool = False,
) -> list:
    """The rule, and its misreadings: without ``fits`` the smallest need not fit, without ``short`` all may."""
    found = []
    for at in _instants(case, *instants):
        waiting, room = _waiting(case, at), free(case, at)
        candidates = [claim for claim in waiting if claim["size"] <= room]
        wanted = sum(claim["size"] for claim in waiting)
        if waiting and (candidates or not fits) and (room < wanted or not short):
            listed = waiting if all_waiting else candidates
            found.append([at, sorted(claim["id"] for claim in listed)])
    return found


def _twice(case: Case) -> list:
    """One entry for each arrival and each finish, even at one instant."""
    claims = case.lists["claims"]
    events = [claim[name] for claim in claims for name in ("ready", "end")]
    return [entry for entry in _chosen(case) for _ in range(events.count(entry[0]))]


_MISREAD = {
    "nothing-fits-counted": Misreading(
        "At {at} ns the smallest claim that waits needs more than is free. Could any rule act?",
        (lambda case: _chosen(case, fits=False), lambda case: _chosen(case, fits=False, all_waiting=True)),
    ),
    "total-not-free": Misreading(
        "Look at {at} ns: the capacity is one number, how much of it is held then?",
        (lambda case: _chosen(case, free=lambda case, at: case.numbers["capacity"]),),
    ),
    "arrivals-only": Misreading(
        "At {at} ns a request finished. Did nobody get to choose then?",
        (lambda case: _chosen(case, instants=("ready",)),),
    ),
    "queue-means-choice": Misreading(
        "At {at} ns something waits, and all of it fits. What was there to decide?",
        (
            lambda case: _chosen(case, short=False),
            lambda case: _chosen(case, short=False, all_waiting=True),
            lambda case: _chosen(case, short=False, fits=False),
            lambda case: _chosen(case, short=False, fits=False, all_waiting=True),
        ),
    ),
    "twice-at-once": Misreading(
        "Two things happen at {at} ns. How many decisions are taken then?", (_twice,)
    ),
    "lists-misfits": Misreading(
        "At {at} ns one of your candidates needs more than is free. Could it have been chosen?",
        (lambda case: _chosen(case, all_waiting=True),),
    ),
}


def _drawn(draw: Random, rows: int) -> Case:
    """A run of a rule drawn with it, at a load from 0.3 to 1.2, on a grid so that events coincide."""
    capacity, load = draw.randint(8, 24), draw.uniform(0.3, 1.2)
    sizes = [draw.randint(1, max(2, capacity // 2)) for _ in range(rows)]
    holds = [draw.randint(1, 6) for _ in range(rows)]
    work = sum(size * hold for size, hold in zip(sizes, holds, strict=True))
    ticks = max(2, round(work / capacity / load))
    arrivals = sorted(draw.randrange(ticks) for _ in range(rows))
    jobs = list(zip(arrivals, sizes, holds, strict=True))
    starts = _run(jobs, capacity, by_size=draw.random() < 0.5)
    ids = sorted(draw.sample(range(1, 3 * rows + 1), rows))
    claims = tuple(
        {
            "id": number,
            "size": size,
            "ready": ready * _TICK_NS,
            "start": start * _TICK_NS,
            "end": (start + hold) * _TICK_NS,
        }
        for number, (ready, size, hold), start in zip(ids, jobs, starts, strict=True)
    )
    return Case({"claims": claims}, {"capacity": capacity})


def _run(jobs: list[tuple[int, int, int]], capacity: int, *, by_size: bool) -> list[int]:
    """When each of ``(ready, size, hold)`` starts: the oldest first, or the smallest that fits."""
    starts: dict[int, int] = {}
    at = 0
    while len(starts) < len(jobs):
        room = capacity - sum(jobs[n][1] for n, start in starts.items() if at < start + jobs[n][2])
        waiting = [n for n, job in enumerate(jobs) if n not in starts and job[0] <= at]
        for n in sorted(waiting, key=lambda n: (jobs[n][1] if by_size else 0, n)):
            if jobs[n][1] > room:
                break
            starts[n], room = at, room - jobs[n][1]
        at += 1
    return [starts[n] for n in range(len(jobs))]


def _credit(answer: object, key: list) -> float:
    """Most of a case for the right instants."""
    pairs = type(answer) is list and all(type(entry) is list and len(entry) == 2 for entry in answer)
    return _INSTANTS_WORTH * (pairs and same([entry[0] for entry in answer], [entry[0] for entry in key]))


def _names(case: Case, answer: object, key: list) -> tuple[str, dict]:
    given = answer if type(answer) is list else []
    missed, extra = [e for e in key if e not in given], [e for e in given if e not in key]
    twice = [entry for entry in given if given.count(entry) > key.count(entry)]
    first = min(
        (e for e in missed + extra + twice if type(e) is list and e), key=lambda e: e[:1], default=[0]
    )
    if type(first[0]) is not int:
        first = [0]
    at = first[0]
    if type(answer) is not list:
        return "your answer is no list", {"at": f"{at:,}"}
    room, waiting = _free(case, at), [(claim["id"], claim["size"]) for claim in _waiting(case, at)]
    listed = ", ".join(f"#{number} needs {size}" for number, size in waiting) or "nothing waits"
    return f"at {at:,} ns {room} are free; {listed}", {"at": f"{at:,}"}


def _picture(case: Case) -> object:
    return use_of(_ledger(case), "Held, and waited for")


def _ledger(case: Case) -> Ledger:
    return of_runs(case.lists["claims"], case.numbers["capacity"])


def _worth(case: Case, key: list) -> bool:
    """Somebody waits who would not fit, else whoever lists them loses too little."""
    return not key or _chosen(case, all_waiting=True) != key


DEFINITION = Definition(
    exercise="01.choice",
    function="choices",
    rule="A rule had to choose at an arrival or a finish when the smallest waiting claim fits and not all do.",
    right=_chosen,
    misread=_MISREAD,
    drawn=_drawn,
    names=_names,
    picture=_picture,
    credit=_credit,
    rows=(8, 20),
    small=(2, 6),
    worth=_worth,
    empties=True,
)


@final
class ChoiceExercise(Exercise):
    """``choices(claims, capacity)``: the instants at which a rule had to choose, and among whom."""

    id = "01.choice"
    points = 3.0
    builds = True
    function = "choices"
    predicts = ("percent",)
    hints = HINTS["01.choice"]

    def example(self, course: Course) -> tuple[list, Callable]:
        claims = [
            {"id": 1, "size": 4, "ready": 0, "start": 0, "end": 200},
            {"id": 2, "size": 6, "ready": 0, "start": 200, "end": 300},
        ]
        questions = [[1, "new", [{}], []], [2, "choices", [claims, 8], []]]
        return questions, lambda: SimpleNamespace(choices=lambda claims, capacity: [[0, [1, 2]]])

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """The learner's own run of 16 requests; for practice a fresh case with its answer."""
        if variant is not None:
            return practice_case(DEFINITION, course.public(self.id + "/variant", variant), size)
        draw = course.of_learner(self.id, learner)
        while True:  # a run in which a rule had to choose now and then, and not always
            case = _drawn(draw, 16)
            if 3 <= len(_chosen(case)) <= 12:
                return case

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """The run as a ledger."""
        return _ledger(puzzle)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return graded_score(self, DEFINITION, course, said, asker)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return visible_score(self, DEFINITION, course, said, asker)
