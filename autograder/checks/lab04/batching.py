"""04.batching: who is in the next step, and how much faster a server is that fills empty slots at once (F6)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04 import batching_words as words
from autograder.checks.lab04.batching_play import LENGTHS, MEAN, Crowd, crowd, play_crowd
from autograder.checks.played import CASES, Outcome, judged, share_of_standard, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.waiting import PARTS, Waiting
from gpulab.serving.cost import stated
from gpulab.serving.engine import Engine
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.policy import Policy
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.events import Claimed, Finished, Granted
from gpulab.telemetry.ledger import Ledger

UNSEEN = (3, 4, 6, 12, 16, 24, 48, 64)  # slots of the question; 8 and 32 are in the notebook
REFILL = 0.8  # of the build; the rest is the speed-up
BAND = 0.10
STEP_PS = 20 * 10**9


@dataclass(frozen=True, slots=True)
class Served:
    """A small crowd to watch, the job that is asked about, and the slots for which the speed-up is asked."""

    crowd: Crowd
    job: int
    slots: int

    def text(self) -> str:
        """The task in words."""
        return (
            f"{self.crowd.text()}\nWhat besides its own work took job {self.job} the longest?\n"
            f"And with {self.slots} slots, lengths that are exponential and a queue that is never empty: how many times "
            f"faster is a server that refills its slots at once?"
        )

    def run(self, policy: Policy) -> Ledger:
        """The small crowd on gpulab's engine: a slot is a block, and every step takes 20 ms."""
        cost = stated({"constant_ps": STEP_PS, "kv_blocks": self.crowd.slots, "block_tokens": 1024})
        trace = Trace(
            Request(name, step * STEP_PS // 1000, 1, tokens, most_tokens=tokens, tenant="job")  # one block
            for name, step, tokens in self.crowd.jobs
        )
        return Engine(cost, policy, max_jobs=self.crowd.slots).run(trace)


@final
class Batching(Exercise):
    """A function that fills slots; the judge holds the lengths and counts empty slots beside a queue."""

    id = "04.batching"
    points = 3.0
    builds = True
    function = "refill"
    fields = ("speedup",)
    predicts = ("speedup",)
    causes = PARTS
    hints = words.HINTS

    def example(self, course: Course) -> tuple[list, Callable]:
        questions = [[1, "new", [{}], []], [2, "refill", [[3, 5, 6, 7], [8, 9], 4, [5]], []]]
        return questions, lambda: SimpleNamespace(refill=lambda running, waiting, slots, finished: waiting)

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Served:
        """A small crowd of lengths far apart or nearly alike, and slots for the question."""
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return (
                Served(crowd(draw, 2, times=2), 3, draw.choice(UNSEEN)) if size == "tiny" else watchable(draw)
            )
        return watchable(course.of_learner(self.id, learner))

    def watched(self, puzzle: Served, part: str = "") -> Ledger:
        """A batch ends whole before the next one begins."""
        return puzzle.run(RequestLevel())

    def reference(self, course: Course, puzzle: Served) -> Ledger:
        """Slots are refilled at once."""
        return puzzle.run(Reserving())

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Whether empty slots or full ones kept the job waiting, and the facts that show it."""
        puzzle = self.puzzle(course, learner)
        return evidence(puzzle, self.watched(puzzle))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes = judged(
            range(CASES), lambda n: play_crowd(graded_crowd(course.graded(self.id, n), n), asker)
        )
        share, note = share_of_standard(outcomes)
        lawful = all(outcome.lawful for outcome in outcomes)
        slots = self.puzzle(course, said.learner).slots
        missed = speedup_tag(said.answered.get("speedup"), slots)
        share_of_all = REFILL * share + (1 - REFILL) * (not missed) if lawful else share
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share_of_all)
        answered = {"": "right", "not-answered": "not answered"}.get(missed, "not right")
        notes = (noted, shown, note, f"Speed-up: {answered}.")
        if share < 1 or missed in ("", "not-answered"):
            tag = tag_of(outcomes) if share < 1 else ""
            said_of = feedback(course, outcomes, tag, asker)
        else:
            tag, said_of = missed, words.speedup_feedback(missed, slots, said.answered["speedup"])
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes = judged(range(4), lambda n: play_crowd(graded_crowd(course.public(self.id, n), n), asker))
        share, note = share_of_standard(outcomes)
        most = self.points * 0.7 * REFILL
        typed = said.answered.get("speedup")
        noted = (
            "The speed-up is not answered yet."
            if typed is None
            else "The speed-up is graded when you hand in."
        )
        tag = tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(
            self.id, as_points(share, most), round(most, 2), tag, (note, noted), said_of, said.learner, share
        )

    def practise(self, course: Course, puzzle: Served, answered: dict) -> Score:
        """Full feedback on the speed-up of a practice task."""
        missed = speedup_tag(answered.get("speedup"), puzzle.slots)
        said_of = None
        if missed not in ("", "not-answered"):
            said_of = words.speedup_feedback(missed, puzzle.slots, answered["speedup"])
        note = f"Speed-up: {'right' if not missed else 'not right'}."
        return Score(self.id, 0.0, 0.0, missed, (note,), said_of, build_share=float(not missed))


def graded_crowd(draw: Random, number: int) -> Crowd:
    """A crowd for 4 to 48 slots, few and many in turn."""
    low, high = ((4, 9), (10, 25), (26, 49))[number % 3]
    return crowd(draw, draw.randrange(low, high))


def watchable(draw: Random) -> Served:
    """A small crowd and a job that waited mostly beside empty slots, or mostly beside full ones."""
    cause, asked = draw.choice(("blocked", "behind")), draw.choice(UNSEEN)
    while True:
        slots, at, jobs = draw.randrange(3, 6), 0, []
        for name in range(3 * slots):
            at += draw.randrange(1, 16) if name >= 2 * slots else 0
            alike = draw.randrange(MEAN - 6, MEAN + 7)
            jobs.append((name + 1, at, draw.choice(LENGTHS) if cause == "blocked" else alike))
        found = Crowd(slots, tuple(jobs))
        served = Served(found, draw.choice(found.jobs[found.slots :])[0], asked)
        largest, shows = evidence(served, served.run(RequestLevel()))
        if largest == cause and shows:
            return served


def evidence(puzzle: Served, ledger: Ledger) -> tuple[str, set[int]]:
    """The largest part of the job's time besides its own work, and what shows it.

    Blocked: jobs whose slots stood empty after their end while it waited. Behind: grants of slots while it waited, or
    before, that had not ended.
    """
    waited = Waiting(ledger)[puzzle.job]
    parts = {name: getattr(waited, f"{name}_ns") for name in PARTS[1:]}
    cause = max(parts, key=lambda name: parts[name])
    if 5 * parts[cause] < 6 * max(value for name, value in parts.items() if name != cause):
        return "", set()  # too near to tell
    ends = {fact.request: fact.time_ns for fact in ledger.of(Finished)}
    grants = dict(zip(_granted(ledger), ledger.serials(Granted), strict=True))
    begun_ns = ledger[grants[puzzle.job]].time_ns
    if cause == "blocked":
        times = [ledger[serial].time_ns for serial in grants.values()]
        since_ns = max(time_ns for time_ns in times if time_ns <= waited.start_ns)  # the batch that it found
        return cause, {
            serial
            for serial in ledger.serials(Finished)
            if since_ns < ledger[serial].time_ns < begun_ns and ledger[serial].time_ns not in times
        }
    held = {
        serial
        for job, serial in grants.items()
        if ledger[serial].time_ns < begun_ns and ends[job] > waited.start_ns
    }
    return cause, held


def _granted(ledger: Ledger) -> list[int]:
    """Jobs in the order in which they got their slots."""
    owners = {fact.claim: int(fact.owner.split()[1]) for fact in ledger.of(Claimed)}
    return [owners[fact.claim] for fact in ledger.of(Granted)]


def speedup(slots: int) -> float:
    """How long the longest of ``slots`` exponential lengths is, in means: 1 + 1/2 + ... + 1/slots (F6)."""
    return float(sum(Fraction(1, n) for n in range(1, slots + 1)))


def speedup_tag(value: object, slots: int) -> str:
    """'' for a speed-up within a tenth, else what may have been thought."""
    if value is None:
        return "not-answered"
    if type(value) not in (int, float):
        return "other-speedup"
    guesses = {
        "": speedup(slots),
        "speedup-is-B": slots,
        "logarithm": math.log(slots),
        "upside-down": 1 / speedup(slots),
    }
    return next(
        (tag for tag, guess in guesses.items() if abs(value - guess) <= BAND * guess), "other-speedup"
    )


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public crowd; the score stands before this is called."""
    found = next((o for o in outcomes if o.tag == tag), None)
    if not tag or found is None:
        return None
    shown, where = shown_small(
        found,
        [],
        public=lambda n: crowd(course.public(Batching.id + "/small", n), 3 + n % 3, times=2),
        cut=lambda drawn: list(drawn.jobs),
        joined=lambda drawn, jobs: replace(drawn, jobs=tuple(jobs)),
        play=lambda drawn: play_crowd(drawn, asker),
    )
    return words.feedback(shown, where)
