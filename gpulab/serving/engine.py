"""One replica: requests come, a policy decides, the model steps, a ledger remembers.

The loop has four parts: receive (arrivals, clients that gave up, transfers), decide (ask the policy), apply
(check what it said and do it), step. Steps that nothing can interrupt are done in one go, a *stretch*. How
long a stretch lasts is the only thing in which ``leap=True`` and ``leap=False`` differ: equal ledgers.
"""

import heapq
from typing import final

from gpulab.errors import PolicyFault
from gpulab.serving.answers import Decision, fault, read
from gpulab.serving.cost import StepCost
from gpulab.serving.jobs import ENDED, PREFILLING
from gpulab.serving.policy import Listed, Policy, View
from gpulab.serving.request import Request, Trace
from gpulab.serving.roster import RESOURCE, Roster
from gpulab.serving.stretch import Ahead, leap, one_by_one
from gpulab.telemetry.events import Closed, Grew, Opened, Stepped
from gpulab.telemetry.ledger import Ledger


@final
class Engine:
    """A model on a GPU, its KV blocks and a policy; ``run`` serves one trace.

    Args:
        cost: what a step takes, and how many KV blocks there are. policy: an object that nobody else uses.
        max_jobs: jobs at a time. token_budget: tokens a step computes at most, decodes included.
        leap: do quiet steps in one go; without it step by step, for comparison.

    Attributes:
        passes: times the loop went round (with ``leap=False`` once a step).
        extrapolated: stretches that left the range in which the cost was measured.
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
        self.passes = self.extrapolated = 0
        self._roster = Roster(cost, policy.reserves, max_jobs, self.ledger)
        self._arrivals: list[Request] = []
        self._arrived = 0  # how many of them are here
        self._ends: list[tuple[int, int, str]] = []  # when a client gives up or hangs up: (ns, id, reason)
        self._plan: dict[int, int] = {}  # tokens of each prompt in the next step
        self._wake: int | None = None

    @property
    def free_blocks(self) -> int:
        return self._roster.free_blocks

    def run(self, trace: Trace) -> Ledger:
        """Serve ``trace`` to its end.

        Raises:
            PolicyFault: the policy said what is not possible, raised, or never serves a request. The ledger
                keeps everything up to there.
        """
        roster, self._arrivals = self._roster, list(trace)
        self.ledger.append(Opened(roster.now_ns, RESOURCE, self.cost.kv_blocks, "block"))
        while self._arrived < len(self._arrivals) or roster.waiting or roster.running:
            self.passes += 1
            self._receive()
            if not roster.quiet or roster.lacking():
                self._apply(self._decide())
            self._step()
        self.ledger.append(Closed(roster.now_ns))
        return self.ledger

    # -- receive ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Everything that came up to now: arrivals, transfers, clients that gave up, the moment to wake."""
        roster = self._roster
        self._arrive_until(roster.now_ns)
        while roster.transfers and roster.transfers[0][0] <= roster.now_ns:
            roster.moved(heapq.heappop(roster.transfers)[1])
        while self._ends and self._ends[0][0] <= roster.now_ns:
            _, name, reason = heapq.heappop(self._ends)
            job = roster.views[name]._job
            if job.state != ENDED and (reason == "aborted" or job.first_token_ns < 0):
                roster.drop(job, reason)
        if self._wake is not None and self._wake <= roster.now_ns:
            self._wake, roster.quiet = None, False

    def _arrive_until(self, time_ns: int) -> None:
        """Write down who came up to ``time_ns``, each at its own time: also while a step is under way."""
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].arrival_ns <= time_ns:
            request = self._arrivals[self._arrived]
            self._arrived += 1
            self._roster.arrive(request)
            for after, reason in ((request.patience_ns, "timed out"), (request.aborted_ns, "aborted")):
                if after:
                    heapq.heappush(self._ends, (request.arrival_ns + after, request.id, reason))

    # -- decide ----------------------------------------------------------------------------------

    def _decide(self) -> Decision:
        roster = self._roster
        view = View(
            roster.now_ns,
            waiting=Listed(roster.waiting),
            running=Listed(roster.running.values()),
            free_blocks=roster.free_blocks,
            need_blocks=roster.lacking(),
            limits=(self.token_budget, self.max_jobs, self.cost.block_tokens),
            needs=roster.blocks_to_admit,
        )
        roster.quiet = True
        try:
            answer = self.policy.decide(view)
        except PolicyFault:
            raise
        except Exception as wrong:
            raise fault(f"decide raised {type(wrong).__name__}: {wrong}", "raised", roster.now_ns) from wrong
        return read(answer, roster.now_ns)

    # -- apply -----------------------------------------------------------------------------------

    def _apply(self, said: Decision) -> None:
        roster = self._roster
        for name, way in said.preempt:
            roster.preempt(roster.job(name, "preempt"), way)
        for name in said.reject:
            roster.drop(roster.job(name, "reject"), "rejected")
        for name in said.admit:
            roster.admit(roster.job(name, "admit"))
        roster.quiet = True  # what the policy did itself is no event for it
        self._wake, self._plan = said.wake, dict(said.prefill)
        for name in said.admit:  # who was let in just now may have found part of its prompt cached
            job = roster.views[name]._job
            if job.id in self._plan and job.computed and not job.ready_ns:
                self._plan[job.id] = min(self._plan[job.id], job.target - job.computed)
        self._check_plan()
        lacking = roster.lacking()
        if lacking and (self.policy.mixes or not self._plan):
            raise fault(
                f"the next step lacks {lacking:,} blocks ({roster.free_blocks:,} are free) and nobody was "
                f"preempted",
                "blocks",
                roster.now_ns,
            )

    def _check_plan(self) -> None:
        """Each chunk is of a prompt that runs and no longer than it, and all fit the budget of the step."""
        roster = self._roster
        total = len(roster.batch) if self.policy.mixes else 0
        for name, tokens in self._plan.items():
            job = roster.job(name, "prefill")
            left = job.target - job.computed if job.state == PREFILLING else 0
            if not 1 <= tokens <= left:
                raise fault(
                    f"prefill wants {tokens:,} tokens of request {name}, which has {left:,} left to compute",
                    "prefill",
                    roster.now_ns,
                    {"request": name},
                )
            total += tokens
        if self._plan and total > self.token_budget:
            raise fault(
                f"the next step would compute {total:,} tokens; the budget is {self.token_budget:,}",
                "budget",
                roster.now_ns,
            )

    # -- step ------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self._plan:
            self._compute()
        elif len(self._roster.batch):
            self._decode()
        else:
            self._idle()

    def _decode(self) -> None:
        """A stretch of steps in which every job of the batch makes a token."""
        roster, batch, cost = self._roster, self._roster.batch, self.cost
        base_ps, slope_ps = cost.decode_ps(len(batch), batch.cached_tokens)
        base_ps += cost.host_ps
        ahead = Ahead(roster.now_ns, base_ps, slope_ps, roster.free_blocks, self._next_ns())
        steps = leap(batch, ahead) if self.leap else one_by_one(batch, ahead)
        self.passes += 0 if self.leap else steps - 1
        self.extrapolated += cost.extrapolated(len(batch), batch.cached_tokens + steps * len(batch))
        self._stretch(steps, len(batch), batch.cached_tokens, base_ps, slope_ps)
        self._finish()

    def _finish(self) -> None:
        for job in self._roster.batch.ended():
            self._roster.finish(job)

    def _compute(self) -> None:
        """One step with chunks of prompts, and with the decodes where the policy mixes them."""
        roster, (plan, self._plan) = self._roster, (self._plan, {})
        jobs = len(roster.batch) if self.policy.mixes else 0
        cached = roster.batch.cached_tokens if jobs else 0
        twice_work = 0
        for name, tokens in plan.items():
            job = roster.views[name]._job
            work = tokens * (2 * job.computed + tokens)
            twice_work += work
            if not job.evictions:
                job.alone_ps += self.cost.step_ps(tokens, 0, work)
        tokens = sum(plan.values()) + jobs
        self.extrapolated += self.cost.extrapolated(tokens, cached)
        base_ps = self.cost.host_ps + self.cost.step_ps(tokens, cached, twice_work)
        self._stretch(1, jobs, cached, base_ps, 0)
        for name, chunk in plan.items():
            roster.prefilled(roster.views[name]._job, chunk)
        if jobs:
            self._finish()
        roster.quiet = False

    def _stretch(self, steps: int, jobs: int, cached: int, base_ps: int, slope_ps: int) -> None:
        """Do ``steps`` steps: blocks grow at their start, arrivals meanwhile are noted at their own time."""
        roster, start = self._roster, self._roster.now_ns
        if jobs:
            for job, blocks in roster.batch.advance(steps):
                roster.take(blocks)
                self.ledger.write(Grew, start, job.claim, blocks)
        end = start + (steps * base_ps + slope_ps * (steps * (steps - 1) // 2)) // 1000
        self._arrive_until(end)
        roster.now_ns = end
        roster.busy_ns += end - start - steps * self.cost.host_ns
        self.ledger.write(
            *(Stepped, end, RESOURCE, start, steps, jobs, cached, base_ps, slope_ps, self.cost.host_ns)
        )

    def _next_ns(self) -> int | None:
        """When something comes from outside, None when nothing will."""
        times = [heap[0][0] for heap in (self._ends, self._roster.transfers) if heap]
        if self._arrived < len(self._arrivals):
            times.append(self._arrivals[self._arrived].arrival_ns)
        if self._wake is not None:
            times.append(self._wake)
        return min(times, default=None)

    def _idle(self) -> None:
        """Nothing to compute: on to what comes next, if anything does."""
        roster, until = self._roster, self._next_ns()
        if until is not None:
            roster.now_ns = max(roster.now_ns, until)
        elif roster.waiting or roster.running:
            raise roster.stuck()
