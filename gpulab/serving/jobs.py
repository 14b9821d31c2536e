"""Jobs of an engine: requests that wait, are computed or decode; and the batch of those that decode.

In a stretch every decoding job makes one token a step, so a batch keeps one counter of steps and each job
only what it had when it joined: a stretch of a thousand steps over fifty jobs costs as much as one step.
"""

import heapq
from typing import final

from gpulab.serving.request import Request

WAITING, PREFILLING, DECODING, ENDED = "waiting", "prefilling", "decoding", "ended"


@final
class Job:
    """One request inside an engine.

    Attributes:
        target: tokens to compute before the next token comes: the prompt, and after it was put out also
            what it had made. computed, generated: tokens with KV, tokens made, as of ``joined``.
        joined: steps the batch had done when it joined; blocks: KV blocks it holds.
        limit: the most tokens with KV it can come to have, as far as its client said; else what the model allows. The
            last token's is never kept.
        alone_ps: what its work so far takes by itself. evictions: how often it was put out; fruitless: how
            often since it had ``made`` tokens.
    """

    __slots__ = (
        *(
            "request",
            "place",
            "state",
            "target",
            "computed",
            "generated",
            "joined",
            "blocks",
            "claim",
            "claimed",
        ),
        *(
            "alone_ps",
            "evictions",
            "first_token_ns",
            "busy_ns",
            "ready_ns",
            "served_ns",
            "phase",
            "fruitless",
            "made",
            "limit",
        ),
    )

    def __init__(self, request: Request, place: int, longest_tokens: int) -> None:
        most = request.prompt_tokens + request.most_tokens if request.most_tokens else longest_tokens
        self.limit = most - 1
        self.request, self.place, self.state = request, place, WAITING
        self.target, self.computed, self.generated = request.prompt_tokens, 0, 0
        self.joined = self.blocks = self.alone_ps = self.evictions = self.phase = 0
        self.fruitless = self.made = 0
        self.claim = self.claimed = self.first_token_ns = -1
        self.ready_ns = 0  # a transfer of its KV is under way until then
        self.busy_ns = self.served_ns = (
            0  # the replica's busy time when it was admitted; time steps ran for it
        )

    @property
    def id(self) -> int:
        return self.request.id

    def twice_work(self, chunk: int) -> int:
        """Twice the attention work of ``chunk`` tokens more: chunk * (cached + chunk / 2)."""
        return chunk * (2 * self.computed + chunk)


@final
class Batch:
    """The jobs that decode, with their KV in tokens and the blocks they will need.

    ``block_tokens`` tokens share a block; a job takes a block when all of its blocks are full.
    """

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.steps = 0  # steps done so far
        self.cached_tokens = 0  # of all jobs together
        self.jobs: dict[int, Job] = {}  # id -> job, in the order in which they joined
        self._due: list[tuple[int, int]] = []  # (step after which it has made its last token, id)
        self._phases: list[dict[int, Job]] = [{} for _ in range(block_tokens)]

    def __len__(self) -> int:
        return len(self.jobs)

    def join(self, job: Job) -> None:
        """``job`` decodes from the next step on."""
        job.joined = self.steps
        self.jobs[job.id] = job
        self.cached_tokens += job.computed
        heapq.heappush(self._due, (self.steps + job.request.output_tokens - job.generated, job.id))
        job.phase = -1
        if job.blocks * self.block_tokens < job.limit:  # else all it can need is reserved
            job.phase = (self.steps - job.computed) % self.block_tokens
            self._phases[job.phase][job.id] = job

    def leave(self, job: Job) -> None:
        """``job`` decodes no more; what it has is written into it."""
        self.settle(job)
        self.cached_tokens -= job.computed
        del self.jobs[job.id]
        if job.phase >= 0:
            del self._phases[job.phase][job.id]

    def settle(self, job: Job) -> None:
        """Write into ``job`` what it has by now."""
        done = self.steps - job.joined
        job.computed += done
        job.generated += done
        job.joined = self.steps

    def steps_to_end(self) -> int:
        """Steps until the first job has made its last token."""
        while True:
            due, name = self._due[0]
            job = self.jobs.get(name)
            if job is not None and due == job.joined + job.request.output_tokens - job.generated:
                return due - self.steps
            heapq.heappop(self._due)  # it left, or was put out and came back

    def ended(self) -> list[Job]:
        """The jobs that have just made their last token, in the order in which they joined."""
        found: dict[int, Job] = {}  # who was put out and came back may stand in the heap twice
        while self._due and self._due[0][0] <= self.steps:
            due, name = heapq.heappop(self._due)
            job = self.jobs.get(name)
            if job is not None and due == job.joined + job.request.output_tokens - job.generated:
                found[name] = job
        return sorted(found.values(), key=lambda job: job.joined)

    def blocks_for(self, steps: int) -> int:
        """Blocks that all jobs together take in the next ``steps`` steps."""
        rounds, rest = divmod(steps, self.block_tokens)
        start, size = self.steps % self.block_tokens, self.block_tokens
        growing = sum(map(len, self._phases)) if rounds else 0
        return rounds * growing + sum(len(self._phases[(start + step) % size]) for step in range(rest))

    def steps_within(self, blocks: int) -> int | None:
        """The most steps for which ``blocks`` free blocks suffice; None when no number of steps needs more."""
        growing = sum(map(len, self._phases))
        if not growing:
            return None
        rounds, rest = divmod(blocks, growing)
        start, size, steps = self.steps % self.block_tokens, self.block_tokens, 0
        while steps < size and len(self._phases[(start + steps) % size]) <= rest:
            rest -= len(self._phases[(start + steps) % size])
            steps += 1
        return rounds * size + steps

    def advance(self, steps: int) -> list[tuple[Job, int]]:
        """Do ``steps`` steps: the jobs that took blocks, each with how many."""
        rounds, rest = divmod(steps, self.block_tokens)
        start, size = self.steps % self.block_tokens, self.block_tokens
        more = {name for step in range(rest) for name in self._phases[(start + step) % size]}
        grown = []
        if rounds:
            grown = [(job, rounds + (name in more)) for name, job in self.jobs.items() if job.phase >= 0]
        elif more:
            grown = [(self.jobs[name], 1) for name in sorted(more, key=lambda name: self.jobs[name].place)]
        for job, blocks in grown:
            job.blocks += blocks
        self.steps += steps
        self.cached_tokens += steps * len(self.jobs)
        return grown
