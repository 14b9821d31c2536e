"""03.block-table: the learner's block tables, through which a paged attention kernel reads."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab03 import block_table_words as words
from autograder.checks.lab03.block_table_books import Case, case_of, graded_case
from autograder.checks.lab03.block_table_play import build_share, judged, play_case, rule_ledger
from autograder.checks.played import CASES, Outcome, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.errors import OutOfMemory
from gpulab.memory.block_table import BlockTable
from gpulab.memory.free_queue import FreeQueue
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

_LOSSES = ("stranded", "fragmented", "unscheduled", "spare")


@final
class BlockTableExercise(Exercise):
    """Block tables of a model with a sliding window: blocks that nobody reads any more go back."""

    id = "03.block-table"
    points = 4.0
    builds = True
    predicts = ("position",)
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")
    hints = words.HINTS
    blocks = words.BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """No multiple of a block size that is drawn, so the window begins inside a block."""
        return {"window_tokens": draw.choice((21, 26, 29, 35, 38, 43))}

    def example(self, course: Course) -> tuple[list, Callable]:
        questions = [
            [1, "new", [{"block_tokens": 16, "rules": course.rules[self.id]}], []],
            [2, "missing", ["A", 17], []],
            [3, "slots", ["A", 0, 17], [["grow", ["A", 17, [7, 2]]]]],
            [4, "reads", ["A"], []],
            [5, "drop", ["A"], []],
        ]
        return questions, _Anywhere

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """Three growing chats in a pool that is too small for them if no block ever goes back."""
        rules = course.rules[self.id]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return _tiny(draw, rules) if size == "tiny" else small_case(draw, rules)
        draw = course.of_learner(self.id, learner)
        while True:
            case = case_of(draw, rules, draw.choice((8, 12, 16)))
            case = replace(case, n_blocks=case.n_blocks * draw.randrange(45, 60) // 100)
            cause, shows = evidence(self.watched(case, window=rules["window_tokens"]))
            if cause == "stranded" and 2 <= len(shows) <= 25:
                return case

    def watched(self, puzzle: Case, part: str = "", *, window: int | None = None) -> Ledger:
        """Tables that keep every block to the end; what the window has left behind stands as not used."""
        window = Course.at_hand().rules[self.id]["window_tokens"] if window is None else window
        pool = FreeQueue(puzzle.n_blocks, block_tokens=puzzle.block_tokens)
        tables: dict[str, BlockTable] = {}
        for name, length in puzzle.steps:
            pool.clock.advance_to(pool.clock.now_ns + MS)
            table = tables.setdefault(name, BlockTable(puzzle.block_tokens))
            try:
                table.grow(length, lambda n, name=name: pool.allocate(n, name, urgent=True))
            except OutOfMemory as full:
                pool.withdraw(full.claim)
                continue
            for index, block in enumerate(table.blocks):
                first = index * puzzle.block_tokens
                read = min(length, first + puzzle.block_tokens) - max(first, length - window)
                pool.fill(block, max(0, read), name)
        pool.clock.advance_to(pool.clock.now_ns + MS)
        for name, table in tables.items():
            if table.blocks:
                pool.release(table.blocks, name)
        return pool.ledger

    def reference(self, course: Course, puzzle: Case) -> Ledger:
        """The ledger that the rule itself writes."""
        return rule_ledger(puzzle, course.rules[self.id])

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Cause and evidence, computed from what the learner watched."""
        window = course.rules[self.id]["window_tokens"]
        return evidence(self.watched(self.puzzle(course, learner), window=window))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        cases = [graded_case(course.graded(self.id, n), rules, n) for n in range(CASES)]
        outcomes = judged(cases, rules, asker)
        share, note = build_share(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes), (noted, shown, note)
        said_of = feedback(course, outcomes, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        cases = [graded_case(course.public(self.id, n), rules, n) for n in range(4)]
        outcomes = judged(cases, rules, asker)
        share, note = build_share(outcomes)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes)
        said_of = feedback(course, outcomes, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


def small_case(draw: Random, rules: dict) -> Case:
    """Two sequences in blocks of 8 tokens, for practice and feedback."""
    return case_of(draw, rules, 8, "AB")


def _tiny(draw: Random, rules: dict) -> Case:
    """One sequence that grows over a boundary, then until its first block goes back."""
    end = rules["window_tokens"] + 8
    return Case(8, 8, draw.randrange(1 << 30), (("A", 8), ("A", 9), ("A", end - 1), ("A", end)))


def evidence(ledger: Ledger) -> tuple[str, set[int]]:
    """The term that held most at the refusals, and the refusals that its slots alone would have served."""
    account, refused = Account(ledger), ledger.serials(Refused)
    sizes = {fact.claim: fact.size for fact in ledger.of(Claimed)}
    lost = {serial: account.at(ledger[serial].time_ns) for serial in refused}
    held = {term: sum(getattr(terms, term) for terms in lost.values()) for term in _LOSSES}
    cause = max(held, key=lambda term: held[term])
    return cause, {n for n, terms in lost.items() if getattr(terms, cause) >= sizes[ledger[n].claim]}


def feedback(course: Course, outcomes: list[Outcome], asker: Asker) -> Feedback | None:
    """The fault on a small public case with the same tag; the score stands before this is called."""
    tag = tag_of(outcomes)
    if not tag:
        return None
    rules = course.rules[BlockTableExercise.id]
    shown, where = shown_small(
        next(o for o in outcomes if o.tag == tag),
        [],
        public=lambda n: small_case(course.public(BlockTableExercise.id + "/small", n), rules),
        cut=lambda case: list(case.steps),
        joined=lambda case, steps: replace(case, steps=tuple(steps)),
        play=lambda case: play_case(case, rules, asker),
    )
    return words.feedback(shown, where)


class _Anywhere:
    """An object that answers somehow, to show what messages look like."""

    def __init__(self, block_tokens: int, rules: dict) -> None:
        self.block_tokens = block_tokens

    def missing(self, seq: str, length: int) -> int:
        return 0

    def grow(self, seq: str, length: int, blocks: list[int]) -> None:
        return None

    def slots(self, seq: str, start: int, end: int) -> list[int]:
        return list(range(start, end))

    def reads(self, seq: str) -> list[int]:
        return [0]

    def drop(self, seq: str) -> list[int]:
        return []
