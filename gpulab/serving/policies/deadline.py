"""The earliest deadline first; what cannot be kept is refused at the door."""

from typing import final

from gpulab.serving.cost import StepCost
from gpulab.serving.policies.choosing import chunks, relieve
from gpulab.serving.policy import JobView, Policy, View


@final
class EarliestDeadline(Policy):
    """Prompts in the order of their deadlines. With ``rejects``, who cannot make it any more is refused.

    Liu and Layland (1973) for the order; the refusal is the door of an overloaded service: a first token
    that comes too late has cost the others their place. Requests without a promise come last and are kept.
    """

    def __init__(self, cost: StepCost, *, rejects: bool = True) -> None:
        self.cost, self.rejects = cost, rejects

    def decide(self, view: View) -> dict:
        order = sorted(view.waiting, key=self._due)
        if view.need_blocks:
            return relieve(view, sorted(view.running, key=self._due, reverse=True))
        late = [job.id for job in order if self.rejects and self._late(job, view)]
        said = chunks(view, [job for job in order if job.id not in late], view.running)
        return {**said, "reject": late}

    def _due(self, job: JobView) -> tuple:
        return job.deadline_ns == 0, job.deadline_ns, job.arrival_ns, job.id

    def _late(self, job: JobView, view: View) -> bool:
        """Would even a step of its own, begun now, end after the deadline?"""
        if not job.deadline_ns or job.evictions:
            return False
        alone_ps = self.cost.step_ps(job.target, 0, job.target * job.target)
        return view.now_ns + alone_ps // 1000 > job.deadline_ns
