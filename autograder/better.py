"""Two exercises for the points of one: the learner does one of them, or both, and the better counts.

The first has the points in nbgrader. The other (``Exercise.instead_of``) has a cell of 0 points, so that a
lab's full mark is what one learner can reach.
"""

from collections.abc import Mapping


def shared(exercise: str, instead_of: Mapping[str, str]) -> list[str]:
    """All exercises that share the points of ``exercise``, the one whose cell has them first; [] for most."""
    first = instead_of.get(exercise, exercise)
    others = [name for name, other in instead_of.items() if other == first]
    return [first, *others] if others else []


def counted(scores: Mapping[str, object], instead_of: Mapping[str, str]) -> dict[str, tuple[float, str]]:
    """Of each exercise that shares its points with another: the points of its cell, and the line that says so.

    Args:
        scores: exercise to the judge's ``Score`` (``points``, ``max_points``). One whose first exercise was not
            judged keeps its own points: there is no other cell they could go to.
        instead_of: exercise to the one in whose place it may be done.
    """
    found: dict[str, tuple[float, str]] = {}
    for first in dict.fromkeys(instead_of.values()):
        names = [name for name in shared(first, instead_of) if name in scores]
        if first not in names or len(names) < 2:
            continue
        best = max(names, key=lambda name: scores[name].points)  # of equals the first
        own = ", ".join(f"{name} {scores[name].points:g}" for name in names)
        line = (
            f"The better of {' and '.join(names)} counts ({own} of {scores[first].max_points:g} points): {best}. "
            f"Its points stand at {first}."
        )
        found |= {name: (scores[best].points if name == first else 0.0, line) for name in names}
    return found
