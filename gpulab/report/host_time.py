"""Where a pool's calls kept the host: read off the ledger of a pool whose calls cost time."""

from dataclasses import dataclass
from itertools import pairwise

from gpulab.telemetry.events import Claimed, Freed, Granted
from gpulab.telemetry.ledger import Ledger


@dataclass(frozen=True, slots=True)
class HostTime:
    """Nanoseconds that the host spent in a pool's calls, by kind, and of the whole run.

    Attributes:
        hits_ns: taking a chunk from the cache. growths_ns: asking the device. frees_ns: giving back to it.
        waits_ns: waiting before that until the device was idle. whole_ns: from the first fact to the last.
        waited: serials of the frees that were waited for.
    """

    hits_ns: int
    growths_ns: int
    frees_ns: int
    waits_ns: int
    whole_ns: int
    waited: frozenset[int]

    @property
    def calls_ns(self) -> int:
        """In the pool's calls."""
        return self.hits_ns + self.growths_ns + self.frees_ns + self.waits_ns

    def share(self, part: str) -> float:
        """What ``part`` (``"hits"``, ``"growths"``, ``"frees"``, ``"waits"`` or ``"calls"``) has of the whole run."""
        return getattr(self, f"{part}_ns") / self.whole_ns if self.whole_ns else 0.0


def host_time(ledger: Ledger, *, free_ns: int, device: str = "device") -> HostTime:
    """Where the host's time went in the calls of the pool that took its bytes from ``device``.

    A call that costs time writes its facts when it has waited: so the time before a grant or a free of the
    device is that call's, and the time before a grant of the pool, where no other came first, is a hit's.
    ``free_ns`` is what giving back costs when the device is idle (``memory.costs.Costs``). O(facts).
    """
    hits_ns = growths_ns = given_back_ns = back = 0
    claims, waited = set(), set()
    for serial, (before, fact) in enumerate(pairwise(ledger), start=1):
        kind, took_ns = type(fact), fact.time_ns - before.time_ns
        if kind is Claimed and fact.resource == device:
            claims.add(fact.claim)
        elif kind is Granted and fact.claim in claims:
            growths_ns += took_ns
        elif kind is Granted:
            hits_ns += took_ns
        elif kind is Freed and fact.claim in claims:
            given_back_ns, back = given_back_ns + took_ns, back + 1
            if took_ns > free_ns:
                waited.add(serial)
    frees_ns = back * free_ns
    whole_ns = ledger.end_ns - ledger[0].time_ns if len(ledger) else 0
    return HostTime(hits_ns, growths_ns, frees_ns, given_back_ns - frees_ns, whole_ns, frozenset(waited))
