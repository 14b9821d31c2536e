"""A serving loop that decides by lot: lawful ledgers of requests for the gauges, as many and as odd as wanted.

It is no engine and no policy: at each step boundary it admits, holds back, preempts, drops and chunks at random.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from gpulab.telemetry.events import (
    Answered,
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
    Restored,
    Reused,
    Stepped,
    TimedOut,
    Used,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units

TENANTS = ("chat", "code", "batch")


@dataclass(eq=False)
class Job:
    number: int
    prompt: int
    output: int
    made: int = 0
    kv: int = 0
    claim: int = -1
    size: int = 0  # units held
    worked: int = 0

    @property
    def owner(self) -> str:
        return f"r{self.number}"

    @property
    def ready(self) -> bool:
        return self.made > 0 and self.kv == self.prompt + self.made - 1


class Lottery:
    """``Lottery(seed, requests).run()`` is a ledger. ``calm`` leaves out preemption, drops and odd host times."""

    def __init__(
        self, seed, requests, *, capacity=12, tokens=4, spread=6, step=3, most_jobs=4, block=1, calm=False
    ):
        assert capacity > 2 * tokens  # every request fits
        self.draw = Random(f"{seed}/serving")
        self.ledger = Ledger()
        self.capacity, self.free, self.step, self.block = capacity, capacity, step, block
        self.most_jobs, self.calm = most_jobs, calm
        self.now = self.draw.randrange(5)
        self.ledger.append(Opened(self.now, "kv", capacity, "token"))
        self.coming: list = []  # (time, order, what, job)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.claims = self.order = 0
        at = self.now
        for number in range(requests):
            at += self.draw.randrange(spread)
            job = Job(number, self.draw.randint(1, tokens), self.draw.randint(1, tokens))
            self.later(at, "arrive", job)

    def later(self, time, what, job):
        self.order += 1
        heappush(self.coming, (time, self.order, what, job))

    def chance(self, share):
        return self.draw.random() < share

    def run(self):
        while self.coming or self.waiting or self.running:
            self.decide()
            if self.running and (self.calm or self.chance(0.9)):
                self.work()
            else:
                self.until(self.coming[0][0] if self.coming else self.now + self.draw.randint(1, 4))
        self.ledger.append(Closed(self.now + self.draw.randrange(3)))
        return self.ledger

    def until(self, time):
        """Let happen what comes until ``time``."""
        while self.coming and self.coming[0][0] <= time:
            self.now, _, what, job = heappop(self.coming)
            getattr(self, what)(job)
        self.now = max(self.now, time)

    def arrive(self, job):
        tenant = TENANTS[job.number % len(TENANTS)]
        self.ledger.append(Arrived(self.now, job.number, job.owner, tenant, job.prompt, job.output))
        if not self.calm and self.chance(0.05):
            self.later(self.now + self.draw.randrange(3), "reject", job)
        else:
            self.later(self.now + (0 if self.calm else self.draw.randrange(3)), "claim_for", job)

    def reject(self, job):
        self.ledger.append(Dropped(self.now, job.number, "rejected"))

    def claim_for(self, job):
        size = min(self.capacity, self.rounded(job.prompt + job.made + self.draw.randrange(3)))
        job.claim, self.claims = self.claims, self.claims + 1
        self.ledger.append(Claimed(self.now, job.claim, "kv", size, Units(size), job.owner))
        job.size = size
        self.waiting.append(job)

    def rounded(self, tokens):
        return -(-tokens // self.block) * self.block

    def answer(self, job):
        self.ledger.append(Answered(self.now, job.number))

    def decide(self):
        for job in list(self.waiting):
            if not self.calm and self.chance(0.03):
                self.waiting.remove(job)
                self.ledger.append(TimedOut(self.now, job.claim))
                self.ledger.append(Dropped(self.now, job.number, "timed out"))
            elif job.size <= self.free and len(self.running) < self.most_jobs and self.chance(0.6):
                self.waiting.remove(job)
                self.admit(job)
            elif self.calm:
                break
        for job in list(self.running):
            if not self.calm and self.chance(0.05):
                self.preempt(job, self.draw.choice((0, job.kv)))
            elif not self.calm and self.chance(0.02):
                self.running.remove(job)
                self.free += job.size
                self.ledger.append(Dropped(self.now, job.number, "aborted"))
                self.ledger.append(Freed(self.now, job.claim))

    def admit(self, job):
        self.free -= job.size
        self.running.append(job)
        self.ledger.append(Granted(self.now, job.claim, -1, job.size))
        if self.chance(0.5):
            self.ledger.append(Used(self.now, job.claim, min(job.size, job.kv)))
        if job.kv:
            self.ledger.append(Restored(self.now, job.number, job.kv))
        if job.kv == 0 and job.prompt > 1 and self.chance(0.3):
            job.kv = self.draw.randint(1, job.prompt - 1)
            self.ledger.append(Reused(self.now, job.number, job.kv))

    def preempt(self, job, kept):
        job.kv = kept
        self.running.remove(job)
        self.free += job.size
        self.ledger.append(Preempted(self.now, job.number, kept))
        self.ledger.append(Freed(self.now, job.claim))
        self.later(self.now + self.draw.choice((0, 0, 2)), "claim_for", job)

    def work(self):
        """A stretch of decoding, or one step with prompts in it."""
        if not self.make_room():
            return
        ready = [job for job in self.running if job.ready]
        chunks = {
            job: self.draw.randint(1, job.prompt + job.made - job.kv) for job in self.running if not job.ready
        }
        if chunks and self.chance(0.3):
            ready = []  # prompts only
        steps = 1
        if not chunks:
            room = [job.size - job.kv for job in ready]
            left = [job.output - job.made for job in ready]
            steps = self.draw.randint(1, min(room + left))
        host = 0 if self.calm else self.draw.choice((0, 0, 1))
        base = self.draw.randint(host * 1000, self.step * 1000) + sum(chunks.values()) * 300
        stretch = Stepped(0, "kv", self.now, steps, len(ready), sum(job.kv for job in ready), base, 0, host)
        stretch.slope_ps = self.draw.choice((0, 400)) if ready else 0
        stretch.time_ns = stretch.end_of(steps)
        start, running = self.now, list(self.running)
        self.until(stretch.time_ns)
        self.ledger.append(stretch)
        for job in running:
            job.worked += self.now - start - steps * host
        for job in ready:
            job.made, job.kv = job.made + steps, job.kv + steps
        for job, tokens in chunks.items():
            job.kv += tokens
            job.made += job.kv == job.prompt + job.made
            self.ledger.append(Prefilled(self.now, job.number, tokens))
        for job in running:
            if job.made == job.output:
                self.finish(job)

    def finish(self, job):
        self.running.remove(job)
        self.free += job.size
        self.ledger.append(Finished(self.now, job.number, job.made, self.draw.randint(0, job.worked)))
        self.ledger.append(Freed(self.now, job.claim))
        if not self.calm and self.chance(0.3):
            self.later(self.now + self.draw.randrange(4), "answer", job)

    def make_room(self):
        """Every job may hold one token more; what cannot be had is preempted. False when nothing can step."""
        for job in list(self.running):
            wanted = self.rounded(max(job.prompt + job.made, job.kv + 1))
            if job not in self.running or job.size >= wanted:
                continue
            while self.free < wanted - job.size and len(self.running) > 1:
                self.preempt(next(other for other in reversed(self.running) if other is not job), 0)
            self.free -= wanted - job.size
            self.ledger.append(Grew(self.now, job.claim, wanted - job.size))
            job.size = wanted
        return bool(self.running)
