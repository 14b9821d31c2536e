"""The highest rate that a service can serve within its promises, by halving the interval in which it lies."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from gpulab.serving.demand import paced, rate_per_s
from gpulab.serving.request import Trace
from gpulab.serving.service import Service
from gpulab.serving.sweep import Measure, Point, Sweep, judged

_FARTHEST = 10  # doublings or halvings before the search gives up


@final
@dataclass(frozen=True, slots=True)
class Tried:
    """One rate: ``factor`` times the trace's own. ``share`` of the requests kept their promise: enough?"""

    factor: Fraction
    per_s: Fraction
    share: Fraction
    enough: bool
    result: dict


@final
@dataclass(frozen=True, slots=True)
class Capacity:
    """``best`` is the highest rate found that is enough, None if even a thousandth was not; ``tried`` all, in order.

    ``over`` is the lowest rate found that is too much: the limit lies between the two. None: nothing was.
    """

    best: Tried | None
    over: Tried | None
    tried: tuple[Tried, ...]


def capacity(
    trace: Trace,
    service: Service,
    measure: Measure,
    *,
    share: Fraction = Fraction(99, 100),
    precision: Fraction = Fraction(1, 50),
    sweep: Sweep = Sweep(),  # noqa: B008 (a value)
) -> Capacity:
    """The highest rate at which ``share`` of the requests of ``trace`` keep their promises.

    The trace's own rate is tried first, then twice or half of it until one is enough and one is not; then three
    parts of what lies between, two rates at a time, until they are within ``precision`` of each other. ``measure``
    and ``sweep`` as for ``swap_test``. More load is taken to be worse; where a trace is an exception, a limit is
    found, and another one may lie above it. A run that a fault ended is not enough.
    """
    tried: list[Tried] = []

    def look(*factors: Fraction) -> list[Tried]:
        points = [Point(f"x {float(factor):.4g}", service, paced(trace, factor)) for factor in factors]
        found = [
            _tried(trace, factor, result, share)
            for factor, result in zip(factors, sweep.run(points, measure), strict=True)
        ]
        tried.extend(found)
        return found

    best, over = _bracket(look)
    while best and over and over.factor - best.factor > precision * best.factor:
        step = (over.factor - best.factor) / 3
        low, high = look(best.factor + step, best.factor + 2 * step)
        if not low.enough:
            over = low
        elif not high.enough:
            best, over = low, high
        else:
            best = high
    return Capacity(best, over, tuple(tried))


def _bracket(look) -> tuple[Tried | None, Tried | None]:
    """The neighbours, one enough and one too much, among 1, 2, 4 … or 1, 1/2, 1/4 …; None for what is not there."""
    (first,) = look(Fraction(1))
    before = first
    for factor in _farther(Fraction(2) if first.enough else Fraction(1, 2)):
        (found,) = look(factor)
        if found.enough != first.enough:
            return (before, found) if first.enough else (found, before)
        before = found
    return (before, None) if first.enough else (None, before)


def _farther(by: Fraction) -> Iterator[Fraction]:
    yield from (by**power for power in range(1, _FARTHEST + 1))


def _tried(trace: Trace, factor: Fraction, result: dict, share: Fraction) -> Tried:
    judged(result)
    kept = Fraction(result["kept"], result["requests"])
    return Tried(factor, factor * rate_per_s(trace), kept, kept >= share and not result["fault"], result)
