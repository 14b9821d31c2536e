"""A batch starts together and ends together."""

from typing import final

from gpulab.serving.policies.choosing import fitting, whole_prompts
from gpulab.serving.policy import Policy, View


@final
class RequestLevel(Policy):
    """Lets in a batch when the one before has ended whole: the shortest answers leave empty seats behind.

    Source: the batching of FasterTransformer, as Yu et al., Orca (OSDI 2022), section 3 describe it.
    """

    reserves = "most"
    mixes = False

    def decide(self, view: View) -> dict:
        if view.decoding:
            return {}
        return whole_prompts(view, fitting(view, view.waiting), view.token_budget)
