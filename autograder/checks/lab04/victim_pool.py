"""The pool of 04.victim: jobs that take a block each a round, beginnings that they share, and a ledger of it."""

from collections.abc import Callable
from typing import final

from autograder.checks.lab04.victim_cases import BLOCK_TOKENS, ROUND_NS, Asked, Load
from autograder.checks.lab04.victim_rules import Job, Shortage, Victim, rule
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Grew, Opened, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units

POOL = "blocks"


@final
class Pool:
    """Rounds of one engine. ``victim`` is asked when the next round lacks blocks, until it has them.

    ``put_out`` are (serial of the fact that it gave its blocks back, job, mode, price).
    """

    def __init__(self, load: Load) -> None:
        self.load, self.now_ns, self.free = load, 0, load.blocks
        self.running: list[Job] = []  # in the order in which they were let in
        self.waiting: list[Job] = []
        self.rounds = 0
        self.put_out: list[tuple[int, Job, str, int]] = []
        self.ledger = Ledger()
        self.ledger.append(Opened(0, POOL, load.blocks, "blocks"))
        self._coming = list(reversed(load.requests))
        self._prefixes: dict[str, int] = {}  # that somebody holds -> its claim
        self._claims = 0

    def play(self, victim: Callable[["Pool"], Victim]) -> None:
        """Until every request has its answer."""
        while self._coming or self.waiting or self.running:
            if not self.running and not self.waiting:
                self.now_ns = max(self.now_ns, self._coming[-1].arrival_ns)
            while self._coming and self._coming[-1].arrival_ns <= self.now_ns:
                self._arrive(self._coming.pop())
            self._let_in()
            spent_ns = 0
            while len(self.running) > self.free:
                spent_ns += self._evict(*victim(self))
            self._round(spent_ns)
        self.ledger.append(Closed(self.now_ns))

    @property
    def shortage(self) -> Shortage:
        """Who runs now, and what is free."""
        link = self.load.link_percent
        return Shortage.of(self.load, self.running, self.free, link[self.rounds % len(link)])

    def _arrive(self, asked: Asked) -> None:
        job = Job(asked)
        self.waiting.append(job)
        self._wait(job)

    def _let_in(self) -> None:
        """In order of arrival, with a block to spare for four that run; the first that does not fit stops the rest."""
        self.waiting.sort(key=lambda job: job.asked.id)
        while self.waiting:
            job = self.waiting[0]
            room = job.own_blocks + (0 if job.asked.prefix in self._prefixes else job.asked.prefix_blocks)
            if self.running and room + len(self.running) // 4 > self.free:
                return
            del self.waiting[0]
            self.running.append(job)
            self.free -= room
            if job.asked.prefix not in self._prefixes:
                self._prefixes[job.asked.prefix] = self._granted(job.asked.prefix_blocks, job.asked.prefix)
            if job.own_blocks:
                self.ledger.append(Granted(self.now_ns, job.claim, -1, job.own_blocks))

    def _evict(self, number: int, mode: str) -> int:
        """Put a job out; what it costs to bring it back."""
        job = self.shortage.job(number)
        cost_ns = self.shortage.costs(job)[mode]
        self._leave(job)
        self.put_out.append((len(self.ledger) - 1, job, mode, cost_ns))
        job.evictions, job.since = job.evictions + 1, 0
        self.waiting.append(job)
        self._wait(job)
        return cost_ns

    def _leave(self, job: Job) -> None:
        """``job`` gives its blocks back, and its beginning if it was the last to hold it."""
        now = self.shortage
        self.free += now.frees(job)
        if not now.shares(job):
            self.ledger.append(Freed(self.now_ns, self._prefixes.pop(job.asked.prefix)))
        gone = Freed if job.own_blocks else Withdrawn  # it has no block yet
        self.ledger.append(gone(self.now_ns, job.claim))
        self.running.remove(job)

    def _round(self, spent_ns: int) -> None:
        """Each job that runs takes a block and fills it; ``spent_ns`` goes into bringing back what was put out."""
        for job in self.running:
            if job.own_blocks:
                self.ledger.append(Grew(self.now_ns, job.claim, 1))
            else:
                self.ledger.append(Granted(self.now_ns, job.claim, -1, 1))
            job.made, job.since = job.made + BLOCK_TOKENS, job.since + BLOCK_TOKENS
        self.free -= len(self.running)
        self.rounds += 1
        self.now_ns += ROUND_NS + spent_ns
        for job in [job for job in self.running if job.made >= job.asked.output_tokens]:
            self._leave(job)

    def _wait(self, job: Job) -> None:
        job.claim = self._claim(max(1, job.own_blocks), job.asked.owner)

    def _granted(self, size: int, owner: str) -> int:
        claim = self._claim(size, owner)
        self.ledger.append(Granted(self.now_ns, claim, -1, size))
        return claim

    def _claim(self, size: int, owner: str) -> int:
        self._claims += 1
        self.ledger.append(Claimed(self.now_ns, self._claims, POOL, size, Units(size), owner))
        return self._claims


def shortages(load: Load) -> list[Shortage]:
    """The shortages of ``load`` when the rule ends each."""
    found: list[Shortage] = []

    def noted(pool: Pool) -> Victim:
        found.append(pool.shortage.kept())
        return rule(pool.shortage)

    Pool(load).play(noted)
    return found
