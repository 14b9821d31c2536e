"""The numbers that a service is judged by, derived from the facts of a ledger and from nothing else.

Times of a request, as vLLM's benchmark defines them (``vllm/benchmarks/serve.py``): *TTFT* from its arrival to its first
token; *TPOT* from its first token to its last, by the tokens after the first; *gaps* from each token of a job to its
next; *latency* (E2E) from its arrival until its answer was there. *Queueing delay*: from its arrival until it was
served first. *Slowdown*: latency by what it takes alone.

Percentiles are nearest rank: the p-th is the smallest value that at least p % of the values do not exceed. It is
one of the values, and no two readers interpolate differently.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpulab.report.account import Account, Terms, levels
from gpulab.report.fairness import Gap, jain
from gpulab.report.served import OF_REQUESTS, Requests
from gpulab.report.tokens import Tokens
from gpulab.report.waiting import Waited, Waiting
from gpulab.telemetry.events import Arrived, Extrapolated, Opened, Stepped
from gpulab.telemetry.ledger import Ledger
from gpulab.units import SECOND


class Distribution:
    """How often each value occurred. ``percentile(99)`` is one of the values; None where there are none."""

    def __init__(self, counts: Mapping) -> None:
        self.counts = {value: counts[value] for value in sorted(counts, key=_rounded) if counts[value] > 0}
        self.count = sum(self.counts.values())

    @classmethod
    def of(cls, values: Iterable) -> "Distribution":
        """Each of ``values`` once; Nones are left out."""
        return cls(Counter(value for value in values if value is not None))

    def percentile(self, p: int | float | Fraction):
        """The smallest value that at least ``p`` % of all do not exceed, ``0 < p <= 100``; None of nothing."""
        if not 0 < p <= 100:
            raise ValueError(f"There is no {p!r}-th percentile; ask for one above 0 and up to 100.")
        seen, wanted = 0, Fraction(str(p)) * self.count / 100
        for value, count in self.counts.items():
            seen += count
            if seen >= wanted:
                return value
        return None

    @property
    def mean(self) -> float | None:
        """The mean, None of nothing."""
        total = sum(value * count for value, count in self.counts.items())
        return float(Fraction(total) / self.count) if self.count else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and self.counts == other.counts

    __hash__ = None

    def __repr__(self) -> str:
        if not self.count:
            return "<Distribution: no values>"
        marks = ", ".join(f"p{p} {float(self.percentile(p)):,.6g}" for p in (50, 90, 99))
        return f"<Distribution: {self.count:,} values, {marks}>"


@dataclass(frozen=True, slots=True)
class Slo:
    """What was promised of a request; None: nothing. A request keeps it if each of its times is at most this."""

    ttft_ns: int | None = None
    tpot_ns: int | None = None
    latency_ns: int | None = None

    def kept_by(self, served: "Times") -> bool:
        """Whether a finished request kept all of it. One token has no TPOT, and keeps any."""
        if served.outcome != "finished":
            return False
        times = (
            (served.ttft_ns, self.ttft_ns),
            (served.tpot_ns, self.tpot_ns),
            (served.latency_ns, self.latency_ns),
        )
        return all(most is None or time_ns is None or time_ns <= most for time_ns, most in times)


@dataclass(frozen=True, slots=True)
class Times:
    """One request's times; None for what it did not come to. ``tpot_ns`` and ``slowdown`` are exact fractions."""

    request: int
    tenant: str
    outcome: str
    arrived_ns: int
    output_tokens: int
    queued_ns: int | None
    ttft_ns: int | None
    tpot_ns: Fraction | None
    latency_ns: int
    slowdown: Fraction | None


