"""The sheet of 07.policy."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab07 import gpu
from autograder.checks.lab07.policy_marks import NaivePolicy
from autograder.references.lab07_policy import Mine
from autograder.verdict import Commitments
from gpulab.serving import cost
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.deadline import EarliestDeadline
from gpulab.serving.policies.fair import VirtualTokens
from gpulab.serving.policies.feedback import Feedback
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.policies.priority import Priority
from gpulab.serving.policies.rank import RankPolicy
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.policies.shortest import ShortestRemaining
from gpulab.serving.policy import Policy

EARLY_NS = 20_000_000_000


class PromptFirst(PrefillFirst):
    """Whole prompts as soon as they fit; who is late already is refused."""

    def __init__(self, rules):
        self.mine = Mine(rules)

    def decide(self, view):
        late = [job.id for job in view.waiting if self.mine.late(job, view)]
        return {
            **super().decide(view.showing([job for job in view.waiting if job.id not in late])),
            "reject": late,
        }


class ReserveMax(Mine):
    reserves = "most"


class ShortestFirst(Mine):
    """Whoever has least left, and nobody is refused."""

    def late(self, job, view):
        return False


class AbsolutePriority(Mine):
    """Batch is served when nobody else is here."""

    def decide(self, view):
        others = any(job.tenant != "batch" for job in (*view.waiting, *view.running))
        if not others:
            return super().decide(view)
        running = [job for job in view.running if job.tenant == "batch" and not job.ready_ns]
        here = [job for job in view.waiting if job.tenant != "batch"]
        said = super().decide(view.showing(here))
        out = [job.id for job in running if job.blocks]
        prefill = {name: n for name, n in said.get("prefill", {}).items() if name not in out}
        return {**said, "prefill": prefill, "preempt": [[name, "recompute"] for name in out]}


class Frozen(Mine):
    """What a step costs was measured in the beginning."""

    def decide(self, view):
        if view.now_ns > EARLY_NS:
            self.begun = None
        return super().decide(view)


class TypedShift(Mine):
    """Chunks for the slow host from half of the run on: both typed in, and nothing is measured."""

    at_ns = 150_000_000_000

    def decide(self, view):
        slow = view.now_ns >= self.at_ns
        self.begun, self.host_ns = None, slow * (self.rules["pause_ns"] - gpu.LEFT_NS)
        return super().decide(view)


class AlwaysSlow(Mine):
    """Chunks for the slow host from the beginning: never too long, and nothing is measured."""

    def decide(self, view):
        self.begun, self.host_ns = None, self.rules["pause_ns"] - gpu.LEFT_NS
        return super().decide(view)


class OverReacts(Mine):
    """Steps became longer: somebody has to go."""

    def decide(self, view):
        said = super().decide(view)
        runs = [job for job in view.running if job.decoding and job.tenant != "chat" and not job.evictions]
        if self.host_ns > 3_000_000 and runs and "reject" in said:
            return {**said, "preempt": [[runs[0].id, "recompute"]]}
        return said


class ServesTheLate(Mine):
    """The oldest first, and nobody is refused before ten seconds are over."""

    def line(self, job, view):
        return job.tenant == "batch", job.arrival_ns, job.id

    def late(self, job, view):
        return job.tenant != "batch" and view.now_ns - job.arrival_ns > 10_000_000_000


class TooCareful(Policy):
    """First come, first served, in steps of 48 tokens, whatever they take."""

    def __init__(self, rules):
        self.naive = NaivePolicy(rules, 48)

    def decide(self, view):
        return self.naive.decide(view)


class OverBudget(Chunked):
    """Fills the budget without its decodes."""

    def __init__(self, rules):
        super().__init__()

    def decide(self, view):
        said = super().decide(view)
        if said.get("prefill") and view.decoding:
            name, tokens = next(iter(said["prefill"].items()))
            said["prefill"][name] = tokens + view.decoding
        return said


class Never(Policy):
    def __init__(self, rules):
        self.rules = rules

    def decide(self, view):
        return {}


class RefusesAll(Never):
    def decide(self, view):
        return {"reject": [job.id for job in view.waiting]}


class OneByOne(Never):
    """The first in line, whole."""

    def decide(self, view):
        if view.running:
            left = {job.id: min(job.left, view.token_budget) for job in view.running if job.left}
            return {"prefill": left} if len(view.running) == 1 else {}
        first = next(iter(view.waiting))
        return {"admit": [first.id], "prefill": {first.id: min(first.target, view.token_budget)}}


class Stub(Policy):
    def __init__(self, rules):
        self.rules = rules

    def decide(self, view):
        raise NotImplementedError("yours to write")


# -- around what gpulab ships ---------------------------------------------------------------------


def around(policy, *arguments):
    class Around(policy):
        def __init__(self, rules):
            super().__init__(*arguments)

    return Around


SHIPPED = [around(kind) for kind in (Chunked, VirtualTokens, Feedback, PrefillFirst, RequestLevel, Reserving)]
SHIPPED += [around(ShortestRemaining), around(EarliestDeadline, cost.load("llama3-8b-a100"))]
SHIPPED += [around(Priority, ("chat", "code", "batch"))]


class SmallerAndRefuses(Chunked):
    def __init__(self, rules):
        super().__init__()

    def decide(self, view):
        late = [job.id for job in view.waiting if view.now_ns - job.arrival_ns > 900_000_000]
        seen = view.showing([job for job in view.waiting if job.id not in late or job.tenant == "batch"])
        seen.token_budget = 96
        gone = [job.id for job in view.waiting if job.id in late and job.tenant != "batch"]
        return {**super().decide(seen), "reject": gone}


class ByDeadline(RankPolicy):
    def __init__(self, rules):
        self.rules = rules

    def rank(self, job):
        return job.arrival_ns + self.rules.get(f"{job.tenant}_first_ns", 10**12)


def said(course, learner):
    """The right prediction and reconciling of this learner's own trace."""
    loser, shows, _ = exercises()["07.policy"].puzzle(course, learner).key()
    return Commitments(learner, {"loses": "chat"}, {"cause": loser, "events": sorted(shows)[:5]})


