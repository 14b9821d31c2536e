"""The sheet of 01.overlap."""

from itertools import pairwise

from sheets import Sheet, Wrong

from autograder.references.lab01 import overlaps
from autograder.verdict import Commitments


def _end(g):
    return g["offset"] + g["size"]


def _space(a, b):
    return a["offset"] < _end(b) and b["offset"] < _end(a)


def _time(a, b):
    return a["start"] < b["end"] and b["start"] < a["end"]


def pairwise_by(meets):
    """Every pair of grants that hold something, by number, of which ``meets`` says that they overlap."""

    def answers(grants):
        real = sorted((g for g in grants if g["size"] and g["start"] < g["end"]), key=lambda g: g["id"])
        return sorted([a["id"], b["id"]] for n, a in enumerate(real) for b in real[n + 1 :] if meets(a, b))

    return answers


def touching(a, b):
    return a["offset"] <= _end(b) and b["offset"] <= _end(a) and _time(a, b)


def touching_in_time(a, b):
    return _space(a, b) and a["start"] <= b["end"] and b["start"] <= a["end"]


def containment(a, b):
    edges = b["offset"], _end(b) - 1
    return _time(a, b) and any(a["offset"] <= edge < _end(a) for edge in edges)


def neighbours_only(grants):
    real = sorted((g for g in grants if g["size"] and g["start"] < g["end"]), key=lambda g: g["offset"])
    return sorted(sorted([a["id"], b["id"]]) for a, b in pairwise(real) if _space(a, b) and _time(a, b))


def stub(grants):
    raise NotImplementedError("yours to write")


def backwards(grants):
    return [pair[::-1] for pair in reversed(overlaps(grants))]


def always(value):
    return lambda grants: value


def said(course, learner):
    return Commitments(learner, {"pairs": 3})


OVERLAP = Sheet(
    "01.overlap",
    overlaps,
    {
        "touching-counts": Wrong(pairwise_by(touching), 0.0, 0.75, "touching-counts", "bracket"),
        "touching-in-time": Wrong(pairwise_by(touching_in_time), 0.0, 0.75, "touching-counts", "bracket"),
        "neighbours-only": Wrong(neighbours_only, 0.0, 0.7, "neighbours-only", "stop looking"),
        "time-only": Wrong(pairwise_by(_time), 0.0, 0.2, "time-only", "different addresses"),
        "bytes-only": Wrong(pairwise_by(_space), 0.0, 0.3, "bytes-only", "began when the other had ended"),
        "same-owner-forgiven": Wrong(
            pairwise_by(lambda a, b: _space(a, b) and _time(a, b) and a["owner"] != b["owner"]),
            *(0.0, 0.7, "same-owner-forgiven", "Who frees it"),
        ),
        "containment-missed": Wrong(
            pairwise_by(containment), 0.0, 0.84, "containment-missed", "wholly inside"
        ),
        "backwards": Wrong(backwards, 0.0, 0.2, "not-sorted", "order"),
    },
    said=said,
    stub=stub,
    constants=tuple(always(value) for value in ([], None, 0, [[1, 2]], {}, "", True)),
)

SHEETS = [OVERLAP]
