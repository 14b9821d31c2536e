"""Means of a few runs and how far they may be off."""

from collections.abc import Sequence
from math import sqrt

# Two-sided 95 % points of Student's t with 1, 2, 3 ... degrees of freedom (Student, Biometrika 6, 1908; any table).
_T95 = (
    *(
        12.706,
        4.303,
        3.182,
        2.776,
        2.571,
        2.447,
        2.365,
        2.306,
        2.262,
        2.228,
        2.201,
        2.179,
        2.160,
        2.145,
        2.131,
    ),
    *(
        2.120,
        2.110,
        2.101,
        2.093,
        2.086,
        2.080,
        2.074,
        2.069,
        2.064,
        2.060,
        2.056,
        2.052,
        2.048,
        2.045,
        2.042,
    ),
)
_NORMAL95 = 1.96


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """``(mean, half)``: the 95 % interval of the mean is ``mean ± half``. One value has no half (0); None of nothing.

    The values are taken to be independent and roughly normal, as runs of different seeds are.
    """
    if not values:
        return None
    n = len(values)
    mean = sum(values) / n
    if n == 1:
        return mean, 0.0
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    return mean, (_T95[n - 2] if n - 2 < len(_T95) else _NORMAL95) * deviation / sqrt(n)
