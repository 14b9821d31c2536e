"""How fast pools replay, and whether the best fit stays fast among many extents."""

import random
from functools import partial

from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.memory.replay import ByteClaim, replay
from gpulab.units import MiB

DEVICE = 1 << 46  # never full: growth and reuse are measured, not refusals


def cases() -> dict:
    found = {}
    for rule in (CuPyPool, PyTorchPool):
        trace = claims(500_000, live=1_000)
        found[f"{rule.__name__}: 1,000,000 operations of a trace"] = partial(play, rule, trace)
    for live in (1_000, 100_000):
        found[f"CuPyPool: 200,000 operations at {live:,} live extents"] = Busy(live)
    return found


def claims(count: int, live: int) -> list[ByteClaim]:
    """``count`` claims, one a microsecond, of which about ``live`` are held at once; sizes from 512 B to 16 MiB."""
    draw = random.Random("bench/pools")
    return [ByteClaim(1_000 * n, size_from(draw), draw.randrange(2_000 * live)) for n in range(count)]


def size_from(draw: random.Random) -> int:
    """A size whose logarithm is about even between 512 B and 16 MiB, by integers."""
    top = 1 << draw.randrange(9, 24)
    return min(16 * MiB, top + draw.randrange(top))


def play(rule: type, trace: list[ByteClaim]) -> None:
    replay(trace, rule(DEVICE))


class Busy:
    """A pool that holds ``live`` extents; each call frees and claims another 100,000 of random sizes."""

    def __init__(self, live: int) -> None:
        self.draw = random.Random(f"bench/busy/{live}")
        self.pool = CuPyPool(DEVICE)
        self.held = [self.pool.allocate(size_from(self.draw)) for _ in range(live)]

    def __call__(self) -> None:
        for _ in range(100_000):
            index = self.draw.randrange(len(self.held))
            self.pool.free(self.held[index])
            self.held[index] = self.pool.allocate(size_from(self.draw))