@dataclass(frozen=True)
class Summary:
    """The numbers of one run. Without requests the distributions are empty, and ``str(summary)`` says so.

    ``window_ns``: from the first arrival to the end of the ledger; rates are over it. ``kept``: finished requests
    that kept their SLO, None when none was given. ``occupancy``: held units of the capacity, for each resource that
    has one of its own. ``hit_rate``: reused tokens of those that jobs needed. ``jobs``: jobs in a step, weighted by
    its time. ``steps``: of them, ``extrapolated`` were larger than what was measured. ``jain``: Jain's index of the tenants' service, 1 when equal; ``service_gap``: see ``fairness``.
    """

    requests: tuple[Times, ...]
    window_ns: int
    output_tokens: int
    kept: int | None
    ttft: Distribution
    tpot: Distribution
    gaps: Distribution
    latency: Distribution
    queued: Distribution
    slowdown: Distribution
    jobs: Distribution
    jain: Fraction | None
    service_gap: int | None
    occupancy: dict[str, float]
    hit_rate: Fraction | None
    steps: int
    extrapolated: int

    def of(self, tenant: str) -> tuple[Times, ...]:
        """The requests of ``tenant``."""
        return tuple(times for times in self.requests if times.tenant == tenant)

    @property
    def finished(self) -> int:
        """Requests that finished."""
        return sum(times.outcome == "finished" for times in self.requests)

    @property
    def attainment(self) -> float | None:
        """Requests that kept their SLO, of all that arrived; None without an SLO or a request."""
        return self.kept / len(self.requests) if self.requests and self.kept is not None else None

    @property
    def goodput_per_s(self) -> float | None:
        """Requests a second that kept their SLO; None without one."""
        return self._rate(self.kept)

    @property
    def throughput_per_s(self) -> float | None:
        """Finished requests a second."""
        return self._rate(self.finished)

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens a second, of jobs that did not finish, too."""
        return self._rate(self.output_tokens)

    def _rate(self, count: int | None) -> float | None:
        return count * SECOND / self.window_ns if self.window_ns and count is not None else None

    def __str__(self) -> str:
        if not self.requests:
            return "No request arrived in this ledger: there are no times to summarize."
        rows = [f"{len(self.requests):,} requests, {self.finished:,} finished in {self.window_ns:,} ns"]
        names = ("ttft", "tpot", "gaps", "latency", "queued", "slowdown")
        rows += [f"{name}: {getattr(self, name)!r}" for name in names]
        if self.extrapolated:
            rows.append(f"{self.extrapolated:,} of {self.steps:,} steps were larger than what was measured")
        return "\n".join(rows)


def summarize(
    ledger: Ledger,
    slo: Slo | Mapping[str, Slo] | None = None,
    *,
    waiting: Waiting | None = None,
    accounts: Mapping[str, Terms] | None = None,
) -> Summary:
    """The numbers of ``ledger``. ``slo``: for all requests, or by tenant; a tenant without one is promised nothing.

    ``waiting``, ``accounts``: its gauges where the caller has them, the second and of each level the first over the
    whole run; else they are read here. Cost: a few passes over the ledger, and a look at each step.

    Raises:
        BrokenLaw: the ledger contradicts itself; the audit says where first.
    """
    waiting = waiting or Waiting(ledger)  # says what is wrong before tokens are counted
    tenants = {fact.tenant for fact in ledger.of(Arrived)}
    requests, tokens, gap = Requests(), Tokens(), Gap(tenants)
    for serial, fact in ledger.each(OF_REQUESTS | {Stepped}):
        served = requests.note(serial, fact)
        tokens.note(fact, served)
        if tenants and (served or type(fact) is Stepped):
            gap.note(tokens.service, requests.tenants_waiting)
    times = tuple(_times(row, requests, tokens) for row in waiting.requests)
    found = sum(job.found for job in tokens.jobs.values())
    needed = found + sum(job.computed for job in tokens.jobs.values())
    return Summary(
        requests=times,
        window_ns=ledger.end_ns - times[0].arrived_ns if times else 0,
        output_tokens=sum(row.output_tokens for row in times),
        kept=None if slo is None else sum(_promise(slo, row.tenant).kept_by(row) for row in times),
        ttft=Distribution.of(row.ttft_ns for row in times),
        tpot=Distribution.of(row.tpot_ns for row in times),
        gaps=Distribution(tokens.gaps),
        latency=Distribution.of(row.latency_ns for row in times if row.outcome == "finished"),
        queued=Distribution.of(row.queued_ns for row in times),
        slowdown=Distribution.of(row.slowdown for row in times),
        jobs=Distribution(tokens.sizes),
        jain=jain(tokens.service[tenant] for tenant in sorted(tenants)),
        service_gap=gap.largest,
        occupancy=_occupancy(ledger, accounts or {}),
        hit_rate=Fraction(found, needed) if needed else None,
        steps=tokens.steps,
        extrapolated=sum(fact.steps for fact in ledger.of(Extrapolated)),
    )


def _times(waited: Waited, requests: Requests, tokens: Tokens) -> Times:
    served, job, made = (
        requests.served[waited.request],
        tokens.jobs[waited.request],
        tokens.made(waited.request),
    )
    arrived_ns, finished = served.arrived.time_ns, served.finished
    tpot = None
    if finished and job.first_ns is not None and made > 1:
        tpot = Fraction(finished.time_ns - job.first_ns, made - 1)
    return Times(
        request=waited.request,
        tenant=waited.tenant,
        outcome=waited.outcome,
        arrived_ns=arrived_ns,
        output_tokens=made,
        queued_ns=served.services[0][1] - arrived_ns if served.services else None,
        ttft_ns=None if job.first_ns is None else job.first_ns - arrived_ns,
        tpot_ns=tpot,
        latency_ns=waited.latency_ns,
        slowdown=Fraction(waited.latency_ns, waited.alone_ns) if waited.alone_ns else None,
    )


def _rounded(value: int | Fraction) -> tuple:
    """What sorts as ``value`` does, and compares fractions only where their roundings are equal: five times as fast."""
    return float(value), value


def _promise(slo: Slo | Mapping[str, Slo], tenant: str) -> Slo:
    return slo if isinstance(slo, Slo) else slo.get(tenant, Slo())


def _occupancy(ledger: Ledger, accounts: Mapping[str, Terms]) -> dict[str, float]:
    """Held unit * ns of the capacity of each resource that is in no other; 0 over no time."""
    own = [fact.resource for fact in ledger.of(Opened) if not fact.inside]
    found = {}
    for level in levels(ledger):
        name = level.split("→")[0]
        if name in own and name not in found:
            terms = accounts[level] if level in accounts else Account(ledger, level)()
            found[name] = terms.share("used") + terms.share("stranded")
    return found
