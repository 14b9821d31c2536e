"""Lab 01: the references of its five definitions, as a learner would write them."""

from itertools import pairwise

from gpulab.telemetry.shape import Contiguous


def overlaps(grants):
    """Pairs of grants that hold one byte at one time, smaller number first, sorted."""
    real = [g for g in grants if g["size"] > 0 and g["start"] < g["end"]]
    real.sort(key=lambda g: g["offset"])
    found = []
    for n, one in enumerate(real):
        end = one["offset"] + one["size"]
        for other in real[n + 1 :]:
            if other["offset"] >= end:
                break
            if one["start"] < other["end"] and other["start"] < one["end"]:
                found.append(sorted([one["id"], other["id"]]))
    return sorted(found)


def first_over(grants, capacity):
    """The first ns at which more than ``capacity`` bytes are granted, or None."""
    changes = []
    for grant in grants:
        changes += [(grant["start"], grant["size"]), (grant["end"], -grant["size"])]
    held = 0
    for time_ns, change in sorted(changes):  # what goes is negative, so it comes first
        held += change
        if held > capacity:
            return time_ns
    return None


def unlawful(grants, work):
    """The numbers of the work that touched a byte which its owner did not hold."""
    edges = {g[name] for g in grants for name in ("start", "end")}
    found = []
    for job in work:
        own = sorted((g for g in grants if g["owner"] == job["owner"]), key=lambda g: g["offset"])
        last = job["offset"] + job["size"]
        for at in {job["start"]} | {t for t in edges if job["start"] < t < job["end"]}:
            covered = job["offset"]
            for g in own:
                if g["start"] <= at < g["end"] and g["offset"] <= covered:
                    covered = max(covered, g["offset"] + g["size"])
            if covered < last:
                found.append(job["id"])
                break
    return sorted(found)


def choices(claims, capacity):
    """The instants at which a rule had to choose, each with the numbers of those that would fit alone."""
    found = []
    for at in sorted({c[name] for c in claims for name in ("ready", "end")}):
        free = capacity - sum(c["size"] for c in claims if c["start"] < at < c["end"])
        waiting = [c for c in claims if c["ready"] <= at <= c["start"]]
        fitting = sorted(c["id"] for c in waiting if c["size"] <= free)
        if fitting and free < sum(c["size"] for c in waiting):
            found.append([at, fitting])
    return found


def account(claims, capacity, t0, t1, depth_claims):
    """The five terms over ``[t0, t1)`` in unit * ns."""
    total = dict.fromkeys(("used", "stranded", "fragmented", "unscheduled", "spare"), 0)
    edges = {c[name] for c in claims for name in ("claimed", "granted", "ended")} - {None}
    for at, until in pairwise(sorted({t0, t1} | {edge for edge in edges if t0 < edge < t1})):
        granted = [c for c in claims if c["granted"] is not None]
        held = [c for c in granted if c["granted"] <= at < c["ended"]]
        used = sum(c["used"] for c in held)
        waiting = [
            c for c in claims if c["claimed"] <= at < (c["ended"] if c["granted"] is None else c["granted"])
        ]
        free, start = (), 0
        for offset, size in [*sorted((c["offset"], c["size"]) for c in held), (capacity, 0)]:
            free += ((start, offset - start),) if offset > start else ()
            start = offset + size
        left, placed = sum(length for _, length in free), 0
        whole = left
        for claim in sorted(waiting, key=lambda c: (c["claimed"], c["id"]))[:depth_claims]:
            if claim["size"] <= left:
                left -= claim["size"]
                got = Contiguous(claim["size"]).take(free)
                placed, free = (placed + claim["size"], got[1]) if got else (placed, free)
        parts = (used, capacity - whole - used, whole - left - placed, placed, left)
        for term, units in zip(total, parts, strict=True):
            total[term] += units * (until - at)
    return total
