"""What no rule can beat, and what one that knows the answers' lengths does: to see how far one is. No marks."""

import math
from fractions import Fraction
from typing import final

from autograder.checks.lab07.case import DEVICES, TOKEN_BUDGET, WEIGHTS, Case
from gpulab.report.metrics import Slo
from gpulab.serving.cost import StepCost
from gpulab.serving.policies.choosing import chunks, relieve
from gpulab.serving.policy import JobView, Policy, View
from gpulab.serving.request import Request, Trace


def work_ps(request: Request, cost: StepCost) -> int:
    """The least device time that ``request`` takes, as part of the largest steps there are: a token is cheapest there."""
    each = cost.constant_ps + math.isqrt(cost.weights_ps**2 + (cost.token_ps * TOKEN_BUDGET) ** 2)
    prompt, steps = request.prompt_tokens, request.output_tokens - 1
    read = steps * prompt + steps * (steps - 1) // 2
    return (
        (prompt + steps) * each // TOKEN_BUDGET
        + cost.cached_token_ps * read
        + cost.square_token_ps * prompt * prompt // 2
    )


def due_ns(request: Request, slo: Slo) -> int:
    """When the promise to ``request`` is broken if it is not done."""
    if slo.latency_ns is not None:
        return request.arrival_ns + slo.latency_ns
    return request.arrival_ns + slo.ttft_ns + slo.tpot_ns * (request.output_tokens - 1)


def keeps_alone(request: Request, slo: Slo, cost: StepCost) -> bool:
    """Would ``request`` keep its promise on a device of its own, without a host?"""
    at_ps = done = 0
    while done < request.prompt_tokens:
        chunk = min(TOKEN_BUDGET, request.prompt_tokens - done)
        at_ps += cost.step_ps(chunk, 0, chunk * (2 * done + chunk))
        done += chunk
    steps = request.output_tokens - 1
    decode_ps = cost.alone_decode_ps(request.prompt_tokens, steps)
    if slo.latency_ns is not None:
        return at_ps + decode_ps <= slo.latency_ns * 1000
    return at_ps <= slo.ttft_ns * 1000 and decode_ps <= slo.tpot_ns * 1000 * steps


def bound(trace: Trace, case: Case, devices: int = DEVICES) -> Fraction:
    """Weighted attainment that nobody exceeds: cheapest for their weight first, until the devices' time is spent.

    Fluid: requests may be split, wait for nobody and know the future; the last one counts in part. The time runs from 0
    to the last deadline. A request's weight is its tenant's over the number of its requests.
    """
    counts = {tenant: max(1, sum(request.tenant == tenant for request in trace)) for tenant in WEIGHTS}
    scale = math.prod(counts.values())
    weights = {
        tenant: scale // counts[tenant] * weight for tenant, weight in WEIGHTS.items()
    }  # whole numbers
    dearness = {tenant: math.lcm(*weights.values()) // weight for tenant, weight in weights.items()}
    cost, promises = case.cost, case.promises
    left = devices * 1000 * max((due_ns(request, promises[request.tenant]) for request in trace), default=0)
    able = [(work_ps(r, cost), r.tenant) for r in trace if keeps_alone(r, promises[r.tenant], cost)]
    came = {request.tenant for request in trace}
    total = Fraction(
        sum(scale * WEIGHTS[tenant] for tenant in WEIGHTS if tenant not in came)
    )  # keep all they had
    for work, tenant in sorted(able, key=lambda pair: pair[0] * dearness[pair[1]]):
        if work > left:
            total += Fraction(weights[tenant] * left, work)
            break
        total += weights[tenant]
        left -= work
    return total / (scale * sum(WEIGHTS.values()))


@final
class LeastSlack(Policy):
    """Who can wait least goes first, by true lengths; who cannot make it any more is refused. No server knows that."""

    def __init__(self, case: Case, trace: Trace) -> None:
        cost, promises = case.cost, case.promises
        self.due = {r.id: _last_start(r, promises[r.tenant], cost) for r in trace}

    def decide(self, view: View) -> dict:
        if view.need_blocks:
            return relieve(view, sorted(view.running, key=self._slack, reverse=True))
        late = [job.id for job in view.waiting if self.due[job.id] < view.now_ns and not job.generated]
        waiting = sorted((job for job in view.waiting if job.id not in late), key=self._slack)
        return {**chunks(view, waiting, sorted(view.running, key=self._slack)), "reject": late}

    def _slack(self, job: JobView) -> tuple[int, int]:
        return self.due[job.id], job.id


def _last_start(request: Request, slo: Slo, cost: StepCost) -> int:
    """The latest moment at which its prompt must begin, in steps of its own."""
    prompt = request.prompt_tokens
    ahead_ps = cost.step_ps(prompt, 0, prompt * prompt)
    if slo.latency_ns is None:
        return request.arrival_ns + slo.ttft_ns - ahead_ps // 1000
    ahead_ps += cost.alone_decode_ps(prompt, request.output_tokens - 1)
    return request.arrival_ns + slo.latency_ns - ahead_ps // 1000