def lengths(course):
    """Prompts of the graded traces that no practice trace has."""
    exercise = exercises()["07.policy"]
    known = {r.prompt_tokens for n in range(2) for load in exercise._practice(course, n) for r in load.trace}
    loads = gpu.loads(course.graded("07.policy", 0), course.rules["07.policy"])
    graded = {r.prompt_tokens for load in loads for r in load.trace}
    return {prompt for prompt in graded - known if prompt >= 1000}


SHEETS = [
    Sheet(
        "07.policy",
        right=Mine,
        said=said,
        stub=Stub,
        wrong={
            "prompt-first": Wrong(PromptFirst, 0.20, 0.50, "pauses", "How long does a step take"),
            "reserve-max": Wrong(ReserveMax, 0.50, 0.70, "reserves-most", "answer of usual length"),
            "shortest-first": Wrong(ShortestFirst, 0.0, 0.20, "left-hanging", "in time any more"),
            "absolute-priority": Wrong(AbsolutePriority, 0.0, 0.20, "batch-stands-still", "always there"),
            "frozen": Wrong(Frozen, 0.50, 0.70, "frozen", "What did your last step take"),
            "typed-shift": Wrong(TypedShift, 0.50, 0.70, "frozen", "What did your last step take"),
            "always-slow": Wrong(AlwaysSlow, 0.50, 0.70, "too-careful", "who waits meanwhile"),
            "over-reacts": Wrong(OverReacts, 0.30, 0.70, "over-reacts", "when you put a job out"),
            "serves-the-late": Wrong(ServesTheLate, 0.30, 0.70, "serves-the-late", "do you still keep"),
            "too-careful": Wrong(TooCareful, 0.20, 0.50, "too-careful", "who waits meanwhile"),
            "over-budget": Wrong(OverBudget, 0.0, 0.20, "over-limits", "Which of the view's limits"),
            "never": Wrong(Never, 0.0, 0.20, "serves-nobody", "in line for ever"),
        },
        constants=(Never, RefusesAll, OneByOne),
        shortcuts=(SmallerAndRefuses, ByDeadline),
        secret_numbers=lengths,
        cuts=(0.05, 0.35, 0.77, 0.82, 0.86),
    )
]
