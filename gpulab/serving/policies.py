"""Reference policies, each after a published scheduler."""

from typing import final

from gpulab.serving.policy import JobView, Policy, View


def newest(view: View, needed: int) -> list:
    """The running jobs to put out, latest admitted first, until ``needed`` blocks come back."""
    out = []
    for job in reversed(list(view.running)):
        if needed <= 0:
            break
        if not job.ready_ns:
            out.append([job.id, "recompute"])
            needed -= job.blocks
    return out


def fitting(view: View, jobs, free: int, seats: int) -> list[JobView]:
    """The first of ``jobs``, in order, for which blocks and seats suffice; nobody overtakes."""
    found = []
    for job in jobs:
        need = view.blocks_to_admit(job)
        if need > free or len(found) == seats or job.ready_ns:
            break
        free -= need
        found.append(job)
    return found


@final
class PrefillFirst(Policy):
    """Whole prompts as soon as they fit, in steps of their own; decodes stand still meanwhile (vLLM v0).

    Source: vLLM's default scheduler before 0.8; Agrawal et al., Sarathi-Serve (OSDI 2024), section 3.
    """

    mixes = False

    def decide(self, view: View) -> dict:
        if view.need_blocks:
            return {"preempt": newest(view, view.need_blocks)}
        spare = max(1, (view.free_blocks + sum(job.blocks for job in view.running)) // 100)  # a watermark of 1 %
        seats, budget, chosen = view.max_jobs - len(view.running), view.token_budget, []
        for job in fitting(view, view.waiting, view.free_blocks - spare, seats):
            if job.target > budget:
                break
            budget -= job.target
            chosen.append(job)
        return {"admit": [job.id for job in chosen], "prefill": {job.id: job.target for job in chosen}}


@final
class Chunked(Policy):
    """Decodes first, then chunks of prompts in what is left of the budget (Sarathi-Serve, OSDI 2024)."""

    def decide(self, view: View) -> dict:
        if view.need_blocks:
            return {"preempt": newest(view, view.need_blocks)}
        budget = view.token_budget - view.decoding
        prefill, admit = {}, []
        for job in view.running:
            tokens = min(job.left, budget)
            if tokens > 0 and not job.ready_ns:
                prefill[job.id] = tokens
                budget -= tokens
        if budget > 0 and view.waiting:
            spare = max(1, (view.free_blocks + sum(job.blocks for job in view.running)) // 100)
            for job in fitting(view, view.waiting, view.free_blocks - spare, view.max_jobs - len(view.running)):
                if budget <= 0:
                    break
                admit.append(job.id)
                prefill[job.id] = min(job.target, budget)
                budget -= prefill[job.id]
        return {"admit": admit, "prefill": prefill}


@final
class Reserving(Policy):
    """First come, first served, with blocks for all that a request may ever need (Orca, OSDI 2022)."""

    reserves = "most"

    def decide(self, view: View) -> dict:
        seats = view.max_jobs - len(view.running)
        budget, chosen = view.token_budget - view.decoding, []
        for job in fitting(view, view.waiting, view.free_blocks, seats):
            if job.target > budget:
                break
            budget -= job.target
            chosen.append(job)
        return {"admit": [job.id for job in chosen], "prefill": {job.id: job.target for job in chosen}}
