"""How many decode steps can be done in one go: computed at once, or counted one by one."""

import math
from typing import NamedTuple

from gpulab.serving.jobs import Batch


class Stretch(NamedTuple):
    """Steps in a row: ``jobs`` make a token in each, of ``tokens`` computed in the first.

    ``cached`` tokens are read in the first. It takes ``base_ps``, each later one ``slope_ps`` more.
    """

    start_ns: int
    steps: int
    jobs: int
    tokens: int
    cached: int
    base_ps: int
    slope_ps: int

    @property
    def last_cached(self) -> int:
        """Cached tokens that are read in the last step."""
        return self.cached + (self.steps - 1) * self.jobs

    @property
    def end_ns(self) -> int:
        """When the last step is over, as ``telemetry.requests.Stepped`` defines it."""
        more = self.slope_ps * (self.steps * (self.steps - 1) // 2)
        return self.start_ns + (self.steps * self.base_ps + more) // 1000


def leap(batch: Batch, ahead: Stretch, free_blocks: int, until_ns: int | None) -> int:
    """Steps until a job ends, blocks run out, or the first step boundary at or after ``until_ns``; 1 at least."""
    steps = batch.steps_to_end()
    within = batch.steps_within(free_blocks)
    if within is not None:
        steps = min(steps, within)
    if until_ns is not None:
        wanted_ps = (until_ns - ahead.start_ns) * 1000
        steps = min(steps, steps_until(wanted_ps, ahead.base_ps, ahead.slope_ps))
    return max(1, steps)


def steps_until(wanted_ps: int, base_ps: int, slope_ps: int) -> int:
    """The fewest steps, 1 at least, that last ``wanted_ps`` or longer: the k-th takes base + (k - 1) slope."""
    if slope_ps == 0:
        return max(1, -(-wanted_ps // base_ps))
    linear = 2 * base_ps - slope_ps
    root = math.isqrt(max(0, linear * linear + 8 * slope_ps * wanted_ps))
    steps = max(1, (root - linear) // (2 * slope_ps))
    while steps * base_ps + slope_ps * (steps * (steps - 1) // 2) < wanted_ps:
        steps += 1
    return steps


def one_by_one(batch: Batch, ahead: Stretch, free_blocks: int, until_ns: int | None) -> int:
    """The same as ``leap``, by looking at every job after every step: slow, and plainly right."""
    size, steps, elapsed_ps, step_ps = batch.block_tokens, 0, 0, ahead.base_ps
    have = {
        name: [job.computed + batch.steps - job.joined, job.generated + batch.steps - job.joined, job.blocks]
        for name, job in batch.jobs.items()
    }
    while True:
        steps += 1
        elapsed_ps += step_ps
        step_ps += ahead.slope_ps
        for held in have.values():
            if held[0] == held[2] * size:  # every block is full
                held[2] += 1
                free_blocks -= 1
            held[0] += 1
            held[1] += 1
        if any(held[1] == batch.jobs[name].request.output_tokens for name, held in have.items()):
            return steps
        if sum(held[0] == held[2] * size for held in have.values()) > free_blocks:
            return steps
        if until_ns is not None and ahead.start_ns + elapsed_ps // 1000 >= until_ns:
            return steps
