"""04.deadline: who is served by when, and who is told at the door that it will not be."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04 import deadline_words as words
from autograder.checks.lab04.deadline_cases import Crowd, Prompt, drawn
from autograder.checks.lab04.deadline_play import BANDS, play_crowd, worths
from autograder.checks.lab04.deadline_server import Server, by_promise, first_come
from autograder.checks.played import CASES, Outcome, judged, share_of_standard, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.events import Arrived, Finished, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

REQUESTS = 120  # in a graded case: at most 240 questions
OWN = 24  # in the learner's own crowd
OWN_LOAD_PERCENT = 120


@final
class Deadline(Exercise):
    """First tokens by a deadline, with a twist: nobody is turned away later than so long after its arrival."""

    id = "04.deadline"
    points = 4.0
    builds = True
    function = "decide"
    constant = "view.{}"
    predicts = ("percent",)
    causes = ("chat", "code", "night")
    hints = words.HINTS
    blocks = words.BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """Around 50 ms, in which nobody has noticed yet that there is no answer."""
        return {"notice_ns": MS * draw.randrange(40, 61)}

    def example(self, course: Course) -> tuple[list, Callable]:
        notice_ns = course.rules[self.id]["notice_ns"]
        jobs = [
            Prompt(4, "code", 610 * MS, 3_000, 190 * MS, 960 * MS, 800 * MS),
            Prompt(5, "chat", 700 * MS, 420, 34 * MS, 1_300 * MS, 900 * MS),
        ]
        running, waiting = ([job._asdict()] for job in jobs)
        view = {"now_ns": 700 * MS, "free_ns": 820 * MS, "notice_ns": notice_ns}
        view |= {"running": running, "waiting": waiting}
        asked = [[1, "new", [{}, "objects"], []], [2, "decide", [view], []]]
        return asked, lambda: SimpleNamespace(decide=lambda view: {"admit": [5], "reject": []})

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Crowd:
        """A crowd that is too much for the server; most of the lateness has one kind of prompt behind it."""
        notice_ns = course.rules[self.id]["notice_ns"]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return small(draw, notice_ns, 4 if size == "tiny" else 12)
        draw = course.of_learner(self.id, learner)
        kind = draw.choice(self.causes)
        while True:
            crowd = drawn(draw, notice_ns, OWN, OWN_LOAD_PERCENT, kind)
            parts, shows = evidence(self.watched(crowd), crowd)
            other = sum(ns for name, ns in parts.items() if name != kind)
            if 5 * parts[kind] >= 6 * other and len(shows[kind]) >= 9:
                return crowd

    def watched(self, puzzle: Crowd, part: str = "") -> Ledger:
        """First come, first served on ``puzzle``."""
        return _ledger(puzzle, first_come)

    def reference(self, course: Course, puzzle: Crowd) -> Ledger:
        """The rule's run on ``puzzle``."""
        return _ledger(puzzle, by_promise)

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Whose prompts were computed while the late ones waited, and the facts of those who waited mostly for them."""
        crowd = self.puzzle(course, learner)
        parts, shows = evidence(self.watched(crowd), crowd)
        cause = max(self.causes, key=lambda name: parts[name])
        return cause, shows[cause]

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        notice_ns = course.rules[self.id]["notice_ns"]
        outcomes = judged(
            range(CASES), lambda n: play_crowd(graded_case(course.graded(self.id, n), notice_ns, n), asker)
        )
        share, note = share_of_standard(outcomes, BANDS)
        predicted, noted = committed(said, self.predicts)
        key = self.key(course, said.learner) if said.reconciled else ("", set())
        reconciled, shown = reconciliation(said, *key)
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes) if share < 1 else "", (noted, shown, note)
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        notice_ns = course.rules[self.id]["notice_ns"]
        cases = [graded_case(course.public(self.id, n), notice_ns, n) for n in range(2)]
        outcomes = judged(cases, lambda crowd: play_crowd(crowd, asker))
        share, note = share_of_standard(outcomes, BANDS)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


def graded_case(draw: Random, notice_ns: int, number: int) -> Crowd:
    """A crowd at load 0.92 to 1.28 on which the rule is worth at least a tenth more than first come, first served."""
    while True:
        crowd = drawn(draw, notice_ns, REQUESTS, 95 + 10 * (number % 4) + draw.randrange(-3, 4))
        naive, best = worths(crowd)
        if best - naive >= 0.1:
            return crowd


def small(draw: Random, notice_ns: int, count: int) -> Crowd:
    """A short crowd in which first come, first served breaks a promise and the rule keeps more."""
    while True:
        crowd = drawn(draw, notice_ns, count, 140)
        naive, best = worths(crowd)
        if best > naive:
            return crowd


def evidence(ledger: Ledger, crowd: Crowd) -> tuple[dict[str, int], dict[str, set[int]]]:
    """Of each tenant: for how long its prompts were computed while late ones waited, and the facts of those who waited for them longest."""
    starts = {fact.claim: fact.time_ns for fact in ledger.of(Granted)}  # claims are numbered like requests
    served = [(starts[job.id], starts[job.id] + job.prompt_ns, job.tenant) for job in crowd.prompts]
    total: dict[str, int] = {"chat": 0, "code": 0, "night": 0}
    most: dict[str, set[int]] = {name: set() for name in total}
    for job in crowd.prompts:
        if starts[job.id] + job.prompt_ns <= job.deadline_ns:
            continue
        own = dict.fromkeys(total, 0)
        for start_ns, end_ns, tenant in served:
            own[tenant] += max(0, min(end_ns, starts[job.id]) - max(start_ns, job.arrival_ns))
        for name, ns in own.items():
            total[name] += ns
        most[max(own, key=lambda name: own[name])].add(job.id)
    facts = [(serial, ledger[serial]) for serial in ledger.serials(Arrived, Finished, Granted)]
    return total, {
        name: {serial for serial, f in facts if (f.claim if type(f) is Granted else f.request) in jobs}
        for name, jobs in most.items()
    }


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public crowd; nothing of a graded one is shown."""
    if not tag:
        return None
    notice_ns = course.rules[Deadline.id]["notice_ns"]
    shown, where = shown_small(
        next(outcome for outcome in outcomes if outcome.tag == tag),
        [],
        public=lambda n: small(course.public(Deadline.id + "/small", n), notice_ns, 12),
        cut=lambda crowd: list(crowd.prompts),
        joined=lambda _, prompts: Crowd(
            tuple(prompt._replace(id=number) for number, prompt in enumerate(prompts)), notice_ns
        ),
        play=lambda crowd: play_crowd(crowd, asker),
    )
    return words.feedback(shown, where)


def _ledger(crowd: Crowd, rule: Callable) -> Ledger:
    server = Server(crowd)
    server.play(rule)
    return server.ledger
