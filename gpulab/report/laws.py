"""The laws of a ledger, and the books that hold each fact against the facts before it.

This page knows facts and shapes only, nothing of the code that writes them, so a mistake there cannot
hide here. It judges what is possible, not what is wise: a claim refused while a hole fits breaks no law
of the ledger; the account shows that loss, and a check may forbid it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpulab.report.table import exact_size
from gpulab.report.work_laws import WORK_LAWS, WorkBooks
from gpulab.telemetry.events import Claimed, Fact, Freed, Granted, Opened, Refused, Returned, Used
from gpulab.telemetry.shape import Contiguous, Slots, Units

LAWS = {
    "time": "time never runs back",
    "opened": "a resource is opened once, before it is claimed, inside one that is there",
    "claimed": "a claim has a serial of its own, a positive size, and is made before anything happens to it",
    "waiting": "only a claim that waits is granted, refused, withdrawn or timed out",
    "held": "only what is held is used, returned or freed",
    "size": "a grant is as large as its shape says, or larger; a divisible one may be smaller",
    "place": "a grant starts where its shape allows",
    "bounds": "a grant lies inside its resource (units with an address of their own excepted), or inside one "
    "grant of the resource around it, or inside several that touch",
    "overlap": "no unit is granted twice at once",
    "capacity": "no more is granted than there is",
    "used": "no more of a grant is used than was granted, and no less than nothing",
    "returned": "part of a grant goes back only where units have no address, and something of it stays",
    "conservation": "what is held and what a refusal calls free are the whole capacity",
    "inside": "what still holds grants of an inner resource is not freed",
    **WORK_LAWS,
}
Found = tuple[str, str, tuple[int, ...]]  # law, numbers in words, claims concerned


@dataclass(slots=True)
class _Place:
    """A resource with what is held in it now. ``starts`` is sorted; ``at`` names the claim at each."""

    opened: Opened
    around: "_Place | None"
    held: int = 0
    starts: list[int] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        return self.around.held if self.around else self.opened.capacity

    def before(self, address: int) -> int | None:
        """The claim whose grant starts last at or before ``address``."""
        index = bisect_right(self.starts, address)
        return self.at[self.starts[index - 1]] if index else None

    def words(self, units: int) -> str:
        return exact_size(units, self.opened.unit)


@dataclass(slots=True)
class _Claim:
    made: Claimed
    place: _Place
    state: str = "waiting"  # then held, over; wrong: told already, not judged again
    since: int = 0  # serial of the fact that made it so
    start: int = -1
    size: int = 0
    around: "list[_Claim]" = field(default_factory=list)
    within: int = 0  # grants of inner resources that lie in this one


class Books:
    """What is opened, waiting and held after the facts so far."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._claims: dict[int, _Claim] = {}
        self._now_ns = 0
        self._work = WorkBooks()

    def note(self, serial: int, fact: Fact) -> Found | None:
        """Take ``fact`` down, or say which law it breaks."""
        if fact.time_ns < self._now_ns:
            return "time", f"{fact.time_ns:,} ns come after {self._now_ns:,} ns", ()
        self._now_ns = fact.time_ns
        if isinstance(fact, Opened):
            return self._open(fact)
        if isinstance(fact, Claimed):
            return self._claim(serial, fact)
        number = getattr(fact, "claim", None)
        if number is None:
            broken = self._work.note(fact)
            return (*broken, ()) if broken else None
        claim = self._claims.get(number)
        if claim is None:
            return "claimed", f"nobody made claim {number}", (number,)
        if claim.state == "wrong":
            return None
        wanted = "held" if isinstance(fact, Used | Returned | Freed) else "waiting"
        if claim.state != wanted:
            words = f"claim {number} is {claim.state} since #{claim.since}, not {wanted}"
            return wanted, words, (number,)
        return self._settle(serial, fact, claim)

    def _open(self, fact: Opened) -> Found | None:
        if fact.resource in self._places:
            return "opened", f"{fact.resource!r} is open already", ()
        around = self._places.get(fact.inside)
        if fact.inside and around is None:
            return "opened", f"{fact.inside!r}, around {fact.resource!r}, is not open", ()
        if around is None and fact.capacity <= 0:
            return "opened", f"{fact.resource!r} has {fact.capacity:,} {fact.unit}", ()
        self._places[fact.resource] = _Place(fact, around)
        return None

    def _claim(self, serial: int, fact: Claimed) -> Found | None:
        place = self._places.get(fact.resource)
        if fact.claim in self._claims:
            since = self._claims[fact.claim].since
            return "claimed", f"claim {fact.claim} was made before and is as #{since} left it", (fact.claim,)
        if place is None:
            return "opened", f"{fact.resource!r} is not open", (fact.claim,)
        self._claims[fact.claim] = claim = _Claim(fact, place, since=serial)
        if fact.size <= 0 or fact.shape.size <= 0:
            claim.state = "wrong"
            return (
                "claimed",
                f"claim {fact.claim} wants {fact.size:,}, a shape of {fact.shape.size:,}",
                (fact.claim,),
            )
        return None

    def _settle(self, serial: int, fact: Fact, claim: _Claim) -> Found | None:
        """A fact about a claim in the right state."""
        match fact:
            case Granted():
                found = next(_grant_faults(fact, claim, self._claims), None)
                if found is not None:
                    claim.state = "wrong"
                    return found
                self._grant(fact, claim)
            case Refused():
                return _refusal_fault(fact, claim)
            case Used(units=units):
                if not 0 <= units <= claim.size:
                    words = (
                        f"{claim.place.words(units)} of {claim.place.words(claim.size)} are said to be used"
                    )
                    return "used", words, (fact.claim,)
                return None
            case Returned(units=units):
                if claim.start >= 0 or not 0 < units < claim.size:
                    at = f" from {claim.start:,} on" if claim.start >= 0 else ""
                    words = f"{claim.place.words(units)} of {claim.place.words(claim.size)}{at} are said to go back"
                    return "returned", words, (fact.claim,)
                claim.size -= units
                claim.place.held -= units
                return None
            case Freed():
                if claim.within:
                    words = f"{claim.within} grants lie in claim {fact.claim}, held since #{claim.since}"
                    return "inside", words, (fact.claim,)
                self._free(claim)
            case _:
                claim.state = "over"
        claim.since = serial
        return None

    def _grant(self, fact: Granted, claim: _Claim) -> None:
        place = claim.place
        claim.state, claim.start, claim.size = "held", fact.start, fact.size
        place.held += fact.size
        if fact.start >= 0:
            insort(place.starts, fact.start)  # moves pointers only: no fact is compared twice
            place.at[fact.start] = fact.claim
            if place.around:
                claim.around = _touching(place.around, fact.start, fact.start + fact.size, self._claims) or []
                for outer in claim.around:
                    outer.within += 1

    def _free(self, claim: _Claim) -> None:
        place = claim.place
        claim.state = "over"
        place.held -= claim.size
        if claim.start >= 0:
            del place.at[claim.start]
            del place.starts[bisect_left(place.starts, claim.start)]
        for outer in claim.around:
            outer.within -= 1


def _touching(place: _Place, start: int, end: int, claims: dict[int, _Claim]) -> list[_Claim] | None:
    """The grants at ``place``, each starting where the one before ends, that hold [start, end); None if none do."""
    found = [claims.get(place.before(start))]
    while found[-1] is not None and found[-1].start + found[-1].size < end:
        found.append(claims.get(place.at.get(found[-1].start + found[-1].size)))
    return None if found[-1] is None else found


def _grant_faults(fact: Granted, claim: _Claim, claims: dict[int, _Claim]) -> Iterator[Found]:
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
        if _touching(place.around, start, end, claims) is None:
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


def _refusal_fault(fact: Refused, claim: _Claim) -> Found | None:
    """Free units are counted for outermost resources only: a pool may count what its device has left."""
    place = claim.place
    free = place.capacity - place.held if place.around is None else fact.free
    if fact.free != free or not 0 <= fact.largest <= fact.free:
        told = f"{place.words(fact.free)} said to be free, longest stretch {place.words(fact.largest)}"
        words = f"{told}; {place.words(place.held)} of {place.words(place.capacity)} are held"
        return "conservation", words, (fact.claim,)
    return None
