"""07.plan: which GPU serves whom, with how many blocks, and what may be promised."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab07 import planning
from autograder.checks.lab07.case import (
    DEVICES,
    MINUTES,
    SHIFTS,
    TENANTS,
    Case,
    naive_plan,
    weighed,
)
from autograder.checks.lab07.hints import BLOCKS, HINTS
from autograder.checks.lab07.planning import Planned, facts, fault_of, run
from autograder.checks.played import FAULTS, STANDARD, Outcome, said_of, unanswered
from autograder.course import Course
from autograder.judge import Exercise, build_points, committed, reconciliation, share_of_way
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.metrics import summarize
from gpulab.report.waiting import Waiting
from gpulab.telemetry.events import Arrived, Finished
from gpulab.telemetry.ledger import Ledger

# What is promised may come out better by so many points, or worse by so many; a burst more or less moves code far.
BETTER_POINTS = {"chat": 5, "code": 26, "batch": 5}
WORSE_POINTS = {"chat": 1.5, "code": 8, "batch": 3}
PLANNED = 0.80  # of the build is for what the plan reaches, the rest for what it expected
FULL_WAY = 0.90  # several plans are as good; which of them wins is the trace's luck
BANDS = (
    STANDARD[0],
    (0.30, 0.50),
    *STANDARD[2:-1],
    (FULL_WAY, 1.0),
)  # "for the mean rate" comes a quarter of the way
SHARED = 3  # the device of the naive plan that all tenants share

_RULES = {  # tag -> (rule, question)
    "wrong-form": ("A plan is plain values of the agreed form.", "Which part of your plan has another form?"),
    "over-budget": ("§ The budget is four GPUs.", "Which of your GPUs would you give back?"),
    "over-memory": (
        "§ Weights, context and KV blocks fit into the memory of each GPU.",
        "What else lies on the GPU beside the blocks?",
    ),
    "share-too-small": (
        "§ A share holds the longest request of its tenant: else that one waits for ever.",
        "How many blocks is the longest prompt with the longest answer?",
    ),
    "unserved": ("§ Every tenant is served somewhere.", "Whom did you leave out?"),
    "one-each": (
        "A GPU that nobody else may use idles between its tenant's bursts.",
        "What did the other GPUs do while a burst of code waited?",
    ),
    "batch-unbounded": (
        "Who has many blocks is let in at once, and its prompts stand before everybody's.",
        "How long do the prompts take that batch may have let in when chat comes?",
    ),
    "few-seats": (
        "A request needs a seat as well as blocks.",
        "How many requests run at a time, a request staying some seconds?",
    ),
    "idle-gpu": (
        "A GPU of the budget that the plan leaves out serves nobody.",
        "How many GPUs does your plan use?",
    ),
    "other-plan": (
        "Promises are kept where requests find room and a short queue.",
        "Which tenant loses most by your plan, and who stood before it?",
    ),
    "promise-everything": (
        "What you expect is what your plan reaches, a little less rather than more: it is a promise.",
        "What did try_plan say of that tenant, as a mean over its three traces, on the weakest of several practices?",
    ),
}
_UNHEARD = ("Each question gets one answer, in turn.", "Does your code talk to anything but its caller?")


@final
class PlanExercise(Exercise):
    """A plan for four GPUs, judged on three traces with one fixed policy."""

    id = "07.plan"
    points = 6.0
    builds = True
    function = "plan"
    predicts = ("chat_percent",)
    causes = ("slowed", "behind", "blocked")
    hints = HINTS["07.plan"]
    blocks = BLOCKS["07.plan"]
    minutes = MINUTES

    def example(self, course: Course) -> tuple[list, Callable]:
        case = self.puzzle(course, "ann").case
        asked = [[1, "new", [{}], []], [2, "plan", [facts(case)], []]]
        return asked, lambda: SimpleNamespace(
            plan=lambda case: naive_plan(Case.of(Random("example"))) | {"expect": dict.fromkeys(TENANTS, 50)}
        )

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Planned:
        """This learner's case, or another one for practice."""
        minutes = 1 if size == "tiny" else self.minutes
        if variant is None:
            return Planned(Case.of(course.of_learner(self.id, learner), minutes))
        return Planned(Case.of(course.public(self.id + "/variant", variant), minutes), variant)

    def watched(self, puzzle: Planned, part: str = "") -> Ledger:
        """The fourth GPU of the naive plan, which all share, on a minute or two of practice."""
        case = Case(
            puzzle.case.rates_per_ks, puzzle.case.ours, puzzle.case.theirs, min(2, puzzle.case.minutes)
        )
        return run(case, naive_plan(case), Random(f"{self.id}/watched"), "").ledgers[SHARED]

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """What took most of the time of the chats that broke their promise, and the facts of these."""
        puzzle = self.puzzle(course, learner)
        return evidence(self.watched(puzzle), puzzle.case)

    def ends(self, case: Case, draws: Callable[[int], Random]) -> list[tuple[Fraction, Fraction]]:
        """What the naive plan and the staff's reach on each of the three traces."""
        from autograder.references.lab07_staff import staff_plan

        plans = (naive_plan(case), staff_plan(case))
        return [
            tuple(weighed(planning.reached(case, plan, draws(n), shift)) for plan in plans)
            for n, shift in enumerate(SHIFTS)
        ]

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        case = self.puzzle(course, said.learner).case

        def draws(n: int) -> Random:
            return course.graded(self.id, n)

        outcome, plan, reached = self._played(case, draws, asker)
        share, notes = 0.0, ("Build: no plan that keeps the laws.",)
        if outcome.lawful:
            share, notes = self._share(outcome, plan, case, reached, self.ends(case, draws))
        predicted, noted = committed(said, self.predicts)
        cause, shows = self.key(course, said.learner) if said.reconciled else ("", set())
        reconciled, shown = reconciliation(said, cause, shows)
        points = build_points(self.points, predicted, reconciled, share)
        told = self._feedback(outcome) if outcome.tag else None
        return Score(
            self.id, points, self.points, outcome.tag, (noted, shown, *notes), told, said.learner, share
        )

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """The laws, and what the plan reaches on practice traces beside the naive one; no points."""
        case = self.puzzle(course, said.learner).case

        def draws(n: int) -> Random:
            return course.public(self.id, n)

        outcome, _, reached = self._played(case, draws, asker)
        if not outcome.lawful:
            return Score(self.id, 0.0, 0.0, outcome.tag, (), self._feedback(outcome), said.learner)
        split = naive_plan(case)
        naive = [planning.reached(case, split, draws(n), shift) for n, shift in enumerate(SHIFTS)]
        notes = [
            _line(shift, yours, theirs) for shift, yours, theirs in zip(SHIFTS, reached, naive, strict=True)
        ]
        return Score(self.id, 0.0, 0.0, "", tuple(notes), None, said.learner)

    def _played(self, case: Case, draws: Callable[[int], Random], asker: Asker) -> tuple:
        """What became of the plan: the outcome, the plan, and the attainments on the three traces."""
        outcome = Outcome()
        try:
            asker.new({})
            plan = asker.ask("plan", [facts(case)])
        except AnswerFault as fault:
            return unanswered(outcome, fault), None, []
        outcome.tag, outcome.got = fault_of(plan, case)
        outcome.lawful = not outcome.tag
        if not outcome.lawful:
            return outcome, plan, []
        return outcome, plan, [planning.reached(case, plan, draws(n), s) for n, s in enumerate(SHIFTS)]

    def _share(self, outcome: Outcome, plan: dict, case: Case, reached: list, ends: list) -> tuple:
        """The build's share and its notes; a plan that is short of the reference gets its tag."""
        ways = []
        for shares, (naive, staff) in zip(reached, ends, strict=True):
            ways.append(min(1.0, max(0.0, float((weighed(shares) - naive) / (staff - naive)))))
        way = sum(ways) / len(ways)
        missed = _missed(plan.get("expect"), reached)
        if way < FULL_WAY:
            outcome.tag = _misplanned(plan)
        elif missed:
            outcome.tag = "promise-everything"
        outcome.numbers = {"missed": missed}
        share = PLANNED * share_of_way(way, BANDS) + (1 - PLANNED) * (not missed)
        note = f"Build: all laws kept; {way:.0%} of the way from the naive plan to the reference."
        return share, (
            note,
            f"Expected within the tolerance: {len(TENANTS) - len(missed)} of {len(TENANTS)}.",
        )

    def _feedback(self, outcome: Outcome) -> Feedback:
        """Said of the learner's own plan alone, which was made for public numbers: no graded trace, no number of one."""
        rule, question = _RULES.get(outcome.tag) or FAULTS.get(outcome.tag, _UNHEARD)
        expected, got = "a plan that keeps the laws", outcome.got or said_of(outcome, quoting=True)
        if outcome.lawful:
            expected, got = "more promises kept", "a plan under which more promises break than need to"
        if outcome.tag == "promise-everything":
            near = ", ".join(
                f"{tenant} {WORSE_POINTS[tenant]:g} points less to {BETTER_POINTS[tenant]} more"
                for tenant in TENANTS
            )
            expected, got = (
                f"as a mean over the traces, than you said: {near}",
                f"off: {', '.join(outcome.numbers['missed'])}",
            )
        return Feedback(rule, "your plan, before a request came", expected, got, question)


