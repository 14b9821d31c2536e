"""01.account: where did the capacity go? The five terms, with a scheduler that sees a part of its queue."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab01.account_read import MISREAD, smallest, swept, terms
from autograder.checks.lab01.case import Case
from autograder.checks.lab01.definition import (
    Definition,
    graded_score,
    practice_case,
    same,
    visible_score,
)
from autograder.checks.lab01.hints import BLOCKS, HINTS
from autograder.checks.lab01.ledgers import map_of, of_account
from autograder.checks.played import Outcome
from autograder.course import Course
from autograder.judge import Exercise, reconciliation
from autograder.verdict import Commitments, Score
from gpulab.report.account import TERMS, Account
from gpulab.telemetry.events import Claimed, Granted, Used
from gpulab.telemetry.ledger import Ledger

LOSSES = TERMS[1:4]  # stranded, fragmented, unscheduled: those that a rule could win back
_TICK_NS = 10


def _right(case: Case) -> dict[str, int]:
    """The account by the rule. gpulab's own cannot say it: it walks everybody who waits, the smallest first."""
    return swept(case, terms)


def _worth(case: Case, key: dict[str, int]) -> bool:
    """Does gpulab's own account err in each term that the twist may change?"""
    shipped = swept(case, terms, queue=smallest)
    return all(shipped[name] != key[name] for name in TERMS[2:])


def _ledger(case: Case) -> Ledger:
    return of_account(case.lists["claims"], case.numbers["capacity"], case.numbers["t1"])


def _drawn_for(depth_claims: int) -> Callable[[Random, int], Case]:
    def drawn(draw: Random, rows: int) -> Case:
        """Claims placed anywhere legal, some at once, some late, some never; a window that cuts."""
        capacity = draw.randint(8, 16)
        claims: list[dict] = []
        ids = sorted(draw.sample(range(1, 3 * rows + 1), rows))
        for number, tick in zip(ids, sorted(draw.randrange(12) for _ in ids), strict=True):
            claims.append(_drawn_claim(draw, number, tick * _TICK_NS, capacity))
            places = _places(claims, capacity) if draw.random() < 0.8 else []
            if places:
                claims[-1]["offset"] = draw.choice((places[0], draw.choice(places)))
            else:
                claims[-1]["granted"] = None
        t0 = draw.choice((0, draw.randrange(6))) * _TICK_NS
        numbers = {"capacity": capacity, "t0": t0, "t1": t0 + draw.randint(8, 20) * _TICK_NS}
        return Case({"claims": tuple(claims)}, numbers | {"depth_claims": depth_claims})

    return drawn


