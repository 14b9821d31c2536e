"""The sheet of 01.account: each misconception walks the single nanoseconds that matter, in steps of ten."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab01.account import evidence
from autograder.references.lab01 import account
from autograder.verdict import Commitments
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Used
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous

TERMS = ("used", "stranded", "fragmented", "unscheduled", "spare")
TICK = 10


class Instant:
    """What is so at one tick, over a list with one entry a unit."""

    def __init__(self, claims, capacity, at, wipe_ns):
        self.units = [None] * capacity  # None, "used", "idle" or "wiped"
        self.waiting = []
        for c in claims:
            until = c["ended"] if c["granted"] is None else c["granted"]
            if c["claimed"] <= at < until:
                self.waiting.append(c["size"])
            if c["granted"] is not None and c["granted"] <= at < c["ended"] + wipe_ns:
                live = at < c["ended"]
                for n in range(c["size"]):
                    self.units[c["offset"] + n] = ("used" if n < c["used"] else "idle") if live else "wiped"
        self.waiting.sort()
        self.free = self.units.count(None)
        self.reach, self.placed = self._reach()

    def _reach(self):
        left, units, placed = self.free, list(self.units), 0
        for size in self.waiting:
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
        held = {name: self.units.count(name) for name in ("used", "idle", "wiped")}
        return {
            "used": held["used"],
            "stranded": held["idle"] + held["wiped"],
            "fragmented": self.reach - self.placed,
            "unscheduled": self.placed,
            "spare": self.free - self.reach,
        }


def walked(change=lambda now, terms: terms, *, wipes=True, window=True):
    """An account, tick by tick, whose terms at an instant are changed by ``change``."""

    def account(claims, capacity, t0, t1, wipe_ns):
        wipe_ns *= wipes
        if not window:
            t0, t1 = 0, max(c["ended"] for c in claims) + wipe_ns
        total = dict.fromkeys(TERMS, 0)
        for at in range(t0, t1, TICK):
            now = Instant(claims, capacity, at, wipe_ns)
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
    short = now.waiting and now.waiting[0] > now.free
    return terms | {"fragmented": now.free, "spare": 0} if short else terms


def spare_is_the_rest(now, terms):
    return terms | {"fragmented": 0, "unscheduled": 0, "spare": now.free}


def free_is_one_pool(now, terms):
    return terms | {"fragmented": 0, "unscheduled": now.reach}


def stub(claims, capacity, t0, t1, wipe_ns):
    raise NotImplementedError("yours to write")


def shipped(claims, capacity, t0, t1, wipe_ns):
    facts = [
        (c["claimed"], 1, Claimed(c["claimed"], c["id"], "gpu", c["size"], Contiguous(c["size"])))
        for c in claims
    ]
    for c in (c for c in claims if c["granted"] is not None):
        facts += [(c["granted"], 2, Granted(c["granted"], c["id"], c["offset"], c["size"]))]
        facts += [
            (c["granted"], 3, Used(c["granted"], c["id"], c["used"])),
            (c["ended"], 0, Freed(c["ended"], c["id"])),
        ]
    facts = [fact for *_, fact in sorted(facts, key=lambda f: f[:2])]
    terms = Account(Ledger([Opened(0, "gpu", capacity, "units"), *facts, Closed(10**6)]))(t0, t1)
    return {name: getattr(terms, name) for name in TERMS}


def all_spare(claims, capacity, t0, t1, wipe_ns):
    return dict.fromkeys(TERMS, 0) | {"spare": capacity * (t1 - t0)}


def always(value):
    return lambda claims, capacity, t0, t1, wipe_ns: value


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
        "wipe-ignored": Wrong(walked(wipes=False), 0.2, 0.4, "wipe-ignored", "anybody use them"),
    },
    said=said,
    stub=stub,
    constants=(all_spare, *(always(value) for value in (dict.fromkeys(TERMS, 0), None, 0, [], {}))),
)

SHEETS = [ACCOUNT]
