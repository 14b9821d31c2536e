"""04.chunk: how many tokens of which prompts go into the next step, so that decodes keep their gap (F7)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04 import chunk_words as words
from autograder.checks.lab04.chunk_cases import BLOCK, CHAT, CODE, Load, drawn, small, tiny
from autograder.checks.lab04.chunk_play import message, play_load
from autograder.checks.lab04.chunk_run import (
    Choose,
    Prompt,
    Seen,
    long_steps,
    promises,
    rule,
    run,
    tight,
    when_idle,
    whole,
)
from autograder.checks.played import CASES, Outcome, judged, share_of_standard, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.waiting import PARTS, Waiting
from gpulab.serving.request import Request
from gpulab.telemetry.events import Claimed, Finished, Granted, Prefilled, Stepped
from gpulab.telemetry.ledger import Ledger

NAIVE = {  # what a learner watches: another part of the wait is the largest under each
    "whole": "In the run that you will see, every prompt that is here is computed whole in the next step.",
    "idle": "In the run that you will see, prompts are computed only while nobody decodes.",
    "pool": "In the run that you will see, chunks keep the gap; the chats hold all blocks when the first prompt comes.",
}


@dataclass(frozen=True, slots=True)
class Watched:
    """A small load under a naive rule, and the request whose time is asked about."""

    load: Load
    naive: str
    request: int

    def choose(self) -> Choose:
        return {"whole": whole, "idle": when_idle, "pool": rule(self.load)}[self.naive]

    @property
    def owner(self) -> str:
        """The request, as the picture calls it."""
        return next(r.owner for r in self.load.requests if r.id == self.request)

    def text(self) -> str:
        return f"{self.load.text()}\n{NAIVE[self.naive]} What besides its own work took {self.owner} the longest?"


@final
class Chunk(Exercise):
    """Stall-free chunks whose budget comes from the price of a step and the promised gap."""

    id = "04.chunk"
    points = 6.0
    builds = True
    predicts = ("chunk",)
    causes = PARTS
    hints = words.HINTS
    blocks = words.BLOCKS

    def example(self, course: Course) -> tuple[list, Callable]:
        load = small(course.public(self.id + "/small", 0))
        begun, waits = Prompt(101, 1_250_000_000, 96, 212, 0), Prompt(102, 1_300_000_000, 0, 340, 24)
        seen = Seen(1_310_000_000, 5, 14_200, 900, (begun, waits))
        questions = [[1, "new", [load.settings, "objects"], []], [2, "decide", [message(seen)], []]]
        return questions, _OneToken

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Watched:
        """A small load in which whole prompts, idle waiting or a small pool takes somebody's time."""
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return Watched(tiny(draw) if size == "tiny" else small(draw), "whole", 0)
        draw = course.of_learner(self.id, learner)
        return watchable(draw)

    def watched(self, puzzle: Watched, part: str = "") -> Ledger:
        """The naive rule on the learner's load."""
        return run(puzzle.load, puzzle.choose())

    def reference(self, course: Course, puzzle: Watched) -> Ledger:
        """The rule's run."""
        return run(puzzle.load, rule(puzzle.load))

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """The largest part of the request's time besides its own work, and the stretches that it lies in."""
        puzzle = self.puzzle(course, learner)
        return evidence(puzzle, self.watched(puzzle))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes = judged(range(CASES), lambda n: play_load(graded_load(course.graded(self.id, n), n), asker))
        share, note = share_of_standard(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag = tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points, tag, (noted, shown, note), said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes = judged(range(4), lambda n: play_load(graded_load(course.public(self.id, n), n), asker))
        share, note = share_of_standard(outcomes)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


def graded_load(draw: Random, number: int) -> Load:
    """A load of 20 requests or so, of which the rule serves nine in ten; in every third a prompt waits for blocks."""
    return _kept(lambda: drawn(draw, number), number)


def small_load(draw: Random, number: int) -> Load:
    """A load for feedback, as those that are graded."""
    return _kept(lambda: small(draw, number), number)


def _kept(make: Callable[[], Load], number: int) -> Load:
    while True:
        load = tight(make()) if number % 3 == 1 else make()
        if promises(load, run(load, rule(load))).share >= 0.9:
            return load


def watchable(draw: Random) -> Watched:
    """A small load, a naive rule and a request of which one part of the time stands out."""
    wanted = {"whole": "slowed", "idle": "blocked", "pool": "behind"}
    naive = draw.choice(tuple(NAIVE))
    while True:
        load = small(draw, draw.randrange(5))
        if naive == "pool":  # the chats have all of it
            load = replace(load, kv_blocks=sum(_blocks(r) for r in load.requests if r.tenant == CHAT))
        names = [r.id for r in load.requests if r.tenant == (CHAT if naive == "whole" else CODE)]
        found = Watched(load, naive, draw.choice(names[:2] if naive == "pool" else names))
        cause, shows = evidence(found, run(load, found.choose()))
        if cause == wanted[naive] and 2 <= len(shows) <= 60:
            return found


def evidence(puzzle: Watched, ledger: Ledger) -> tuple[str, set[int]]:
    """The largest part of the request's time besides its own work, and the stretches that it lies in.

    Slowed: stretches that were longer than the gap while it decoded. Else: all stretches that ended while it waited.
    """
    waited = Waiting(ledger)[puzzle.request]
    parts = {name: getattr(waited, f"{name}_ns") for name in PARTS[1:]}
    cause = max(parts, key=lambda name: parts[name])
    if 5 * parts[cause] < 6 * max(value for name, value in parts.items() if name != cause):
        return "", set()  # too near to tell
    if cause == "slowed":
        begin = max(f.time_ns for f in ledger.of(Prefilled) if f.request == puzzle.request)
        inside = [serial for serial in long_steps(puzzle.load, ledger) if ledger[serial].start_ns >= begin]
        end = next(f.time_ns for f in ledger.of(Finished) if f.request == puzzle.request)
        return cause, {serial for serial in inside if ledger[serial].time_ns <= end}
    begun = next(f.time_ns for f in ledger.of(Granted) if f.claim == _claim(ledger, puzzle.owner))
    return cause, {
        serial for serial in ledger.serials(Stepped) if waited.start_ns < ledger[serial].time_ns <= begun
    }


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public load; the score stands before this is called."""
    if not tag:
        return None
    shown, where = shown_small(
        next(o for o in outcomes if o.tag == tag),
        [],
        public=lambda n: small_load(course.public(Chunk.id + "/small", n), n),
        cut=lambda load: list(load.requests),
        joined=lambda load, requests: replace(load, requests=tuple(requests)),
        play=lambda load: play_load(load, asker),
    )
    return words.feedback(shown, where)


def _blocks(request: Request) -> int:
    """All that it may ever need."""
    return -(-(request.prompt_tokens + request.output_tokens) // BLOCK)


def _claim(ledger: Ledger, owner: str) -> int:
    return next(fact.claim for fact in ledger.of(Claimed) if fact.owner == owner)


class _OneToken:
    """An object that answers somehow, to show what messages look like."""

    def __init__(self, cost: dict, gap_ns: int, first_token_ns: int) -> None:
        """Nothing to keep."""

    def decide(self, view) -> dict:
        return {"prefill": {view.prompts[0].id: 1}}
