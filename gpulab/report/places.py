"""What is held where while a ledger is judged, and what a grant, a growth or a refusal may break there."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpulab.report.request_laws import Found
from gpulab.report.table import exact_size
from gpulab.telemetry.events import Claimed, Granted, Opened, Refused
from gpulab.telemetry.shape import Contiguous, Slots, Units


@dataclass(slots=True)
class Place:
    """A resource with what is held in it now. ``starts`` is sorted; ``at`` names the claim at each."""

    opened: Opened
    around: "Place | None"
    held: int = 0
    pools: int = 0  # resources inside
    lent: Counter = field(default_factory=Counter)  # owner -> units of ``held``
    starts: list[int] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        if self.around is None:
            return self.opened.capacity
        return self.around.lent[self.opened.resource] if self.around.pools > 1 else self.around.held

    def hold(self, units: int, owner: str) -> None:
        """``units`` more are held by ``owner``."""
        self.held += units
        self.lent[owner] += units

    def before(self, address: int) -> int | None:
        """The claim whose grant starts last at or before ``address``."""
        index = bisect_right(self.starts, address)
        return self.at[self.starts[index - 1]] if index else None

    def words(self, units: int) -> str:
        return exact_size(units, self.opened.unit)


@dataclass(slots=True)
class Asked:
    """A claim, and what became of it."""

    made: Claimed
    place: Place
    state: str = "waiting"  # then held, over; wrong: told already, not judged again
    since: int = 0  # serial of the fact that made it so
    start: int = -1
    size: int = 0
    around: "list[Asked]" = field(default_factory=list)
    joined: "list[Asked]" = field(default_factory=list)
    within: int = 0  # grants of inner resources that lie in this one


def touching(place: Place, owner: str, start: int, end: int, claims: dict[int, Asked]) -> list[Asked] | None:
    """The grants at ``place``, each starting where the one before ends, that hold [start, end); None if none do.

    Where several resources lie inside ``place``, they must be those of ``owner``.
    """
    found = [claims.get(place.before(start))]
    while found[-1] is not None and found[-1].start + found[-1].size < end:
        found.append(claims.get(place.at.get(found[-1].start + found[-1].size)))
    if found[-1] is None or (place.pools > 1 and any(one.made.owner != owner for one in found)):
        return None
    return found


def grant_faults(fact: Granted, claim: Asked, claims: dict[int, Asked]) -> Iterator[Found]:
    """The laws that this grant would break, in the order of ``LAWS``."""
    place, shape, words = claim.place, claim.made.shape, claim.place.words
    start, size, end, mine = fact.start, fact.size, fact.start + fact.size, (fact.claim,)
    if size <= 0 or (size < shape.size and not shape.divisible):
        yield "size", f"{words(size)} granted, {words(shape.size)} needed", mine
    if start >= 0 and isinstance(shape, Contiguous) and start % shape.align:
        yield "place", f"it starts at {start:,}, not a multiple of {shape.align:,}", mine
    if start >= 0 and isinstance(shape, Slots) and start not in shape.starts:
        yield "place", f"it starts at {start:,}, not at one of {shape.starts}", mine
    if start >= 0 and place.around is not None:
        if touching(place.around, place.opened.resource, start, end, claims) is None:
            yield "bounds", f"[{start:,}, {end:,}) is in no single grant of {place.opened.inside!r}", mine
    elif start < -1 or (start >= 0 and end > place.capacity and not isinstance(shape, Units)):
        yield "bounds", f"[{start:,}, {end:,}) is not inside [0, {place.capacity:,})", mine
    if start >= 0:
        other = claims.get(place.before(end - 1))
        if other is not None and other.start + other.size > start:
            theirs = f"[{other.start:,}, {other.start + other.size:,})"
            held = f"claim {other.made.claim} of {other.made.owner!r} holds {theirs} since #{other.since}"
            yield "overlap", f"it got [{start:,}, {end:,}), but {held}", (*mine, other.made.claim)
    if place.held + size > place.capacity:
        held = f"{words(place.held)} of {words(place.capacity)} are held"
        yield "capacity", f"{words(size)} granted while {held}", mine


def joining_fault(claim: Asked, other: Asked | None) -> Found | None:
    """Nothing, when ``claim`` and ``other`` can be one; then they are, with all that they were joined to before."""
    number = claim.made.claim
    if other is None or other.state != "waiting" or other.place is claim.place:
        what = (
            "unknown"
            if other is None
            else other.state
            if other.place is not claim.place
            else "on the same resource"
        )
        return "joined", f"claim {number} is joined to one that is {what}", (number,)
    parts = [claim, *claim.joined, other, *other.joined]
    for part in parts:
        part.joined = [one for one in parts if one is not part]
    return None


def parted(claims: list[Asked]) -> Found | None:
    """What is wrong if one of ``claims``, which wait no more, is joined to one that does."""
    for claim in claims:
        for other in claim.joined:
            if other.state == "waiting":
                numbers = claim.made.claim, other.made.claim
                return (
                    "joined",
                    f"claim {numbers[0]} waits no more, claim {numbers[1]}, joined to it, does",
                    numbers,
                )
    return None


def growth_fault(units: int, claim: Asked) -> Found | None:
    """Nothing, when ``claim`` can grow; then it has."""
    place, mine = claim.place, (claim.made.claim,)
    if claim.start >= 0 or units <= 0:
        at = f" from {claim.start:,} on" if claim.start >= 0 else ""
        return "grew", f"{place.words(claim.size)}{at} are said to grow by {place.words(units)}", mine
    if place.held + units > place.capacity:
        held = f"{place.words(place.held)} of {place.words(place.capacity)} are held"
        return "capacity", f"{place.words(units)} more granted while {held}", mine
    claim.size += units
    place.hold(units, claim.made.owner)
    return None


def refusal_fault(fact: Refused, claim: Asked) -> Found | None:
    """Free units are counted for outermost resources only: a pool may count what its device has left."""
    place = claim.place
    free = place.capacity - place.held if place.around is None else fact.free
    if fact.free != free or not 0 <= fact.largest <= fact.free:
        told = f"{place.words(fact.free)} said to be free, longest stretch {place.words(fact.largest)}"
        words = f"{told}; {place.words(place.held)} of {place.words(place.capacity)} are held"
        return "conservation", words, (fact.claim,)
    return None
