"""What an instructor should look at in a notebook that was graded: the judge's marks say it."""

import re

from autograder.feedback import TOO_LONG

_UNHEARD = {
    "no-code": "its code did not run",
    "too-long": "did not come to an end",
    "gone": "ended the kernel",
}


def to_look_at(cells: list[dict], student: str) -> list[str]:
    """In graded ``cells``: each exercise whose code could not be judged, cells that were stopped, another learner's name."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    marks = [output.get("metadata", {}).get("gpulab", {}) for output in outputs]
    unheard = [
        f"{mark['exercise']}: {_UNHEARD[mark['tag']]}" for mark in marks if mark.get("tag") in _UNHEARD
    ]
    typed = {mark["typed_name"] for mark in marks if isinstance(mark.get("typed_name"), str)} - {""}
    others = sorted(name for name in typed if not _may_be(name, student))
    long = sum(any(one.get("ename") == TOO_LONG for one in cell.get("outputs", [])) for cell in cells)
    unheard += [f"{long} cell{'s' * (long != 1)} went on for too long"] if long else []
    return unheard + ([f"answers were given under the name {', '.join(others)}"] if others else [])


def _may_be(name: str, student: str) -> bool:
    """Is ``name`` a part of what a platform calls ``student``, as *gina* is of *Gina Meyer 11111*?"""
    whole = student.casefold()
    return set(name.casefold().split()) <= {whole, *re.split(r"[\s._-]+", whole)}
