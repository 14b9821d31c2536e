"""01.lawful: which work touched bytes that its owner did not hold?"""

from collections.abc import Callable, Iterable
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
from autograder.checks.lab01.ledgers import map_of, of_grants
from autograder.course import Course
from autograder.judge import Exercise
from autograder.verdict import Commitments, Score
from gpulab.telemetry.ledger import Ledger

_PAGE, _TICK_NS = 512, 100
_OWNERS = ("chat", "code", "summary")
_LANE = 8  # pages: each pattern has addresses of its own


def _end(row: dict) -> int:
    return row["offset"] + row["size"]


def _bytes_missing(grants: Iterable[dict], work: dict) -> bool:
    """Is a byte of ``work`` in none of ``grants``?"""
    at = work["offset"]
    for grant in sorted(grants, key=lambda grant: grant["offset"]):
        if grant["offset"] <= at:
            at = max(at, _end(grant))
    return at < _end(work)


def _own(case: Case, work: dict) -> list[dict]:
    return [grant for grant in case.lists["grants"] if grant["owner"] == work["owner"]]


def _at(grants: Iterable[dict], at: int) -> list[dict]:
    return [grant for grant in grants if grant["start"] <= at < grant["end"]]


def _instants(case: Case, work: dict) -> list[int]:
    """The start of ``work`` and each instant during it at which anybody's grants changed."""
    edges = {at for grant in case.lists["grants"] for at in (grant["start"], grant["end"])}
    return [work["start"], *sorted(at for at in edges if work["start"] < at < work["end"])]


def _ids(case: Case, broken: Callable[[dict], bool]) -> list[int]:
    return sorted(work["id"] for work in case.lists["work"] if broken(work))


def _unlawful(case: Case) -> list[int]:
    def broken(work: dict) -> bool:
        return any(_bytes_missing(_at(_own(case, work), at), work) for at in _instants(case, work))

    return _ids(case, broken)


def _at_start(case: Case) -> list[int]:
    return _ids(case, lambda work: _bytes_missing(_at(_own(case, work), work["start"]), work))


def _touch(case: Case) -> list[int]:
    def broken(work: dict) -> bool:
        own = _own(case, work)
        held = ([g for g in _at(own, at) if _meets(g, work)] for at in _instants(case, work))
        return not all(held)

    return _ids(case, broken)


def _meets(grant: dict, work: dict) -> bool:
    return grant["offset"] < _end(work) and work["offset"] < _end(grant)


def _one_grant(case: Case) -> list[int]:
    def holds(grant: dict, work: dict) -> bool:
        inside = grant["offset"] <= work["offset"] and _end(work) <= _end(grant)
        return inside and grant["start"] <= work["start"] and work["end"] <= grant["end"]

    return _ids(case, lambda work: not any(holds(grant, work) for grant in _own(case, work)))


def _anybody(case: Case) -> list[int]:
    def broken(work: dict) -> bool:
        return any(_bytes_missing(_at(case.lists["grants"], at), work) for at in _instants(case, work))

    return _ids(case, broken)


def _with_end(case: Case) -> list[int]:
    def broken(work: dict) -> bool:
        instants = [*_instants(case, work), work["end"]]
        return any(_bytes_missing(_at(_own(case, work), at), work) for at in instants)

    return _ids(case, broken)


def _both_ends(case: Case) -> list[int]:
    def broken(work: dict) -> bool:
        own = _own(case, work)
        return any(_bytes_missing(_at(own, at), work) for at in (work["start"], work["end"] - 1))

    return _ids(case, broken)


_MISREAD = {
    "start-only": Misreading("Work {a} was covered when it began. Until when?", (_at_start,)),
    "touch-is-enough": Misreading(
        "Work {a}: were all of its bytes held by its owner, or only some?", (_touch,)
    ),
    "any-owner": Misreading("The bytes of work {a} were held all the time. By whom?", (_anybody,)),
    "one-grant-must-cover": Misreading(
        "Grants of one owner, edge to edge, cover work {a}. Is any byte missing at any time?", (_one_grant,)
    ),
    "end-inclusive": Misreading(
        "Work {a} ends when its grant does. Is that instant still inside `[start, end)`?", (_with_end,)
    ),
    "aba": Misreading(
        "Work {a}: same bytes, same owner, before and after. Who held them in between?", (_both_ends,)
    ),
}


def _row(owner: str, offset: int, size: int, start: int, end: int) -> dict:
    return {"owner": owner, "offset": offset, "size": size, "start": start, "end": end}


