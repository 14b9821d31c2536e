"""Who waited absurdly long while others, who came later, were served: the guard against starvation."""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

from gpulab.report.served import OF_REQUESTS, Requests
from gpulab.telemetry.ledger import Ledger
from gpulab.units import SECOND


@dataclass(frozen=True, slots=True)
class Starved:
    """``request`` waited ``waited_ns`` in one go, from ``since_ns``; ``overtakers`` came later and were done meanwhile."""

    request: int
    tenant: str
    since_ns: int
    waited_ns: int
    overtakers: int


def starved(ledger: Ledger, *, least_ns: int = 60 * SECOND, overtakers: int = 20) -> list[Starved]:
    """The requests that waited at least ``least_ns`` in one go while at least ``overtakers`` that came later finished.

    The longest wait comes first. In a queue that is only long nobody is overtaken, and so nobody starves. Cost:
    O(n log n), a pass over the ledger.
    """
    requests = Requests()
    for serial, fact in ledger.each(OF_REQUESTS):
        requests.note(serial, fact)
    requests.end(ledger.end_ns)
    ends: list[int] = []  # when those that came later finished, in order
    found = []
    for served in sorted(requests.served.values(), key=lambda served: served.serial, reverse=True):
        since, until = max(
            ((start, end) for _, start, end in served.waits),
            key=lambda wait: wait[1] - wait[0],
            default=(0, 0),
        )
        if until - since >= least_ns:
            passed = bisect_right(ends, until) - bisect_left(ends, since)
            if passed >= overtakers:
                arrived = served.arrived
                found.append(Starved(arrived.request, arrived.tenant, since, until - since, passed))
        if served.finished:
            insort(ends, served.finished.time_ns)
    return sorted(found, key=lambda one: (-one.waited_ns, one.request))
