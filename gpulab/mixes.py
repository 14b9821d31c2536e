"""Requests drawn from a stated distribution: the same numbers on every machine and every Python.

Uniform draws are integers of ``random.Random``. Logarithms, roots and exponentials are those of ``decimal``
with 28 digits, which are rounded correctly by their specification; a machine's own differ in the last bit.
"""

import random
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext

from gpulab.datasets import Request
from gpulab.units import MS

_EXACT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_BITS = 53


def chat_mix(count: int = 4_000, seed: str = "chat", *, max_tokens: int = 2_048) -> list[Request]:
    """``count`` requests like a chat service's: log-normal lengths, means 143 in and 320 out, sigma 1 both.

    Both are rounded to whole tokens, 1 or more. A request of more than ``max_tokens`` in all is drawn again,
    as no model serves it; that takes the means to about 140 and 286. They arrive at random, two a second
    (exponential gaps). The means are those that reproduce figure 2 of Kwon et al., PagedAttention (SOSP 2023).
    """
    with localcontext(_EXACT):
        draws = random.Random(f"{seed}/lengths")
        normal, gaps = _normals(draws), _exponentials(random.Random(f"{seed}/arrivals"))
        requests, arrival_ns = [], 0
        while len(requests) < count:
            prompt, output = _log_normal(143, next(normal)), _log_normal(320, next(normal))
            if prompt + output <= max_tokens:
                requests.append(Request(arrival_ns, prompt, output))
                arrival_ns += int(next(gaps) * 500 * MS)
        return requests


def exponential_lengths(mean: int, parts: int) -> list[int]:
    """The middles of ``parts`` equally likely parts of an exponential distribution, shortest first, 1 or more each.

    Each as often as the others is the distribution without the luck of drawing it. About 20 µs a part.
    """
    with localcontext(_EXACT):
        middles = ((2 * part + 1, 2 * parts) for part in range(parts))
        return [max(1, round(mean * -(1 - Decimal(under) / of).ln())) for under, of in middles]


def _log_normal(mean: int, normal: Decimal) -> int:
    """A length whose logarithm has standard deviation 1: exp(ln mean - 1/2 + normal), to whole tokens."""
    return max(1, int((Decimal(mean).ln() - Decimal("0.5") + normal).exp().to_integral_value()))


def _normals(draws: random.Random) -> Iterator[Decimal]:
    """Standard normal numbers by Marsaglia's polar method (SIAM Review 6, 1964)."""
    while True:
        x, y = (2 * draws.getrandbits(_BITS) + 1 - (1 << _BITS) for _ in range(2))
        square = x * x + y * y
        if square < 1 << 2 * _BITS:
            share = Decimal(square) / (1 << 2 * _BITS)
            factor = (-2 * share.ln() / share).sqrt() / (1 << _BITS)
            yield x * factor
            yield y * factor


def _exponentials(draws: random.Random) -> Iterator[Decimal]:
    """Exponential numbers of mean 1."""
    while True:
        yield -(Decimal(draws.getrandbits(_BITS) + 1) / (1 << _BITS)).ln()
