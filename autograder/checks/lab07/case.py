"""The case of lab 07: three tenants on four GPUs, and a shift half-way that is ours (A) or not (B).

``Case.of(draw)`` draws rates and the kind of each shift; ``drawn(draw, case, shift)`` draws a trace and what happens to
the host; ``play`` serves it by a plan, ``attainment`` and ``weighted`` say how well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import final

from autograder.checks.lab07.traffic import LENGTHS, Deck, bursts, chats, folders
from gpulab.errors import PolicyFault
from gpulab.report.metrics import Slo
from gpulab.report.scores import kept_of
from gpulab.serving import cost as costs
from gpulab.serving.cost import StepCost
from gpulab.serving.engine import Engine
from gpulab.serving.fleet import Fleet, Router
from gpulab.serving.named import router_named
from gpulab.serving.policies.choosing import fitting, whole_prompts
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policy import Asked, Load, Policy, View
from gpulab.serving.request import Request, Trace
from gpulab.serving.shares import Shares
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND, GiB

TENANTS = ("chat", "code", "batch")
SHIFTS = ("A", "B", "both")
DEVICES = 4
MINUTES = 6  # simulated; the shift is half-way
MEMORY_BYTES, WEIGHTS_BYTES, CONTEXT_BYTES = 80 * GiB, 16 * GiB, GiB * 6 // 10
TOKEN_BUDGET = 2048
MOST_JOBS = 256
MOST_TOKENS = {"chat": 1024, "code": 2048, "batch": 4096}  # of an answer, as the client says
WEIGHTS = {"chat": 3, "code": 2, "batch": 1}
RATES_PER_KS = {"chat": 3900, "code": 1500, "batch": 1900}  # requests in a thousand seconds
HOST_NS = 6 * MS  # that shift B adds to each step
GUESS_PERCENT = 50  # how far guesses of answer lengths are off at most
OURS, THEIRS = ("longer prompts", "double bursts"), ("slower host",)


@final
@dataclass(frozen=True, slots=True)
class Case:
    """One learner's case, or the course's.

    Attributes:
        rates_per_ks: tenant to requests in a thousand seconds. minutes: simulated; the shift is half-way.
        ours, theirs: what shift A and shift B are.
    """

    rates_per_ks: Mapping[str, int]
    ours: str
    theirs: str
    minutes: int = MINUTES

    @classmethod
    def of(cls, draw: Random, minutes: int = MINUTES) -> "Case":
        """Rates within 15 % of the base, and one kind of each shift."""
        rates = {tenant: rate * draw.randint(85, 115) // 100 for tenant, rate in RATES_PER_KS.items()}
        return cls(rates, draw.choice(OURS), draw.choice(THEIRS), minutes)

    @property
    def end_ns(self) -> int:
        return self.minutes * 60 * SECOND

    @property
    def shift_ns(self) -> int:
        return self.end_ns // 2

    @property
    def promises(self) -> dict[str, Slo]:
        """Chat and code: first token and time a token; batch: all of it within half of the run."""
        return {
            "chat": Slo(ttft_ns=SECOND, tpot_ns=50 * MS),
            "code": Slo(ttft_ns=2 * SECOND, tpot_ns=50 * MS),
            "batch": Slo(latency_ns=self.shift_ns),
        }

    @property
    def cost(self) -> StepCost:
        """Llama-3-8B on an A100-80; ``kv_blocks``: what weights and context leave."""
        cost = costs.load("llama3-8b-a100")
        left = MEMORY_BYTES - WEIGHTS_BYTES - CONTEXT_BYTES
        return replace(cost, kv_blocks=left // (cost.block_tokens * cost.kv_bytes_per_token))


def drawn(draw: Random, case: Case, shift: str) -> tuple[Trace, tuple[tuple[int, int], ...]]:
    """A trace with ``shift`` (one of SHIFTS, '' for none), and the host's changes for the engines."""
    ours, half = shift in ("A", "both"), case.shift_ns
    doubled = half if ours and case.ours == "double bursts" else case.end_ns
    rates, end = case.rates_per_ks, case.end_ns
    arrivals = {
        "chat": chats(draw, rates["chat"], end),
        "code": bursts(draw, rates["code"], end, doubled),
        "batch": folders(draw, rates["batch"], end),
    }
    rows, window = [], case.cost.longest_tokens
    for tenant, times in arrivals.items():
        longest = window - MOST_TOKENS[tenant]  # older turns and files are left out, as clients do
        prompts, outputs = (Deck(draw, table) for table in LENGTHS[tenant])
        for at in times:
            longer = 2 if tenant == "code" and ours and case.ours == "longer prompts" and at >= half else 1
            prompt = min(max(1, prompts.deal() * longer), longest)
            rows.append((at, tenant, prompt, outputs.deal(), draw.randrange(1 << 20)))
    rows.sort()
    promised = {tenant: slo.ttft_ns or 0 for tenant, slo in case.promises.items()}
    trace = Trace(
        Request(
            *(n, at, prompt, output, MOST_TOKENS[tenant], tenant),
            slo=tenant,
            predicted_tokens=_guess(output, luck),
            first_token_ns=promised[tenant],
        )
        for n, (at, tenant, prompt, output, luck) in enumerate(rows)
    )
    return trace, ((half, HOST_NS),) if shift in ("B", "both") else ()


