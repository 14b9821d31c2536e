"""07.policy: the learner's ``decide`` over one GPU of the case, on three fresh traces: shift A, shift B, both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab07 import gpu, policy_words
from autograder.checks.lab07.case import TENANTS, Case
from autograder.checks.lab07.policy_marks import NaivePolicy, Reached, after, asked, fault_of, paused, share
from autograder.checks.played import BROKEN, FAULTS, Outcome, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.recorded import recorded
from autograder.verdict import Commitments, Feedback, Score
from gpulab.serving.policy import Policy
from gpulab.telemetry.events import Dropped
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

SHORT = 2  # minutes of practice traces
PRACTICE = 2  # of them looked through for one that shows the same fault
FIXED_TOKENS = 192  # chunks of the run that is watched: right before the shift, wrong after it
UNWEIGHED = "Build: all laws kept; how far it comes is weighed when you hand in."
CLEAR_PERCENT = 10  # that one tenant loses at least more than any other by the shift


@final
@dataclass(frozen=True, slots=True)
class Task:
    """What a learner watches: one trace with one shift, served in chunks of one size."""

    load: gpu.Load
    rules: Mapping[str, int]

    def text(self) -> str:
        return policy_words.task(self.load, self.rules, FIXED_TOKENS)

    def run(self) -> gpu.Run:
        return gpu.run(self.load, NaivePolicy(self.rules, FIXED_TOKENS), self.rules)

    def try_policy(self, make: Callable, practice: int = 0) -> str:
        """What ``make(rules)`` keeps on the practice traces number ``practice``, run here, without the judge's channel.

        ``make`` without ``rules`` (a shipped class) does as well: ``try_policy(lambda rules: Chunked())``.
        """
        loads = gpu.loads(Random(f"practice/{practice}"), self.rules, SHORT)
        return policy_words.table([gpu.run(load, make(self.rules), self.rules) for load in loads])

    def key(self) -> tuple[str, set[int], int]:
        """Who loses most, the facts that show it, and by how many points more than the next."""
        run = self.run()
        drops = sorted((run.attained(t, False) - run.attained(t, True), t) for t in TENANTS)
        loser, late = drops[-1][1], self.load.shift_ns
        ids = {name for name, fate in run.fates.items() if fate.tenant == loser and fate.arrived_ns >= late}
        shows = {n for n, f in enumerate(run.ledger) if type(f) is Dropped and f.request in ids}
        if loser == "chat":
            longer = zip(run.pauses, run.pause_serials, strict=True)
            shows |= {serial for at, serial in longer if at >= late}
        return loser, shows, int(100 * (drops[-1][0] - drops[-2][0]))


@final
class PolicyExercise(Exercise):
    """Who is served next, with promises that stand in no request and a host that becomes slower."""

    id = "07.policy"
    points = 14.0
    builds = True
    seconds = 180.0  # 18,000 questions take 3 s of a quiet core; a slow policy on a busy machine is no fault
    predicts = ("loses",)
    choices = TENANTS
    causes = TENANTS
    hints = policy_words.HINTS
    blocks = policy_words.BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """The course's promises: chat's longest step and both first tokens. No request carries them."""
        return {
            "pause_ns": draw.choice((30, 31, 32)) * MS,
            "chat_first_ns": draw.choice((900, 1000, 1100)) * MS,
            "code_first_ns": draw.choice((1800, 2000, 2200)) * MS,
        }

    def example(self, course: Course) -> tuple[list, Callable]:
        limits = ["limits", gpu.TOKEN_BUDGET, gpu.MAX_JOBS, 16]
        came = ["came", 0, "chat", "chat", 0, 900, 1024, 210, 0, 0]
        news = [limits, came, ["is", 0, "waiting", 900, 0, 0, 0, 0, 0, 57], ["joined", "waiting", 0, 0]]
        questions = [
            [1, "new", [{"rules": course.rules[self.id]}, "view"], []],
            [2, "begin", [0, {}], []],
            [3, "decide", [0, [0, 0, gpu.KV_BLOCKS, 0], news], []],
        ]
        return questions, _LetsIn

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Task:
        """The learner's own trace, on which one chunk size for all steps is watched."""
        own = variant is None
        draw = course.of_learner(self.id, learner) if own else course.public(self.id + "/variant", variant)
        while True:
            case, rules = Case.of(draw, SHORT), course.rules[self.id]
            task = Task(gpu.load(draw, case, draw.choice(("A", "B")), rules), rules)
            if task.key()[2] >= CLEAR_PERCENT:
                return task

    def watched(self, puzzle: Task, part: str = "") -> Ledger:
        """Chunks of one size on ``puzzle``, first come, first served."""
        return puzzle.run().ledger

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        draw, rules = course.graded(self.id, 0), course.rules[self.id]
        outcomes, tag, built, note = self._judged(gpu.loads(draw, rules), rules, asker)
        predicted, noted = committed(said, self.predicts, self.choices)
        cause, shows = "", set()
        if said.reconciled:  # else nobody asks, and it takes a second
            cause, shows, _ = self.puzzle(course, said.learner).key()
        reconciled, shown = reconciliation(said, cause, shows)
        points = build_points(self.points, predicted, reconciled, built)
        told = self._feedback(course, tag, outcomes, asker)
        return Score(self.id, points, self.points, tag, (noted, shown, note), told, said.learner, built)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        loads = self._practice(course, 0)
        outcomes, tag, built, note = self._judged(loads, course.rules[self.id], asker, self._kept(course))
        points, most = as_points(built * 0.7, self.points), self.points * 0.7
        if note == UNWEIGHED:
            points = most = 0.0
        told = self._feedback(course, tag, outcomes, asker)
        return Score(self.id, points, most, tag, (note,), told, said.learner, built)

    def kept(self, course: Course) -> list[list[str]]:
        """What the reference reaches on the practice traces, as ``Reached`` has it, as fractions."""
        best = by_reference(self._practice(course, 0), course.rules[self.id])
        return [[str(part) for part in (run.goodput, after(run), paused(run))] for run in best]

    def _kept(self, course: Course) -> list[Reached]:
        found = recorded(self.id, course)
        return [Reached(*map(Fraction, parts)) for parts in found["kept"]] if found else []

    def _practice(self, course: Course, number: int) -> list[gpu.Load]:
        return gpu.loads(course.public(self.id, number), course.rules[self.id], SHORT)

    def _judged(
        self,
        loads: list[gpu.Load],
        rules: Mapping[str, int],
        asker: Asker,
        kept: Sequence[Reached] | None = None,
    ) -> tuple:
        """Each trace played once, to one new object: outcomes, tag, share of the build and its line.

        ``kept``: what is known of the reference's runs where the reference itself is not there, maybe nothing.
        """
        outcomes, runs, reserves = played(loads, rules, asker)
        if all(outcome.lawful for outcome in outcomes):
            naive, best = baseline(loads, rules, kept)
            if not best:
                return outcomes, "", 0.0, UNWEIGHED
            built, note = share(outcomes, runs, naive, best, rules["pause_ns"])
            tag = "" if built == 1.0 else fault_of(runs, rules, reserves)
            for outcome in outcomes:
                outcome.tag, outcome.got = tag, tag and "fewer promises kept than the reference keeps"
            return outcomes, tag, built, note
        return outcomes, tag_of(outcomes), *share(outcomes, runs, [], [], rules["pause_ns"])

    def _feedback(self, course: Course, tag: str, outcomes: list[Outcome], asker: Asker) -> Feedback | None:
        """The fault on a practice trace that shows it, too. The score stands before this is called."""
        if not tag:
            return None
        found, rules = next(o for o in outcomes if o.tag == tag), course.rules[self.id]
        if tag in BROKEN or tag == "too-long":
            return policy_words.feedback(None, found)
        for number in range(1 if tag in FAULTS else PRACTICE):
            again, runs, reserves = played(self._practice(course, number), rules, asker)
            broken = next((outcome for outcome in again if outcome.tag == tag), None)
            if broken is None and all(o.lawful for o in again) and fault_of(runs, rules, reserves) == tag:
                broken = Outcome(tag=tag)
            if broken is not None:
                numbered = all(run is not None for run in runs)
                return policy_words.feedback(
                    policy_words.describe(broken, runs, rules) if numbered else broken, found
                )
        return policy_words.feedback(None, found)


