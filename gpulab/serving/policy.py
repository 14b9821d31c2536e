"""Who is served next: a policy sees what a real scheduler can know, and says what it wants as a value.

``decide`` is asked at the first step boundary after an arrival, a finish, a time-out or abort, a chunk of a
prompt that is done, too few blocks for the next step, or the moment it named (``wake``). Between these
nothing is asked. A policy never changes queues: the engine does what it says, and checks it first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from gpulab.serving.jobs import DECODING, PREFILLING, Batch, Job


@final
class JobView:
    """What a scheduler can know of one request. Never how long its answer will be."""

    __slots__ = ("_batch", "_job")

    def __init__(self, job: Job, batch: Batch) -> None:
        self._job, self._batch = job, batch

    def __repr__(self) -> str:
        return f"<job {self.id}: {self._job.state}, {self.computed} of {self.target} tokens, {self.generated} made>"

    @property
    def id(self) -> int:
        return self._job.request.id

    @property
    def tenant(self) -> str:
        return self._job.request.tenant

    @property
    def slo(self) -> str:
        return self._job.request.slo

    @property
    def arrival_ns(self) -> int:
        return self._job.request.arrival_ns

    @property
    def prompt_tokens(self) -> int:
        return self._job.request.prompt_tokens

    @property
    def most_tokens(self) -> int:
        """The most tokens that the client allows; 0: it did not say."""
        return self._job.request.most_tokens

    @property
    def predicted_tokens(self) -> int:
        """A guess of how many tokens it will make; 0: there is none."""
        return self._job.request.predicted_tokens

    @property
    def shareable_blocks(self) -> int:
        """Full blocks of its prompt that others may share; 0: none."""
        return len(self._job.request.prefix)

    @property
    def deadline_ns(self) -> int:
        """When its first token is promised; 0: no promise."""
        promised = self._job.request.first_token_ns
        return self._job.request.arrival_ns + promised if promised else 0

    @property
    def target(self) -> int:
        """Tokens to compute before its next token comes."""
        return self._job.target

    @property
    def decoding(self) -> bool:
        return self._job.state == DECODING

    @property
    def computed(self) -> int:
        """Tokens whose KV it has."""
        return self._job.computed + self._since()

    @property
    def generated(self) -> int:
        """Tokens it has made."""
        return self._job.generated + self._since()

    @property
    def left(self) -> int:
        """Tokens still to compute before its next token comes; 0 when it decodes."""
        return self._job.target - self._job.computed if self._job.state == PREFILLING else 0

    @property
    def blocks(self) -> int:
        """KV blocks it holds."""
        return self._job.blocks

    @property
    def evictions(self) -> int:
        return self._job.evictions

    @property
    def ready_ns(self) -> int:
        """When the transfer of its KV is over; in the past when there is none."""
        return self._job.ready_ns

    def _since(self) -> int:
        return self._batch.steps - self._job.joined if self._job.state == DECODING else 0


@final
class Listed:
    """Jobs to look at: ``len``, iteration and ``[n]``, and no way to change what is in there."""

    __slots__ = ("_jobs",)

    def __init__(self, jobs) -> None:
        self._jobs = jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[JobView]:
        return iter(self._jobs)

    def __getitem__(self, index: int) -> JobView:
        return self._jobs[index] if isinstance(self._jobs, Sequence) else list(self._jobs)[index]


@final
class View:
    """The engine as a policy sees it at one moment.

    Attributes:
        now_ns: the time. waiting: jobs that wait, in the order of their arrival. running: jobs that are
            served, in the order in which they were admitted. decoding: how many of them decode.
        free_blocks: KV blocks nobody holds. next_blocks: blocks that the decodes take in the next step.
            need_blocks: those of them that are lacking; above 0 the policy must preempt.
        token_budget, max_jobs, block_tokens: the engine's limits.
    """

    __slots__ = (
        *("now_ns", "waiting", "running", "decoding", "free_blocks", "next_blocks", "need_blocks"),
        *("token_budget", "max_jobs", "block_tokens", "_needs"),
    )

    def __init__(
        self,
        now_ns: int,
        *,
        waiting: Listed,
        running: Listed,
        decoding: int,
        free_blocks: int,
        next_blocks: int,
        limits: tuple[int, int, int],
        needs: Callable[[Job], int],
    ) -> None:
        self.now_ns, self.waiting, self.running = now_ns, waiting, running
        self.decoding, self.free_blocks, self.next_blocks = decoding, free_blocks, next_blocks
        self.need_blocks = max(0, next_blocks - free_blocks)
        self.token_budget, self.max_jobs, self.block_tokens = limits
        self._needs = needs

    def blocks_to_admit(self, job: JobView) -> int:
        """Blocks that ``job`` takes when it is admitted."""
        return self._needs(job._job)

    def showing(self, waiting: Sequence[JobView]) -> "View":
        """The same moment, as if only ``waiting`` waited."""
        return View(
            self.now_ns,
            waiting=Listed(waiting),
            running=self.running,
            decoding=self.decoding,
            free_blocks=self.free_blocks,
            next_blocks=self.next_blocks,
            limits=(self.token_budget, self.max_jobs, self.block_tokens),
            needs=self._needs,
        )


class Asked(NamedTuple):
    """What a router can know of a request. Never how long its answer will be, nor when its client gives up."""

    id: int
    arrival_ns: int
    prompt_tokens: int
    most_tokens: int  # 0: the client did not say
    tenant: str
    slo: str
    prefix: tuple[int, ...]
    predicted_tokens: int
    first_token_ns: int


@dataclass(frozen=True, slots=True)
class Load:
    """A replica as its router sees it: jobs that wait and run, free KV blocks, blocks of the prompt it has."""

    waiting: int
    running: int
    free_blocks: int
    cached_blocks: int


class Policy(ABC):
    """Decides at events. Write ``decide``; a run makes a new object.

    Attributes:
        mixes: do prompts share steps with decodes? Otherwise a step with prompts has no decodes.
        reserves: blocks at admission: ``"prompt"`` (more are taken as it grows) or ``"most"`` (all that it
            may ever need: prompt and the most its client said, or if that was nothing the model's whole window, or the
            pool where it is smaller). A trace whose clients say exactly what they will make gives a bound, the
            *Orca (Oracle)* of Kwon et al.
    """

    mixes: bool = True
    reserves: str = "prompt"

    @abstractmethod
    def decide(self, view: View) -> dict:
        """What to do now. Every key is optional.

        ``{"admit": [id], "preempt": [[id, "recompute" | "swap"]], "reject": [id], "prefill": {id: tokens},
        "wake": ns}``: preempted jobs give their blocks back first, then jobs are admitted in this order, and
        in the next step ``tokens`` of each prompt named in ``prefill`` are computed: fewer of a job that was
        admitted in the same answer and found more of its prompt cached.

        An answer replaces the one before, its ``wake`` and its chunks, too. What it did itself is no event: whoever
        preempts and wants to be asked again in this instant's next nanosecond names it in ``wake``. Nobody is woken
        while no job is here. Without end are neither 10,000 wakes in a row of which nothing comes, nor 1,000
        preemptions of a job that makes no token in between: ``PolicyFault``.
        """
