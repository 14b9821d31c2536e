"""What serving costs here: whole processes, ten times the requests, and the leaping loop beside the one-step loop."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from gpulab.cli.serve_alone import REPLICAS, board
from gpulab.serving.engine import Engine
from gpulab.serving.fleet import Fleet, RoundRobin
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.request import Request, Trace
from gpulab.serving.service import Service

HOUR = "azure-conv-2023"
TIMES = 10  # as many requests, for the cost of each
BAR_TIMES = 11


@dataclass(frozen=True, slots=True)
class Measured:
    """One number: what it is, its unit, and the most it may be on the conversation hour; None: it is only told."""

    what: str
    unit: str
    got: float
    bar: float | None = None

    @property
    def holds(self) -> bool | None:
        return None if self.bar is None else self.got <= self.bar


def measurements(
    name: str, trace: Trace, crowded: Trace, runs: int
) -> Iterator[Callable[[], list[Measured]]]:
    """Each a function that takes some seconds on the hour and returns what it measured.

    ``name`` is ``trace`` as ``read_trace`` finds it. ``crowded`` goes to one replica. Of ``runs`` runs the middle one
    counts.
    """
    yield partial(whole_process, "chunked", name, runs, bar_s=4)
    yield partial(whole_process, "rank", name, runs, bar_s=6)
    yield partial(growth, trace, runs)
    yield partial(loops, "the hour", trace, REPLICAS, 2_048, most_share=1 / 8)
    yield partial(loops, "conv x1.25", crowded, 1, 512, most_share=0.35)


def whole_process(policy: str, name: str, runs: int, bar_s: float) -> list[Measured]:
    """Seconds and MB of a process that serves the trace called ``name`` on three replicas, its start included."""
    found = [timed(partial(alone, policy, name)) for _ in range(runs)]
    what = f"process, {REPLICAS} replicas, {policy}"
    most = max(said["most_mb"] for _, said in found)
    return [
        Measured(what, "s", round(median(s for s, _ in found), 3), bar_s),
        Measured(what, "MB", most, 300),
    ]


def alone(policy: str, name: str) -> dict:
    """What ``serve_alone`` prints; ``rank`` is a ``RankPolicy`` as a learner writes it."""
    here = Path(__file__)
    searched = filter(None, (str(here.parents[2]), os.environ.get("PYTHONPATH")))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(searched)}
    program = [sys.executable, "-P", str(here.with_name("serve_alone.py")), policy, name]
    return json.loads(subprocess.run(program, env=env, check=True, capture_output=True, text=True).stdout)


def growth(trace: Trace, runs: int) -> list[Measured]:
    """How often the time of a tenth of ``trace`` fits into that of the same load ten times as long."""
    tenth = Trace(trace.requests[: max(1, len(trace) // TIMES)])
    loads = tenth, repeated(tenth, TIMES)
    # The short one as often as makes the two last alike, and by turns: what else the machine does slows both down.
    seconds = [
        [timed(partial(serve, load, n))[0] for load, n in zip(loads, (TIMES, 1), strict=True)]
        for _ in range(runs)
    ]
    short, long = (median(column) for column in zip(*seconds, strict=True))
    short /= TIMES
    return [
        Measured(f"{len(loads[0]):,} requests", "s", round(short, 3)),
        Measured(f"{len(loads[1]):,} at the same load", "s", round(long, 3)),
        Measured(f"{TIMES} times the requests", "times the time", round(long / short, 2), BAR_TIMES),
    ]


def repeated(trace: Trace, times: int) -> Trace:
    """``trace`` again and again, each time when the one before is over."""
    lasts_ns = trace[-1].arrival_ns + 1
    rows = [(n * len(trace), n * lasts_ns, request) for n in range(times) for request in trace]
    return Trace(
        Request(more + r.id, after_ns + r.arrival_ns, r.prompt_tokens, r.output_tokens)
        for more, after_ns, r in rows
    )


def serve(trace: Trace, times: int = 1) -> None:
    """``trace`` under chunked on three replicas, so many times."""
    for _ in range(times):
        ran = Service(board(), "chunked", replicas=REPLICAS).run(trace)
        if ran.fault is not None:
            raise ran.fault


def loops(what: str, trace: Trace, replicas: int, token_budget: int, most_share: float) -> list[Measured]:
    """Passes and seconds of the leaping loop as parts of the one-step loop's, on the same trace."""
    found = [timed(partial(looped, trace, replicas, token_budget, leap=leap)) for leap in (True, False)]
    (fast_s, fleet), (slow_s, other) = found
    fast, slow = (sum(engine.passes for engine in engines) for engines in (fleet, other))
    differ = sum(a.ledger.digest() != b.ledger.digest() for a, b in zip(fleet, other, strict=True))
    return [
        Measured(f"{what}: passes, leaping", "", fast),
        Measured(f"{what}: passes, one by one", "", slow),
        Measured(f"{what}: passes, leaping", "of those one by one", round(fast / slow, 4), most_share),
        Measured(f"{what}: time, one by one", "times the leaping one's", round(slow_s / fast_s, 2)),
        Measured(f"{what}: ledgers that differ", "", differ, 0),
    ]


def looped(trace: Trace, replicas: int, token_budget: int, *, leap: bool) -> list[Engine]:
    """The engines of a fleet that has served ``trace`` under chunked."""
    engines = [Engine(board(), Chunked(), token_budget=token_budget, leap=leap) for _ in range(replicas)]
    Fleet(engines, RoundRobin()).run(trace)
    return engines


def timed(work: Callable) -> tuple[float, object]:
    """Seconds that ``work`` takes, and what it returns."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found
