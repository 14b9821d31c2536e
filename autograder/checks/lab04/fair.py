"""04.fair: clients with shares send requests, and the learner's counters say whose is served next."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04 import fair_words as words
from autograder.checks.lab04.fair_cases import (
    KINDS,
    NAMES,
    by_rule,
    first_come,
    graded_case,
    shown_case,
    small_case,
    tiny_case,
)
from autograder.checks.lab04.fair_play import play, share_of_lead
from autograder.checks.lab04.fair_server import Case
from autograder.checks.lab04.fair_watch import evidence, telling
from autograder.checks.played import CASES, Outcome, judged, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.ledger import Ledger

ASKS = 4_900  # of an exercise, in all: then no further small run is looked through, and one takes up to 60


@final
class FairExercise(Exercise):
    """Virtual token counters with a twist: shares, weights of the course, a credit, and debts that outlive a pause."""

    id = "04.fair"
    points = 6.0
    builds = True
    predicts = ("gap",)
    causes = NAMES
    hints = words.HINTS
    blocks = words.BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """What a token is worth; Sheng et al. (OSDI 2024) take 100 and 200, prices of services differ more."""
        return {
            "input_percent": draw.choice((50, 75, 100)),
            "output_percent": draw.choice((150, 200, 250, 300)),
        }

    def example(self, course: Course) -> tuple[list, Callable]:
        settings = {"shares": {"chat": 1, "code": 2}, "credit": 30, "rules": course.rules[self.id]}
        arrived = [["arrived", ["chat"]], ["arrived", ["code"]]]
        served = [["served", ["chat", 12, 0]], ["served", ["chat", 0, 1]], ["served", ["chat", 0, 1]]]
        questions = [
            [1, "new", [settings], []],
            [2, "pick", [["chat", "code"]], arrived],
            [3, "pick", [["code", "chat"]], [*served, ["arrived", ["chat"]]]],
        ]
        return questions, _FirstCome

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """Three clients who together send more than the server can take."""
        rules = course.rules[self.id]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return tiny_case(draw, rules) if size == "tiny" else shown_case(draw, rules)
        draw = course.of_learner(self.id, learner)
        while True:
            case = shown_case(draw, rules)
            if telling(case):
                return case

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """First come, first served."""
        return first_come(puzzle).ledger

    def reference(self, course: Course, puzzle: Case) -> Ledger:
        """The ledger that the rule itself writes."""
        return by_rule(puzzle).ledger

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Cause and evidence, computed from what the learner watched."""
        return evidence(self.puzzle(course, learner))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        draw = course.graded
        outcomes = judged(range(CASES), lambda n: play(graded_case(draw(self.id, n), rules, n), rules, asker))
        share, note = share_of_lead(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes) if share < 1 else "", (noted, shown, note)
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        draw = course.public
        outcomes = judged(
            range(len(KINDS)), lambda n: play(graded_case(draw(self.id, n), rules, n), rules, asker)
        )
        share, note = share_of_lead(outcomes)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public run; the score stands before this is called."""
    if not tag:
        return None
    rules = course.rules[FairExercise.id]

    def tried(case: Case | None) -> Outcome:
        return play(case, rules, asker) if case and asker.asked < ASKS else Outcome()

    shown, where = shown_small(
        next(o for o in outcomes if o.tag == tag),
        [],
        public=lambda n: (
            small_case(course.public(FairExercise.id + "/small", n), rules, n) if asker.asked < ASKS else None
        ),
        cut=lambda case: list(case.requests),
        joined=lambda case, requests: replace(case, requests=tuple(requests)),
        play=tried,
    )
    return words.feedback(shown, where)


class _FirstCome:
    """An object that answers somehow, to show what messages look like."""

    def __init__(self, shares: dict, credit: int, rules: dict) -> None:
        self.shares = shares

    def arrived(self, client: str) -> None:
        return None

    def served(self, client: str, input: int, output: int) -> None:
        return None

    def pick(self, waiting_clients: list) -> str:
        return waiting_clients[0]