def _guess(output: int, luck: int) -> int:
    """``output`` off by at most GUESS_PERCENT, ``luck`` of 2 ** 20."""
    percent = 100 - GUESS_PERCENT + 2 * GUESS_PERCENT * luck // (1 << 20)
    return max(1, output * percent // 100)


@final
class Serving(Router):
    """``named`` for each tenant, among the devices that serve it."""

    def __init__(self, plan: Mapping) -> None:
        devices = plan["devices"]
        self.places = {t: [n for n, it in enumerate(devices) if it["serves"].get(t)] for t in TENANTS}
        self.routers = {tenant: router_named(plan["router"]) for tenant in TENANTS}
        self.looks = self.routers["chat"].looks

    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        places = self.places[request.tenant]
        return places[self.routers[request.tenant].route(request, [replicas[n] for n in places])]


@final
@dataclass(frozen=True, slots=True)
class Result:
    """``ledgers`` of the devices; ``kept``: tenant to (promises kept, requests); the fault that ended it, or None."""

    ledgers: tuple[Ledger, ...]
    kept: dict[str, tuple[int, int]]
    fault: PolicyFault | None


def play(
    case: Case,
    plan: Mapping,
    trace: Trace,
    events: Sequence[tuple[int, int]] = (),
    policy: Callable[[], Policy] = Chunked,
    *,
    token_budget: int = TOKEN_BUDGET,
) -> Result:
    """``trace`` served by ``plan`` (checked before), each device with a policy of its own, made by ``policy``."""
    engines = [
        Engine(
            replace(case.cost, kv_blocks=sum(device["serves"].values())),
            Shares(policy(), device["serves"]),
            max_jobs=device["max_jobs"],
            token_budget=token_budget,
            host_changes=events,
        )
        for device in plan["devices"]
    ]
    fault = None
    try:
        Fleet(engines, Serving(plan)).run(trace)
    except PolicyFault as wrong:
        fault = wrong
    ledgers = tuple(engine.ledger for engine in engines)
    kept = kept_of(ledgers, case.promises)
    if fault is not None:  # who never came counts, too
        came = {tenant: sum(request.tenant == tenant for request in trace) for tenant in TENANTS}
        kept = {tenant: (kept[tenant][0], came[tenant]) for tenant in TENANTS}
    return Result(ledgers, kept, fault)


def attainment(result: Result) -> dict[str, Fraction]:
    """Tenant to the share of its requests that kept their promise."""
    return {
        tenant: Fraction(kept, came) if came else Fraction(1) for tenant, (kept, came) in result.kept.items()
    }


def weighted(result: Result) -> Fraction:
    """The tenants' attainments, chat three times and code twice as heavy as batch."""
    return weighed(attainment(result))


def weighed(shares: Mapping[str, Fraction]) -> Fraction:
    """The same of attainments."""
    return sum(WEIGHTS[tenant] * shares[tenant] for tenant in TENANTS) / sum(WEIGHTS.values())


def naive_plan(case: Case) -> dict:
    """A GPU each, and the fourth in equal parts."""
    whole = case.cost.kv_blocks
    alone = [{"serves": {tenant: whole}, "max_jobs": MOST_JOBS} for tenant in TENANTS]
    return {
        "devices": [*alone, {"serves": dict.fromkeys(TENANTS, whole // 3), "max_jobs": MOST_JOBS}],
        "router": "round-robin",
    }


def open_plan(case: Case) -> dict:
    """Everybody everywhere, with shares that seldom bind: what a policy is judged on."""
    shares = {"code": 6000, "batch": 4000}
    serves = {"chat": case.cost.kv_blocks - sum(shares.values()), **shares}
    return {
        "devices": [{"serves": dict(serves), "max_jobs": MOST_JOBS} for _ in range(DEVICES)],
        "router": "least-outstanding",
    }


@final
class NaivePolicy(Policy):
    """First come, first served: whole prompts in steps of their own, blocks for the longest answer."""

    mixes, reserves = False, "most"

    def decide(self, view: View) -> dict:
        return whole_prompts(view, fitting(view, view.waiting), view.token_budget)
