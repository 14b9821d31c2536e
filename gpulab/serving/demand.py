"""The same trace at another rate, in another order, with promises or guesses: what a sweep varies.

Each function gives a new trace; equal inputs give equal traces on every machine.
"""

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction

from gpulab.serving.request import Request, Trace

_FIELDS = tuple(field.name for field in fields(Request))
STRETCH = 64  # requests whose contents change places, so that the day's drift and the bursts stay


def paced(trace: Trace, rate: Fraction | int) -> Trace:
    """``trace`` with ``rate`` times its arrivals a second: each comes after ``arrival_ns / rate``, rounded down."""
    rate = Fraction(rate)
    if rate <= 0:
        raise ValueError(f"A rate of {rate} serves nobody; give one above 0.")
    over, by = rate.denominator, rate.numerator
    return _changed(trace, lambda request: {"arrival_ns": request.arrival_ns * over // by})


def resampled(trace: Trace, seed: int) -> Trace:
    """Another day like that of ``trace``: the same arrivals, and in each 64 in a row other requests at them.

    Seed 0 is ``trace`` itself. What a request brings (lengths, tenant, prefix, promise) stays together. The order
    in each stretch is ``random.Random(f"{seed}/resample").shuffle``.
    """
    if not seed:
        return trace
    draws, found = random.Random(f"{seed}/resample"), []
    for start in range(0, len(trace), STRETCH):
        there = list(trace.requests[start : start + STRETCH])
        moments = [request.arrival_ns for request in there]
        draws.shuffle(there)
        found += [_with(request, arrival_ns=at) for request, at in zip(there, moments, strict=True)]
    return Trace(found)


def promised(trace: Trace, first_token_ns: Mapping[str, int]) -> Trace:
    """``trace`` in which requests without a promise have their tenant's: the time to the first token.

    ``""`` is the promise to tenants that are not named.
    """

    def promise(request: Request) -> dict:
        usual = first_token_ns.get(request.tenant, first_token_ns.get("", 0))
        return {} if request.first_token_ns else {"first_token_ns": usual}

    return _changed(trace, promise)


def guessed(trace: Trace, error_percent: int, seed: str = "0") -> Trace:
    """``trace`` in which requests without a guess of their output length have one, off by ``error_percent`` at most.

    The predictor: the true length times a factor drawn evenly from 1 - error to 1 + error, at least 1 token. Its
    mean error is half of ``error_percent``. ``random.Random(f"{seed}/guess")``, one draw a request.
    """
    draws = random.Random(f"{seed}/guess")

    def guess(request: Request) -> dict:
        percent = 100 + draws.randint(-error_percent, error_percent)
        tokens = max(1, request.output_tokens * percent // 100)
        return {} if request.predicted_tokens else {"predicted_tokens": tokens}

    return _changed(trace, guess)


def rate_per_s(trace: Trace) -> Fraction:
    """Requests a second of ``trace``, from its first arrival to its last; 0 of fewer than two moments."""
    span = trace[-1].arrival_ns - trace[0].arrival_ns if len(trace) else 0
    return Fraction((len(trace) - 1) * 1_000_000_000, span) if span else Fraction(0)


def digest(trace: Trace) -> str:
    """SHA-256 of all that ``trace`` says."""
    sha = hashlib.sha256()
    for request in trace:
        sha.update(repr([getattr(request, name) for name in _FIELDS]).encode())
    return sha.hexdigest()


def _changed(trace: Trace, change: Callable[[Request], dict]) -> Trace:
    return Trace(_with(request, **change(request)) for request in trace)


def _with(request: Request, **new: object) -> Request:
    return Request(**{**{name: getattr(request, name) for name in _FIELDS}, **new})
