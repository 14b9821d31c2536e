"""A shortage of blocks in 04.victim: who would free how much at what price, the rule, and what misreadings choose."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import final

from autograder.checks.lab04.victim_cases import BLOCK_TOKENS, Asked, Load

MODES = ("recompute", "swap")
Victim = tuple[int, str]  # a request and how it comes back


@dataclass(slots=True)
class Job:
    """A request that runs or waits to run. ``since`` are the tokens made since it was put out last."""

    asked: Asked
    made: int = 0
    since: int = 0
    evictions: int = 0
    claim: int = -1

    @property
    def own_tokens(self) -> int:
        """Tokens behind the beginning that it shares."""
        return self.asked.prompt_tokens + self.made

    @property
    def own_blocks(self) -> int:
        return -(-self.own_tokens // BLOCK_TOKENS)


@final
@dataclass(frozen=True, slots=True)
class Shortage:
    """Jobs that run, in the order in which they were let in, and ``free`` blocks; each job takes one in the next round.

    ``link_percent`` is what a transfer takes now, ``holders`` are how many jobs hold each beginning.
    """

    load: Load
    running: tuple[Job, ...]
    free: int
    link_percent: int
    holders: Counter

    @classmethod
    def of(cls, load: Load, running: Iterable[Job], free: int, link_percent: int) -> "Shortage":
        """The shortage of these jobs."""
        running = tuple(running)
        holders = Counter(job.asked.prefix for job in running)
        return cls(load, running, free, link_percent, holders)

    def kept(self) -> "Shortage":
        """This shortage with its jobs as they are now; those of a pool go on."""
        return self.of(self.load, (replace(job) for job in self.running), self.free, self.link_percent)

    @property
    def need(self) -> int:
        """Blocks that the next round lacks; at or below 0 there is no shortage."""
        return len(self.running) - self.free

    def shares(self, job: Job) -> bool:
        """Does another job that runs hold the same beginning?"""
        return self.holders[job.asked.prefix] > 1

    def frees(self, job: Job) -> int:
        """Blocks that come free when ``job`` is put out: its own, and its beginning if nobody else holds that."""
        return job.own_blocks + (0 if self.shares(job) else job.asked.prefix_blocks)

    def meets(self, job: Job) -> bool:
        """Is ``job`` alone enough? Its own next block is not needed any more, either."""
        return self.frees(job) + 1 >= self.need

    def costs(self, job: Job) -> dict[str, int]:
        """What it takes to bring back what ``job`` would lose, in each mode. Of a copied prompt only the way in."""
        lost = job.own_tokens + (0 if self.shares(job) else BLOCK_TOKENS * job.asked.prefix_blocks)
        on_host = job.asked.prompt_tokens // BLOCK_TOKENS * job.asked.copied
        moved_ns = (2 - job.asked.copied) * self.load.swap_ns
        moved_ns += (2 * self.frees(job) - on_host) * self.load.block_ns
        return {
            "recompute": self.load.prompt_ns + lost * self.load.token_ns,
            "swap": moved_ns * self.link_percent // 100,
        }

    def cheapest(self, job: Job) -> tuple[str, int]:
        """The mode in which ``job`` costs less, and what it costs."""
        costs = self.costs(job)
        mode = min(MODES, key=lambda name: costs[name])
        return mode, costs[mode]

    def due(self, job: Job) -> bool:
        """Was it never put out, or has it made its tokens since?"""
        return not job.evictions or job.since >= self.load.grace_tokens

    def allowed(self) -> tuple[Job, ...]:
        """Who may be put out: who frees something and is due; without any such, who frees something."""
        freeing = tuple(job for job in self.running if self.frees(job))
        return tuple(job for job in freeing if self.due(job)) or freeing or self.running

    def without(self, job: Job) -> "Shortage":
        """What is left when ``job`` is put out."""
        rest = (other for other in self.running if other is not job)
        return self.of(self.load, rest, self.free + self.frees(job), self.link_percent)

    def job(self, number: int) -> Job:
        """The job of request ``number``."""
        return next(job for job in self.running if job.asked.id == number)

    def price(self, rule: Callable[["Shortage"], Victim]) -> int:
        """What it costs to end this shortage by ``rule``."""
        now, cost_ns = self, 0
        while now.need > 0:
            number, mode = rule(now)
            cost_ns += now.costs(now.job(number))[mode]
            now = now.without(now.job(number))
        return cost_ns

    def view(self, now_ns: int) -> dict:
        """The shortage as the learner's function sees it."""
        return {
            "now_ns": now_ns,
            "need_blocks": self.need,
            "free_blocks": self.free,
            "grace_tokens": self.load.grace_tokens,
            "running": [self.seen(job) for job in self.running],
        }

    def seen(self, job: Job) -> dict:
        """One job as the learner's function sees it."""
        asked, costs = job.asked, self.costs(job)
        return {
            **{"id": asked.id, "tenant": asked.tenant, "arrival_ns": asked.arrival_ns},
            **{"prefix": asked.prefix, "prefix_blocks": asked.prefix_blocks, "own_blocks": job.own_blocks},
            **{"made_tokens": job.made, "since_tokens": job.since, "evictions": job.evictions},
            **{"recompute_ns": costs["recompute"], "swap_ns": costs["swap"]},
        }


def rule(now: Shortage) -> Victim:
    """The cheapest of those who are enough alone; if nobody is, the one that frees most. Of equals the first asked."""
    return _best(now, [job for job in now.allowed() if now.meets(job)])


def oldest_first(now: Shortage) -> Victim:
    """The naive rule: the job that was asked first, computed again."""
    return min(now.allowed(), key=lambda job: job.asked.id).asked.id, "recompute"


def _best(now: Shortage, enough: list[Job]) -> Victim:
    """The cheapest of ``enough``; if that is nobody, the one that frees most of all."""
    if enough:
        return _named(now, min(enough, key=lambda job: (now.cheapest(job)[1], job.asked.id)))
    return _named(
        now, min(now.allowed(), key=lambda job: (-now.frees(job), now.cheapest(job)[1], job.asked.id))
    )


def _named(now: Shortage, job: Job, mode: str = "") -> Victim:
    return job.asked.id, mode or now.cheapest(job)[0]


def _cheapest(now: Shortage) -> Victim:
    return _named(now, min(now.allowed(), key=lambda job: (now.cheapest(job)[1], job.asked.id)))


def _in_mode(mode: str) -> Callable[[Shortage], Victim]:
    def chosen(now: Shortage) -> Victim:
        enough = [job for job in now.allowed() if now.meets(job)] or now.allowed()
        return min(enough, key=lambda job: (now.costs(job)[mode], job.asked.id)).asked.id, mode

    return chosen


def _in_full(now: Shortage) -> Victim:
    """The cheapest of those who free all that is lacking; if nobody does, the one that frees most."""
    return _best(now, [job for job in now.allowed() if now.frees(job) >= now.need])


# tag -> what answers so, as the job alone (any mode) or the job and its mode
MISREAD: dict[str, Callable[[Shortage], Victim]] = {
    "needs-too-much": _in_full,
    "falls-short": _cheapest,
    "always-swap": _in_mode("swap"),
    "always-recompute": _in_mode("recompute"),
    "oldest": oldest_first,
    "largest": lambda now: _named(now, max(now.allowed(), key=lambda job: (now.frees(job), -job.asked.id))),
    "newest": lambda now: _named(now, now.allowed()[-1]),
}
