"""Five coefficients for a model on a GPU, fitted to its measured kernels, with the error on batches not seen.

The formula is that of ``serving.cost``. Beside it the linear form of DistServe's cost model is fitted to the
same batches, so that what the bend is worth can be read off:

    t = a + b * P + c * S + d * B + e * KV

P prompt tokens, B decoding sequences, KV the tokens they read, S the prompts' attention work (twice W, which for
whole prompts is the sum of their squared lengths). Source: Zhong et al., DistServe (OSDI 2024), appendix A.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpulab.errors import SpecFault
from gpulab.serving.kernels import Batch, Kernels

SEED = 1
BATCHES, FITTED = 1_500, 1_000  # the others are held out
_KINDS, _SHARES = ("decode", "prefill", "mixed"), (45, 20, 35)
_CONTEXT, _NEW_TOKENS, _SEQUENCES, _PROMPTS = (64, 8_192), 8_192, (1, 256), (1, 4)
_FEWEST_TOKENS = 512  # 256 decodes and a few prompts
_SOFT = 0.03  # relative errors above this count by their size, not by its square


@dataclass(frozen=True, slots=True)
class Form:
    """A formula with its coefficients in milliseconds and its relative errors on held-out batches.

    ``error`` is their mean (MAPE), ``p90`` nine of ten are below, ``worst`` is the largest.
    """

    coefficients: tuple[float, ...]
    error: float
    p90: float
    worst: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """The formula and, beside it, the linear form; and their range.

    ``most_tokens``: that a batch could have, ``most_cached_tokens``: that a fitted one had.
    """

    bent: Form
    linear: Form
    most_tokens: int
    most_cached_tokens: int


def draw(most_tokens: int, seed: int = SEED) -> list[Batch]:
    """1,500 batches: 45 % decodes, 20 % prompts, 35 % both; of no more than ``most_tokens`` new tokens.

    Contexts are log-uniform in 64–8,192 tokens, decoding sequences log-uniform in 1–256, prompts 1–4. Half of
    the prompts are a later chunk of their context: what is before it is cached. A batch of more than 8,192 new
    tokens, or more than the tables reach, is drawn again: tables are read between their points, not beyond.
    """
    draws, room = random.Random(f"{seed}/batches"), min(most_tokens, _NEW_TOKENS)
    return [_batch(draws, room) for _ in range(BATCHES)]


def _batch(draws: random.Random, room: int) -> Batch:
    kind = draws.choices(_KINDS, _SHARES)[0]
    while True:
        sequences = _spread(draws, *_SEQUENCES) if kind != "prefill" else 0
        prompts = draws.randint(*_PROMPTS) if kind != "decode" else 0
        batch = Batch(
            tuple(_prompt(draws) for _ in range(prompts)),
            tuple(_spread(draws, *_CONTEXT) for _ in range(sequences)),
        )
        if batch.tokens <= room:
            return batch


def _prompt(draws: random.Random) -> tuple[int, int]:
    """A chunk and what is cached before it."""
    context = _spread(draws, *_CONTEXT)
    cached = draws.randrange(context) if draws.random() < 0.5 else 0
    return context - cached, cached


def _spread(draws: random.Random, least: int, most: int) -> int:
    """A whole number between ``least`` and ``most``, each doubling as likely as the next."""
    return round(math.exp(draws.uniform(math.log(least), math.log(most))))


def fit(kernels: Kernels, seed: int = SEED) -> Fitted:
    """The coefficients that fit ``kernels`` best, by relative error, on the first 1,000 batches of ``draw``.

    Large errors count by their size and not by its square (scipy's ``soft_l1``), so that one odd kernel does not
    bend the whole; both forms alike. No coefficient is negative.

    Raises:
        SpecFault: scipy is not here, or the tables end below the smallest batches.
    """
    if kernels.most_tokens < _FEWEST_TOKENS:
        raise SpecFault(
            f"The table of linear layers ends at {kernels.most_tokens} tokens; a fit needs {_FEWEST_TOKENS} at least."
        )
    batches = draw(kernels.most_tokens, seed)
    times = np.array([kernels.step_ms(batch) for batch in batches])
    tokens, prompt, cached, twice = (
        np.array([getattr(batch, name) for batch in batches], float)
        for name in ("tokens", "prompt_tokens", "cached_tokens", "twice_work")
    )

    def bent(x: np.ndarray) -> np.ndarray:
        return x[0] + np.hypot(x[1], x[2] * tokens) + x[3] * cached + x[4] * twice / 2

    def linear(x: np.ndarray) -> np.ndarray:
        return x[0] + x[1] * prompt + x[2] * twice + x[3] * (tokens - prompt) + x[4] * cached

    return Fitted(
        _solved(bent, (2, 8, 0.05, 1e-4, 3e-6), times),
        _solved(linear, (8, 0.05, 5e-6, 0.03, 1e-4), times),
        most_tokens=min(kernels.most_tokens, _NEW_TOKENS),
        most_cached_tokens=max(batch.cached_tokens for batch in batches[:FITTED]),
    )


def _solved(form, start: Sequence[float], times: np.ndarray) -> Form:
    """``form`` with the coefficients that fit the first of ``times``; ``start`` is where to begin, and the scale."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise SpecFault("A fit needs scipy, which is not here: pip install 'gpulab[fit]'.") from None

    def wrong(x: np.ndarray) -> np.ndarray:
        return form(x) / times - 1

    found = least_squares(
        lambda x: wrong(x)[:FITTED], start, bounds=(0, np.inf), x_scale=start, loss="soft_l1", f_scale=_SOFT
    )
    errors = np.abs(wrong(found.x)[FITTED:])
    return Form(
        tuple(float(value) for value in found.x),
        float(errors.mean()),
        float(np.quantile(errors, 0.9)),
        float(errors.max()),
    )
