"""Lab 04: the reference of 04.chunk."""

from gpulab.serving.cost import stated


class MyChunks:
    """As many prompt tokens, first come first, as the step has room for beside the decodes."""

    def __init__(self, cost: dict, gap_ns: int, first_token_ns: int) -> None:
        self.cost, self.gap_ps = stated(cost), gap_ns * 1000

    def decide(self, view) -> dict:
        prompts, free = [], view.free_blocks
        for prompt in view.prompts:
            free -= prompt.blocks
            if free < 0:
                break
            prompts.append(prompt)
        low, high = 0 if view.decoding else 1, sum(prompt.left for prompt in prompts)
        while low < high:
            middle = (low + high + 1) // 2
            keeps = self.step_ps(view, filled(prompts, middle)) <= self.gap_ps
            low, high = (middle, high) if keeps else (low, middle - 1)
        return {"prefill": {prompt.id: chunk for prompt, chunk in filled(prompts, low)}}

    def step_ps(self, view, chunks: list) -> int:
        tokens = sum(chunk for _, chunk in chunks)
        work = sum(chunk * (2 * prompt.computed + chunk) for prompt, chunk in chunks)
        return self.cost.step_ps(view.decoding + tokens, view.cached_tokens, work)


def filled(prompts: list, tokens: int) -> list:
    """Pairs of prompt and chunk: ``tokens`` given to the first prompts."""
    chunks = []
    for prompt in prompts:
        chunks.append((prompt, min(prompt.left, tokens)))
        tokens -= chunks[-1][1]
        if tokens <= 0:
            break
    return chunks
