"""01.account read wrongly: one sweep over the window, with a change in what an instant's terms are."""

from collections.abc import Callable
from itertools import pairwise

from autograder.checks.lab01.case import Case
from autograder.checks.lab01.definition import Misreading
from gpulab.report.account import TERMS
from gpulab.telemetry.shape import Contiguous


def oldest(waiting: list[dict], depth: int) -> list[dict]:
    """The rule: the ``depth`` oldest claims, the oldest first."""
    return everybody(waiting, depth)[:depth]


def everybody(waiting: list[dict], depth: int) -> list[dict]:
    """Whoever waits, the oldest first."""
    return sorted(waiting, key=lambda claim: (claim["claimed"], claim["id"]))


def smallest_of_oldest(waiting: list[dict], depth: int) -> list[dict]:
    """The ``depth`` oldest claims, the smallest first."""
    return smallest(oldest(waiting, depth), depth)


def smallest(waiting: list[dict], depth: int) -> list[dict]:
    """Whoever waits, the smallest first: what gpulab's own account does."""
    return sorted(waiting, key=lambda claim: (claim["size"], claim["id"]))


def swept(
    case: Case,
    instant: Callable[[dict], dict],
    *,
    queue: Callable[[list[dict], int], list[dict]] = oldest,
    stops: bool = False,
    window: bool = True,
) -> dict:
    """The terms that ``instant`` makes of the parts at an instant, summed over the window.

    ``queue``: (who waits, ``depth_claims``) -> the claims that are looked at, in this order. ``stops``: the
    first one that does not fit ends the walk.
    """
    numbers, claims = case.numbers, case.lists["claims"]
    edges = {claim[name] for claim in claims for name in ("claimed", "granted", "ended")} - {None}
    t0, t1 = (numbers["t0"], numbers["t1"]) if window else (0, max(edges, default=0))
    total = dict.fromkeys(TERMS, 0)
    for start, end in pairwise(sorted({t0, t1} | {edge for edge in edges if t0 < edge < t1})):
        held = [c for c in claims if c["granted"] is not None and c["granted"] <= start < c["ended"]]
        waiting = queue(
            [c for c in claims if c["claimed"] <= start < _waits_until(c)], numbers["depth_claims"]
        )
        for name, units in instant(_parts(held, waiting, numbers["capacity"], stops)).items():
            total[name] += units * (end - start)
    return total


def _waits_until(claim: dict) -> int:
    return claim["ended"] if claim["granted"] is None else claim["granted"]


def _parts(held: list[dict], waiting: list[dict], capacity: int, stops: bool) -> dict[str, int]:
    """What each term of an instant is made of: granted and touched units, F, R, U, and how many are looked at."""
    free, start = [], 0
    for offset, size in [*sorted((claim["offset"], claim["size"]) for claim in held), (capacity, 0)]:
        free += [(start, offset - start)] if offset > start else []
        start = offset + size
    left = total = sum(length for _, length in free)
    placed, layout = 0, tuple(free)
    for claim in waiting:
        if claim["size"] > left:
            if stops:
                break
            continue
        left -= claim["size"]
        got = Contiguous(claim["size"]).take(layout)
        if got:
            placed, layout = placed + claim["size"], got[1]
    return {
        "granted": sum(claim["size"] for claim in held),
        "touched": sum(claim["used"] for claim in held),
        **{"F": total, "R": total - left, "U": placed, "waiting": len(waiting)},
    }


def terms(p: dict, **changed: int) -> dict[str, int]:
    """The rule at an instant, with some terms ``changed``."""
    return {
        "used": p["touched"],
        "stranded": p["granted"] - p["touched"],
        "fragmented": p["R"] - p["U"],
        "unscheduled": p["U"],
        "spare": p["F"] - p["R"],
    } | changed


def _granted_is_used(p: dict) -> dict:
    return terms(p, used=p["granted"], stranded=0)


def _holes_hurt(p: dict) -> dict:
    return terms(p) if p["waiting"] else terms(p, fragmented=p["F"], spare=0)


def _all_lost(p: dict) -> dict:
    return terms(p, unscheduled=p["F"] - p["R"] + p["U"], spare=0) if p["U"] else terms(p)


def _too_little(p: dict) -> dict:
    short = p["waiting"] and not p["R"]
    return terms(p, fragmented=p["F"], spare=0) if short else terms(p)


def _liquid(p: dict) -> dict:
    return terms(p, fragmented=0, unscheduled=p["R"])


def _rest(p: dict) -> dict:
    return terms(p, fragmented=0, unscheduled=0, spare=p["F"])


MISREAD = {
    "granted-is-used": Misreading(
        "Some grants touch fewer units than they hold. What are the others doing?",
        (lambda case: swept(case, _granted_is_used),),
    ),
    "free-is-one-pool": Misreading(
        "A claim waits that the free units hold in all. Is there one stretch that holds it?",
        (lambda case: swept(case, _liquid),),
    ),
    "too-little-is-fragmented": Misreading(
        "All that is free is less than the smallest claim needs. Would moving things help?",
        (lambda case: swept(case, _too_little),),
    ),
    "holes-always-hurt": Misreading(
        "For a while nobody waits. Whose loss is a hole nobody wants?",
        (lambda case: swept(case, _holes_hurt),),
    ),
    "all-free-lost": Misreading(
        "More is free than the waiting claims ask in all. Can more be lost than was asked?",
        (lambda case: swept(case, _all_lost),),
    ),
    "window-ignored": Misreading(
        "Something began before t0, or ended after t1. Which part of it is in the window?",
        (lambda case: swept(case, terms, window=False),),
    ),
    "spare-is-the-rest": Misreading(
        "Your terms sum, but for a while a claim waits that the free units could hold. What is that loss called?",
        (lambda case: swept(case, _rest),),
    ),
    "depth-ignored": Misreading(
        "At some instant more than {depth} claims wait. Does this scheduler look at all of them?",
        (lambda case: swept(case, terms, queue=everybody), lambda case: swept(case, terms, queue=smallest)),
    ),
    "stops-at-the-first": Misreading(
        "The oldest claim does not fit, a younger one would. May the younger one have the units?",
        (lambda case: swept(case, terms, stops=True),),
    ),
    "smallest-first": Misreading(
        "Two claims wait, the younger one is the smaller. Which of them does this scheduler look at first?",
        (lambda case: swept(case, terms, queue=smallest_of_oldest),),
    ),
}
