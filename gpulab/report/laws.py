"""The laws of a ledger, and the books that hold each fact against the facts before it.

This page knows facts and shapes only, nothing of the code that writes them, so a mistake there cannot
hide here. It judges what is possible, not what is wise: a claim refused while a hole fits breaks no law
of the ledger; the account shows that loss, and a check may forbid it.
"""

from bisect import bisect_left, insort

from gpulab.report.places import (
    Asked,
    Place,
    grant_faults,
    growth_fault,
    joining_fault,
    parted,
    refusal_fault,
    touching,
)
from gpulab.report.request_laws import REQUEST_LAWS, Found, RequestBooks
from gpulab.report.work_laws import WORK_LAWS, WorkBooks
from gpulab.telemetry.events import (
    Claimed,
    Fact,
    Freed,
    Granted,
    Grew,
    Joined,
    Opened,
    Refused,
    Returned,
    Used,
)

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
    "joined": "claims that are joined are on different resources, and wait no more in one instant",
    "grew": "a grant grows by something, and only where units have no address",
    "conservation": "what is held and what a refusal calls free are the whole capacity",
    "inside": "what still holds grants of an inner resource is not freed",
    "identity": "capacity * time = used + stranded + fragmented + unscheduled + spare, on every level",
    **WORK_LAWS,
    **REQUEST_LAWS,
}


class Books:
    """What is opened, waiting and held after the facts so far."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._claims: dict[int, Asked] = {}
        self._now_ns = 0
        self._left: list[Asked] = []  # joined claims that wait no more, as of this instant
        self._work, self._requests = WorkBooks(), RequestBooks()

    def note(self, serial: int, fact: Fact) -> Found | None:
        """Take ``fact`` down, or say which law it breaks."""
        late = None
        if self._left and fact.time_ns > self._now_ns:
            late, self._left = parted(self._left), []
        return self._judge(serial, fact) or late or self._requests.note(serial, fact)

    def _judge(self, serial: int, fact: Fact) -> Found | None:
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
        wanted = "held" if isinstance(fact, Used | Returned | Grew | Freed) else "waiting"
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
        self._places[fact.resource] = Place(fact, around)
        if around:
            around.pools += 1
        return None

    def _claim(self, serial: int, fact: Claimed) -> Found | None:
        place = self._places.get(fact.resource)
        if fact.claim in self._claims:
            since = self._claims[fact.claim].since
            return "claimed", f"claim {fact.claim} was made before and is as #{since} left it", (fact.claim,)
        if place is None:
            return "opened", f"{fact.resource!r} is not open", (fact.claim,)
        self._claims[fact.claim] = claim = Asked(fact, place, since=serial)
        if fact.size <= 0 or fact.shape.size <= 0:
            claim.state = "wrong"
            return (
                "claimed",
                f"claim {fact.claim} wants {fact.size:,}, a shape of {fact.shape.size:,}",
                (fact.claim,),
            )
        return None

    def _settle(self, serial: int, fact: Fact, claim: Asked) -> Found | None:
        """A fact about a claim in the right state."""
        match fact:
            case Granted():
                found = next(grant_faults(fact, claim, self._claims), None)
                if found is not None:
                    claim.state = "wrong"
                    return found
                self._grant(fact, claim)
            case Joined(to=to):
                return joining_fault(claim, self._claims.get(to))
            case Refused():
                return refusal_fault(fact, claim)
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
                claim.place.hold(-units, claim.made.owner)
                return None
            case Grew(units=units):
                return growth_fault(units, claim)
            case Freed():
                if claim.within:
                    words = f"{claim.within} grants lie in claim {fact.claim}, held since #{claim.since}"
                    return "inside", words, (fact.claim,)
                self._free(claim)
            case _:
                claim.state = "over"
        claim.since = serial
        if claim.joined and not isinstance(fact, Freed):
            self._left.append(claim)
        return None

    def _grant(self, fact: Granted, claim: Asked) -> None:
        place = claim.place
        claim.state, claim.start, claim.size = "held", fact.start, fact.size
        place.hold(fact.size, claim.made.owner)
        if fact.start >= 0:
            insort(place.starts, fact.start)  # moves pointers only: no fact is compared twice
            place.at[fact.start] = fact.claim
            if place.around:
                claim.around = (
                    touching(
                        place.around, place.opened.resource, fact.start, fact.start + fact.size, self._claims
                    )
                    or []
                )
                for outer in claim.around:
                    outer.within += 1

    def _free(self, claim: Asked) -> None:
        place = claim.place
        claim.state = "over"
        place.hold(-claim.size, claim.made.owner)
        if claim.start >= 0:
            del place.at[claim.start]
            del place.starts[bisect_left(place.starts, claim.start)]
        for outer in claim.around:
            outer.within -= 1
