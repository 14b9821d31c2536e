"""Who is charged with what: the five terms claim by claim, and the facts behind the largest losses."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from gpulab.report.books import Books
from gpulab.report.levels import instants
from gpulab.report.spans import Span, Spans
from gpulab.telemetry.events import Claimed, Granted, Used
from gpulab.telemetry.ledger import Ledger

_MOST_EVENTS = 8  # of one cause


@dataclass(frozen=True, slots=True)
class Cause:
    """``claim`` of ``owner`` made ``unit_ns`` of ``term`` between ``start_ns`` and ``end_ns``.

    ``events``: the serials behind it, in order, at most eight. Of a stranded grant its claim, its grant and what
    was said of its use; of an unscheduled claim when it was made; of a fragmented one, too, and the grants beside
    the holes that were too short, the largest holes first.
    """

    term: str
    unit_ns: int
    owner: str
    claim: int
    start_ns: int
    end_ns: int
    events: tuple[int, ...]


@final
class Charges:
    """What each claim of one level held, used, or left free by waiting, as spans.

    ``holds`` has ``(size, used)``, ``waits`` has ``(unscheduled, fragmented)``. Cost: as the account, and the
    length of what is in reach at each change.
    """

    def __init__(self, ledger: Ledger, outer: str, inner: str) -> None:
        self._ledger, self._level = ledger, (outer, inner)
        self.owners = {fact.claim: fact.owner for fact in ledger.of(Claimed)}
        holds, waits = Spans(), Spans()
        for time_ns, books, claims in instants(ledger, outer, inner):
            for claim in claims:
                held = next((book.held[claim] for book in books.books if claim in book.held), None)
                holds.set(claim, time_ns, held and (held[1], held[2]))
            if isinstance(books, Books) and books.plain:
                for claim, inside in books.in_reach().items():
                    waits.set(claim, time_ns, (books.mine[claim].size, 0) if inside else None)
            else:
                waits.replace(time_ns, books.charged())
        self.holds, self.waits = holds.end(ledger.end_ns), waits.end(ledger.end_ns)

    def by_claim(self, t0: int, t1: int) -> dict[int, list[int]]:
        """Used, stranded, fragmented and unscheduled unit * ns of each claim in ``[t0, t1)``."""
        found: dict[int, list[int]] = {}
        for claim, terms in _terms(self.holds, self.waits, t0, t1):
            sums = found.setdefault(claim, [0, 0, 0, 0])
            for index, term in enumerate(terms):
                sums[index] += term
        return found

    def causes(self, most: int, t0: int, t1: int) -> list[Cause]:
        """The ``most`` largest losses in ``[t0, t1)``, the largest first; of equals, the earlier claim."""
        rows = [
            (-units, claim, term)
            for claim, terms in self.by_claim(t0, t1).items()
            for term, units in zip(("stranded", "fragmented", "unscheduled"), terms[1:], strict=True)
            if units
        ]
        rows = sorted(rows)[:most]
        events = self._events([(claim, term) for _, claim, term in rows], t0, t1)
        return [
            Cause(term, -units, self.owners.get(claim, ""), claim, *events[claim, term])
            for units, claim, term in rows
        ]

    def _events(self, wanted: list[tuple[int, str]], t0: int, t1: int) -> dict:
        """Start, end and serials of each loss."""
        spans = {
            pair: _lossy(self.waits if pair[1] != "stranded" else self.holds, *pair, t0, t1)
            for pair in wanted
        }
        told: dict[int, list[tuple[int, type]]] = {claim: [] for claim, _ in wanted}
        for serial, fact in enumerate(self._ledger):
            if type(fact) in (Claimed, Granted, Used) and fact.claim in told:
                told[fact.claim].append((serial, type(fact)))
        pins = self._pins(
            {max(spans[pair], key=_length).start_ns for pair in wanted if pair[1] == "fragmented"}
        )
        found = {}
        for pair, mine in spans.items():
            kinds = (Claimed, Granted, Used) if pair[1] == "stranded" else (Claimed,)
            serials = [serial for serial, kind in told[pair[0]] if kind in kinds]
            if pair[1] == "fragmented":
                serials += pins[max(mine, key=_length).start_ns]
            start, end = max(t0, mine[0].start_ns), min(t1, mine[-1].end_ns)
            found[pair] = start, end, tuple(sorted(serials[:_MOST_EVENTS]))
        return found

    def _pins(self, times: set[int]) -> dict[int, list[int]]:
        """The grants beside free units at each of ``times``, largest stretches first."""
        found: dict[int, list[int]] = {}
        granted = {}
        for serial, fact in enumerate(self._ledger):
            if type(fact) is Granted:
                granted[fact.claim] = serial
        for time_ns, books, _ in instants(self._ledger, *self._level) if times else ():
            if time_ns in times:
                claims = dict.fromkeys(claim for book in books.books for claim in _beside(book))
                found[time_ns] = [granted[claim] for claim in claims]
        return found


def _length(span: Span) -> int:
    """How long it lasted."""
    return span.end_ns - span.start_ns


def _terms(holds: Iterable[Span], waits: Iterable[Span], t0: int, t1: int) -> Iterator[tuple[int, tuple]]:
    """Claim and used, stranded, fragmented, unscheduled unit * ns of each span."""
    for span in holds:
        lasted, (size, used) = span.within(t0, t1), span.value
        if lasted:
            yield span.claim, (used * lasted, (size - used) * lasted, 0, 0)
    for span in waits:
        lasted, (unscheduled, fragmented) = span.within(t0, t1), span.value
        if lasted:
            yield span.claim, (0, 0, fragmented * lasted, unscheduled * lasted)


def _lossy(spans: list[Span], claim: int, term: str, t0: int, t1: int) -> list[Span]:
    """The spans in which ``claim`` lost some of ``term``, in order."""
    lost = {"stranded": lambda v: v[0] > v[1], "fragmented": lambda v: v[1], "unscheduled": lambda v: v[0]}[
        term
    ]
    return [span for span in spans if span.claim == claim and lost(span.value) and span.within(t0, t1)]


def _beside(books: Books) -> list[int]:
    """The claims whose grants begin or end at a hole, those at the longest hole first."""
    if books.liquid:
        return []
    starts = {start: claim for claim, (start, *_) in books.held.items()}
    ends = {start + size: claim for claim, (start, size, _) in books.held.items()}
    holes = sorted(books.free(), key=lambda hole: -hole[1])
    beside = (claim for start, size in holes for claim in (ends.get(start), starts.get(start + size)))
    return [claim for claim in beside if claim is not None]
