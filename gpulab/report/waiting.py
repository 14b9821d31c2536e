"""Why did a request take so long? Five parts, exact to the nanosecond: the second gauge.

For every request::

    latency = alone + slowed + behind + blocked + outside

*Alone* is its own work at the speed it has by itself (``Finished.alone_ns``). *Blocked*: it waits, and its claim is
in reach of the free units (see ``reach``): enough was free, without a place or a decision. *Behind*: it waits and
is not, because the units it needs serve others. *Outside*: it has no claim yet, or no more (before it reached the
scheduler, after its end), or it is served and no step is on its way (host time). *Slowed* is the rest of the time
in which steps ran while it was served: others shared them, or its work was done twice. Of a request that never
finished nothing is alone. A stretch is written when it is over, so a ledger that is cut off in one counts it as
outside.

The first gauge, ``account``, cannot see order; this one cannot see size.
"""

from dataclasses import dataclass

from gpulab.errors import BrokenLaw
from gpulab.report.books import OF_CLAIMS
from gpulab.report.levels import books_of
from gpulab.report.served import OF_REQUESTS, Requests, Served
from gpulab.report.spans import Span, Spans, covered, without
from gpulab.report.stretches import Stretches
from gpulab.telemetry.events import Freed, Granted, Grew, Opened, Returned, Stepped
from gpulab.telemetry.ledger import Ledger

_RESIZING = frozenset({Granted, Grew, Returned, Freed})
PARTS = ("alone", "slowed", "behind", "blocked", "outside")


@dataclass(frozen=True, slots=True)
class Waited:
    """One request's latency, ``end_ns - start_ns``, in its five parts.

    ``outcome``: ``finished``, the reason for which it was dropped, or ``open`` when the ledger ends before it.
    """

    request: int
    owner: str
    tenant: str
    start_ns: int
    end_ns: int
    alone_ns: int
    slowed_ns: int
    behind_ns: int
    blocked_ns: int
    outside_ns: int
    outcome: str

    @property
    def latency_ns(self) -> int:
        """From its arrival until its answer was there, or it was dropped, or the ledger ends."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Behind:
    """While a request was behind, ``owner`` held units that it needs for ``held_ns``: ``unit_ns`` in unit * ns.

    Several hold at once, so ``held_ns`` of all of them is more than the request was behind.
    """

    owner: str
    tenant: str
    held_ns: int
    unit_ns: int


@dataclass(frozen=True, slots=True)
class Total:
    """The parts of ``requests`` requests, added up."""

    requests: int
    latency_ns: int
    alone_ns: int
    slowed_ns: int
    behind_ns: int
    blocked_ns: int
    outside_ns: int


class Waiting:
    """The second gauge of a ledger: ``waiting.requests`` in order of arrival, ``waiting[request]`` one of them.

    Empty when no request arrived. Cost: one pass over the ledger; ``behind`` looks at all grants.

    Raises:
        BrokenLaw: the ledger contradicts itself; ``numbers['event']`` says where.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._read = _Reading(ledger)
        self.requests = [self._read.waited(served) for served in self._read.requests.served.values()]
        self._place = {waited.request: place for place, waited in enumerate(self.requests)}

    def __getitem__(self, request: int) -> Waited:
        """Raises ``KeyError``, which says how many others there are, when it never arrived."""
        if request not in self._place:
            raise KeyError(
                f"no request {request!r} arrived in this ledger; {len(self.requests):,} others did"
            )
        return self.requests[self._place[request]]

    def __repr__(self) -> str:
        if not self.requests:
            return "<Waiting: no request arrived in this ledger>"
        total = self.total()
        parts = ", ".join(f"{part} {getattr(total, part + '_ns'):,} ns" for part in PARTS)
        return f"<Waiting: {total.requests:,} requests: {parts}>"

    def total(self, tenant: str | None = None) -> Total:
        """The parts of all requests, or of one tenant's, added up."""
        mine = [waited for waited in self.requests if tenant in (None, waited.tenant)]
        sums = [sum(getattr(waited, f"{part}_ns") for waited in mine) for part in ("latency", *PARTS)]
        return Total(len(mine), *sums)

    def behind(self, request: int) -> list[Behind]:
        """Who held the units while ``request`` was behind, the most unit * ns first. Cost: one look at each grant."""
        self[request]
        read, held = self._read, {}
        for claim, start, end in read.requests.served[request].waits:
            resource = read.requests.claims[claim][0]
            for t0, t1 in without(start, end, read.reach.get(claim, ())):
                for grant in read.grants:
                    if grant.within(t0, t1) and read.requests.claims[grant.claim][0] == resource:
                        cut = max(t0, grant.start_ns), min(t1, grant.end_ns), grant.value
                        held.setdefault(read.requests.claims[grant.claim][1], []).append(cut)
        tenants = {waited.owner: waited.tenant for waited in self.requests}
        rows = [
            Behind(owner, tenants.get(owner, owner), covered(cuts), sum((t1 - t0) * n for t0, t1, n in cuts))
            for owner, cuts in held.items()
        ]
        return sorted(rows, key=lambda row: (-row.unit_ns, row.owner))