def _line(shift: str, yours: Mapping, naive: Mapping) -> str:
    parts = (f"{tenant} {float(yours[tenant]):.0%} (naive {float(naive[tenant]):.0%})" for tenant in TENANTS)
    return f"Practice, shift {shift}: {', '.join(parts)}."


def _missed(expect: object, reached: list) -> list[str]:
    """The tenants of whom more was expected than came, or much less, as a mean over the traces."""
    expect = expect if type(expect) is dict else {}
    missed = []
    for tenant in TENANTS:
        said, came = expect.get(tenant), 100 * float(sum(shares[tenant] for shares in reached)) / len(reached)
        known = type(said) in (int, float) and 0 <= said <= 100
        if not known or not -WORSE_POINTS[tenant] <= came - said <= BETTER_POINTS[tenant]:
            missed.append(tenant)
    return missed


def _misplanned(plan: dict) -> str:
    """The likeliest reason why ``plan`` keeps fewer promises, read off the plan alone."""
    devices = plan["devices"]
    if any(len(device["serves"]) == 1 for device in devices):
        return "one-each"
    if sum(device["max_jobs"] for device in devices) < 100:
        return "few-seats"
    if max(device["serves"].get("batch", 0) for device in devices if "chat" in device["serves"]) > 2000:
        return "batch-unbounded"
    return "idle-gpu" if len(devices) < DEVICES else "other-plan"


def evidence(ledger: Ledger, case: Case) -> tuple[str, set[int]]:
    """The largest part, beside its own work, of the time of chats that broke their promise; these requests' facts."""
    slo = case.promises["chat"]
    broke = {
        times.request
        for times in summarize(ledger).requests
        if times.tenant == "chat" and not slo.kept_by(times)
    }
    gauge = Waiting(ledger)
    parts = dict.fromkeys(PlanExercise.causes, 0)
    for request in broke:
        for part in parts:
            parts[part] += getattr(gauge[request], f"{part}_ns")
    shows = {
        serial
        for serial, fact in enumerate(ledger)
        if isinstance(fact, Arrived | Finished) and fact.request in broke
    }
    return max(parts, key=lambda part: parts[part]), shows
