"""One replica: requests come, a policy decides, the model steps, a ledger remembers.

The loop has four parts: receive (arrivals, clients that gave up, transfers), decide (ask the policy), apply
(check what it said and do it), step. Steps that nothing can interrupt are done in one go, a *stretch*. How
long a stretch lasts is the only thing in which ``leap=True`` and ``leap=False`` differ: equal ledgers.
"""

import heapq
from typing import final

from sortedcontainers import SortedKeyList

from gpulab.errors import PolicyFault
from gpulab.serving.answers import Decision, fault, read
from gpulab.serving.cost import StepCost
from gpulab.serving.jobs import DECODING, ENDED, PREFILLING, WAITING, Batch, Job
from gpulab.serving.policy import JobView, Listed, Policy, View, blocks_to_admit
from gpulab.serving.request import Request, Trace
from gpulab.serving.stretch import leap, one_by_one
from gpulab.telemetry.events import (
    Arrived,
    Claimed,
    Closed,
    Dropped,
    Finished,
    Freed,
    Granted,
    Grew,
    Opened,
    Preempted,
    Prefilled,
    Stepped,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units

RESOURCE = "kv"
SWAP_BYTES_PER_S = 25_000_000_000  # pinned copies over PCIe 4.0 x16: gpulab/device/specs, a100-80


@final
class Engine:
    """A model on a GPU, its KV blocks and a policy; ``run`` serves one trace.

    Args:
        cost: what a step takes, and how many KV blocks there are. policy: an object that nobody else uses.
        max_jobs: jobs at a time. token_budget: tokens a step computes at most, decodes included.
        leap: do quiet steps in one go; without it step by step, for comparison.
    """

    def __init__(
        self,
        cost: StepCost,
        policy: Policy,
        *,
        max_jobs: int = 128,
        token_budget: int = 2048,
        leap: bool = True,
        ledger: Ledger | None = None,
    ) -> None:
        self.cost, self.policy = cost, policy
        self.max_jobs, self.token_budget, self.leap = max_jobs, token_budget, leap
        self.ledger = ledger if ledger is not None else Ledger()
        self.now_ns = 0
        self.passes = 0  # times the loop went round
        self.extrapolated = 0  # stretches that left the range of the measurements
        self.free_blocks = cost.kv_blocks
        self._batch = Batch(cost.block_tokens)
        self._views: dict[int, JobView] = {}
        self._waiting = SortedKeyList(key=lambda view: view._job.place)
        self._running: dict[int, JobView] = {}
        self._arrivals: list[Request] = []
        self._arrived = 0  # how many of them are here
        self._ends: list[tuple[int, int, str]] = []  # when a client gives up or hangs up: (ns, id, reason)
        self._transfers: list[tuple[int, int]] = []  # when KV has been moved: (ns, id)
        self._plan: dict[int, int] = {}  # tokens of each prompt in the next step
        self._wake: int | None = None
        self._quiet = False  # nothing has happened since the policy was asked
        self._claims = 0

    def run(self, trace: Trace) -> Ledger:
        """Serve ``trace`` to its end.

        Raises:
            PolicyFault: the policy said what is not possible, raised, or never serves a request. The ledger
                keeps everything up to there.
        """
        self._arrivals = list(trace)
        self.ledger.append(Opened(self.now_ns, RESOURCE, self.cost.kv_blocks, "block"))
        while self._arrived < len(self._arrivals) or self._waiting or self._running:
            self.passes += 1
            self._receive()
            if not self._quiet or self._lacking():
                self._apply(self._decide())
            self._step()
        self.ledger.append(Closed(self.now_ns))
        return self.ledger

    # -- receive ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Everything that came up to now: arrivals, clients that gave up, transfers, the moment to wake."""
        self._arrive_until(self.now_ns)
        while self._transfers and self._transfers[0][0] <= self.now_ns:
            self._moved(heapq.heappop(self._transfers)[1])
        while self._ends and self._ends[0][0] <= self.now_ns:
            _, name, reason = heapq.heappop(self._ends)
            job = self._views[name]._job
            if job.state != ENDED and (reason == "aborted" or job.first_token_ns < 0):
                self._drop(job, reason)
        if self._wake is not None and self._wake <= self.now_ns:
            self._wake, self._quiet = None, False

    def _arrive_until(self, time_ns: int) -> None:
        """Write down who came up to ``time_ns``, each at its own time: also while a step is under way."""
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].arrival_ns <= time_ns:
            request = self._arrivals[self._arrived]
            self._arrived += 1
            self._quiet = False
            at, job = request.arrival_ns, Job(request, len(self._views))
            view = self._views[request.id] = JobView(job, self._batch)
            most = request.most_tokens or request.output_tokens
            self.ledger.write(
                Arrived, at, request.id, request.owner, request.tenant, request.prompt_tokens, most
            )
            if -(-(request.prompt_tokens + most - 1) // self.cost.block_tokens) > self.cost.kv_blocks:
                self.ledger.write(Dropped, at, request.id, "rejected")  # the whole pool could not hold it
                job.state = ENDED
                continue
            self._claim(job, at)
            self._waiting.add(view)
            for after, reason in ((request.patience_ns, "timed out"), (request.aborted_ns, "aborted")):
                if after:
                    heapq.heappush(self._ends, (at + after, request.id, reason))

    def _claim(self, job: Job, at: int) -> None:
        job.claim = self._claims
        self._claims += 1
        size = blocks_to_admit(job, self.cost.block_tokens, self.policy.reserves)
        self.ledger.write(Claimed, at, job.claim, RESOURCE, size, Units(size), job.request.owner)

    def _moved(self, name: int) -> None:
        """A transfer is over: blocks are free, or the job can decode."""
        job = self._views[name]._job
        self._quiet = False
        job.ready_ns = 0
        if job.state == WAITING:
            self._free(job)
            self._claim(job, self.now_ns)
        elif job.state == PREFILLING:
            job.state = DECODING
            self._batch.join(job)

    # -- decide and apply ------------------------------------------------------------------------

    def _lacking(self) -> int:
        """Blocks that the next step of the decodes lacks."""
        return max(0, self._batch.blocks_for(1) - self.free_blocks)

    def _decide(self) -> Decision:
        view = View(
            self.now_ns,
            Listed(self._waiting),
            Listed(self._running.values()),
            self.free_blocks,
            self._lacking(),
            (self.token_budget, self.max_jobs, self.cost.block_tokens),
            self.policy.reserves,
        )
        self._quiet = True
        try:
            answer = self.policy.decide(view)
        except PolicyFault:
            raise
        except Exception as wrong:
            raise fault(f"decide raised {type(wrong).__name__}: {wrong}", "raised", self.now_ns) from wrong
        return read(answer, self.now_ns)

    def _apply(self, said: Decision) -> None:
        for name, way in said.preempt:
            self._preempt(self._job(name, "preempt", self._running), way)
        for name in said.reject:
            self._drop(self._job(name, "reject", self._views), "rejected")
        for name in said.admit:
            self._admit(self._job(name, "admit", self._views))
        self._wake = said.wake
        self._plan = said.prefill
        self._check_plan()
        if said.reject:  # those who were turned away are an event for nobody
            self._quiet = True
        lacking = self._lacking()
        if lacking and (self.policy.mixes or not self._plan):
            raise fault(
                f"the next step lacks {lacking:,} blocks ({self.free_blocks:,} are free) and nobody was preempted",
                "blocks",
                self.now_ns,
            )

    def _job(self, name: int, verb: str, where: dict) -> Job:
        view = where.get(name) or self._views.get(name)
        state = view._job.state if view else "not here"
        wanted = (WAITING,) if verb in ("admit", "reject") else (PREFILLING, DECODING)
        if state not in wanted or (verb != "prefill" and view._job.ready_ns):
            state = "moving its KV" if view and view._job.ready_ns else state
            raise fault(
                f"{verb} names request {name}, which is {state}", verb, self.now_ns, request=name
            )
        return view._job

    def _preempt(self, job: Job, way: str) -> None:
        """``job`` waits again. By recompute its blocks are free now, by swap when they have been copied out."""
        decoding = job.state == DECODING
        self._leave(job)
        kept = job.computed if way == "swap" and decoding else 0
        job.evictions += 1
        job.state = WAITING
        self.ledger.write(Preempted, self.now_ns, job.id, kept)
        self._waiting.add(self._views[job.id])
        if kept:
            self._move(job)
            return
        job.target = job.request.prompt_tokens + job.generated
        job.computed = 0
        self._free(job)
        self._claim(job, self.now_ns)

    def _admit(self, job: Job) -> None:
        blocks = blocks_to_admit(job, self.cost.block_tokens, self.policy.reserves)
        if blocks > self.free_blocks or len(self._running) >= self.max_jobs:
            raise fault(
                f"admit names request {job.id}, which needs {blocks:,} blocks and a seat; {self.free_blocks:,} "
                f"blocks are free and {len(self._running)} of {self.max_jobs} seats are taken",
                "admit",
                self.now_ns,
                request=job.id,
            )
        self._waiting.remove(self._views[job.id])
        self._running[job.id] = self._views[job.id]
        self.free_blocks -= blocks
        job.blocks, job.state, job.admitted_ns = blocks, PREFILLING, self.now_ns
        self.ledger.write(Granted, self.now_ns, job.claim, -1, blocks)
        if job.computed:  # its KV was kept elsewhere
            self._move(job)

    def _move(self, job: Job) -> None:
        """Copy the KV of ``job`` out or in, beside the steps."""
        size = job.computed * self.cost.kv_bytes_per_token
        job.ready_ns = self.now_ns + max(1, size * 1_000_000_000 // SWAP_BYTES_PER_S)
        heapq.heappush(self._transfers, (job.ready_ns, job.id))

    def _check_plan(self) -> None:
        """Each chunk is of a prompt that runs and no longer than it, and all fit the budget of the step."""
        total = len(self._batch) if self.policy.mixes else 0
        for name, tokens in self._plan.items():
            job = self._job(name, "prefill", self._running)
            left = job.target - job.computed
            if job.state != PREFILLING or job.ready_ns or not 1 <= tokens <= left:
                raise fault(
                    f"prefill wants {tokens:,} tokens of request {name}, which has {left:,} left to compute",
                    "prefill",
                    self.now_ns,
                    request=name,
                )
            total += tokens
        if self._plan and total > self.token_budget:
            raise fault(
                f"the next step would compute {total:,} tokens; the budget is {self.token_budget:,}",
                "budget",
                self.now_ns,
            )

    # -- step ------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self._plan:
            self._compute()
        elif len(self._batch):
            self._decode()
        else:
            self._idle()

    def _next_ns(self) -> int | None:
        """When something comes from outside, None when nothing will."""
        times = [heap[0][0] for heap in (self._ends, self._transfers) if heap]
        if self._arrived < len(self._arrivals):
            times.append(self._arrivals[self._arrived].arrival_ns)
        if self._wake is not None:
            times.append(self._wake)
        return min(times, default=None)

    def _decode(self) -> None:
        """A stretch of steps in which every job of the batch makes a token."""
        batch, cost = self._batch, self.cost
        base_ps, slope_ps = cost.decode_ps(len(batch), batch.cached_tokens)
        base_ps += cost.host_ps
        length = leap if self.leap else one_by_one
        steps = length(batch, self.free_blocks, self.now_ns, base_ps, slope_ps, self._next_ns())
        self.extrapolated += cost.extrapolated(len(batch), batch.cached_tokens + steps * len(batch))
        self._stretch(steps, len(batch), batch.cached_tokens, base_ps, slope_ps)
        self._finish_ended()

    def _compute(self) -> None:
        """One step with chunks of prompts, and with the decodes where the policy mixes them."""
        plan, self._plan = self._plan, {}
        jobs = len(self._batch) if self.policy.mixes else 0
        cached = self._batch.cached_tokens if jobs else 0
        twice_work = 0
        for name, tokens in plan.items():
            job = self._views[name]._job
            work = tokens * (2 * job.computed + tokens)
            twice_work += work
            if not job.evictions:
                job.alone_ps += self.cost.step_ps(tokens, 0, work)
        tokens = sum(plan.values()) + jobs
        self.extrapolated += self.cost.extrapolated(tokens, cached)
        base_ps = self.cost.host_ps + self.cost.step_ps(tokens, cached, twice_work)
        self._stretch(1, jobs, cached, base_ps, 0)
        for name, chunk in plan.items():
            self._prefilled(self._views[name]._job, chunk)
        if jobs:
            self._finish_ended()
        self._quiet = False

    def _stretch(self, steps: int, jobs: int, cached: int, base_ps: int, slope_ps: int) -> None:
        """Do ``steps`` steps: blocks grow at their start, arrivals meanwhile are noted at their own time."""
        start = self.now_ns
        if jobs:
            for job, blocks in self._batch.advance(steps):
                self.free_blocks -= blocks
                self.ledger.write(Grew, start, job.claim, blocks)
        end = start + (steps * base_ps + slope_ps * (steps * (steps - 1) // 2)) // 1000
        self._arrive_until(end)
        self.now_ns = end
        self.ledger.write(
            *(Stepped, end, RESOURCE, start, steps, jobs, cached, base_ps, slope_ps, self.cost.host_ns)
        )

    def _prefilled(self, job: Job, tokens: int) -> None:
        job.computed += tokens
        self.ledger.write(Prefilled, self.now_ns, job.id, tokens)
        if job.computed < job.target:
            return
        if job.evictions:
            job.alone_ps += self.cost.step_ps(1, job.target - 1)
        job.generated += 1
        if job.first_token_ns < 0:
            job.first_token_ns = self.now_ns
        if job.generated == job.request.output_tokens:
            self._finish(job)
        else:
            job.state = DECODING
            self._batch.join(job)

    def _finish_ended(self) -> None:
        for job in self._batch.ended():
            self._finish(job)

    def _finish(self, job: Job) -> None:
        self._leave(job)
        self.ledger.write(Finished, self.now_ns, job.id, job.generated, min(job.alone_ps // 1000, job.served_ns))
        self._end(job)

    def _leave(self, job: Job) -> None:
        """``job`` runs no more; its work so far is added up."""
        if job.state == DECODING:
            before = job.computed
            self._batch.leave(job)
            job.alone_ps += self.cost.alone_decode_ps(before, job.computed - before)
        del self._running[job.id]
        job.served_ns += self.now_ns - job.admitted_ns

    def _drop(self, job: Job, reason: str) -> None:
        """``job`` ends without its answer; its blocks come back at once."""
        if job.state == WAITING:
            self._waiting.remove(self._views[job.id])
        else:
            self._leave(job)
        self.ledger.write(Dropped, self.now_ns, job.id, reason)
        self._end(job)

    def _end(self, job: Job) -> None:
        if job.blocks:
            self._free(job)
        elif job.claim >= 0:
            self.ledger.write(Withdrawn, self.now_ns, job.claim)
        if job.ready_ns:
            self._transfers.remove((job.ready_ns, job.id))
            heapq.heapify(self._transfers)
        job.state, self._quiet = ENDED, False

    def _free(self, job: Job) -> None:
        self.ledger.write(Freed, self.now_ns, job.claim)
        self.free_blocks += job.blocks
        job.blocks, job.claim = 0, -1

    def _idle(self) -> None:
        """Nothing to compute: on to what comes next, if anything does."""
        until = self._next_ns()
        if until is not None:
            self.now_ns = max(self.now_ns, until)
            return
        stuck = (*self._waiting, *self._running.values())
        if stuck:
            job = stuck[0]._job
            waited = self.now_ns - job.request.arrival_ns
            raise fault(
                f"request {job.id} is {job.state}, {waited:,} ns after it arrived, nothing else will happen, and "
                f"the policy serves nobody ({len(self._waiting)} wait, {len(self._running)} run, "
                f"{self.free_blocks:,} blocks are free)",
                "starvation",
                self.now_ns,
                request=job.id,
                waited_ns=waited,
            )
