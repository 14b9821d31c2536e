"""Claims of several dimensions: taken or placed only where each of them fits."""

from collections.abc import Iterator
from typing import final

from gpulab.report.books import Books, broken
from gpulab.telemetry.events import Claimed, Fact, Joined
from gpulab.telemetry.shape import Free

Bundle = dict[str, int]  # resource -> claim


@final
class Joint:
    """One resource whose claims may be joined to claims on others.

    Walk what waits here, smallest first by what it wants *here*. A bundle is taken if each of its claims fits into
    what is left of its own resource, and placed if each finds a legal place there; it is never taken in part. So
    each resource has a reach and a number of placed units of its own. Of what is joined to nothing, a divisible
    claim is placed up to the part that it took.
    """

    def __init__(self, resource: str, others: dict[str, Books]) -> None:
        self.resource, self._all = resource, others
        self.here = others[resource]
        self.books = [self.here]
        self._bundles: dict[int, Bundle] = {}
        self._told: set[int] = set()

    def note(self, serial: int, fact: Fact) -> bool:
        """Take ``fact`` in; True if it may change a term here."""
        if isinstance(fact, Joined):
            parts = [self._bundle(claim, serial) for claim in (fact.claim, fact.to)]
            joined = parts[0] | parts[1]
            self._bundles.update(dict.fromkeys(joined.values(), joined))
            return True
        if isinstance(fact, Claimed) and any(fact.claim in books.mine for books in self._all.values()):
            raise broken(serial, fact.claim, "was made before", "claimed")
        return any([books.note(serial, fact) for books in self._all.values()])

    def terms(self) -> tuple[int, ...]:
        """Capacity and the five terms now."""
        here, free = self.here, self.here.capacity - self.here.granted
        charges = self.charged().values()
        unscheduled, fragmented = (
            (sum(column) for column in zip(*charges, strict=True)) if charges else (0, 0)
        )
        spare = free - unscheduled - fragmented
        return here.capacity, here.used, here.granted - here.used, fragmented, unscheduled, spare

    def charged(self) -> dict[int, tuple[int, int]]:
        """Unscheduled and fragmented units of each waiting claim that has some, now."""
        layout, found = {name: books.free() for name, books in self._all.items()}, {}
        for claim, part, bundle in self._reached():
            placed = self._place(bundle, layout)
            found[claim] = min(part, placed), part - min(part, placed)
        return found

    def in_reach(self) -> dict[int, bool]:
        """The claims that came into reach (True), or left it, since this was asked last."""
        now = {claim for claim, *_ in self._reached()}
        moved = {claim: claim in now for claim in sorted(now ^ self._told)}
        self._told = now
        return moved

    def _reached(self) -> Iterator[tuple[int, int, Bundle]]:
        """Claim, the units that it takes here, and all that it is joined to."""
        left = {name: books.capacity - books.granted for name, books in self._all.items()}
        for _, claim in self.here.line.entries:
            bundle = self._bundles.get(claim, {self.resource: claim})
            wants = {name: self._all[name].mine[one].size for name, one in bundle.items()}
            if len(bundle) == 1 and self.here.mine[claim].divisible:
                wants[self.resource] = min(wants[self.resource], left[self.resource])
            if wants[self.resource] and all(units <= left[name] for name, units in wants.items()):
                left |= {name: left[name] - units for name, units in wants.items()}
                yield claim, wants[self.resource], bundle

    def _place(self, bundle: Bundle, layout: dict[str, Free]) -> int:
        """The units that ``bundle`` gets here, which are then free in ``layout`` no more; 0 if it has no place."""
        got = {name: self._all[name].mine[claim].take(layout[name]) for name, claim in bundle.items()}
        if None in got.values():
            return 0
        units = {name: sum(length for _, length in taken) for name, (taken, _) in got.items()}
        if len(bundle) > 1 and any(
            units[name] < self._all[name].mine[one].size for name, one in bundle.items()
        ):
            return 0
        layout |= {name: after for name, (_, after) in got.items()}
        return units[self.resource]

    def _bundle(self, claim: int, serial: int) -> Bundle:
        """What ``claim`` is joined to so far, itself among it."""
        name = next((name for name, books in self._all.items() if claim in books.mine), None)
        if name is None:
            raise broken(serial, claim, "is joined and was not made", "joined")
        return self._bundles.get(claim, {name: claim})
