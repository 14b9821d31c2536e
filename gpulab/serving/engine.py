"""One replica: requests come, a policy decides, the model steps, a ledger remembers.

The loop has four parts: receive (arrivals, clients that gave up, transfers), decide (ask the policy), apply
(check what it said and do it), step. Steps that nothing can interrupt are done in one go, a *stretch*. How
long a stretch lasts is the only thing in which ``leap=True`` and ``leap=False`` differ: equal ledgers.
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from gpulab.errors import PolicyFault
from gpulab.serving.answers import Decision, fault, read
from gpulab.serving.cost import StepCost
from gpulab.serving.endless import MOST_WAKES, stuck
from gpulab.serving.jobs import ENDED
from gpulab.serving.planned import check_limits, planned
from gpulab.serving.policy import Listed, Load, Policy, View
from gpulab.serving.request import Request, Trace
from gpulab.serving.roster import RESOURCE, Roster
from gpulab.serving.stretch import Stretch, leap, one_by_one
from gpulab.telemetry.events import Closed, Grew, Opened, Stepped
from gpulab.telemetry.ledger import Ledger


@final
class Engine:
    """A model on a GPU, its KV blocks and a policy; ``run`` serves one trace.

    Args:
        cost: what a step takes, and how many KV blocks there are. policy: an object that nobody else uses.
        max_jobs: jobs at a time. token_budget: tokens that a step with prompts computes at most, its decodes included.
        leap: do quiet steps in one go; without it step by step, for comparison.
        host_changes: ``(ns, host_ns)`` in order of time: the host's part of each step that begins from then on.

    Raises:
        ValueError: a limit that is no whole number of 1 or more, or a policy that reserves neither way.

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
        host_changes: Sequence[tuple[int, int]] = (),
    ) -> None:
        check_limits(policy, max_jobs, token_budget)
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
        self._woken, self._changes = 0, list(host_changes)  # times in a row that only waking happened
        self.ledger.append(Opened(0, RESOURCE, cost.kv_blocks, "block"))

    @property
    def free_blocks(self) -> int:
        return self._roster.free_blocks

    def run(self, trace: Trace) -> Ledger:
        """Serve ``trace`` to its end.

        Raises:
            PolicyFault: the policy said what is not possible, raised, or never serves a request. The ledger
                keeps everything up to there.
        """
        self._arrivals += trace
        self.advance(None)
        return self.close()

    def submit(self, request: Request) -> None:
        """``request`` will arrive here: after those submitted before it, and not before ``advance`` went."""
        self._arrivals.append(request)

    def advance(self, until_ns: int | None) -> None:
        """Do everything that is over by ``until_ns``, to the end with None: what ``run`` would have done by then.

        A stretch that would end later is not begun: it may be cut short by who arrives meanwhile.
        """
        roster = self._roster
        while self._arrived < len(self._arrivals) or roster.waiting or roster.running:
            if until_ns is not None and roster.now_ns >= until_ns:
                return
            self._receive()
            if not roster.quiet or roster.lacking():
                self._apply(self._decide())
            if not self._step(until_ns):
                return

    def load(self, request: Request) -> Load:
        """What a router can know of this replica now, ``request`` in its hands."""
        roster = self._roster
        waiting = len(roster.waiting) + len(self._arrivals) - self._arrived
        cached = roster.prefixes.known(request.prefix)
        return Load(waiting, len(roster.running), roster.free_blocks, cached)

    def close(self) -> Ledger:
        """The ledger, with its last fact: nothing will come any more."""
        self.ledger.append(Closed(self._roster.now_ns))
        return self.ledger

    # -- receive, decide, apply----------------------------------------------------------------------------

    def _receive(self) -> None:
        """Everything that came up to now: arrivals, transfers, clients that gave up, the moment to wake."""
        roster = self._roster
        self._arrive_until(roster.now_ns)
        while self._changes and self._changes[0][0] <= roster.now_ns:
            self.cost = replace(self.cost, host_ns=self._changes.pop(0)[1])
        while roster.transfers and roster.transfers[0][0] <= roster.now_ns:
            roster.moved(heapq.heappop(roster.transfers)[1])
        while self._ends and self._ends[0][0] <= roster.now_ns:
            _, name, reason = heapq.heappop(self._ends)
            job = roster.views[name]._job
            if job.state != ENDED and (reason == "aborted" or job.first_token_ns < 0):
                roster.drop(job, reason)
        self._woken = 0 if not roster.quiet else self._woken
        if self._wake is not None and self._wake <= roster.now_ns:
            self._wake, roster.quiet = None, False
            self._woken += 1

    def _arrive_until(self, time_ns: int) -> None:
        """Write down who came up to ``time_ns``, each at its own time: also while a step is under way."""
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].arrival_ns <= time_ns:
            request = self._arrivals[self._arrived]
            self._arrived += 1
            self._roster.arrive(request)
            for after, reason in ((request.patience_ns, "timed out"), (request.aborted_ns, "aborted")):
                if after:
                    heapq.heappush(self._ends, (request.arrival_ns + after, request.id, reason))

    def _decide(self) -> Decision:
        roster = self._roster
        view = View(
            roster.now_ns,
            waiting=Listed(roster.waiting),
            running=Listed(roster.running.values()),
            decoding=len(roster.batch),
            free_blocks=roster.free_blocks,
            next_blocks=roster.batch.blocks_for(1),
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

    def _apply(self, said: Decision) -> None:
        roster = self._roster
        for name, way in said.preempt:
            roster.preempt(roster.job(name, "preempt"), way)
        for name in said.reject:
            roster.drop(roster.job(name, "reject"), "rejected")
        for name in said.admit:
            roster.admit(roster.job(name, "admit"))
        roster.quiet = True  # what the policy did itself is no event for it
        self._wake = said.wake
        self._plan = planned(said, roster, mixes=self.policy.mixes, token_budget=self.token_budget)
        lacking = roster.lacking()
        if lacking and (self.policy.mixes or not self._plan):
            what = f"the next step lacks {lacking:,} blocks ({roster.free_blocks:,} are free), nobody was preempted"
            raise fault(what, "blocks", roster.now_ns)

    # -- step ------------------------------------------------------------------------------------

    def _step(self, until_ns: int | None) -> bool:
        """The next stretch, or the way to what comes next; False when it would end after ``until_ns``."""
        if not self._plan and not len(self._roster.batch):
            return self._idle(until_ns)
        ahead = self._mixed() if self._plan else self._decodes()
        if until_ns is not None and ahead.end_ns > until_ns:
            return False
        self.passes += 1 if self.leap else ahead.steps
        self._do(ahead)
        plan, self._plan = self._plan, {}
        for name, tokens in plan.items():
            self._roster.prefilled(self._roster.views[name]._job, tokens)
            self._roster.quiet = False
        if ahead.jobs:
            for job in self._roster.batch.ended():
                self._roster.finish(job)
        return True

    def _decodes(self) -> Stretch:
        """Steps in which every job of the batch makes a token, as many as nothing can interrupt."""
        roster, jobs, cached = self._roster, len(self._roster.batch), self._roster.batch.cached_tokens
        base_ps, slope_ps = self.cost.decode_ps(jobs, cached)
        one = Stretch(roster.now_ns, 1, jobs, jobs, cached, self.cost.host_ps + base_ps, slope_ps)
        length = leap if self.leap else one_by_one
        return one._replace(steps=length(roster.batch, one, roster.free_blocks, self._next_ns()))

    def _mixed(self) -> Stretch:
        """One step with chunks of prompts, and with the decodes where the policy mixes them."""
        roster, batch = self._roster, self._roster.batch
        jobs, cached = (len(batch), batch.cached_tokens) if self.policy.mixes else (0, 0)
        tokens = sum(self._plan.values()) + jobs
        work = sum(roster.views[name]._job.twice_work(chunk) for name, chunk in self._plan.items())
        base_ps = self.cost.host_ps + self.cost.step_ps(tokens, cached, work)
        return Stretch(roster.now_ns, 1, jobs, tokens, cached, base_ps, 0)

    def _do(self, ahead: Stretch) -> None:
        """Blocks grow at the start of a stretch; arrivals meanwhile are noted at their own time."""
        roster, start, end = self._roster, ahead.start_ns, ahead.end_ns
        for name, chunk in self._plan.items():
            job = roster.views[name]._job
            if not job.evictions:
                job.alone_ps += self.cost.step_ps(chunk, 0, job.twice_work(chunk))
        cached = ahead.cached + ahead.steps * ahead.jobs
        self.extrapolated += self.cost.extrapolated(ahead.tokens, cached)
        if ahead.jobs:
            for job, blocks in roster.batch.advance(ahead.steps):
                roster.take(blocks)
                self.ledger.write(Grew, start, job.claim, blocks)
        self._arrive_until(end)
        roster.now_ns = end
        roster.busy_ns += end - start - ahead.steps * self.cost.host_ns
        self.ledger.write(
            *(Stepped, end, RESOURCE, start, ahead.steps, ahead.jobs, ahead.cached),
            *(ahead.base_ps, ahead.slope_ps, self.cost.host_ns),
        )

    def _next_ns(self) -> int | None:
        """When something comes from outside, None when nothing will; while nobody is here that is who arrives."""
        times = []
        if self._arrived < len(self._arrivals):
            times.append(self._arrivals[self._arrived].arrival_ns)
        if self._roster.waiting or self._roster.running:
            times += [heap[0][0] for heap in (self._ends, self._roster.transfers, self._changes) if heap]
            if self._wake is not None:
                times.append(self._wake)
        return min(times, default=None)

    def _idle(self, until_ns: int | None) -> bool:
        """Nothing to compute: on to what comes next, if anything does."""
        roster, coming = self._roster, self._next_ns()
        if coming is None and until_ns is None and (roster.waiting or roster.running):
            raise self._stuck(0)
        if self._woken > MOST_WAKES and coming == self._wake:
            raise self._stuck(self._woken)
        if coming is None or (until_ns is not None and coming > until_ns):
            return until_ns is None
        self.passes += 1
        roster.now_ns = max(roster.now_ns, coming)
        return True

    def _stuck(self, woken: int) -> PolicyFault:
        """The error when nothing will ever happen again, or only waking, though somebody is here."""
        roster = self._roster
        job = (*roster.waiting, *roster.running.values())[0]._job
        here = f"{len(roster.waiting)} wait, {len(roster.running)} run, {roster.free_blocks:,} blocks free"
        return stuck(job, roster.now_ns, here, woken)
