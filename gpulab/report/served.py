"""What became of each request, as intervals: when it waited with which claim, when it was served where."""

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
    TimedOut,
    Withdrawn,
)

FACTS = (Arrived, Claimed, Granted, Withdrawn, TimedOut, Preempted, Finished, Dropped, Answered)


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

    def note(self, serial: int, fact: Fact) -> None:
        """Take ``fact`` down. Raises ``BrokenLaw`` when it cannot be."""
        match fact:
            case Arrived():
                if fact.request in self.served or fact.owner in self._by_owner:
                    raise _broken(serial, f"request {fact.request} of {fact.owner!r} arrives a second time")
                served = Served(fact, serial, since_ns=fact.time_ns)
                self.served[fact.request] = self._by_owner[fact.owner] = served
            case Claimed():
                self.claims[fact.claim] = fact.resource, fact.owner
                served = self._by_owner.get(fact.owner)
                if served is not None and served.state == "outside":
                    served.go("waits", fact.time_ns)
                    served.claim, served.resource = fact.claim, fact.resource
                    self._waiting[fact.claim] = served
            case Granted() | Withdrawn() | TimedOut():
                served = self._waiting.pop(fact.claim, None)
                if served is not None:
                    served.go("served" if isinstance(fact, Granted) else "outside", fact.time_ns)
            case Preempted() | Finished() | Dropped() | Answered():
                self._go_on(serial, fact)

    def end(self, time_ns: int) -> None:
        """The ledger ends: the intervals that are open end, too."""
        for served in self.served.values():
            served.go("ended", time_ns)

    def _go_on(self, serial: int, fact: Preempted | Finished | Dropped | Answered) -> None:
        served = self.served.get(fact.request)
        state, wanted = served.state if served else "unknown", _BEFORE[type(fact)]
        if state not in wanted:
            name = type(fact).__name__
            raise _broken(
                serial, f"{name} of request {fact.request}, which is {state}, not {' or '.join(wanted)}"
            )
        if isinstance(fact, Answered):
            served.answered_ns = fact.time_ns
            served.go("answered", fact.time_ns)
            return
        self._waiting.pop(served.claim, None)
        served.ended = serial
        if isinstance(fact, Preempted):
            served.go("outside", fact.time_ns)
        elif isinstance(fact, Finished):
            served.finished = fact
            served.go("finished", fact.time_ns)
        else:
            served.dropped = fact
            served.go("dropped", fact.time_ns)


_BEFORE = {
    Preempted: ("served",),
    Finished: ("served",),
    Dropped: ("outside", "waits", "served"),
    Answered: ("finished",),
}


def _broken(serial: int, said: str) -> BrokenLaw:
    return BrokenLaw(f"#{serial}: {said}. Run the audit for the story.", law="request", event=serial)
