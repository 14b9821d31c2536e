"""02.first-fit: the learner's ``place`` and ``reclaim``, asked by an arena that the judge owns."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab02 import first_fit_words as words
from autograder.checks.lab02.cases import Case, RuleArena, chats, graded_case, play, small_case
from autograder.checks.lab02.first_fit_play import build_share, judged, play_case
from autograder.checks.lab02.hints import BLOCKS, HINTS
from autograder.checks.played import CASES, Outcome, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.memory.arena import Bump
from gpulab.memory.replay import replay
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, MiB

CLAIMS = 400  # 12 x 402 asks, under the 5,000 of an exercise


@final
class FirstFitExercise(Exercise):
    """First fit with a twist: claims of at least a threshold start on a boundary."""

    id = "02.first-fit"
    points = 6.0
    builds = True
    predicts = ("refusals",)
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")
    hints = HINTS["02.first-fit"]
    blocks = BLOCKS["02.first-fit"]

    def twist(self, draw: Random) -> dict[str, int]:
        """Near the median claim of the Azure conversations (about 150 MiB at 128 KiB a token)."""
        return {
            "threshold": draw.choice((112, 128, 144, 160)) * MiB,
            "boundary": draw.choice((4, 8, 16, 32)) * MiB,
        }

    def example(self, course: Course) -> tuple[list, Callable]:
        settings = {"capacity": 1 << 30, "alignment": 512, "rules": course.rules[self.id]}
        questions = [
            [1, "new", [settings], []],
            [2, "place", [1 << 20], []],
            [3, "place", [4096], [["reclaim", [0, 1 << 20]]]],
        ]
        return questions, _Anywhere

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """The learner's own trace of 40 chats, on which the bump allocator is watched."""
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return small_case(draw, course.rules[self.id], 3 if size == "tiny" else 12)
        draw = course.of_learner(self.id, learner)
        while True:  # a trace on which the bump allocator does refuse what a hole would hold
            case = replace(chats(draw, 40), capacity=4 * GiB)
            cause, shows = evidence(self.watched(case))
            if cause == "unscheduled" and 3 <= len(shows) <= 25:
                return case

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """The bump allocator on ``puzzle``; refused claims leave at once."""
        return replay(puzzle.claims, Bump(puzzle.capacity), wait=False)

    def reference(self, course: Course, puzzle: Case) -> Ledger:
        """The ledger the rule itself would write."""
        arena = RuleArena(puzzle.capacity, rules=course.rules[self.id])
        for _ in play(puzzle, arena):
            pass
        return arena.ledger

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Cause and evidence, computed: the term that held the refused bytes, and the refusals that show it."""
        ledger = self.watched(self.puzzle(course, learner))
        return evidence(ledger)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        cases = [graded_case(course.graded(self.id, n), rules, n, CLAIMS) for n in range(CASES)]
        outcomes = judged(cases, rules, asker)
        share, note = build_share(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes), (noted, shown, note)
        said_of = feedback(course, outcomes, cases, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        cases = [graded_case(course.public(self.id, n), rules, n, 100) for n in range(4)]
        outcomes = judged(cases, rules, asker)
        share, note = build_share(outcomes)
        points = as_points(share * 0.7, self.points)
        said_of = feedback(course, outcomes, cases, asker)
        return Score(
            self.id, points, self.points * 0.7, tag_of(outcomes), (note,), said_of, said.learner, share
        )


def evidence(ledger: Ledger) -> tuple[str, set[int]]:
    """The term that held most of what was refused, and the refusals at which that term was not 0."""
    account = Account(ledger)
    steps = {}
    for serial, fact in enumerate(ledger):
        if isinstance(fact, Refused):
            until = Account(Ledger(ledger[: serial + 1])).at(fact.time_ns)  # before the claim leaves again
            steps[serial] = {term: getattr(until, term) for term in ("fragmented", "unscheduled")}
    if not steps:
        return account().largest_loss(), set()
    cause = max(("fragmented", "unscheduled"), key=lambda term: sum(s[term] for s in steps.values()))
    return cause, {serial for serial, terms in steps.items() if terms[cause]}


def feedback(course: Course, outcomes: list[Outcome], cases: list[Case], asker: Asker) -> Feedback | None:
    """The fault on a small trace: a public one with the same tag, else the graded one cut to 12 events.

    The score stands before this is called: here a case may be played again.
    """
    tag = tag_of(outcomes)
    if not tag:
        return None
    rules = course.rules[FirstFitExercise.id]
    found = next(o for o in outcomes if o.tag == tag)
    proved = set().union(*(o.proved for o in outcomes))
    case = cases[outcomes.index(found)]
    shown, where = shown_small(
        found,
        list(case.claims[: len(found.ledger.of(Claimed))] if found.ledger else ()),
        public=lambda n: small_case(course.public(FirstFitExercise.id + "/small", n), rules),
        cut=lambda small: list(small.claims),
        joined=lambda small, claims: Case((small or case).capacity, tuple(claims)),
        play=lambda small: play_case(small, rules, asker, set(proved)),
    )
    return words.feedback(shown, rules, where)


class _Anywhere:
    """An object that always answers 0, to show what messages look like."""

    def __init__(self, capacity: int, alignment: int, rules: dict) -> None:
        self.capacity = capacity

    def place(self, size: int) -> int:
        return 0

    def reclaim(self, offset: int, size: int) -> None:
        return None
