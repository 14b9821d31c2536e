"""The sheet of 01.account: each misconception walks the single nanoseconds that matter, in steps of ten."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab01.account import evidence
from autograder.references.lab01 import account
from autograder.verdict import Commitments
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous

TERMS = ("used", "stranded", "fragmented", "unscheduled", "spare")
TICK = 10


class Instant:
    """What is so at one tick, over a list with one entry a unit."""

    def __init__(self, claims, capacity, at, queue, stops):
        self.units = [None] * capacity  # None, "used" or "idle"
        self.waiting = []
        for c in claims:
            until = c["ended"] if c["granted"] is None else c["granted"]
            if c["claimed"] <= at < until:
                self.waiting.append((c["claimed"], c["id"], c["size"]))
            if c["granted"] is not None and c["granted"] <= at < c["ended"]:
                for n in range(c["size"]):
                    self.units[c["offset"] + n] = "used" if n < c["used"] else "idle"
        self.waiting, self.stops = [size for *_, size in queue(sorted(self.waiting))], stops
        self.free = self.units.count(None)
        self.reach, self.placed = self._reach()

    def _reach(self):
        left, units, placed = self.free, list(self.units), 0
        for size in self.waiting:
            if size > left and self.stops:
                break
            if size > left:
                continue
            left -= size
            for start in range(len(units) - size + 1):
                if units[start : start + size] == [None] * size:
                    units[start : start + size] = ["placed"] * size
                    placed += size
                    break
        return self.free - left, placed

    def terms(self):
        return {
            "used": self.units.count("used"),
            "stranded": self.units.count("idle"),
            "fragmented": self.reach - self.placed,
            "unscheduled": self.placed,
            "spare": self.free - self.reach,
        }


def oldest(waiting, depth):
    return waiting[:depth]


def smallest_of_oldest(waiting, depth):
    return sorted(waiting[:depth], key=lambda claim: claim[2])


def everybody(waiting, depth):
    return waiting


def walked(change=lambda now, terms: terms, *, queue=oldest, stops=False, window=True):
    """An account, tick by tick, whose terms at an instant are changed by ``change``."""

    def account(claims, capacity, t0, t1, depth_claims):
        if not window:
            t0, t1 = 0, max(c["ended"] for c in claims)
        total = dict.fromkeys(TERMS, 0)
        for at in range(t0, t1, TICK):
            now = Instant(claims, capacity, at, lambda waiting: queue(waiting, depth_claims), stops)
            for term, units in change(now, now.terms()).items():
                total[term] += units * TICK
        return total

    return account


def granted_is_used(now, terms):
    idle = now.units.count("idle")
    return terms | {"used": terms["used"] + idle, "stranded": terms["stranded"] - idle}


def holes_always_hurt(now, terms):
    return terms if now.waiting else terms | {"fragmented": terms["spare"], "spare": 0}


def all_free_lost(now, terms):
    return terms | {"unscheduled": now.placed + terms["spare"], "spare": 0} if now.placed else terms


def too_little_is_fragmented(now, terms):
    short = now.waiting and min(now.waiting) > now.free
    return terms | {"fragmented": now.free, "spare": 0} if short else terms


def spare_is_the_rest(now, terms):
    return terms | {"fragmented": 0, "unscheduled": 0, "spare": now.free}


def free_is_one_pool(now, terms):
    return terms | {"fragmented": 0, "unscheduled": now.reach}


def stub(claims, capacity, t0, t1, depth_claims):
    raise NotImplementedError("yours to write")


def shipped(claims, capacity, t0, t1, depth_claims):
    rows = [Claimed(c["claimed"], c["id"], "gpu", c["size"], Contiguous(c["size"])) for c in claims]
    held = [c for c in claims if c["granted"] is not None]
    rows += [Granted(c["granted"], c["id"], c["offset"], c["size"]) for c in held]
    rows += [Used(c["granted"], c["id"], c["used"]) for c in held]
    rows += [(Withdrawn if c["granted"] is None else Freed)(c["ended"], c["id"]) for c in claims]
    rows.sort(key=lambda f: (f.time_ns, (Freed, Withdrawn, Claimed, Granted, Used).index(type(f))))
    terms = Account(Ledger([Opened(0, "gpu", capacity, "units"), *rows, Closed(10**6)]))(t0, t1)
    return {name: getattr(terms, name) for name in TERMS}


def looked_at(claims, capacity, t0, t1, depth_claims):
    """As ``shipped``, and a claim is told only from when the scheduler looks at it."""
    ends = {c["id"]: c["ended"] if c["granted"] is None else c["granted"] for c in claims}
    seen, late = [], []
    for c in sorted(claims, key=lambda c: (c["claimed"], c["id"])):
        ahead = sorted((until for claimed, until in seen if until > c["claimed"]), reverse=True)
        looked = max(c["claimed"], *ahead[depth_claims - 1 : depth_claims], 0)
        seen.append((c["claimed"], ends[c["id"]]))
        if looked < ends[c["id"]] or c["granted"] is not None:
            late.append(c | {"claimed": min(looked, ends[c["id"]])})
    return shipped(late, capacity, t0, t1, depth_claims)


def all_spare(claims, capacity, t0, t1, depth_claims):
    return dict.fromkeys(TERMS, 0) | {"spare": capacity * (t1 - t0)}


def always(value):
    return lambda claims, capacity, t0, t1, depth_claims: value


def said(course, learner):
    exercise = exercises()["01.account"]
    ledger = exercise.watched(exercise.puzzle(course, learner))
    cause, shows = evidence(ledger, Account(ledger))
    return Commitments(learner, {"largest": "used"}, {"cause": cause, "events": sorted(shows)[:1]})


ACCOUNT = Sheet(
    "01.account",
    account,
    {
        "granted-is-used": Wrong(walked(granted_is_used), 0.6, 0.6, "granted-is-used", "others doing"),
        "free-is-one-pool": Wrong(walked(free_is_one_pool), 0.6, 0.6, "free-is-one-pool", "one stretch"),
        "too-little-is-fragmented": Wrong(
            walked(too_little_is_fragmented), 0.6, 0.6, "too-little-is-fragmented", "moving things"
        ),
        "holes-always-hurt": Wrong(walked(holes_always_hurt), 0.6, 0.6, "holes-always-hurt", "nobody wants"),
        "all-free-lost": Wrong(walked(all_free_lost), 0.6, 0.6, "all-free-lost", "than was asked"),
        "window-ignored": Wrong(walked(window=False), 0.0, 0.1, "window-ignored", "in the window"),
        "spare-is-the-rest": Wrong(walked(spare_is_the_rest), 0.4, 0.4, "spare-is-the-rest", "called"),
        "depth-ignored": Wrong(walked(queue=everybody), 0.4, 0.6, "depth-ignored", "at all of them"),
        "stops-at-the-first": Wrong(walked(stops=True), 0.4, 0.6, "stops-at-the-first", "younger one have"),
        "smallest-first": Wrong(
            walked(queue=smallest_of_oldest), 0.4, 0.6, "smallest-first", "look at first"
        ),
    },
    said=said,
    stub=stub,
    shortcuts=(shipped,),
    constants=(all_spare, *(always(value) for value in (dict.fromkeys(TERMS, 0), None, 0, [], {}))),
)

SHEETS = [ACCOUNT]
