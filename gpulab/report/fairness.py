"""How evenly tenants were served: Jain's index, and the largest service gap while both wanted more.

The *service* of a tenant is the prompt tokens computed for it plus twice its output tokens: the weights of
the Virtual Token Counter (Sheng et al., *Fairness in Serving Large Language Models*, OSDI 2024, section 5).
"""

from collections.abc import Collection, Iterable
from fractions import Fraction
from itertools import combinations
from typing import final

PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2
MOST_TENANTS = 16


def jain(service: Iterable[int]) -> Fraction | None:
    """Jain's index of what each got: 1 when all got the same, 1/n when one got it all; None of nothing.

    (Σx)² / (n · Σx²): Jain, Chiu, Hawe, *A Quantitative Measure of Fairness*, DEC-TR-301, 1984.
    """
    got = list(service)
    squares = sum(x * x for x in got)
    return Fraction(sum(got) ** 2, len(got) * squares) if squares else None


@final
class Gap:
    """The largest difference between what two tenants were served in an interval in which both had requests waiting.

    That is how Sheng et al. judge a scheduler: who does not wait has no right to more. Kept for at most
    ``MOST_TENANTS`` tenants, as each pair is looked at; ``largest`` is None with more, and with fewer than two.
    """

    def __init__(self, tenants: Collection[str]) -> None:
        several = 1 < len(tenants) <= MOST_TENANTS
        self.largest: int | None = 0 if several else None
        self._pairs = list(combinations(sorted(tenants), 2)) if several else []
        self._bounds: dict[tuple[str, str], tuple[int, int]] = {}  # of the difference, since both wait

    def note(self, service: dict[str, int], waiting: Collection[str]) -> None:
        """``service`` of each tenant so far, and who of them has a request waiting from now on."""
        for pair in self._pairs:
            one, other = pair
            now = service[one] - service[other]
            low, high = self._bounds.get(pair, (now, now))
            if pair in self._bounds:
                low, high = min(low, now), max(high, now)
                self.largest = max(self.largest, high - low)
            if one in waiting and other in waiting:
                self._bounds[pair] = low, high
            else:
                self._bounds.pop(pair, None)