def _drawn_claim(draw: Random, number: int, claimed: int, capacity: int) -> dict:
    size = draw.randint(1, draw.choice((3, capacity // 2, capacity - 1)))
    return {
        "id": number,
        "size": size,
        "used": draw.choice((size, draw.randint(1, size))),
        "claimed": claimed,
        "granted": claimed + draw.choice((0, 0, 1, 3)) * _TICK_NS,
        "offset": None,
        "ended": claimed + draw.randint(4, 14) * _TICK_NS,
    }


def _places(claims: list[dict], capacity: int) -> list[int]:
    """The offsets at which the last of ``claims`` overlaps no other one."""
    new = claims[-1]
    others = [
        claim
        for claim in claims[:-1]
        if claim["granted"] is not None
        and claim["granted"] < new["ended"]
        and new["granted"] < claim["ended"]
    ]
    return [
        at
        for at in range(capacity - new["size"] + 1)
        if all(at + new["size"] <= c["offset"] or c["offset"] + c["size"] <= at for c in others)
    ]


def _lawful(case: Case, answer: object) -> bool:
    """Five whole numbers that sum to capacity times window."""
    if type(answer) is not dict or set(answer) != set(TERMS):
        return False
    numbers = case.numbers
    whole = all(type(value) is int for value in answer.values())
    return whole and sum(answer.values()) == numbers["capacity"] * (numbers["t1"] - numbers["t0"])


def _by_term(outcomes: list[Outcome]) -> tuple[float, str]:
    """A fifth for each term that is exact in every case."""
    right = [
        name
        for name in TERMS
        if not any(
            outcome.tag and not same(outcome.numbers["answer"][name], outcome.numbers["key"][name])
            for outcome in outcomes
        )
    ]
    return len(right) / len(TERMS), f"Build: exact in every case: {', '.join(right) or 'no term'}."


def _names(case: Case, answer: object, key: dict) -> tuple[str, dict]:
    given = answer if type(answer) is dict else {}
    wrong = [name for name in TERMS if not same(given.get(name), key[name])]
    numbers = case.numbers
    whole = numbers["capacity"] * (numbers["t1"] - numbers["t0"])
    event = f"{', '.join(wrong)}; the five terms sum to {whole:,} unit·ns"
    return event, {"depth": numbers["depth_claims"]}


def _picture(case: Case) -> object:
    return map_of(_ledger(case), "Held (pale: not used) over time")


def definition(depth_claims: int) -> Definition:
    """The account of a scheduler that looks at this many of those that wait."""
    return Definition(
        exercise="01.account",
        function="account",
        rule="Over the window, used + stranded + fragmented + unscheduled + spare = capacity x time, each by its rule.",
        right=_right,
        misread=MISREAD,
        drawn=_drawn_for(depth_claims),
        names=_names,
        picture=_picture,
        band=_by_term,
        lawful=_lawful,
        rows=(6, 8),
        small=(3, 5),
        worth=_worth,
    )


def evidence(ledger: Ledger, account: Account) -> tuple[str, set[int]]:
    """The largest of the losses that a rule could win back, and the facts that show it.

    For a loss among free units: the claims that wait while it lasts. For stranded: the grants that are not
    used in full, and what says how much is used.
    """
    whole = account()
    cause = max(LOSSES, key=lambda name: getattr(whole, name))
    lossy = [(at, until) for (at, now), until in _spans(account) if getattr(now, cause)]
    shows = set()
    for claimed in ledger.of(Claimed):
        story = dict(ledger.story(claimed.claim))
        closing = [fact.time_ns for fact in story.values() if type(fact) is not Claimed]
        waited = claimed.time_ns, min(closing, default=ledger.end_ns)
        if cause == "stranded":
            size = claimed.size
            idle = {serial for serial, fact in story.items() if type(fact) is Used and fact.units < size}
            shows |= idle | {
                serial for serial, fact in story.items() if type(fact) is Granted and len(idle) > 1
            }
        elif any(at < waited[1] and waited[0] < until for at, until in lossy):
            shows |= {serial for serial, fact in story.items() if type(fact) is Claimed}
    return cause, shows


def _spans(account: Account) -> list:
    steps = account.steps()
    ends = [at for at, _ in steps[1:]] + [account.end_ns]
    return list(zip(steps, ends, strict=True))


@final
class AccountExercise(Exercise):
    """``account(claims, capacity, t0, t1, depth_claims)``: the five terms over a window."""

    id = "01.account"
    points = 4.0
    builds = True
    function = "account"
    constant = "{}"
    predicts = ("largest",)
    choices = TERMS
    causes = TERMS
    hints = HINTS["01.account"]
    blocks = BLOCKS["01.account"]

    def twist(self, draw: Random) -> dict[str, int]:
        """Two or three: of one alone there is no order."""
        return {"depth_claims": draw.choice((2, 3))}

    def example(self, course: Course) -> tuple[list, Callable]:
        claim = {"id": 1, "size": 4, "used": 3, "claimed": 0, "granted": 10, "offset": 0, "ended": 60}
        depth = course.rules[self.id]["depth_claims"]
        questions = [[1, "new", [{}], []], [2, "account", [[claim], 8, 0, 50, depth], []]]
        answer = {"used": 120, "stranded": 40, "fragmented": 0, "unscheduled": 40, "spare": 200}
        return questions, lambda: SimpleNamespace(
            account=lambda claims, capacity, t0, t1, depth_claims: answer
        )

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """The learner's own four to six claims; for practice a fresh case with its answer."""
        asked = definition(course.rules[self.id]["depth_claims"])
        if variant is not None:
            return practice_case(asked, course.public(self.id + "/variant", variant), size)
        draw = course.of_learner(self.id, learner)
        wanted = draw.choice(LOSSES)
        while True:  # something is granted, the twist matters, and one loss is clearly the largest
            case = asked.drawn(draw, 5)
            if sum(claim["granted"] is not None for claim in case.lists["claims"]) < 3:
                continue
            case = replace(case, numbers=case.numbers | {"t0": 0, "t1": _end_ns(case)})
            found = swept(case, terms, queue=smallest)  # as gpulab's account does, which the learner is shown
            if found == swept(case, terms):
                continue
            if found[wanted] > 1.2 * max(found[name] for name in LOSSES if name != wanted):
                return case

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """The claims as a ledger."""
        return _ledger(puzzle)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        asked = definition(course.rules[self.id]["depth_claims"])
        key: tuple[str, set[int]] = ("", set())
        if said.reconciled:
            ledger = _ledger(self.puzzle(course, said.learner))
            key = evidence(ledger, Account(ledger))
        return graded_score(self, asked, course, said, asker, reconciled=reconciliation(said, *key))

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return visible_score(self, definition(course.rules[self.id]["depth_claims"]), course, said, asker)


def _end_ns(case: Case) -> int:
    return max(claim["ended"] for claim in case.lists["claims"])
