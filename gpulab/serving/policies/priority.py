"""Classes of promises, one before the other."""

from typing import final

from gpulab.serving.policies.rank import RankPolicy
from gpulab.serving.policy import JobView


@final
class Priority(RankPolicy):
    """Tenants in the order of ``order``, others last; first come, first served inside one."""

    def __init__(self, order: tuple[str, ...] = ()) -> None:
        self.order = tuple(order)

    def rank(self, job: JobView) -> int:
        return self.order.index(job.tenant) if job.tenant in self.order else len(self.order)
