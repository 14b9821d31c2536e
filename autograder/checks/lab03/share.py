"""03.share: sequences of three tenants that share what they have in common, and copy before they write."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab03 import share_words as words
from autograder.checks.lab03.share_mixes import Mix, graded_mix, mix, possible, small_mix
from autograder.checks.lab03.share_play import judged, play_mix, rule_books, share_of_standard
from autograder.checks.lab03.share_watch import alone, evidence
from autograder.checks.played import CASES, Outcome, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.ledger import Ledger


@final
class ShareExercise(Exercise):
    """A prefix cache with a twist: a beginning of fewer than ``least_blocks`` full blocks is not shared."""

    id = "03.share"
    points = 5.0
    builds = True
    predicts = ("blocks",)
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")
    hints = words.HINTS
    blocks = words.BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """As services do that cache a prompt only from a least length on (OpenAI: 1,024 tokens)."""
        return {"least_blocks": draw.choice((2, 3, 4))}

    def example(self, course: Course) -> tuple[list, Callable]:
        settings = {"n_blocks": 40, "block_tokens": 4, "rules": course.rules[self.id]}
        questions = [
            [1, "new", [settings], []],
            [2, "admit", ["s0", [17, 4, 256, 9, 31], "chat"], []],
            [3, "append", ["s0", 88], []],
            [4, "append", ["s0.1", 12], [["fork", ["s0", "s0.1"]]]],
            [5, "finish", ["s0"], []],
        ]
        return questions, _Anywhere

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Mix:
        """A mix in a pool that is too small for it if nobody shares."""
        rules = course.rules[self.id]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return small_mix(draw, rules, 2, most=9) if size == "tiny" else small_mix(draw, rules)
        draw = course.of_learner(self.id, learner)
        while True:
            drawn = mix(draw, rules, 12, 16)
            drawn = replace(drawn, n_blocks=drawn.n_blocks * draw.randrange(65, 80) // 100)
            cause, shows = evidence(drawn)
            if cause == "used" and 2 <= len(shows) <= 25:
                return drawn

    def watched(self, puzzle: Mix, part: str = "") -> Ledger:
        """Everybody has blocks of their own; who is refused leaves at once."""
        return alone(puzzle)[0]

    def reference(self, course: Course, puzzle: Mix) -> Ledger:
        """The ledger that the rule itself writes."""
        return rule_books(puzzle, course.rules[self.id]).pool.ledger

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Cause and evidence, computed from what the learner watched."""
        return evidence(self.puzzle(course, learner))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        mixes = graded_mixes(course.course_id, course.secret, rules["least_blocks"])
        outcomes = judged(mixes, rules, asker)
        share, note = share_of_standard(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes) if share < 1 else "", (noted, shown, note)
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        mixes = [saving_mix(course.public(self.id, n), rules, n) for n in range(4)]
        outcomes = judged(mixes, rules, asker)
        share, note = share_of_standard(outcomes)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


@lru_cache(maxsize=4)
def graded_mixes(course_id: str, secret: bytes, least_blocks: int) -> list[Mix]:
    """The graded mixes of a course; kept, since a whole class is judged on the same ones (0.5 s to draw)."""
    course, rules = Course(course_id, secret, {}), {"least_blocks": least_blocks}
    return [saving_mix(course.graded(ShareExercise.id, n), rules, n) for n in range(CASES)]


def saving_mix(draw: Random, rules: dict, number: int) -> Mix:
    """A mix on which the rule saves blocks."""
    return graded_mix(draw, rules, number, lambda drawn: rule_books(drawn, rules).block_ns)


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public mix; the score stands before this is called."""
    if not tag:
        return None
    rules = course.rules[ShareExercise.id]
    shown, where = shown_small(
        next(o for o in outcomes if o.tag == tag),
        [],
        public=lambda n: small_mix(course.public(ShareExercise.id + "/small", n), rules),
        cut=lambda drawn: list(drawn.events),
        joined=lambda drawn, events: replace(drawn, events=tuple(possible(events))),
        play=lambda drawn: play_mix(drawn, rules, asker),
    )
    return words.feedback(shown, where)


class _Anywhere:
    """An object that answers somehow, to show what messages look like."""

    def __init__(self, n_blocks: int, block_tokens: int, rules: dict) -> None:
        self.block_tokens = block_tokens

    def admit(self, seq: str, tokens: list[int], tenant: str) -> list:
        return [[], list(range(-(-len(tokens) // self.block_tokens)))]

    def append(self, seq: str, token: int) -> list:
        return [1, None]

    def fork(self, seq: str, child: str) -> None:
        return None

    def finish(self, seq: str) -> list[int]:
        return []