def _pattern(draw: Random, kind: str, base: int) -> tuple[list[dict], list[dict]]:
    """Grants and work of one kind on the pages from ``base`` on, in pages and ticks."""
    me, other = draw.sample(_OWNERS, 2)
    t = draw.randrange(6)
    mid, end = t + draw.randint(2, 4), t + draw.randint(7, 9)
    cut, size = draw.randint(1, 3), draw.randint(4, 6)
    whole = _row(me, base, size, t, end)
    work = _row(me, base + draw.randrange(2), 0, t + 1, end)
    work["size"] = draw.randint(1, base + size - work["offset"])
    match kind:
        case "inside":
            work["end"] = draw.choice((end - 1, end))
            return [whole], [work]
        case "adjoining":  # two grants side by side
            parts = [_row(me, base, cut, t, end), _row(me, base + cut, size - cut, t, end)]
            return parts, [_row(me, base, size, t, draw.choice((end - 1, end)))]
        case "back-to-back":  # one after the other
            return [_row(me, base, size, t, mid), _row(me, base, size, mid, end)], [work]
        case "after-free":
            return [whole], [work | {"end": end + draw.randint(1, 2)}]
        case "sticks-out":
            return [whole], [work | {"size": base + size + 1 - work["offset"]}]
        case "foreign":
            return [whole | {"owner": other}], [work]
        case "regranted":  # half-way to somebody else
            return [_row(me, base, size, t, mid), _row(other, base, size, mid, end)], [work]
        case _:  # "gap": given back, and granted again to the same owner
            return [_row(me, base, size, t, mid - 1), _row(me, base, size, mid, end)], [
                work | {"start": t, "end": end}
            ]


_LAWFUL = ("inside", "adjoining", "back-to-back")
_UNLAWFUL = ("after-free", "sticks-out", "foreign", "regranted", "gap")


def _drawn(draw: Random, rows: int) -> Case:
    """A few patterns side by side, lawful and not; sometimes only lawful ones."""
    kinds = _LAWFUL if draw.random() < 0.2 else (*_LAWFUL, *_UNLAWFUL)
    grants, work = [], []
    for lane in range(max(1, rows // 3)):
        held, done = _pattern(draw, draw.choice(kinds), lane * _LANE)
        grants, work = grants + held, work + done
    draw.shuffle(grants)
    draw.shuffle(work)
    return Case({"grants": _numbered(draw, grants), "work": _numbered(draw, work)}, {})


def _numbered(draw: Random, rows: list[dict]) -> tuple[dict, ...]:
    """With numbers, and in bytes and ns."""
    units = {"offset": _PAGE, "size": _PAGE, "start": _TICK_NS, "end": _TICK_NS}
    ids = draw.sample(range(1, 3 * len(rows) + 1), len(rows))
    return tuple(
        {"id": number, **{name: value * units.get(name, 1) for name, value in row.items()}}
        for number, row in zip(ids, rows, strict=True)
    )


def _names(case: Case, answer: object, key: list) -> tuple[str, dict]:
    given = answer if type(answer) is list else []
    missed, extra = ([i for i in key if i not in given], [i for i in given if i not in key])
    first = (missed + extra)[0] if missed + extra else "?"
    if type(answer) is not list:
        return "your answer is no list of numbers", {"a": first}
    said = "is unlawful and not in your list" if missed else "is in your list and lawful"
    return f"work {first} {said}" if missed + extra else "the order of your list", {"a": first}


def _picture(case: Case) -> object:
    return map_of(_ledger(case), "Grants; the work stands in the table")


def _ledger(case: Case) -> Ledger:
    return of_grants(case.lists["grants"])


DEFINITION = Definition(
    exercise="01.lawful",
    function="unlawful",
    rule="Work is lawful when every byte it touches is held by its own owner at every instant of its run.",
    right=_unlawful,
    misread=_MISREAD,
    drawn=_drawn,
    names=_names,
    picture=_picture,
    rows=(12, 24),
    small=(3, 9),
    empties=True,
)


@final
class Lawful(Exercise):
    """``unlawful(grants, work)``: the work that touched bytes its owner did not hold."""

    id = "01.lawful"
    points = 2.0
    builds = True
    function = "unlawful"
    hints = HINTS["01.lawful"]

    def example(self, course: Course) -> tuple[list, Callable]:
        grant = {"id": 1, "owner": "chat", "offset": 0, "size": 1024, "start": 0, "end": 200}
        work = {"id": 5, "owner": "chat", "offset": 512, "size": 512, "start": 100, "end": 300}
        questions = [[1, "new", [{}], []], [2, "unlawful", [[grant], [work]], []]]
        return questions, lambda: SimpleNamespace(unlawful=lambda grants, work: [5])

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """A practice case with its answer; there is no task of one's own."""
        return practice_case(DEFINITION, course.public(self.id + "/variant", variant or 0), size)

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """The grants as a ledger."""
        return _ledger(puzzle)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return graded_score(self, DEFINITION, course, said, asker)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return visible_score(self, DEFINITION, course, said, asker)
