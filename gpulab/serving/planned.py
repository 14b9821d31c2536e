"""An engine's limits, and the chunks of the next step as a policy named them, checked against who runs and these."""

from gpulab.errors import shown
from gpulab.serving.answers import Decision, fault
from gpulab.serving.jobs import DECODING, PREFILLING
from gpulab.serving.policy import Policy
from gpulab.serving.roster import Roster
from gpulab.units import whole


def planned(said: Decision, roster: Roster, *, mixes: bool, token_budget: int) -> dict[int, int]:
    """Tokens of each prompt in the next step.

    Whoever was let in by the same answer may have found its prompt cached: then its chunk is what is left.

    Raises:
        PolicyFault: a chunk of a prompt that does not run or is shorter, or more tokens than the budget.
    """
    plan = said.prefill
    for name in said.admit:
        job = roster.views[name]._job
        if name in plan and job.state == DECODING:  # put out before: only its last token's KV was not found
            del plan[name]
        elif name in plan and job.computed and not job.ready_ns:
            plan[name] = min(plan[name], job.target - job.computed)
    total = len(roster.batch) if mixes else 0
    for name, tokens in plan.items():
        job = roster.job(name, "prefill")
        left = job.target - job.computed if job.state == PREFILLING else 0
        if not 1 <= tokens <= left:
            raise fault(
                f"prefill wants {tokens:,} tokens of request {name}, which has {left:,} left to compute",
                "prefill",
                roster.now_ns,
                {"request": name},
            )
        total += tokens
    if plan and total > token_budget:
        what = f"the next step would compute {total:,} tokens; the budget is {token_budget:,}"
        raise fault(what, "budget", roster.now_ns)
    return plan


def check_limits(policy: Policy, max_jobs: int, token_budget: int) -> None:
    """``ValueError`` when a limit is no whole number of 1 or more, or ``policy`` reserves neither way."""
    for name, value in (("max_jobs", max_jobs), ("token_budget", token_budget)):
        if whole(value) is None or value < 1:
            raise ValueError(f"{name} is {shown(value)}; a whole number of 1 or more is needed.")
    if policy.reserves not in ("prompt", "most"):
        raise ValueError(f'reserves is {shown(policy.reserves)}; a policy reserves "prompt" or "most".')
