"""Plans of lab 07: what is wrong with one, what the learner is told of the case, and how three traces go by it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from random import Random

from autograder.checks.lab07.case import (
    CONTEXT_BYTES,
    DEVICES,
    MEMORY_BYTES,
    MOST_JOBS,
    MOST_TOKENS,
    SHIFTS,
    TENANTS,
    WEIGHTS,
    WEIGHTS_BYTES,
    Case,
    Result,
    attainment,
    drawn,
    naive_plan,
    open_plan,
    play,
    weighed,
)
from autograder.checks.lab07.traffic import LENGTHS
from gpulab.serving.named import ROUTERS, policy_named
from gpulab.units import format_bytes

CHUNK_TOKENS = 512  # of a step of the fixed policy, with which plans are judged
PRACTICE = "07.plan/practice"


def longest_blocks(case: Case, tenant: str) -> int:
    """KV blocks of the longest request that ``tenant`` may send, after the shift, too; no more than the model's window."""
    prompt = LENGTHS[tenant][0][-1] * (2 if tenant == "code" else 1)
    tokens = min(prompt + MOST_TOKENS[tenant], case.cost.longest_tokens)
    return -(-tokens // case.cost.block_tokens)


def facts(case: Case) -> dict:
    """What ``plan`` is told."""
    cost = case.cost
    promised = case.promises
    return {
        "devices": DEVICES,
        "memory_bytes": MEMORY_BYTES,
        "weights_bytes": WEIGHTS_BYTES,
        "context_bytes": CONTEXT_BYTES,
        "block_bytes": cost.block_tokens * cost.kv_bytes_per_token,
        "most_jobs": MOST_JOBS,
        "routers": list(ROUTERS),
        "tenants": {
            tenant: {
                "per_ks": case.rates_per_ks[tenant],
                "weight": WEIGHTS[tenant],
                "longest_blocks": longest_blocks(case, tenant),
                "first_token_ns": promised[tenant].ttft_ns,
                "token_ns": promised[tenant].tpot_ns,
                "latency_ns": promised[tenant].latency_ns,
            }
            for tenant in TENANTS
        },
    }


def fault_of(plan: object, case: Case) -> tuple[str, str]:
    """The tag of the first law that ``plan`` breaks and the numbers that show it; two empty texts if it keeps all."""
    wrong = _form(plan)
    if wrong:
        return "wrong-form", wrong
    if len(plan["devices"]) > DEVICES:
        return "over-budget", f"{len(plan['devices'])} GPUs; {DEVICES} are there"
    room = MEMORY_BYTES - WEIGHTS_BYTES - CONTEXT_BYTES
    for n, device in enumerate(plan["devices"]):
        size = sum(device["serves"].values()) * case.cost.block_tokens * case.cost.kv_bytes_per_token
        if size > room:
            return "over-memory", (
                f"GPU {n}: {sum(device['serves'].values()):,} blocks are {format_bytes(size)}; beside "
                f"{format_bytes(WEIGHTS_BYTES)} of weights and {format_bytes(CONTEXT_BYTES)} of context "
                f"{format_bytes(room)} are left of {format_bytes(MEMORY_BYTES)}"
            )
        for tenant, blocks in device["serves"].items():
            if blocks < longest_blocks(case, tenant):
                return "share-too-small", (
                    f"GPU {n}: {tenant} has {blocks:,} blocks; its longest request takes "
                    f"{longest_blocks(case, tenant):,}"
                )
    for tenant in TENANTS:
        if not any(tenant in device["serves"] for device in plan["devices"]):
            return "unserved", f"no GPU serves {tenant}"
    return "", ""


def _form(plan: object) -> str:
    """Why ``plan`` is none, or ''."""
    if type(plan) is not dict or type(plan.get("devices")) is not list or not plan["devices"]:
        return 'a plan is a dictionary: "devices", a list of one or more, "router" and "expect"'
    if plan.get("router") not in ROUTERS:
        return f"the router is one of {', '.join(ROUTERS)}"
    for n, device in enumerate(plan["devices"][: DEVICES + 1]):
        serves = device.get("serves") if type(device) is dict else None
        if type(serves) is not dict or not serves or not set(serves) <= set(TENANTS):
            return f'GPU {n}: "serves" maps one or more of {", ".join(TENANTS)} to blocks'
        if any(type(blocks) is not int or not 1 <= blocks < 2**63 for blocks in serves.values()):
            return f"GPU {n}: blocks are whole numbers of 1 or more, of 19 digits at most; who is not served is left out"
        jobs = device.get("max_jobs")
        if type(jobs) is not int or not 1 <= jobs <= MOST_JOBS:
            return f'GPU {n}: "max_jobs" is a whole number from 1 to {MOST_JOBS}'
    return ""


def run(case: Case, plan: Mapping, draw: Random, shift: str) -> Result:
    """A trace with ``shift`` served by ``plan`` and the fixed policy: first come first served, chunks of 512 tokens."""
    trace, events = drawn(draw, case, shift)
    return play(case, plan, trace, events, token_budget=CHUNK_TOKENS)


def reached(case: Case, plan: Mapping, draw: Random, shift: str) -> dict[str, Fraction]:
    """Tenant to the share of promises kept on that trace."""
    return attainment(run(case, plan, draw, shift))


@dataclass(frozen=True, slots=True)
class Planned:
    """The learner's own case, as ``puzzle`` hands it out."""

    case: Case
    practice: int = 0  # which of the public traces ``try_plan`` plays

    def facts(self) -> dict:
        """What the judge hands to ``plan``."""
        return facts(self.case)

    def text(self) -> str:
        """The case in words."""
        case = self.case
        rates = ", ".join(f"{tenant} {case.rates_per_ks[tenant] / 1000:g}" for tenant in TENANTS)
        return (
            f"{DEVICES} A100-80 with Llama-3-8B, {case.minutes} minutes. Requests a second: {rates}. At minute "
            f"{case.minutes / 2:g} shift A: {case.ours} of code; shift B: a {case.theirs}; a third trace has both."
        )

    def naive(self) -> dict:
        """The plan of the equal split: a GPU each, and the fourth in equal parts."""
        return naive_plan(self.case)

    def try_plan(self, plan: dict, practice: int | None = None) -> dict[str, dict[str, float]]:
        """Shift to tenant to percent of requests whose promise was kept, on practice traces. A few seconds.

        Raises:
            ValueError: the plan breaks a law; the text says which and by how much.
        """
        tag, why = fault_of(plan, self.case)
        if tag:
            raise ValueError(f"This is no plan: {why}.")
        draws = self._draws(practice)
        return {
            shift: {
                tenant: round(100 * float(share), 1)
                for tenant, share in reached(self.case, plan, draw, shift).items()
            }
            for shift, draw in draws.items()
        }

    def try_rule(self, rule: str, practice: int | None = None) -> dict[str, float]:
        """Shift to per cent of promises kept, weighted by tenant, under ``rule``, one of gpulab's own. A second or less.

        Two minutes of practice; every GPU serves every tenant, with shares that seldom bind, 512 tokens a step.

        Raises:
            PolicyFault: there is no such rule.
        """
        case, kept = replace(self.case, minutes=min(2, self.case.minutes)), {}
        for shift, draw in self._draws(practice).items():
            trace, events = drawn(draw, case, shift)
            make = partial(policy_named, rule, case.cost, trace)
            result = play(case, open_plan(case), trace, events, make, token_budget=CHUNK_TOKENS)
            kept[shift] = round(100 * float(weighed(attainment(result))), 1)
        return kept

    def _draws(self, practice: int | None) -> dict[str, Random]:
        number = self.practice if practice is None else practice
        return {shift: Random(f"{PRACTICE}/{number}/{shift}") for shift in SHIFTS}
