"""03.block-pool: the learner's ``take`` and ``give``, asked by a pool that the judge owns."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks import played
from autograder.checks.lab02.first_fit import evidence
from autograder.checks.lab03 import pool_play
from autograder.checks.lab03.hints import BLOCKS, HINTS
from autograder.checks.lab03.pool_cases import Case, RulePool, drawn, play
from autograder.checks.played import CASES, Outcome, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.events import Refused
from gpulab.telemetry.ledger import Ledger

TAKES = 400  # 12 x 401 takes and 12 objects, under the 5,000 questions of an exercise
_SMALL = 16  # takes of a case for feedback and practice
_OWN = 60


@final
class BlockPoolExercise(Exercise):
    """A free queue with a twist: a watermark, and two ends for what comes back."""

    id = "03.block-pool"
    points = 5.0
    builds = True
    predicts = ("refusals",)
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")
    hints = HINTS["03.block-pool"]
    blocks = BLOCKS["03.block-pool"]

    def twist(self, draw: Random) -> dict[str, int]:
        """Blocks that only urgent takes may use, and blocks of a request's beginning that others may share."""
        return {"watermark_blocks": draw.randrange(3, 7), "kept_blocks": draw.randrange(2, 5)}

    def example(self, course: Course) -> tuple[list, Callable]:
        settings = {"n_blocks": 40, "rules": course.rules[self.id]}
        questions = [
            [1, "new", [settings], []],
            [2, "take", [3, False], []],
            [3, "take", [1, True], [["give", [[0, 1, 2]]]]],
        ]
        return questions, _FirstBlocks

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """The learner's own chats; on nine tenths of the pool some are refused for either reason."""
        rules = course.rules[self.id]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return drawn(draw, rules, 3 if size == "tiny" else _SMALL, _small_pool(rules))
        draw = course.of_learner(self.id, learner)
        while True:
            case = drawn(draw, rules, _OWN, draw.choice((40, 50, 60)))
            ledger = self._fewer(case, rules)
            cause, shows = evidence(ledger)
            if cause == "unscheduled" and 3 <= len(shows) <= len(ledger.of(Refused)) - 2:
                return replace(case, rules=rules)

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """``puzzle`` on a pool with a tenth of its blocks less; refused chats leave at once."""
        return self._fewer(puzzle, puzzle.rules)

    def reference(self, course: Course, puzzle: Case) -> Ledger:
        """The ledger the rule itself would write."""
        return _run(puzzle, course.rules[self.id])

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """The term that held what was refused, and the refusals that show it: what the watermark kept."""
        return evidence(self.watched(self.puzzle(course, learner)))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        cases = [drawn(course.graded(self.id, n), course.rules[self.id], TAKES) for n in range(CASES)]
        outcomes, share, note = self._built(course, cases, asker)
        predicted, noted = committed(said, self.predicts)
        cause, shows = self.key(course, said.learner) if said.reconciled else ("", set())
        reconciled, shown = reconciliation(said, cause, shows)
        points = build_points(self.points, predicted, reconciled, share)
        said_of = self._feedback(course, outcomes, cases, asker)
        notes = (noted, shown, note)
        return Score(self.id, points, self.points, tag_of(outcomes), notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        cases = [drawn(course.public(self.id, n), course.rules[self.id], 100) for n in range(4)]
        outcomes, share, note = self._built(course, cases, asker)
        points, most = (
            build_points(self.points, False, 0.0, share),
            build_points(self.points, False, 0.0, 1.0),
        )
        said_of = self._feedback(course, outcomes, cases, asker)
        return Score(self.id, points, most, tag_of(outcomes), (note,), said_of, said.learner, share)

    def _built(self, course: Course, cases: list[Case], asker: Asker) -> tuple[list[Outcome], float, str]:
        rules = course.rules[self.id]
        outcomes = played.judged(cases, lambda case: pool_play.play_case(case, rules, asker))
        return outcomes, *played.share_of_equal(outcomes, pool_play.BANDS, "takes, to the first difference,")

    def _feedback(
        self, course: Course, outcomes: list[Outcome], cases: list[Case], asker: Asker
    ) -> Feedback | None:
        """The fault on a small case: a public one with the same tag, else nothing is shown."""
        tag = tag_of(outcomes)
        if not tag:
            return None
        rules = course.rules[self.id]
        found = next(outcome for outcome in outcomes if outcome.tag == tag)

        def public(number: int) -> Case:
            draw = course.public(self.id + "/small", number)
            return drawn(draw, rules, _SMALL, _small_pool(rules))

        shown, where = shown_small(
            found,
            [],
            public=public,
            cut=lambda case: list(case.operations),
            joined=lambda case, operations: replace(case, operations=tuple(operations)),
            play=lambda case: pool_play.play_case(case, rules, asker, tag),
        )
        return pool_play.feedback(shown, rules, where)

    def _fewer(self, case: Case, rules: dict) -> Ledger:
        return _run(replace(case, n_blocks=case.n_blocks * 9 // 10), rules, whole=False)


def _small_pool(rules: dict) -> int:
    """Blocks of a pool that can be read at a glance, and still holds one long chat above its watermark."""
    return rules["watermark_blocks"] + 2 * rules["kept_blocks"] + 4


def _run(case: Case, rules: dict, *, whole: bool = True) -> Ledger:
    """The rule on ``case``; ``whole``: with the end, at which the whole pool is taken once."""
    pool = RulePool(case.n_blocks, rules=rules)
    for _ in play(case, pool, whole=whole):
        pass
    return pool.ledger


class _FirstBlocks:
    """An object that always answers the first blocks, to show what messages look like."""

    def __init__(self, n_blocks: int, rules: dict) -> None:
        self.n_blocks = n_blocks

    def take(self, n: int, urgent: bool = False) -> list[int]:
        return list(range(n))

    def give(self, blocks: list[int]) -> None:
        return None
