"""The server of prompts of 04.deadline: one prompt at a time, what was admitted in its order, and a ledger of it."""

from collections.abc import Callable, Iterable
from typing import final

from autograder.checks.lab04.deadline_cases import Crowd, Prompt
from gpulab.telemetry.events import (
    Arrived,
    Claimed,
    Closed,
    Dropped,
    Finished,
    Freed,
    Granted,
    Opened,
    Prefilled,
    Stepped,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units

SERVER = "server"
Answer = tuple[list[int], list[int]]  # ids to admit in this order, ids to turn away


@final
class Server:
    """Requests wait until they are admitted or turned away; admitted ones are computed one after the other.

    ``waiting`` is in order of arrival, ``line`` are the admitted ones that are not done, ``free_ns`` is when they
    will be. ``on_time`` and ``refused`` are ids; ``starts`` are (whoever was admitted, who waited with it, when its prompt
    begins).
    """

    def __init__(self, crowd: Crowd) -> None:
        self.crowd, self.now_ns, self.free_ns = crowd, 0, 0
        self.waiting: dict[int, Prompt] = {}
        self.line: list[Prompt] = []
        self.late: dict[int, Prompt] = {}
        self.on_time: set[int] = set()
        self.refused: set[int] = set()
        self.starts: list[tuple[Prompt, list[Prompt], int]] = []
        self.ledger = Ledger()
        self.ledger.append(Opened(0, SERVER, 1, "prompts"))
        self._coming = list(reversed(crowd.prompts))
        self._claims: dict[int, int] = {}  # request -> its claim

    def play(self, decide: Callable[["Server"], Answer]) -> None:
        """Until nobody is left, or somebody is left for whom nothing is decided; ``decide`` is asked at an arrival and
        when the server is done with what was admitted, if anybody waits.
        """
        while self._advance():
            if self.waiting:
                admit, reject = decide(self)
                self._turn_away(reject)
                for number in admit:
                    self._admit(number)
        self.ledger.append(Closed(self.now_ns))

    def _advance(self) -> bool:
        """To the next arrival or the moment at which the server is free; False when there is neither."""
        times = [self._coming[-1].arrival_ns] if self._coming else []
        if self.line:
            times.append(self.free_ns)
        if not times:
            return False
        self.now_ns = min(times)
        self._finish()
        while self._coming and self._coming[-1].arrival_ns <= self.now_ns:
            self._arrive(self._coming.pop())
        return True

    def _arrive(self, job: Prompt) -> None:
        self.waiting[job.id] = job
        self._claims[job.id] = len(self._claims)
        now = job.arrival_ns
        self.ledger.append(Arrived(now, job.id, job.owner, job.tenant, job.prompt_tokens, 1))
        self.ledger.append(Claimed(now, self._claims[job.id], SERVER, 1, Units(1), job.owner))

    def _turn_away(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.waiting[number]
            self.refused.add(number)
            self.ledger.append(Withdrawn(self.now_ns, self._claims[number]))
            self.ledger.append(Dropped(self.now_ns, number, "rejected"))

    def _admit(self, number: int) -> None:
        begins_ns = self.free_ns if self.line else self.now_ns
        self.starts.append((self.waiting[number], list(self.waiting.values()), begins_ns))
        job = self.waiting.pop(number)
        if not self.line:
            self.free_ns = self.now_ns
            self.ledger.append(Granted(self.now_ns, self._claims[number], -1, 1))
        self.line.append(job)
        self.free_ns += job.prompt_ns
        if self.free_ns <= job.deadline_ns:
            self.on_time.add(number)
        else:
            self.late[number] = job

    def _finish(self) -> None:
        """What was admitted and is done by now, in the ledger."""
        end_ns = self.free_ns - sum(job.prompt_ns for job in self.line)
        while self.line and end_ns + self.line[0].prompt_ns <= self.now_ns:
            job = self.line.pop(0)
            start_ns, end_ns = end_ns, end_ns + job.prompt_ns
            self.ledger.append(Stepped(end_ns, SERVER, start_ns, 1, 0, 0, 1000 * job.prompt_ns, 0, 0))
            self.ledger.append(Prefilled(end_ns, job.id, job.prompt_tokens))
            self.ledger.append(Finished(end_ns, job.id, 1, job.prompt_ns))
            self.ledger.append(Freed(end_ns, self._claims[job.id]))
            if self.line:
                self.ledger.append(Granted(end_ns, self._claims[self.line[0].id], -1, 1))

    @property
    def worth(self) -> float:
        """First tokens in time, and half of the requests that were turned away, by all requests."""
        return (len(self.on_time) + len(self.refused) / 2) / len(self.crowd.prompts)


def in_time(free_ns: int, jobs: Iterable[Prompt]) -> bool:
    """Do all ``jobs`` keep their promise in the order of their deadlines, from ``free_ns`` on?"""
    for job in sorted(jobs, key=by_deadline):
        free_ns += job.prompt_ns
        if free_ns > job.deadline_ns:
            return False
    return True


def by_deadline(job: Prompt) -> tuple[int, int]:
    """Its place in the order of deadlines."""
    return job.deadline_ns, job.id


def first_come(server: Server) -> Answer:
    """The naive rule: in order of arrival, nobody is turned away."""
    return ([] if server.line else [next(iter(server.waiting))]), []


def by_promise(server: Server) -> Answer:
    """The rule: whoever breaks a promise, its own or another's, is turned away as it comes; the rest by deadline."""
    kept, refused = dict(server.waiting), []
    free_ns = server.free_ns if server.line else server.now_ns
    for job in server.waiting.values():
        if job.arrival_ns == server.now_ns and not in_time(free_ns, kept.values()):
            del kept[job.id]
            refused.append(job.id)
    if server.line or not kept:
        return [], refused
    return [min(kept.values(), key=by_deadline).id], refused
