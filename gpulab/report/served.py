"""What became of each request, as intervals: when it waited with which claim, when it was served where."""

from collections import Counter
from dataclasses import dataclass, field
from typing import final

from gpulab.errors import BrokenLaw
from gpulab.telemetry.events import (
    Answered,
    Arrived,
    Claimed,
    Dropped,
    Fact,
    Finished,
    Granted,
    Preempted,
    Prefilled,
    Restored,
    Reused,
    TimedOut,
    Withdrawn,
)

OF_REQUESTS_ALONE = frozenset({Arrived, Reused, Prefilled, Preempted, Restored, Finished, Dropped, Answered})
OF_REQUESTS = OF_REQUESTS_ALONE | {Claimed, Granted, Withdrawn, TimedOut}


@dataclass(slots=True)
class Served:
    """One request. ``waits`` and ``services`` are ``(claim, start_ns, end_ns)`` and ``(resource, start_ns, end_ns)``."""

    arrived: Arrived
    serial: int
    state: str = "outside"  # then waits, served; finished and dropped are the ends
    since_ns: int = 0
    claim: int = -1
    resource: str = ""
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    services: list[tuple[str, int, int]] = field(default_factory=list)
    finished: Finished | None = None
    dropped: Dropped | None = None
    answered_ns: int | None = None
    ended: int = -1  # serial of the fact that ended it

    @property
    def outcome(self) -> str:
        """``finished``, the reason for which it was dropped, or ``open``."""
        return "finished" if self.finished else self.dropped.reason if self.dropped else "open"

    def end_ns(self, last_ns: int) -> int:
        """When its answer was there, when it was dropped, or ``last_ns``."""
        ends = (
            self.answered_ns,
            self.finished and self.finished.time_ns,
            self.dropped and self.dropped.time_ns,
        )
        return next((end for end in ends if end is not None), last_ns)

    def go(self, state: str, time_ns: int) -> None:
        """It is in ``state`` from ``time_ns`` on; the interval before is noted."""
        if self.state == "waits":
            self.waits.append((self.claim, self.since_ns, time_ns))
        if self.state == "served":
            self.services.append((self.resource, self.since_ns, time_ns))
        self.state, self.since_ns = state, time_ns


@final
class Requests:
    """All requests of a ledger, fact by fact, in order of arrival."""

    def __init__(self) -> None:
        self.served: dict[int, Served] = {}
        self.claims: dict[int, tuple[str, str]] = {}  # claim -> resource, owner
        self._by_owner: dict[str, Served] = {}
        self._waiting: dict[int, Served] = {}  # by the claim with which it waits
        self.tenants_waiting: Counter = Counter()  # requests of each that wait; none that has no more

    def note(self, serial: int, fact: Fact) -> Served | None:
        """Take ``fact`` down; the request that it concerns. Raises ``BrokenLaw`` when it cannot be."""
        match fact:
            case Arrived():
                if fact.request in self.served or fact.owner in self._by_owner:
                    raise _broken(serial, f"request {fact.request} of {fact.owner!r} arrives a second time")
                served = Served(fact, serial, since_ns=fact.time_ns)
                self.served[fact.request] = self._by_owner[fact.owner] = served
                return served
            case Claimed():
                return self._claim(fact)
            case Granted() | Withdrawn() | TimedOut():
                served = self._wait_no_more(fact.claim)
                if served is not None:
                    served.go("served" if isinstance(fact, Granted) else "outside", fact.time_ns)
                return served
            case Reused() | Prefilled() | Preempted() | Restored() | Finished() | Dropped() | Answered():
                return self._go_on(serial, fact)
        return None

    def of_owner(self, owner: str) -> Served | None:
        """The request that claims as ``owner``."""
        return self._by_owner.get(owner)

    def end(self, time_ns: int) -> None:
        """The ledger ends: the intervals that are open end, too."""
        for served in self.served.values():
            served.go("ended", time_ns)

    def _claim(self, fact: Claimed) -> Served | None:
        self.claims[fact.claim] = fact.resource, fact.owner
        served = self._by_owner.get(fact.owner)
        if served is None or served.state != "outside":
            return None  # nobody's request, or a job's that wants more
        served.go("waits", fact.time_ns)
        served.claim, served.resource = fact.claim, fact.resource
        self._waiting[fact.claim] = served
        self.tenants_waiting[served.arrived.tenant] += 1
        return served

    def _wait_no_more(self, claim: int) -> Served | None:
        served = self._waiting.pop(claim, None)
        if served is not None:
            self.tenants_waiting[served.arrived.tenant] -= 1
            if not self.tenants_waiting[served.arrived.tenant]:
                del self.tenants_waiting[served.arrived.tenant]
        return served

    def _go_on(self, serial: int, fact: Fact) -> Served:
        served = self.served.get(fact.request)
        state, (wanted, after) = served.state if served else "unknown", _STATES[type(fact)]
        if state not in wanted:
            name = type(fact).__name__
            raise _broken(
                serial, f"{name} of request {fact.request}, which is {state}, not {' or '.join(wanted)}"
            )
        match fact:
            case Finished():
                served.finished, served.ended = fact, serial
            case Dropped():
                served.dropped, served.ended = fact, serial
                self._wait_no_more(served.claim)
            case Answered():
                served.answered_ns = fact.time_ns
        if after:
            served.go(after, fact.time_ns)
        return served


# Which states a fact may find its request in, and in which it leaves it.
_STATES = {
    Reused: (("served",), ""),
    Prefilled: (("served",), ""),
    Preempted: (("served",), "outside"),
    Restored: (("served",), ""),
    Finished: (("served",), "finished"),
    Dropped: (("outside", "waits", "served"), "dropped"),
    Answered: (("finished",), "answered"),
}


def _broken(serial: int, said: str) -> BrokenLaw:
    return BrokenLaw(f"#{serial}: {said}. Run the audit for the story.", law="request", event=serial)
