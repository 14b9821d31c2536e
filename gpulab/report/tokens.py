"""Which tokens were made when: counted from stretches and prompts, once a job and stretch, never a token at a time.

A job is *ready* when the KV of all its tokens but the last is there; every step of its resource with jobs in it makes
one token for each that is ready. So a job's tokens are the steps since it was ready, a difference of two counts.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import final

from gpulab.report.fairness import OUTPUT_WEIGHT, PROMPT_WEIGHT
from gpulab.report.served import Served
from gpulab.telemetry.events import Arrived, Fact, Finished, Preempted, Prefilled, Restored, Reused, Stepped

Wrong = tuple[str, str] | None  # law, numbers in words


@dataclass(slots=True)
class Job:
    """What one request has: ``made`` tokens, ``kv`` tokens held, both as of when it was last ready or not."""

    arrived: Arrived
    made: int = 0
    kv: int = 0
    ready: bool = False
    batch: "Batch | None" = None  # the one it is ready in
    steps: int = 0  # of its resource, when it became ready
    first_ns: int | None = None  # its first token
    last_ns: int = 0  # its last token so far, while it is not ready
    found: int = 0  # tokens that were reused
    computed: int = 0  # tokens computed before it was ready
    kept: int = 0  # tokens whose KV is elsewhere


@dataclass(slots=True)
class Batch:
    """The ready jobs of one resource; ``since`` counts them by when they made their last token."""

    jobs: int = 0
    kv: int = 0
    steps: int = 0  # so far, those with jobs
    last_ns: int = -1  # end of the last of these
    since: Counter = field(default_factory=Counter)
    tenants: Counter = field(default_factory=Counter)  # ready jobs of each


@final
class Tokens:
    """Tokens and gaps between them after the facts so far. ``gaps`` counts nanoseconds between a job's tokens."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.batches: dict[str, Batch] = {}
        self.gaps: Counter = Counter()
        self.steps = 0  # all of them
        self.sizes: Counter = Counter()  # jobs that made a token in a step -> nanoseconds
        self.service: Counter = Counter()  # tenant -> weighted tokens, see fairness

    def note(self, fact: Fact, served: Served | None) -> Wrong:
        """Take ``fact`` down; ``served`` is its request, as it is after this fact. What does not add up is told."""
        if type(fact) is Stepped:
            return self._step(fact)
        if type(fact) is Arrived:
            self.jobs[fact.request] = Job(fact)
        if served is None or served.arrived.request not in self.jobs:
            return None
        job, batch = self.jobs[served.arrived.request], self.batches.setdefault(served.resource, Batch())
        match fact:
            case Reused() | Prefilled():
                return self._fill(fact, job, batch)
            case Preempted():
                self._rest(job, batch)
                had, job.kv, job.kept = job.kv, 0, fact.kept_tokens
                if not 0 <= fact.kept_tokens <= had:
                    return "tokens", f"{fact.kept_tokens:,} tokens are kept of {had:,}"
            case Restored():
                if fact.tokens != job.kept or not job.kept:
                    return "tokens", f"{fact.tokens:,} tokens come back, {job.kept:,} were kept"
                job.kv, job.kept = job.kept, 0
                self._wake(job, batch)
            case Finished():
                self._rest(job, batch)
                if fact.output_tokens != job.made:
                    return "tokens", f"{fact.output_tokens:,} tokens are said to be made, {job.made:,} were"
                if job.made > job.arrived.output_tokens:
                    return (
                        "tokens",
                        f"{job.made:,} tokens were made, at most {job.arrived.output_tokens:,} wanted",
                    )
            case _ if served.state == "served":
                self._wake(job, batch)
            case _:
                self._rest(job, batch)
        return None

    def made(self, request: int) -> int:
        """Tokens that ``request`` made so far."""
        job = self.jobs[request]
        return job.made + (job.batch.steps - job.steps if job.ready else 0)

    def _step(self, fact: Stepped) -> Wrong:
        batch = self.batches.setdefault(fact.resource, Batch())
        self.steps += fact.steps
        self.sizes[fact.jobs] += fact.time_ns - fact.start_ns
        if fact.jobs == 0:
            return None
        if fact.jobs != batch.jobs:
            return "batch", f"{fact.jobs:,} jobs make a token each, {batch.jobs:,} are ready"
        if fact.kv_tokens != batch.kv:
            return "batch", f"{fact.kv_tokens:,} tokens are said to be held, {batch.kv:,} are"
        first = fact.end_of(1)
        for last_ns, jobs in batch.since.items():
            self.gaps[first - last_ns] += jobs
        before = first
        for step in range(2, fact.steps + 1):
            end = fact.end_of(step)
            self.gaps[end - before] += fact.jobs
            before = end
        for tenant, jobs in batch.tenants.items():
            self.service[tenant] += OUTPUT_WEIGHT * jobs * fact.steps
        batch.steps += fact.steps
        batch.kv += fact.steps * fact.jobs
        batch.last_ns, batch.since = fact.time_ns, Counter({fact.time_ns: fact.jobs})
        return None

    def _fill(self, fact: Reused | Prefilled, job: Job, batch: Batch) -> Wrong:
        wanted = job.arrived.prompt_tokens + job.made
        most = (
            0 if job.ready or job.kept else wanted - job.kv - (type(fact) is Reused)
        )  # the last one is computed
        if not 0 < fact.tokens <= most:
            return "tokens", f"{fact.tokens:,} more tokens are there now, it can have {most:,}"
        job.kv += fact.tokens
        if isinstance(fact, Reused):
            job.found += fact.tokens
        else:
            job.computed += fact.tokens
            self.service[job.arrived.tenant] += PROMPT_WEIGHT * fact.tokens
            if job.kv == wanted:  # with the last of its tokens comes the next one
                if job.first_ns is None:
                    job.first_ns = fact.time_ns
                else:
                    self.gaps[fact.time_ns - job.last_ns] += 1
                job.made += 1
                self.service[job.arrived.tenant] += OUTPUT_WEIGHT
                job.last_ns = fact.time_ns
        self._wake(job, batch)
        return None

    def _wake(self, job: Job, batch: Batch) -> None:
        """The job is ready if only its last token's KV is missing."""
        if job.ready or not job.made or job.kv != job.arrived.prompt_tokens + job.made - 1:
            return
        job.ready, job.steps, job.batch = True, batch.steps, batch
        batch.jobs += 1
        batch.tenants[job.arrived.tenant] += 1
        batch.kv += job.kv
        batch.since[job.last_ns] += 1

    def _rest(self, job: Job, batch: Batch) -> None:
        """The job takes part in no more steps."""
        if not job.ready:
            return
        job.ready, steps = False, batch.steps - job.steps
        job.made += steps
        job.kv += steps
        batch.jobs -= 1
        batch.tenants[job.arrived.tenant] -= 1
        batch.kv -= job.kv
        if steps:
            job.last_ns = batch.last_ns
        batch.since[job.last_ns] -= 1
