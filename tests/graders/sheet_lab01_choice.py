"""The sheet of 01.choice."""

from sheets import Sheet, Wrong

from autograder.references.lab01 import choices
from autograder.verdict import Commitments


def at_each(rule, *, names=("ready", "end"), once=True):
    """``rule(waiting, free, held)`` -> candidates, or None, at each instant in order."""

    def answers(claims, capacity):
        found = []
        instants = sorted(c[name] for c in claims for name in names)
        for at in sorted(set(instants)) if once else instants:
            held = sum(c["size"] for c in claims if c["start"] < at < c["end"])
            waiting = [c for c in claims if c["ready"] <= at and c["start"] >= at]
            listed = rule(waiting, capacity - held, held)
            if listed is not None:
                found.append([at, sorted(c["id"] for c in listed)])
        return found

    return answers


def fitting(waiting, free):
    return [c for c in waiting if c["size"] <= free]


def wanted(waiting):
    return sum(c["size"] for c in waiting)


def right(waiting, free, held):
    return fitting(waiting, free) if fitting(waiting, free) and wanted(waiting) > free else None


def whoever_waits(waiting, free, held):
    return fitting(waiting, free) or None


def whatever_fits(waiting, free, held):
    return fitting(waiting, free) if wanted(waiting) > free else None


def of_all(waiting, free, held):
    return right(waiting, free + held, held)


def everybody(waiting, free, held):
    return waiting if right(waiting, free, held) else None


def stub(claims, capacity):
    raise NotImplementedError("yours to write")


def always(value):
    return lambda claims, capacity: value


def nobody_fits(claims, capacity):
    return [[at, []] for at, _ in choices(claims, capacity)]


def said(course, learner):
    return Commitments(learner, {"percent": 40})


CHOICE = Sheet(
    "01.choice",
    choices,
    {
        "queue-means-choice": Wrong(at_each(whoever_waits), 0.0, 0.3, "queue-means-choice", "to decide"),
        "nothing-fits-counted": Wrong(
            at_each(whatever_fits), 0.0, 0.5, "nothing-fits-counted", "any rule act"
        ),
        "total-not-free": Wrong(at_each(of_all), 0.0, 0.6, "total-not-free", "is held then"),
        "arrivals-only": Wrong(at_each(right, names=("ready",)), 0.0, 0.7, "arrivals-only", "finished"),
        "twice-at-once": Wrong(at_each(right, once=False), 0.0, 0.5, "twice-at-once", "How many decisions"),
        "lists-misfits": Wrong(at_each(everybody), 0.7, 0.84, "lists-misfits", "been chosen"),
        "nobody-listed": Wrong(nobody_fits, 0.7, 0.84, "other-answer", "by hand"),
    },
    said=said,
    stub=stub,
    constants=tuple(always(value) for value in ([], None, 0, [[0, []]], [[0, [1]]], {}, True)),
)

SHEETS = [CHOICE]
