"""01.account read wrongly: one sweep over the window, with a change in what an instant's terms are."""

from collections.abc import Callable
from itertools import pairwise

from autograder.checks.lab01.case import Case
from autograder.checks.lab01.definition import Misreading
from gpulab.report.account import TERMS
from gpulab.telemetry.shape import Contiguous


def swept(case: Case, instant: Callable[[dict], dict], *, wipes: bool = True, window: bool = True) -> dict:
    """The terms that ``instant`` makes of the parts at an instant, summed over the window."""
    numbers, claims = case.numbers, case.lists["claims"]
    wipe = numbers["wipe_ns"] if wipes else 0
    edges = {claim[name] for claim in claims for name in ("claimed", "granted", "ended")} - {None}
    edges |= {claim["ended"] + wipe for claim in claims if claim["granted"] is not None}
    t0, t1 = (numbers["t0"], numbers["t1"]) if window else (0, max(edges, default=0))
    total = dict.fromkeys(TERMS, 0)
    for start, end in pairwise(sorted({t0, t1} | {edge for edge in edges if t0 < edge < t1})):
        for name, units in instant(_parts(claims, numbers["capacity"], start, wipe)).items():
            total[name] += units * (end - start)
    return total


def _parts(claims: tuple[dict, ...], capacity: int, at: int, wipe: int) -> dict[str, int]:
    """What each term is made of at ``at``: granted, touched and wiped units, F, R, U, and whether who waits."""
    held = [c for c in claims if c["granted"] is not None and c["granted"] <= at < c["ended"] + wipe]
    live = [claim for claim in held if at < claim["ended"]]
    waiting = [
        c for c in claims if c["claimed"] <= at < (c["ended"] if c["granted"] is None else c["granted"])
    ]
    free, start = [], 0
    for offset, size in [*sorted((claim["offset"], claim["size"]) for claim in held), (capacity, 0)]:
        free += [(start, offset - start)] if offset > start else []
        start = offset + size
    left = total = sum(length for _, length in free)
    placed, layout = 0, tuple(free)
    for claim in sorted(waiting, key=lambda claim: (claim["size"], claim["id"])):
        if claim["size"] > left:
            break
        left -= claim["size"]
        got = Contiguous(claim["size"]).take(layout)
        if got:
            placed, layout = placed + claim["size"], got[1]
    return {
        "granted": sum(claim["size"] for claim in live),
        "touched": sum(claim["used"] for claim in live),
        "wiped": sum(claim["size"] for claim in held) - sum(claim["size"] for claim in live),
        **{"F": total, "R": total - left, "U": placed, "waiting": len(waiting)},
    }


def terms(p: dict, **changed: int) -> dict[str, int]:
    """The rule at an instant, with some terms ``changed``."""
    stranded = p["granted"] - p["touched"] + p["wiped"]
    return {
        "used": p["touched"],
        "stranded": stranded,
        "fragmented": p["R"] - p["U"],
        "unscheduled": p["U"],
        "spare": p["F"] - p["R"],
    } | changed


def _granted_is_used(p: dict) -> dict:
    return terms(p, used=p["granted"], stranded=p["wiped"])


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
    "wipe-ignored": Misreading(
        "A grant ended {wipe} ns or less ago. May anybody have its units already, and does anybody use them?",
        (lambda case: swept(case, terms, wipes=False),),
    ),
}
