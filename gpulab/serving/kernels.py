"""Measured kernels of one model on one GPU, added up: what a step takes before anybody fits a formula.

Tables are read between their points in log space: a kernel's time is a power of its size, piece by piece.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step computes: chunks of prompts, each with the tokens cached before it, and decodes.

    Attributes:
        prompts: (chunk, cached) tokens of each prompt. contexts: cached tokens of each decoding sequence.
    """

    prompts: tuple[tuple[int, int], ...]
    contexts: tuple[int, ...]

    @property
    def prompt_tokens(self) -> int:
        return sum(chunk for chunk, _ in self.prompts)

    @property
    def tokens(self) -> int:
        """Tokens computed: T of the formula."""
        return self.prompt_tokens + len(self.contexts)

    @property
    def cached_tokens(self) -> int:
        """Tokens that decodes read: KV of the formula."""
        return sum(self.contexts)

    @property
    def twice_work(self) -> int:
        """2 W of the formula: the sum of chunk * (2 * cached + chunk)."""
        return sum(chunk * (2 * cached + chunk) for chunk, cached in self.prompts)


@final
class Table:
    """Times at points of one or more dimensions, read between them in log space.

    Beyond its last point a dimension goes on with the slope of its last piece, before the first it is flat:
    a kernel too small to fill the GPU takes what the smallest one takes. A point may lack where others of
    its row or column exist.

    Args:
        points: pairs of a place (as many numbers as there are dimensions, 1 or more each) and a time above 0.
    """

    def __init__(self, points: Iterable[tuple[tuple[float, ...], float]]) -> None:
        inner: dict[float, list] = {}
        for (first, *rest), time in points:
            inner.setdefault(first, []).append((tuple(rest), time))
        self._places = [math.log(place) for place in sorted(inner)]
        self._below: list[Table | float] = [
            Table(inner[place]) if inner[place][0][0] else math.log(inner[place][0][1])
            for place in sorted(inner)
        ]

    def __call__(self, *place: float) -> float:
        """The time at ``place``."""
        return math.exp(self._log([math.log(number) for number in place]))

    def _log(self, place: list[float]) -> float:
        at, rest, places = place[0], place[1:], self._places
        if len(places) == 1 or at <= places[0]:
            return self._value(0, rest)
        right = min(bisect_right(places, at), len(places) - 1)
        low, high = self._value(right - 1, rest), self._value(right, rest)
        return low + (high - low) * (at - places[right - 1]) / (places[right] - places[right - 1])

    def _value(self, index: int, rest: list[float]) -> float:
        found = self._below[index]
        return found if isinstance(found, float) else found._log(rest)


@final
@dataclass(frozen=True, slots=True)
class Kernels:
    """What the kernels of one step take, in milliseconds.

    Attributes:
        linear_ms: of all layers that see each token once, by tokens. prefill_ms: attention of one chunk of a
            prompt over all layers, by (chunk, cached). decode_ms: attention of decodes over all layers, by
            (sequences, cached tokens of each). sequence_ms: output head and sampler, by sequences.
        most_tokens: the most tokens a step has in these tables.
    """

    linear_ms: Callable[[float], float]
    prefill_ms: Callable[[float, float], float]
    decode_ms: Callable[[float, float], float]
    sequence_ms: Callable[[float], float]
    most_tokens: int

    def step_ms(self, batch: Batch) -> float:
        """All kernels of ``batch``, one after the other. Decodes are taken at the mean of their contexts."""
        jobs = len(batch.contexts)
        total = self.linear_ms(batch.tokens) + self.sequence_ms(jobs + len(batch.prompts))
        total += sum(self.prefill_ms(chunk, cached) for chunk, cached in batch.prompts)
        return total + (self.decode_ms(jobs, batch.cached_tokens / jobs) if jobs else 0.0)
