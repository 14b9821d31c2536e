"""Stall-free chunks: decodes first, prompts in what they leave of the budget."""

from typing import final

from gpulab.serving.policies.choosing import chunks, relieve
from gpulab.serving.policy import Policy, View


@final
class Chunked(Policy):
    """First come, first served; prompts are cut so that a step never exceeds its budget of tokens.

    Source: Agrawal et al., Sarathi-Serve (OSDI 2024), algorithm 3. With a budget of 2,048 and more it is what
    vLLM 1 does by default: running jobs first, then new ones. ``spare_permille`` of the blocks stay free at
    admission; vLLM 1 keeps none.
    """

    def __init__(self, spare_permille: int = 10) -> None:
        self.spare_permille = spare_permille

    def decide(self, view: View) -> dict:
        if view.need_blocks:
            return relieve(view, reversed(list(view.running)))
        return chunks(view, view.waiting, view.running, self.spare_permille)
