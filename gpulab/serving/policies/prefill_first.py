"""Whole prompts as soon as they fit, in steps of their own."""

from typing import final

from gpulab.serving.policies.choosing import fitting, newest_out, watermark, whole_prompts
from gpulab.serving.policy import Policy, View


@final
class PrefillFirst(Policy):
    """First come, first served; a step with prompts has no decodes, which stand still meanwhile.

    Source: vLLM's default scheduler before version 1; Agrawal et al., Sarathi-Serve (OSDI 2024), section 3.
    """

    mixes = False

    def decide(self, view: View) -> dict:
        if view.need_blocks:
            return {"preempt": newest_out(view)}
        return whole_prompts(view, fitting(view, view.waiting, watermark(view)), view.token_budget)
