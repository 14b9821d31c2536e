"""Equal service to each tenant, counted in tokens."""

from typing import final

from gpulab.serving.policies.choosing import chunks, relieve
from gpulab.serving.policy import JobView, Policy, View


@final
class VirtualTokens(Policy):
    """A counter of service a tenant; whoever has had least goes first, and who comes back starts at the least.

    Service is ``input_weight`` a prompt token and ``output_weight`` a token made, over the tenant's share.
    Source: Sheng et al., Fairness in Serving Large Language Models (OSDI 2024), algorithm 2.
    """

    def __init__(
        self, shares: dict[str, int] | None = None, input_weight: int = 1, output_weight: int = 2
    ) -> None:
        self.shares, self.weights = dict(shares or {}), (input_weight, output_weight)
        self.counters: dict[str, int] = {}
        self._charged: dict[int, tuple[int, int]] = {}

    def decide(self, view: View) -> dict:
        self._charge(view)
        if view.need_blocks:
            return relieve(view, reversed(list(view.running)))
        return chunks(view, sorted(view.waiting, key=self._turn), view.running)

    def _charge(self, view: View) -> None:
        """Add what running jobs were served since the last time; lift tenants that come back from idling."""
        before = set(self.counters)
        active = {job.tenant for job in (*view.waiting, *view.running)}
        for tenant in [name for name in self.counters if name not in active]:
            del self.counters[tenant]
        least = min(self.counters.values(), default=0)
        for tenant in sorted(active - before):
            self.counters[tenant] = least
        for job in view.running:
            had = self._charged.get(job.id, (0, 0))
            now = (min(job.computed, job.prompt_tokens), job.generated)
            more = sum(w * max(0, n - h) for w, n, h in zip(self.weights, now, had, strict=True))
            self.counters[job.tenant] += more * 1_000 // self.shares.get(job.tenant, 1)
            self._charged[job.id] = tuple(map(max, now, had))

    def _turn(self, job: JobView) -> tuple:
        return self.counters[job.tenant], job.arrival_ns, job.id
