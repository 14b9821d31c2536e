"""The reference solution of 04.break: a workload made for one envelope, and the aging that helps."""

from autograder.checks.lab04.starve import Envelope


def starving(envelope: Envelope, times: float = 2.9, count: int = 57) -> list[list[int]]:
    """One request that is ``times`` as long as all others, which come a little slower than they are served."""
    output = -(-envelope.least_ms // envelope.token_ms)
    every_ms = -(-output * envelope.token_ms * 20 // 19) + 1
    return [[0, 0, int(times * output)], *([1 + n * every_ms, 0, output] for n in range(count))]
