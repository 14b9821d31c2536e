"""What the query of a claim of 07.claims asks, and of which half of the run."""

from dataclasses import replace

from gpulab.report.query import Part, parsed

_WHEN = ("arrived_ns", "time_ns", "start_ns")  # columns that tell the halves apart


def asks(claim: object) -> object:
    """What the query of ``claim`` asks, however it is written: the run by its name, conditions and sides in any order."""
    try:
        parts, joins = parsed(claim.query if claim else None)
    except ValueError:
        return None
    plain = [replace(part, run=part.run or "run", keeps=tuple(sorted(part.keeps, key=str))) for part in parts]
    return sorted(map(str, plain)), joins


def half(part: Part, shift_ns: int) -> str:
    """The half in which all of its rows lie; '' when they may lie in both."""
    first, last = [0], []
    for verb, *given in part.keeps:
        if verb == "between":
            first.append(given[0])
            last.append(given[1])
        elif given[0] in _WHEN and type(given[2]) in (int, float):
            (first if given[1] in (">", ">=") else last if given[1] in ("<", "<=") else []).append(given[2])
    if last and min(last) <= shift_ns:
        return "before"
    return "after" if max(first) >= shift_ns else ""
