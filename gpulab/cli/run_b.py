"""Vidur's answers for six runs of public traces, and ours beside them, with one factor on every step's time.

The first 1,000 requests of Azure's conversation trace, the first 2,000 of its code trace; prompts cut so that prompt
and answer have 4,096 tokens at most; arrivals stretched. Llama-2-7B on one A100-80, 7,424 KV blocks, 128 jobs;
Sarathi with 512 tokens a step, vLLM's prompts first with 4,096. The expected numbers are those of Vidur 7d47513363ec
with NVIDIA's attention tables in place of its own, which are not public in full.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpulab.serving.cost import StepCost
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.ledger import Ledger

FITTED = 0.9943  # what `gpulab fidelity --all` fits and prints: the factor on every step's time
_MOST = 4_096
_SCALED = ("constant_ps", "weights_ps", "token_ps", "cached_token_ps", "square_token_ps")
_QUANTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Row:
    """One run of Vidur: TTFT and latency in seconds, TPOT in milliseconds, each at p50, p90 and p99.

    Vidur's TPOT is the time after the first token over *all* tokens made, the first one too.
    """

    name: str
    data: str
    requests: int
    stretched_percent: int
    chunked: bool
    ttft: tuple[float, float, float]
    tpot: tuple[float, float, float]
    latency: tuple[float, float, float]


_CONV, _CODE = ("azure-conv-2023", 1_000), ("azure-code-2023", 2_000)
ROWS = (
    Row(
        "conv x2, sarathi", *_CONV, 200, True, (0.102, 0.335, 0.598), (16.1, 21.8, 29.2), (3.38, 8.37, 10.58)
    ),
    Row("conv x2, vllm", *_CONV, 200, False, (0.081, 0.262, 0.427), (17.1, 24.6, 35.0), (3.66, 9.11, 11.67)),
    Row(
        "conv x1.25, sarathi",
        *_CONV,
        125,
        True,
        (0.144, 0.520, 1.211),
        (26.6, 41.2, 49.2),
        (5.59, 14.28, 18.70),
    ),
    Row(
        "conv x1.25, vllm",
        *_CONV,
        125,
        False,
        (0.087, 0.299, 0.566),
        (31.5, 52.9, 75.3),
        (6.81, 18.09, 23.69),
    ),
    Row(
        "code x2, sarathi", *_CODE, 200, True, (0.876, 14.72, 22.24), (36.1, 41.6, 43.9), (1.77, 15.74, 23.87)
    ),
    Row("code x2, vllm", *_CODE, 200, False, (0.515, 11.97, 18.14), (96.4, 526, 949), (2.71, 19.13, 40.22)),
)


def traces() -> dict[str, Trace]:
    """The requests of each row, by its name."""
    from gpulab.datasets import load

    whole = {data: load(data) for data in sorted({row.data for row in ROWS})}
    return {
        row.name: Trace(
            Request(
                number,
                one.arrival_ns * row.stretched_percent // 100,
                max(1, min(one.prompt_tokens, _MOST - one.output_tokens)),
                max(1, one.output_tokens),
            )
            for number, one in enumerate(whole[row.data][: row.requests])
        )
        for row in ROWS
    }


def scaled(cost: StepCost, factor: float) -> StepCost:
    """``cost`` with every step's time, the host's left out, ``factor`` times as long, to four decimals of it."""
    parts = round(factor * 10_000)
    return replace(cost, **{name: getattr(cost, name) * parts // 10_000 for name in _SCALED})


def served(row: Row, trace: Trace, cost: StepCost) -> Ledger:
    """``trace`` as ``row`` has it served."""
    from gpulab.serving.engine import Engine
    from gpulab.serving.policies.chunked import Chunked
    from gpulab.serving.policies.prefill_first import PrefillFirst

    policy, budget = (Chunked(), 512) if row.chunked else (PrefillFirst(), 4_096)
    return Engine(cost, policy, max_jobs=128, token_budget=budget).run(trace)


def quantiles(row: Row, trace: Trace, cost: StepCost) -> dict[str, tuple[float, float]]:
    """``{"ttft p50": (Vidur's, ours) …}`` for the nine quantiles of ``row``."""
    from gpulab.report.metrics import Distribution, summarize

    times = summarize(served(row, trace, cost)).requests
    ours = {
        "ttft": [one.ttft_ns / 1e9 for one in times],
        "tpot": [(one.latency_ns - one.ttft_ns) / 1e6 / one.output_tokens for one in times],
        "latency": [one.latency_ns / 1e9 for one in times],
    }
    return {
        f"{name} p{p}": (expected, Distribution.of(values).percentile(p))
        for name, values in ours.items()
        for p, expected in zip(_QUANTILES, getattr(row, name), strict=True)
    }


def fitted_factor(errors: Callable[[float], Iterable[float]]) -> float:
    """The factor at which the squares of ``errors(factor)`` sum to least, to four decimals.

    A parabola through three factors, 2 % apart, and one through three around its lowest point, 0.5 % apart:
    seven runs of each row, and a sum of squares that steps of whole nanoseconds make a little rough does no harm.
    """

    def total(factor: float) -> float:
        return sum(error * error for error in errors(factor))

    middle = 1.0
    for step in (0.02, 0.005):
        low, here, high = (total(middle + shift) for shift in (-step, 0.0, step))
        bend = low - 2 * here + high
        if bend > 0:
            middle += max(-2 * step, min(2 * step, step * (low - high) / (2 * bend)))
    return round(middle, 4)


def logs(cost: StepCost, traces: dict[str, Trace], factor: float) -> list[float]:
    """Log errors of all 54 quantiles with every step ``factor`` times as long."""
    board = scaled(cost, factor)
    return [
        math.log(ours / expected)
        for row in ROWS
        for expected, ours in quantiles(row, traces[row.name], board).values()
    ]
