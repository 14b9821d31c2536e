"""How a policy of 07.policy is marked: laws, then the way from naive to reference in weighted goodput."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from autograder.asked import AskedPolicy
from autograder.channel import AnswerFault, Asker
from autograder.checks.lab07 import gpu
from autograder.checks.lab07.case import TENANTS, WEIGHTS
from autograder.checks.lab07.gpu import Load, Run
from autograder.checks.played import Outcome, capped, unanswered
from autograder.judge import share_of_way
from gpulab.errors import PolicyFault
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policy import JobView, Policy, View

# The way from naive to reference. Measured over drawn courses: one chunk size for all steps comes to 0.49-0.77 (to 0.60 with
# gpulab's own orders), numbers of the beginning to 0.65-0.82, blocks for the longest answer to 0.64-0.77, promises in the order
# of their deadlines, else right, to 0.77-0.82; right policies of three other styles to 0.88-1.00.
# Who refuses everybody breaks no law: below the naive rule laws alone are worth a fifth.
BANDS = ((0.0, 0.20), (0.05, 0.30), (0.35, 0.50), (0.77, 0.70), (0.82, 0.85), (0.86, 1.0))
BELOW_THE_TOP = 0.70  # of the build, when a shift was not seen: see ``share``
# To the reference, of weighted goodput after shift A (a burst in another order moves half a trace by up to 7 points), and
# of the chats after shift B that had a long step: who measures has at most 4 points.
NEAR = Fraction(8, 100)
FREE_EVICTIONS = 10
# Steps with chunks before shift B last 0.95-0.98 of the pause on average; chunks for the slow host all the time 0.46-0.48,
# and those come to 0.90-0.91 of the way: who never looks at the host is not in the top bands.
TIMID_PERCENT = 70
MOST_ASKS = 20_000  # of one trace: a step of 48 tokens at a time asks 17,000 times, the reference 6,000
SAFE_TOKENS = 64  # the naive chunk: never too long, on a slow host neither
OFTEN = Fraction(12, 100)
LIMITS = ("admit", "preempt", "reject", "prefill", "budget", "blocks", "twice", "wake", "answer")


@final
class NaivePolicy(Policy):
    """First come, first served; who is late already is refused; one chunk size, small enough for every step."""

    def __init__(self, rules: Mapping[str, int], tokens: int = SAFE_TOKENS) -> None:
        self.rules, self.tokens, self.cost, self.chunked = rules, tokens, gpu.cost(), Chunked()

    def decide(self, view: View) -> dict:
        late = {job.id for job in view.waiting if self._late(job, view)}
        seen = view.showing([job for job in view.waiting if job.id not in late])
        seen.token_budget = min(view.token_budget, view.decoding + self.tokens)
        return {**self.chunked.decide(seen), "reject": sorted(late)}

    def _late(self, job: JobView, view: View) -> bool:
        if job.tenant == "batch" or job.evictions:
            return False
        alone_ns = self.cost.step_ps(job.target, 0, job.target * job.target) // 1000
        return view.now_ns + alone_ns > job.arrival_ns + self.rules[f"{job.tenant}_first_ns"]


def asked(load: Load, rules: Mapping[str, int], asker: Asker) -> tuple[Run | None, Outcome, str]:
    """``load`` served by a new object of the learner's: its run, the first law it broke, what it reserves."""
    outcome = Outcome()
    try:
        asker.new({"rules": dict(rules)}, "view")
        policy = AskedPolicy(asker, 0, {}, most=MOST_ASKS)
    except AnswerFault as fault:
        return None, unanswered(outcome, fault), "prompt"
    run = gpu.run(load, policy, rules)
    outcome.ledger = run.ledger
    if run.fault is not None and isinstance(run.fault.__cause__, AnswerFault):
        return None, unanswered(outcome, run.fault.__cause__), policy.reserves
    law(outcome, run)
    return run, outcome, policy.reserves


def law(outcome: Outcome, run: Run) -> None:
    """Write the first law that ``run`` broke into ``outcome``, its numbers with it."""
    waited_ns, fate = run.waited()
    begin_ns, until_ns, serial = run.idle_ns
    if run.fault is not None:
        outcome.tag = _fault(run.fault)
        outcome.event, outcome.got = len(run.ledger) - 1, str(run.fault).split(". ")[0]
        outcome.expected = "an answer that the engine can carry out"
    elif waited_ns > gpu.WAIT_NS:
        outcome.tag, outcome.event = "left-hanging", fate.serial
        outcome.expected = f"served or refused within {gpu.WAIT_NS // 10**9} s"
        outcome.got = f"{fate.tenant}'s request of event #{fate.serial} waited {waited_ns / 1e9:,.0f} s"
    elif until_ns - begin_ns > gpu.IDLE_NS:
        outcome.tag, outcome.event = "batch-stands-still", serial
        outcome.expected = f"a token for batch at least every {gpu.IDLE_NS // 10**9} s"
        outcome.got = f"batch made no token from {begin_ns / 1e9:,.0f} s to {until_ns / 1e9:,.0f} s"
    outcome.lawful = not outcome.tag