class _Reading:
    """One pass over a ledger: what each request did, and what its claims and others' grants were meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self.requests, self.stretches = Requests(), {}
        self.last_ns, self.reach = ledger.end_ns, {}  # claim -> when it was in reach, in order
        self._grants, self._reached = Spans(), Spans()
        names = dict.fromkeys(fact.resource for fact in ledger.of(Opened))
        self._books = {name: books_of(ledger, name) for name in names}
        self._changed: set[str] = set()
        now_ns = ledger.start_ns
        for serial, fact in enumerate(ledger):
            if fact.time_ns > now_ns:
                if self._changed:
                    self._settle(now_ns)
                now_ns = fact.time_ns
            self._note(serial, fact)
        self._settle(now_ns)
        self.requests.end(self.last_ns)
        self.grants: list[Span] = self._grants.end(self.last_ns)
        for span in self._reached.end(self.last_ns):
            self.reach.setdefault(span.claim, []).append((span.start_ns, span.end_ns))

    def _note(self, serial: int, fact) -> None:
        if type(fact) is Stepped:
            self.stretches.setdefault(fact.resource, Stretches()).add(serial, fact)
            return
        if type(fact) in OF_REQUESTS:
            self.requests.note(serial, fact)
        for name, books in self._books.items() if type(fact) in OF_CLAIMS else ():
            if books.note(serial, fact):
                self._changed.add(name)
                if type(fact) in _RESIZING and fact.claim in books.here.mine:
                    held = books.here.held.get(fact.claim)
                    self._grants.set(fact.claim, fact.time_ns, held and held[1])

    def _settle(self, time_ns: int) -> None:
        """All that happened at ``time_ns`` is known: who is in reach from then on?"""
        for name in sorted(self._changed):
            for claim, inside in self._books[name].in_reach().items():
                self._reached.set(claim, time_ns, inside or None)
        self._changed.clear()

    def waited(self, served: Served) -> Waited:
        """The five parts of one request."""
        arrived, end_ns = served.arrived, served.end_ns(self.last_ns)
        waited = sum(end - start for _, start, end in served.waits)
        behind = sum(
            end - start
            for claim, t0, t1 in served.waits
            for start, end in without(t0, t1, self.reach.get(claim, ()))
        )
        there = [row for row in served.services if row[0] in self.stretches]
        worked = sum(
            self.stretches[name].worked(end) - self.stretches[name].worked(start)
            for name, start, end in there
        )
        alone = served.finished.alone_ns if served.finished else 0
        if not 0 <= alone <= worked:
            raise BrokenLaw(
                f"#{served.ended}: request {arrived.request} is said to need {alone:,} ns alone, and its device worked "
                f"{worked:,} ns while it was served. Nobody is faster than alone. Run the audit for the story.",
                law="slowed",
                event=served.ended,
            )
        parts = alone, worked - alone, behind, waited - behind, end_ns - arrived.time_ns - waited - worked
        who = arrived.request, arrived.owner, arrived.tenant
        return Waited(*who, arrived.time_ns, end_ns, *parts, served.outcome)
