"""Blocks for the longest answer, from the start."""

from typing import final

from gpulab.serving.policies.choosing import fitting, whole_prompts
from gpulab.serving.policy import Policy, View


@final
class Reserving(Policy):
    """First come, first served, with blocks for all that a request may ever need: nobody is ever put out.

    Source: Yu et al., Orca (OSDI 2022), section 4.
    """

    reserves = "most"

    def decide(self, view: View) -> dict:
        return whole_prompts(view, fitting(view, view.waiting), view.token_budget - view.decoding)