def played(loads: list[gpu.Load], rules: Mapping[str, int], asker: Asker) -> tuple[list, list, str]:
    """Outcomes, runs (None where no usable answer came) and what the learner's class reserves."""
    outcomes, runs, reserves = [], [], "prompt"
    for load in loads:
        if outcomes and outcomes[-1].tag in BROKEN:
            run, outcome = None, Outcome(lawful=False, tag=outcomes[-1].tag)
        else:
            run, outcome, reserves = asked(load, rules, asker)
        runs.append(run)
        outcomes.append(outcome)
    return outcomes, runs, reserves


def baseline(
    loads: list[gpu.Load], rules: Mapping[str, int], kept: Sequence[Reached] | None = None
) -> tuple[list[gpu.Run], list[gpu.Run] | list[Reached]]:
    """The naive rule's runs, and the reference's; where the reference is not there (in a kit), ``kept``."""
    naive = [gpu.run(load, NaivePolicy(rules), rules) for load in loads]
    try:
        return naive, by_reference(loads, rules)
    except ModuleNotFoundError:
        if kept is None:  # grading goes by the reference or not at all
            raise
        return naive, list(kept)


def by_reference(loads: list[gpu.Load], rules: Mapping[str, int]) -> list[gpu.Run]:
    """The reference's runs. ``ModuleNotFoundError`` where it is not there."""
    from autograder.references.lab07_policy import Mine

    return [gpu.run(load, Mine(rules), rules) for load in loads]


@final
class _LetsIn(Policy):
    """A policy that computes whole prompts as they come, to show what messages look like."""

    def __init__(self, rules: dict) -> None:
        self.rules = rules

    def decide(self, view) -> dict:
        first = view.waiting[0]
        return {"admit": [first.id], "prefill": {first.id: min(first.target, view.token_budget)}}
