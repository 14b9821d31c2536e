"""Short jobs show themselves: a queue a quantum, and aging."""

from typing import final

from gpulab.serving.policies.choosing import chunks, relieve
from gpulab.serving.policy import JobView, Policy, View


@final
class Feedback(Policy):
    """Multi-level feedback: a job sinks a level each time it has made another quantum of tokens, twice as long each.

    A job that has waited ``aging_ns`` since it came counts as one of the top level. Jobs of lower levels are put out
    for waiting ones of higher levels when seats or blocks are short.
    Source: Corbato et al. (1962); for LLMs Wu et al., FastServe (2023), with skip-join left out.
    """

    def __init__(self, quantum_tokens: int = 64, aging_ns: int = 10_000_000_000) -> None:
        self.quantum_tokens, self.aging_ns = quantum_tokens, aging_ns

    def decide(self, view: View) -> dict:
        def ranked(job: JobView) -> tuple:
            return self.level(job, view.now_ns), job.arrival_ns, job.id

        down = sorted(view.running, key=ranked, reverse=True)
        if view.need_blocks:
            return relieve(view, down)
        waiting = sorted(view.waiting, key=ranked)
        first = waiting[0] if waiting else None
        full = first is not None and len(view.running) >= view.max_jobs and not down[0].ready_ns
        if full and ranked(down[0])[0] > ranked(first)[0]:
            return {"preempt": [[down[0].id, "recompute"]], "wake": view.now_ns + 1}
        return chunks(view, waiting, sorted(view.running, key=ranked))

    def level(self, job: JobView, now_ns: int) -> int:
        """0 for the first quantum, 1 for the next two, 2 for the next four, and so on; 0 for who waited long."""
        if not job.blocks and now_ns - job.arrival_ns >= self.aging_ns:
            return 0
        return (job.generated // self.quantum_tokens + 1).bit_length() - 1
