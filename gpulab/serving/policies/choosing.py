"""What several policies do: who fits, who is put out, how a budget is filled."""

from collections.abc import Iterable

from gpulab.serving.policy import JobView, View


def newest_out(view: View) -> list[list]:
    """The running jobs to put out, latest admitted first, until the blocks that the next step lacks are there."""
    return put_out(view, reversed(list(view.running)))


def relieve(view: View, order: Iterable[JobView]) -> dict:
    """Put out the first of ``order`` until the blocks are there; prompts of the others go on meanwhile."""
    out = put_out(view, order)
    gone = {name for name, _ in out}
    return {"preempt": out, **chunks(view, (), [job for job in view.running if job.id not in gone])}


def put_out(view: View, order: Iterable[JobView]) -> list[list]:
    """The first of ``order`` to put out until the blocks that the next step lacks are there."""
    out, needed = [], view.need_blocks
    for job in order:
        if needed <= 0:
            break
        if not job.ready_ns:
            out.append([job.id, "recompute"])
            needed -= job.blocks
    return out


def watermark(view: View, permille: int = 10) -> int:
    """Blocks kept free at admission so that running jobs can grow, 1 % as vLLM before version 1; 0 for the first job."""
    if not view.running or not permille:
        return 0
    return max(1, (view.free_blocks + sum(job.blocks for job in view.running)) * permille // 1000)


def fitting(view: View, order: Iterable[JobView], spare_blocks: int = 0) -> list[JobView]:
    """The first of ``order`` for which blocks and seats suffice; the first that does not fit stops the rest."""
    found, free, seats = [], view.free_blocks - spare_blocks, view.max_jobs - len(view.running)
    for job in order:
        need = view.blocks_to_admit(job)
        if need > free or len(found) >= seats or job.ready_ns:
            break
        free -= need
        found.append(job)
    return found


def whole_prompts(view: View, order: Iterable[JobView], budget: int) -> dict:
    """Admit jobs of ``order`` whose whole prompts fit into ``budget`` tokens of one step.

    A prompt that is longer than what a step with every seat decoding leaves would wait for ever, or for as long
    as others decode: when it is first in line it is cut, and has its steps before anybody else is let in.
    """
    begun = {job.id: min(job.left, budget) for job in view.running if job.left and not job.ready_ns}
    if begun or budget <= 0:
        return {"prefill": begun} if budget > 0 else {}
    chosen: dict[int, int] = {}
    for job in order:
        left = job.target - job.computed
        if left > budget:
            if not chosen and left > view.token_budget - view.max_jobs:
                chosen[job.id] = budget
            break
        budget -= left
        chosen[job.id] = left
    return {"admit": list(chosen), "prefill": {name: tokens for name, tokens in chosen.items() if tokens}}


def chunks(
    view: View, waiting: Iterable[JobView], running: Iterable[JobView], spare_permille: int = 10
) -> dict:
    """Fill what decodes leave of the budget with chunks: of running jobs first, then of jobs let in from ``waiting``.

    Whoever is let in leaves the blocks that the decodes take in this very step, and ``spare_permille`` of all.
    """
    budget, prefill, admit = view.token_budget - view.decoding, {}, []
    for job in running:
        left = job.left
        if left and budget > 0 and not job.ready_ns:
            prefill[job.id] = min(left, budget)
            budget -= prefill[job.id]
    if budget > 0 and view.waiting:
        for job in fitting(view, waiting, view.next_blocks + watermark(view, spare_permille)):
            if budget <= 0:
                break
            admit.append(job.id)
            left = job.target - job.computed
            if left:
                prefill[job.id] = min(left, budget)
                budget -= prefill[job.id]
    return {"admit": admit, "prefill": prefill}