def _fault(fault: PolicyFault) -> str:
    return "over-limits" if fault.law in LIMITS else "serves-nobody"


@final
@dataclass(frozen=True, slots=True)
class Reached:
    """What is kept of a run of the reference for machines that do not have it.

    Goodput, all and after the shift, and the share of chats after the shift that lost their promise to a long step.
    """

    goodput: Fraction
    after: Fraction
    paused: Fraction


def after(run: Run | Reached) -> Fraction:
    """The weighted goodput of those who came after the shift."""
    if isinstance(run, Reached):
        return run.after
    shares = {tenant: run.attained(tenant, True) for tenant in TENANTS}
    return sum(WEIGHTS[tenant] * shares[tenant] for tenant in TENANTS) / sum(WEIGHTS.values())


def paused(run: Run | Reached) -> Fraction:
    """The share of the chats after the shift whose promise a step broke that was too long."""
    return run.paused if isinstance(run, Reached) else _lost([run], "pause", True)


def over_reacted(run: Run) -> bool:
    """After a shift that is not ours, were there a tenth more evictions a minute than before, some aside?"""
    late = sum(at >= run.load.shift_ns for at in run.evictions)
    before_ns = run.load.shift_ns
    after_ns = 2 * run.load.half_ns - before_ns
    return 10 * (late - FREE_EVICTIONS) * before_ns > 11 * (len(run.evictions) - late) * after_ns


def blind(runs: Sequence[Run], best: Sequence[Run | Reached]) -> bool:
    """After shift B, did many more chats than the reference's have a step that was too long?"""
    return any(paused(own) - paused(other) > NEAR for own, other in zip(runs[1:], best[1:], strict=True))


def timid(run: Run, pause_ns: int) -> bool:
    """Before the shift, were its steps with chunks as short as if the host were slow already?"""
    early = run.mixed[: run.early]
    return 100 * sum(early) < TIMID_PERCENT * pause_ns * len(early)


def way_of(runs: Sequence[Run], naive: Sequence[Run], best: Sequence[Run | Reached]) -> float:
    """How far from naive (0) to reference (1) the three traces come together."""
    own, low, high = (sum(run.goodput for run in some) for some in (runs, naive, best))
    return float(min(max((own - low) / (high - low), 0), 1)) if high > low else float(own >= high)


def share(
    outcomes: list[Outcome],
    runs: list[Run | None],
    naive: list[Run],
    best: list[Run] | list[Reached],
    pause_ns: int,
) -> tuple[float, str]:
    """The build's share, 0 to 1, and the line that says how it came about."""
    cap = capped(outcomes)
    if cap:
        return cap
    way = way_of(runs, naive, best)
    found = share_of_way(way, BANDS)
    note = f"Build: all laws kept; {way:.0%} of the way from the naive rule to the reference."
    why = ""
    if after(best[0]) - after(runs[0]) > NEAR:
        why = "it falls behind after shift A"
    elif over_reacted(runs[1]):
        why = "it puts out more after shift B than before"
    elif any(timid(run, pause_ns) for run in runs[1:]):
        why = "before shift B its steps are as short as after it"
    elif blind(runs, best):
        why = "after shift B its steps are longer than the pause"
    if found > BELOW_THE_TOP and why:
        return BELOW_THE_TOP, f"{note} The two top bands are out of reach: {why}."
    return found, note


def fault_of(runs: Sequence[Run], rules: Mapping[str, int], reserves: str) -> str:
    """The misconception that the runs of A, B and both show most."""
    slower = [run for run in runs if run.load.shift != "A"]
    if any(over_reacted(run) for run in slower[:1]):
        return "over-reacts"
    if _lost(runs, "pause", False) >= OFTEN:
        return "pauses"
    if any(_lost([run], "pause", True) >= OFTEN for run in slower):
        return "frozen"
    if reserves == "most":
        return "reserves-most"
    lengths = [length for run in runs for length in run.mixed]
    short = lengths and 100 * sum(lengths) < 80 * rules["pause_ns"] * len(lengths)
    if short or any(timid(run, rules["pause_ns"]) for run in slower):
        return "too-careful"
    if _lost(runs, "late", None, ("chat", "code")) >= OFTEN:
        return "serves-the-late"
    return "order"


def _lost(runs: Sequence[Run], why: str, late: bool | None, tenants: Sequence[str] = ("chat",)) -> Fraction:
    fates = [fate for run in runs for tenant in tenants for fate in run.of(tenant, late)]
    return Fraction(sum(fate.lost == why for fate in fates), len(fates)) if fates else Fraction(0)
