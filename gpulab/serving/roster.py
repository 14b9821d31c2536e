"""Who is in a replica and which blocks they hold: what can be done to a job, each with its facts.

The loop in ``engine`` says when; a policy said what. Here it is checked, done and written down.
"""

import heapq
from bisect import bisect_left, insort
from typing import final

from gpulab.serving.answers import fault
from gpulab.serving.cost import StepCost
from gpulab.serving.endless import count_eviction
from gpulab.serving.jobs import DECODING, ENDED, PREFILLING, WAITING, Batch, Job
from gpulab.serving.policy import JobView
from gpulab.serving.prefixes import Prefixes, check_prefix
from gpulab.serving.request import Request
from gpulab.telemetry.events import (
    Arrived,
    Claimed,
    Dropped,
    Finished,
    Freed,
    Granted,
    Grew,
    Preempted,
    Prefilled,
    Restored,
    Reused,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units

RESOURCE = "kv"
SWAP_BYTES_PER_S = 25_000_000_000  # pinned copies over PCIe 4.0 x16, rounded down: a100-80.toml in device/specs has 25.7 in and 25.8 out


@final
class Roster:
    """The jobs of one replica, the batch that decodes and the blocks that are free.

    Attributes:
        waiting: those who wait, in the order of arrival. running: id to who is served, in order of admission.
        quiet: has nothing happened since the policy was asked?
    """

    def __init__(self, cost: StepCost, reserves: str, max_jobs: int, ledger: Ledger) -> None:
        self.cost, self.reserves, self.max_jobs, self.ledger = cost, reserves, max_jobs, ledger
        self.now_ns = self.busy_ns = 0  # the time, and how much of it steps ran on the device
        self.quiet = True
        self.free_blocks = cost.kv_blocks
        self.batch = Batch(cost.block_tokens)
        self.views: dict[int, JobView] = {}
        self.waiting: list[JobView] = []
        self.running: dict[int, JobView] = {}
        self.prefixes = Prefixes()
        self.transfers: list[tuple[int, int]] = []  # when KV has been moved: (ns, id)
        self._claims = 0

    def lacking(self) -> int:
        """Blocks that the next step of the decodes lacks."""
        return max(0, self.batch.blocks_for(1) - self.free_blocks)

    def blocks_to_admit(self, job: Job) -> int:
        """Free blocks that suffice to admit ``job``: for its prompt, or for all that it may ever have.

        Blocks of its prompt that others hold cost nothing, as far as they lie at its beginning: what is
        behind a block that nobody holds may be lost when somebody else is admitted first.
        """
        return self._blocks(job) - self.prefixes.shared(self._hits(job))

    def _blocks(self, job: Job) -> int:
        tokens = job.limit if self.reserves == "most" else job.target
        return -(-tokens // self.cost.block_tokens)

    def take(self, blocks: int) -> None:
        """``blocks`` free blocks are somebody's; those without contents go first."""
        empty = self.free_blocks - len(self.prefixes)
        if blocks > empty:
            self.prefixes.forget(blocks - empty)
        self.free_blocks -= blocks

    def _hits(self, job: Job) -> tuple[int, ...]:
        """The blocks of ``job``'s prompt that it need not compute: at least one token is left to do."""
        if job.computed or not job.request.prefix:
            return ()
        ids = job.request.prefix[: (job.target - 1) // self.cost.block_tokens]
        return ids[: self.prefixes.known(ids)]

    def arrive(self, request: Request) -> None:
        """``request`` is at the door; one longer than the model's window or the whole pool is turned away."""
        at, job = request.arrival_ns, Job(request, len(self.views), self.cost.longest_tokens)
        check_prefix(request, self.cost.block_tokens)
        view = self.views[request.id] = JobView(job, self.batch)
        most = request.most_tokens or request.output_tokens
        self.quiet = False
        self.ledger.write(Arrived, at, request.id, request.owner, request.tenant, request.prompt_tokens, most)
        if request.prompt_tokens + most > self.cost.longest_tokens:
            self.ledger.write(Dropped, at, request.id, "rejected")
            job.state = ENDED
            return
        self._claim(job, at)
        insort(self.waiting, view, key=_place)

    def job(self, name: int, verb: str) -> Job:
        """The job to which a policy wants to do ``verb``. ``PolicyFault`` when that is not possible."""
        view = self.views.get(name)
        state = view._job.state if view else "not here"
        wanted = (WAITING,) if verb in ("admit", "reject") else (PREFILLING, DECODING)
        if view and view._job.ready_ns and state != ENDED:
            state = f"{state}, its KV on the way"
        if state not in wanted:
            raise fault(
                f"{verb} names request {name}, which is {state}", verb, self.now_ns, {"request": name}
            )
        return view._job

    def preempt(self, job: Job, way: str) -> None:
        """``job`` waits again. By recompute its blocks are free now, by swap when they have been copied out."""
        decoding = job.state == DECODING
        self._leave(job)
        count_eviction(job, self.now_ns)
        kept = job.computed if way == "swap" and decoding else 0
        job.evictions += 1
        job.state = WAITING
        self.ledger.write(Preempted, self.now_ns, job.id, kept)
        insort(self.waiting, self.views[job.id], key=_place)
        if kept:
            job.target = kept
            self._move(job)
            return
        job.target = job.request.prompt_tokens + job.generated
        job.computed = 0
        self._free(job)
        self._claim(job, self.now_ns)

    def admit(self, job: Job) -> None:
        """``job`` is served from now on. ``PolicyFault`` when blocks or seats do not suffice."""
        hits = self._hits(job)
        idle = self.prefixes.idle(hits)
        blocks = self._blocks(job) - len(hits) + idle
        if blocks > self.free_blocks or len(self.running) >= self.max_jobs:
            raise fault(
                f"admit names request {job.id}, which needs {blocks:,} blocks and a seat; {self.free_blocks:,} "
                f"blocks are free and {len(self.running)} of {self.max_jobs} seats are taken",
                "admit",
                self.now_ns,
                {"request": job.id},
            )
        self._unwait(self.views[job.id])
        self.running[job.id] = self.views[job.id]
        if blocks != job.claimed:  # a prefix came or went since it claimed
            self.ledger.write(Withdrawn, self.now_ns, job.claim)
            self._claim(job, self.now_ns, blocks)
        self.prefixes.hold(job.id, hits)
        self.free_blocks -= idle
        self.take(blocks - idle)
        job.blocks, job.state, job.busy_ns = self._blocks(job), PREFILLING, self.busy_ns
        self.ledger.write(Granted, self.now_ns, job.claim, -1, blocks)
        if hits:
            job.computed = len(hits) * self.cost.block_tokens
            self.ledger.write(Reused, self.now_ns, job.id, job.computed)
            self._resume(job)
        elif job.computed:  # its KV was kept elsewhere
            self._move(job)

    def _move(self, job: Job) -> None:
        """Copy the KV of ``job`` out or in, beside the steps."""
        size = job.computed * self.cost.kv_bytes_per_token
        job.ready_ns = self.now_ns + max(1, size * 1_000_000_000 // SWAP_BYTES_PER_S)
        heapq.heappush(self.transfers, (job.ready_ns, job.id))

    def prefilled(self, job: Job, tokens: int) -> None:
        """``tokens`` more of ``job`` were computed; with the last of them comes its next token."""
        job.computed += tokens
        self.ledger.write(Prefilled, self.now_ns, job.id, tokens)
        if job.computed < job.target:
            self._resume(job)
            return
        self.prefixes.publish(job.id, job.request.prefix)
        if job.evictions:
            job.alone_ps += self.cost.step_ps(1, job.target - 1)
        job.generated += 1
        if job.first_token_ns < 0:
            job.first_token_ns = self.now_ns
        if job.generated == job.request.output_tokens:
            self.finish(job)
        else:
            self._decode(job)

    def _resume(self, job: Job) -> None:
        """A job that was put out and has all its KV again but the last token's decodes: that one is no chunk."""
        if job.generated and job.computed == job.target - 1:
            self.prefixes.publish(job.id, job.request.prefix)
            self._decode(job)

    def finish(self, job: Job) -> None:
        self._leave(job)
        # Stretches are rounded down one by one, its own work once: it must not come out longer than its service.
        self.ledger.write(
            Finished, self.now_ns, job.id, job.generated, min(job.alone_ps // 1000, job.served_ns)
        )
        self._end(job)

    def _leave(self, job: Job) -> None:
        """``job`` runs no more; its work so far is added up."""
        if job.state == DECODING:
            before = job.computed
            self.batch.leave(job)
            job.alone_ps += self.cost.alone_decode_ps(before, job.computed - before)
        del self.running[job.id]
        job.served_ns += self.busy_ns - job.busy_ns

    def drop(self, job: Job, reason: str) -> None:
        """``job`` ends without its answer; its blocks come back at once."""
        if job.state == WAITING:
            self._unwait(self.views[job.id])
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
            self.transfers.remove((job.ready_ns, job.id))
            heapq.heapify(self.transfers)
        job.state, self.quiet = ENDED, False

    def _free(self, job: Job) -> None:
        """All that ``job`` holds comes back, but for what others share: they pay for it from now on."""
        self.ledger.write(Freed, self.now_ns, job.claim)
        self.free_blocks += job.blocks - self.prefixes.borrowed(job.id, job.request.prefix)
        for heir, blocks in self.prefixes.release(job.id, job.request.prefix).items():
            self.free_blocks -= blocks
            self.ledger.write(Grew, self.now_ns, self.views[heir]._job.claim, blocks)
        job.blocks, job.claim = 0, -1

    def _claim(self, job: Job, at: int, blocks: int = 0) -> None:
        job.claim = self._claims
        self._claims += 1
        size = job.claimed = blocks or self.blocks_to_admit(job)
        self.ledger.write(Claimed, at, job.claim, RESOURCE, size, Units(size), job.request.owner)

    def moved(self, name: int) -> None:
        """A transfer is over: blocks are free, or the job can decode."""
        job = self.views[name]._job
        self.quiet = False
        job.ready_ns = 0
        if job.state == WAITING:
            self._free(job)
            self._claim(job, self.now_ns)
        elif job.state == PREFILLING:
            self.ledger.write(Restored, self.now_ns, job.id, job.computed)
            self._decode(job)

    def _decode(self, job: Job) -> None:
        """``job`` lacks only the KV of its last token: from now on it makes one a step."""
        job.state = DECODING
        self.batch.join(job)

    def _unwait(self, view: JobView) -> None:
        del self.waiting[bisect_left(self.waiting, _place(view), key=_place)]


def _place(view: JobView) -> int:
    return view._job.place
