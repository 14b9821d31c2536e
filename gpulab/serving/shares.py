"""KV blocks of one replica split among tenants: nobody is let in beyond the share of who sent it."""

from collections.abc import Mapping
from typing import final

from gpulab.serving.policy import Policy, View


@final
class Shares(Policy):
    """``policy``, which sees of those that wait only who fits into what is left of its tenant's blocks.

    Jobs are shown in order of arrival until the next one of its tenant would not fit. What a job takes as it grows
    counts, and is not refused: a share is a limit at the door. A tenant without a share is never let in.
    """

    def __init__(self, policy: Policy, blocks: Mapping[str, int]) -> None:
        self.policy, self.blocks = policy, dict(blocks)
        self.mixes, self.reserves = policy.mixes, policy.reserves

    def decide(self, view: View) -> dict:
        if not view.waiting:
            return self.policy.decide(view)
        left = dict(self.blocks)
        for job in view.running:
            left[job.tenant] -= job.blocks
        shown = []
        for job in view.waiting:
            room = left.get(job.tenant, 0)
            if room >= 0:  # else one of its tenant did not fit, and nobody behind it is shown
                left[job.tenant] = room - view.blocks_to_admit(job)
                if left[job.tenant] >= 0:
                    shown.append(job)
        return self.policy.decide(view.showing(shown))
