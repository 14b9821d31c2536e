"""Where did the capacity go? Five terms, exact to the unit and nanosecond.

For a resource of capacity C over a window T::

    C * T = used + stranded + fragmented + unscheduled + spare

*used* is granted and working, *stranded* granted to an owner who does not use it. The free units F are
split by what waits: walk the waiting claims smallest first and let each that still fits into F, counted as
one liquid pool, take its units: the *reach* R. Walk the same claims again and place each by first fit in
the real layout, under its own shape: U units found a legal place. Then unscheduled = U, fragmented =
R - U, spare = F - R. No optimum is searched, so U is a lower bound of what could be placed.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from gpulab.errors import BrokenLaw
from gpulab.report.charges import Cause, Charges
from gpulab.report.levels import instants, levels
from gpulab.telemetry.events import Arrived, Opened
from gpulab.telemetry.ledger import Ledger

TERMS = ("used", "stranded", "fragmented", "unscheduled", "spare")


@dataclass(frozen=True, slots=True)
class Terms:
    """The five terms and the capacity they add up to: units at an instant, unit * ns over a window."""

    capacity: int
    used: int
    stranded: int
    fragmented: int
    unscheduled: int
    spare: int

    def __post_init__(self) -> None:
        terms = self.used, self.stranded, self.fragmented, self.unscheduled, self.spare
        if sum(terms) != self.capacity or min(terms) < 0:
            raise BrokenLaw(
                f"{self} does not add up: the five terms are {sum(terms):,} of {self.capacity:,}, or "
                f"one is negative. The ledger contradicts itself; run the audit to see where first.",
                law="identity",
            )

    @property
    def free(self) -> int:
        """Units nobody holds."""
        return self.fragmented + self.unscheduled + self.spare

    def share(self, term: str) -> float:
        """``term`` as a share of the capacity, 0 for an empty window."""
        return getattr(self, term) / self.capacity if self.capacity else 0.0

    def largest_loss(self) -> str:
        """The largest of the four terms that are not ``used``; ties go to the one named first."""
        return max(TERMS[1:], key=lambda term: getattr(self, term))


class Account:
    """The five terms of one level of a ledger, at any instant and over any window.

    ``account.at(t)`` is an instant, ``account(t0, t1)`` a window, ``account()`` the whole run.
    ``level`` names who grants to whom; ``levels(ledger)`` lists them, the first is the default. Cost: one
    pass over the ledger; the free units are looked at again only where they, or what waits, changed.

    Raises:
        BrokenLaw: the ledger contradicts itself, e.g. grants what is held or frees what is not;
            ``numbers['event']`` says where. What cannot change a term is left to the audit.
        ValueError: there is no such level, or nothing was opened.
    """

    def __init__(self, ledger: Ledger, level: str | None = None) -> None:
        known = levels(ledger)
        if not known:
            raise ValueError("This ledger opened no resource: there is no capacity to account for.")
        self._ledger, self._charged = ledger, None
        self.level = known[0] if level is None else level
        if self.level not in known:
            raise ValueError(f"There is no level {level!r} in this ledger; there are: {', '.join(known)}.")
        outer = self.level.split("→")[0]
        self.unit = next(fact.unit for fact in ledger.of(Opened) if fact.resource == outer)
        self._times: list[int] = []
        self._terms: list[tuple[int, ...]] = []
        for time_ns, books, _ in instants(ledger, *self.level.split("→")):
            self._times.append(time_ns)
            self._terms.append(books.terms())
        self.start_ns, self.end_ns = self._times[0], max(ledger.end_ns, self._times[0])
        self._sums = [(0,) * 6]  # unit * ns of each term from the start to the i-th change
        for index in range(1, len(self._times)):
            lasted = self._times[index] - self._times[index - 1]
            before, terms = self._sums[-1], self._terms[index - 1]
            self._sums.append(tuple(s + lasted * term for s, term in zip(before, terms, strict=True)))

    def at(self, time_ns: int) -> Terms:
        """The terms at ``time_ns``, after everything that happened then."""
        if not self.start_ns <= time_ns <= self.end_ns:
            raise ValueError(f"{time_ns:,} ns is outside the run, {self.start_ns:,} to {self.end_ns:,} ns.")
        return Terms(*self._terms[bisect_right(self._times, time_ns) - 1])

    def __call__(self, t0: int | None = None, t1: int | None = None) -> Terms:
        """The terms over ``[t0, t1)`` in unit * ns; the whole run by default."""
        t0, t1 = self._window(t0, t1)
        return Terms(*(b - a for a, b in zip(self._until(t0), self._until(t1), strict=True)))

    def steps(self) -> list[tuple[int, Terms]]:
        """``(time_ns, terms)`` at each change, in order: the account as a series."""
        return [(t, Terms(*terms)) for t, terms in zip(self._times, self._terms, strict=True)]

    def by_owner(self, t0: int | None = None, t1: int | None = None) -> dict[str, Terms]:
        """The terms over ``[t0, t1)`` of each owner, in order of their first claims.

        *Used* and *stranded* are charged to who holds, *fragmented* and *unscheduled* to whose claim waits for these
        units; *spare* to nobody, so an owner's capacity is the sum of the four, and all owners' together lack
        only the spare. Claims without an owner are those of ``""``. Cost: a second pass when first asked.
        """
        return self._grouped({}, *self._window(t0, t1))

    def by_tenant(self, t0: int | None = None, t1: int | None = None) -> dict[str, Terms]:
        """``by_owner`` with the owners of a tenant's requests in one; an owner without a request is its own tenant."""
        tenants = {fact.owner: fact.tenant for fact in self._ledger.of(Arrived)}
        return self._grouped(tenants, *self._window(t0, t1))

    def causes(self, n: int = 10, t0: int | None = None, t1: int | None = None) -> list[Cause]:
        """The ``n`` largest losses in ``[t0, t1)``, a claim and a term each, with the facts behind it."""
        return self._charges().causes(n, *self._window(t0, t1))

    def _charges(self) -> Charges:
        if self._charged is None:
            self._charged = Charges(self._ledger, *self.level.split("→"))
        return self._charged

    def _grouped(self, names: Mapping[str, str], t0: int, t1: int) -> dict[str, Terms]:
        charges, sums = self._charges(), {}
        for claim, terms in sorted(charges.by_claim(t0, t1).items()):
            owner = charges.owners[claim]
            name = names.get(owner, owner)
            sums[name] = [a + b for a, b in zip(sums.get(name, (0, 0, 0, 0)), terms, strict=True)]
        return {name: Terms(sum(terms), *terms, 0) for name, terms in sums.items()}

    def _window(self, t0: int | None, t1: int | None) -> tuple[int, int]:
        t0 = self.start_ns if t0 is None else t0
        t1 = self.end_ns if t1 is None else t1
        if not self.start_ns <= t0 <= t1 <= self.end_ns:
            raise ValueError(
                f"[{t0:,}, {t1:,}) ns is no window of the run, {self.start_ns:,} to {self.end_ns:,} ns."
            )
        return t0, t1

    def _until(self, time_ns: int) -> tuple[int, ...]:
        index = bisect_right(self._times, time_ns) - 1
        lasted = time_ns - self._times[index]
        return tuple(s + lasted * t for s, t in zip(self._sums[index], self._terms[index], strict=True))
