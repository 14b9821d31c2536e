"""The books of requests: what was asked, made and promised, and what no ledger may say of it."""

from collections import Counter
from itertools import islice
from typing import final

from gpulab.errors import BrokenLaw
from gpulab.report.served import OF_REQUESTS_ALONE, Requests, Served
from gpulab.report.stretches import Stretches, fault_of
from gpulab.report.tokens import Tokens
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Extrapolated,
    Fact,
    Finished,
    Freed,
    Granted,
    Prefilled,
    Stepped,
)

REQUEST_LAWS = {
    "request": "a request arrives once, with an owner of its own; only one that is served works, is preempted or finishes",
    "ended": "every request ends once, before the ledger is closed",
    "steps": "a stretch begins when the one before it is over, and ends when its own numbers say; of its steps it may say once, as "
    "it ends, that the last ones were extrapolated",
    "batch": "every job that is ready makes one token a step, and reads the tokens that it holds",
    "tokens": "a token is computed or reused once; what a job made is what its steps and prompts gave it",
    "holding": "a job works only while its owner holds something",
    "slowed": "nobody is faster than alone",
}
Found = tuple[str, str, tuple]  # law, numbers in words, claims and requests concerned


@final
class RequestBooks:
    """Requests after the facts so far. The first broken law is told; what comes after it rests on nothing."""

    def __init__(self) -> None:
        self._requests, self._tokens = Requests(), Tokens()
        self._stretches: dict[str, Stretches] = {}
        self._grants: Counter = Counter()  # owner -> grants that it holds
        self._owners: dict[int, str] = {}
        self._empty: dict[str, Served] = {}  # jobs whose owners hold nothing, by owner
        self._said: dict[
            str, Stepped
        ] = {}  # the last stretch of which something was extrapolated, by resource
        self._begun = self._over = False

    def note(self, serial: int, fact: Fact) -> Found | None:
        """Take ``fact`` down, or say which law it breaks."""
        if not self._begun:
            self._begun = type(fact) in (Stepped, Extrapolated) or type(fact) in OF_REQUESTS_ALONE
        if self._over or not self._begun:
            return None
        found = self._judge(serial, fact)
        self._over = found is not None
        return found

    def _judge(self, serial: int, fact: Fact) -> Found | None:
        if type(fact) is Stepped:
            return self._step(serial, fact)
        if type(fact) is Extrapolated:
            return self._extrapolate(fact)
        try:
            served = self._requests.note(serial, fact)
        except BrokenLaw as broken:
            about = (("request", fact.request),)
            return broken.law, str(broken).partition(": ")[2].partition(". Run")[0], about
        self._hold(fact, served)
        wrong = self._tokens.note(fact, served)
        about = (("request", served.arrived.request), served.claim) if served else ()
        if wrong:
            return *wrong, about
        if type(fact) is Prefilled and served.arrived.owner in self._empty:
            return "holding", f"{served.arrived.owner!r} computed tokens and holds nothing", about
        if type(fact) is Finished:
            worked = self._worked(served)
            if not 0 <= fact.alone_ns <= worked:
                return (
                    "slowed",
                    f"{fact.alone_ns:,} ns alone, and steps ran for {worked:,} ns while it was served",
                    about,
                )
        if type(fact) is Closed:
            return self._close()
        return None

    def _hold(self, fact: Fact, served: Served | None) -> None:
        """Who holds something: jobs that do not are remembered."""
        if type(fact) is Claimed:
            self._owners[fact.claim] = fact.owner
        elif type(fact) in (Granted, Freed):
            owner = self._owners.get(fact.claim, "")
            self._grants[owner] += 1 if type(fact) is Granted else -1
            job = self._requests.of_owner(owner)
            if job and job.state == "served" and not self._grants[owner]:
                self._empty[owner] = job
            else:
                self._empty.pop(owner, None)
        if served and served.state != "served":
            self._empty.pop(served.arrived.owner, None)

    def _step(self, serial: int, fact: Stepped) -> Found | None:
        stretches = self._stretches.setdefault(fact.resource, Stretches())
        wrong = fault_of(fact, stretches.facts[-1].time_ns if stretches.facts else None)
        if wrong:
            return "steps", wrong, self._jobs_at(fact.resource)
        stretches.add(serial, fact)
        wrong = self._tokens.note(fact, None)
        if wrong:
            return *wrong, self._jobs_at(fact.resource)
        for owner, served in self._empty.items() if fact.jobs else ():
            if self._tokens.jobs[served.arrived.request].ready and served.resource == fact.resource:
                return (
                    "holding",
                    f"{owner!r} made tokens and holds nothing",
                    (("request", served.arrived.request),),
                )
        return None

    def _extrapolate(self, fact: Extrapolated) -> Found | None:
        """Said of the last stretch there, at its end, of no more steps than it has, and once."""
        stretches = self._stretches.get(fact.resource)
        last = stretches.facts[-1] if stretches else None
        if last is None or last.time_ns != fact.time_ns or self._said.get(fact.resource) is last:
            words = f"steps of {fact.resource!r} are called extrapolated, and no stretch there ends"
        elif not 1 <= fact.steps <= last.steps:
            words = f"{fact.steps:,} of {last.steps:,} steps are called extrapolated"
        else:
            self._said[fact.resource] = last
            return None
        return "steps", words, self._jobs_at(fact.resource)

    def _jobs_at(self, resource: str, most: int = 3) -> tuple:
        """The first few jobs that are served at ``resource``, for the story."""
        there = (s for s in self._requests.served.values() if s.state == "served" and s.resource == resource)
        return tuple(("request", served.arrived.request) for served in islice(there, most))

    def _worked(self, served: Served) -> int:
        """Nanoseconds of steps while ``served`` was served."""
        return sum(
            self._stretches[resource].worked(end) - self._stretches[resource].worked(start)
            for resource, start, end in served.services
            if resource in self._stretches
        )

    def _close(self) -> Found | None:
        alive = [served for served in self._requests.served.values() if served.ended < 0]
        if not alive:
            return None
        first = alive[0].arrived
        words = f"{len(alive):,} requests did not end, the first is {first.request} of {first.owner!r}"
        return "ended", words, (("request", first.request), alive[0].claim)
