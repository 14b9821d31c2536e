"""Stall-free chunks: decodes first, prompts in what they leave of the budget."""

from typing import final

from gpulab.serving.policies.choosing import chunks, newest_out
from gpulab.serving.policy import Policy, View


@final
class Chunked(Policy):
    """First come, first served; prompts are cut so that a step never exceeds its budget of tokens.

    Source: Agrawal et al., Sarathi-Serve (OSDI 2024), algorithm 3. With a budget of 2,048 and more it is what
    vLLM 1 does by default: running jobs first, then new ones.
    """

    def decide(self, view: View) -> dict:
        if view.need_blocks:
            return {"preempt": newest_out(view)}
        return chunks(view, view.waiting, view.running)
