"""02.pool: the learner's ``take``, ``give`` and ``trim``, asked by a pool that the judge owns."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab02 import pool_words as words
from autograder.checks.lab02.hints import BLOCKS, HINTS
from autograder.checks.lab02.pool_cases import drawn, graded_case, small_case
from autograder.checks.lab02.pool_play import play_case
from autograder.checks.lab02.pool_run import COSTS, DevicePool, Program, StepPool
from autograder.checks.played import CASES, Outcome, judged, share_of_standard, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.host_time import HostTime, host_time
from gpulab.telemetry.events import Claimed, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB

_KINDS = {"waits": range(17, 20), "growths": range(22, 25)}  # octaves of sizes that make a kind the largest


@final
class PoolExercise(Exercise):
    """A caching pool with a twist: of the granted bytes only so many may be stranded."""

    id = "02.pool"
    points = 5.0
    builds = True
    predicts = ("percent",)
    causes = ("hits", "growths", "frees", "waits")
    hints = HINTS["02.pool"]
    blocks = BLOCKS["02.pool"]

    def twist(self, draw: Random) -> dict[str, int]:
        """Around 20: four sizes a doubling strand at most a fifth of a claim, and about 9 % in the mean."""
        return {"stranded_percent": draw.randrange(15, 26)}

    def example(self, course: Course) -> tuple[list, Callable]:
        questions = [
            [
                1,
                "new",
                [{"capacity": 64 * MiB, "rules": {**course.rules[self.id], "cache_bytes": 8 * MiB}}],
                [],
            ],
            [2, "take", [MiB, 0], []],
            [3, "give", [0, 0], [["grown", [0, MiB, 0]]]],
            [4, "take", [MiB, 1], [["reached", [0]]]],
        ]
        return questions, _Device

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Program:
        """The learner's own program of 24 tensors, on which the naive plan is watched."""
        rules = course.rules[self.id]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return drawn(draw, rules, 2, 2) if size == "tiny" else small_case(draw, rules)
        draw = course.of_learner(self.id, learner)
        kind = sorted(_KINDS)[draw.randrange(len(_KINDS))]
        while True:  # one kind of time stands out
            program = drawn(draw, rules, 4, 6, _KINDS[kind])
            parts = self.parts(program)
            if all(
                5 * getattr(parts, f"{kind}_ns") >= 6 * getattr(parts, f"{other}_ns")
                for other in self.causes
                if other != kind
            ):
                return program

    def parts(self, program: Program) -> HostTime:
        """Where the naive plan's time on ``program`` goes."""
        return host_time(self.watched(program), free_ns=COSTS.free_ns)

    def watched(self, puzzle: Program, part: str = "") -> Ledger:
        """The naive plan on ``puzzle``: every tensor from the device and back to it."""
        return puzzle.run(DevicePool)

    def reference(self, course: Course, puzzle: Program) -> Ledger:
        """The reference's run on ``puzzle``."""
        return puzzle.run(StepPool, course.rules[self.id])

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """The kind of time that is the largest in the naive plan's run, and the facts that end such times."""
        program = self.puzzle(course, learner)
        ledger, parts = self.watched(program), self.parts(program)
        cause = max(self.causes, key=lambda kind: getattr(parts, f"{kind}_ns"))
        if cause == "waits":
            return cause, set(parts.waited)
        device = {fact.claim for fact in ledger.of(Claimed) if fact.resource == "device"}
        return cause, {serial for serial in ledger.serials(Granted) if ledger[serial].claim in device}

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        outcomes = _judged(lambda n: course.graded(self.id, n), CASES, rules, asker)
        share, note = share_of_standard(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes) if share < 1 else "", (noted, shown, note)
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        outcomes = _judged(lambda n: course.public(self.id, n), 2, rules, asker)
        share, note = share_of_standard(outcomes)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


def _judged(draw: Callable, count: int, rules: Mapping, asker: Asker) -> list[Outcome]:
    """Cases number 0 to ``count``, each drawn when its turn comes: its two baselines are runs of their own."""

    def play(number: int) -> Outcome:
        program, *baselines = graded_case(draw(number), rules)
        return play_case(program, rules, asker, *baselines)

    return judged(range(count), play)


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public program; nothing of a graded one is shown."""
    if not tag:
        return None
    rules = course.rules[PoolExercise.id]
    shown, where = shown_small(
        next(outcome for outcome in outcomes if outcome.tag == tag),
        [],
        public=lambda n: small_case(course.public(PoolExercise.id + "/small", n), rules),
        cut=lambda program: list(program.tensors),
        joined=lambda program, tensors: replace(program, tensors=tuple(tensors)),
        play=lambda program: play_case(program, rules, asker),
    )
    return words.feedback(shown, rules, where)


class _Device:
    """An object that always asks the device, to show what messages look like."""

    def __init__(self, capacity: int, rules: dict) -> None:
        self.rules = rules

    def take(self, size: int, stream: int) -> list:
        return ["grow", size]

    def give(self, chunk: int, stream: int) -> list[int]:
        return []

    def trim(self, need: int) -> list[int]:
        return []

    def grown(self, chunk: int, size: int, stream: int) -> None:
        return None

    def reached(self, chunk: int) -> None:
        return None
