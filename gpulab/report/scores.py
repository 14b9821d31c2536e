"""The few numbers of a run that a sweep compares, in one quick pass: a thousand runs need no gauge.

They are those of ``metrics.summarize``, by the same definitions, of several replicas together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from gpulab.report.metrics import Distribution, Slo
from gpulab.telemetry.events import Arrived, Dropped, Finished, Preempted, Prefilled, Reused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import SECOND

_ASKED = (50, 90, 99)


class _Times(NamedTuple):
    outcome: str
    ttft_ns: int | None
    tpot_ns: Fraction | None
    latency_ns: int


@dataclass(frozen=True, slots=True)
class Scores:
    """``kept``: finished requests that kept their SLO, None when none was given. ``window_ns`` as in ``Summary``."""

    requests: int
    finished: int
    rejected: int
    kept: int | None
    output_tokens: int
    window_ns: int
    ttft: Distribution
    tpot: Distribution
    latency: Distribution

    def plain(self) -> dict:
        """The numbers as JSON has them: counts, rates a second, percentiles in whole nanoseconds (rounded down)."""
        found = {name: getattr(self, name) for name in ("requests", "finished", "rejected", "kept")}
        found |= {"output_tokens": self.output_tokens, "window_ns": self.window_ns}
        found["attainment"] = self.kept / self.requests if self.requests and self.kept is not None else None
        found["throughput_per_s"] = self._rate(self.finished)
        found["goodput_per_s"] = self._rate(self.kept)
        for name in ("ttft", "tpot", "latency"):
            times = getattr(self, name)
            found |= {f"{name}_p{p}_ns": int(times.percentile(p)) if times.count else None for p in _ASKED}
        return found

    def _rate(self, count: int | None) -> float | None:
        return count * SECOND / self.window_ns if self.window_ns and count is not None else None


def score(ledgers: Iterable[Ledger], slo: Slo | Mapping[str, Slo] | None = None) -> Scores:
    """The scores of ``ledgers``, the replicas of one run. ``slo``: for all, or by tenant."""
    times, tokens, kept, arrived, end = [], 0, 0, [], 0
    for ledger in ledgers:
        for tenant, request, made in _requests(ledger):
            times.append(request)
            tokens += made
            kept += _promise(slo, tenant).kept_by(request)
        arrived += [fact.time_ns for fact in ledger.of(Arrived)]
        end = max(end, ledger.end_ns)
    finished = [request for request in times if request.outcome == "finished"]
    return Scores(
        requests=len(times),
        finished=len(finished),
        rejected=sum(request.outcome == "rejected" for request in times),
        kept=None if slo is None else kept,
        output_tokens=tokens,
        window_ns=end - min(arrived, default=end),
        ttft=Distribution.of(request.ttft_ns for request in times),
        tpot=Distribution.of(request.tpot_ns for request in finished),
        latency=Distribution.of(request.latency_ns for request in finished),
    )


def kept_of(ledgers: Iterable[Ledger], slo: Mapping[str, Slo]) -> dict[str, tuple[int, int]]:
    """By tenant of ``slo``, how many of its requests kept its promise, of how many that came."""
    found = {tenant: [0, 0] for tenant in slo}
    for ledger in ledgers:
        for tenant, request, _ in _requests(ledger):
            if tenant in found:
                found[tenant][0] += slo[tenant].kept_by(request)
                found[tenant][1] += 1
    return {tenant: (kept, came) for tenant, (kept, came) in found.items()}


@dataclass(frozen=True)
class Measured:
    """What a sweep keeps of a run that has ``ledgers``: ``Measured(slo)(run)`` is its scores, plain."""

    slo: Slo | Mapping[str, Slo] | None = None

    def __call__(self, run) -> dict:
        return score(run.ledgers, self.slo).plain()


def _promise(slo: Slo | Mapping[str, Slo] | None, tenant: str) -> Slo:
    if slo is None or isinstance(slo, Slo):
        return slo or Slo()
    return slo.get(tenant, Slo())


def _requests(ledger: Ledger) -> Iterable[tuple[str, _Times, int]]:
    """Tenant, times and tokens made of each request; tokens of those that did not finish are not counted."""
    arrived: dict[int, Arrived] = {}
    kv: dict[int, int] = {}
    first: dict[int, int] = {}
    ends: dict[int, Finished | Dropped] = {}
    for fact in ledger.of(Arrived, Reused, Prefilled, Preempted, Finished, Dropped):
        match fact:
            case Prefilled() | Reused():
                kv[fact.request] += fact.tokens
                if fact.request not in first and kv[fact.request] == arrived[fact.request].prompt_tokens:
                    first[fact.request] = fact.time_ns
            case Arrived():
                arrived[fact.request], kv[fact.request] = fact, 0
            case Preempted():
                kv[fact.request] = fact.kept_tokens
            case _:
                ends[fact.request] = fact
    for name, came in arrived.items():
        end, began = ends.get(name), first.get(name)
        done = type(end) is Finished
        made, start = end.output_tokens if done else 0, came.time_ns
        outcome = "finished" if done else end.reason if end else "open"
        tpot = Fraction(end.time_ns - began, made - 1) if done and made > 1 else None
        ttft = None if began is None else began - start
        yield came.tenant, _Times(outcome, ttft, tpot, (end.time_ns if end else ledger.end_ns) - start), made
