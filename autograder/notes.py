"""What an instructor should look at in a notebook that was graded: the judge's marks say it."""

import re
import unicodedata

from autograder.feedback import TOO_LONG

_UNHEARD = {
    "no-code": "its code did not run",
    "too-long": "did not come to an end",
    "gone": "ended the kernel",
}


def to_look_at(cells: list[dict], student: str) -> list[str]:
    """In graded ``cells``: exercises whose code could not be judged, cells that were missing or stopped, the name given."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    marks = [output.get("metadata", {}).get("gpulab", {}) for output in outputs]
    unheard = [
        f"{mark['exercise']}: {_UNHEARD[mark['tag']]}" for mark in marks if mark.get("tag") in _UNHEARD
    ]
    typed = {mark["typed_name"] for mark in marks if isinstance(mark.get("typed_name"), str)}
    others = sorted(name for name in typed if name and not _may_be(name, student))
    missing = sum("restored" in cell.get("metadata", {}).get("tags", []) for cell in cells)
    long = sum(any(one.get("ename") == TOO_LONG for one in cell.get("outputs", [])) for cell in cells)
    unheard += [f"{long} cell{'s' * (long != 1)} went on for too long"] if long else []
    unheard += [f"{missing} check cell{'s were' if missing != 1 else ' was'} missing"] if missing else []
    unheard += [f"answers were given under the name {', '.join(others)}"] if others else []
    return unheard + (["no name was given"] if "" in typed else [])


def _may_be(name: str, student: str) -> bool:
    """Is ``name`` a part of what a platform calls ``student``, as *gina* is of *Gina Meyer 11111*?"""
    parts, whole = _parts(name), _parts(student)
    return bool(parts) and parts <= whole


def _parts(name: str) -> set[str]:
    """The words of ``name``, however its letters are composed: *Anna-Lena* is two, and *J. Smith* has a *j*."""
    return set(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", name).casefold()))
