"""What the labs say on request: hints, blocks to order, one real message, a task in words."""

import json

from autograder.answerer import Answerer
from autograder.course import Course

_HINTS = {
    "02.predict-oom": (
        "Look at the map: which free pieces touch each other, and which lie in different segments?",
        "# 1. the longest free piece inside a segment\n"
        "# 2. what the device has left, plus every cached segment of which nothing is held\n"
        "# 3. the larger of the two",
    ),
    "02.first-fit": (
        "Look at the map: which holes could hold the refused claim, and from which address on may it start?",
        "# place: for each hole, lowest first\n"
        "#   the first legal start inside the hole\n"
        "#   does the claim still end inside the hole?\n"
        "#   then what is left in front and behind, if anything, are holes\n"
        "# reclaim: the bytes are a hole again; does it touch one on its left? on its right?",
        'blocks("02.first-fit") gives the lines of `place` to put in order, with two that do not belong.',
    ),
    "02.strand": (
        "Look at the map of three layers: where does the second weight go, and what did the device give for it?",
        "# 1. what the device gives for one temporary (mind the 2 MiB)\n"
        "# 2. layer by layer: does the temporary, does the weight find a free piece?\n"
        "# 3. segments in all, minus live weights\n"
        "# 4. a cap: which pieces may no longer be cut, and who may then take them?",
    ),
    "02.best-fit": (
        "For each hole: from which address on may the claim start there, and where would it end?",
        "# of the holes in which it ends inside, the shortest; of equal ones the first in the list",
    ),
    "02.break": (
        "Take two holes, the larger one first. Which claim goes into the larger one by first fit, into the smaller by best fit?",
        "# trace: after two claims one rule has one useful rest, the other two useless ones\n"
        "# mirror: a claim that just fills the smaller hole, then one that needs the larger",
    ),
}

_BLOCKS = {
    "02.first-fit": (
        {
            "a": "if offset + size <= end of the hole:",
            "b": "for each hole, in order of address:",
            "c": "if size <= length of the hole:",
            "d": "    replace the hole by what is left in front and behind",
            "e": "return None, after the last hole",
            "f": "offset = start of the hole, rounded up to its boundary",
            "g": "    return offset",
            "h": "offset = start of the hole, rounded down to its boundary",
        },
        "bfadge",
    ),
}


def hints(exercise: str) -> tuple[str, ...]:
    """The hints of ``exercise``, gentlest first."""
    return _HINTS.get(exercise, ())


def blocks(exercise: str) -> tuple[dict[str, str], str]:
    """Lettered lines and the right order of the letters; empty when there are none."""
    return _BLOCKS.get(exercise, ({}, ""))


def task(puzzle: object) -> str:
    """A task in words."""
    if hasattr(puzzle, "graded"):
        return puzzle.graded.text()
    if hasattr(puzzle, "text"):
        return puzzle.text()
    lines = [f"arena: {puzzle.capacity:,} B"]
    lines += [f"{c.time_ns:>6,} ns  {c.owner}: {c.size:,} B for {c.hold_ns:,} ns" for c in puzzle.claims]
    return "\n".join(lines)


def message(exercise: str, course: Course) -> str:
    """One real question of the judge, as it travels, and what an answer looks like."""
    if exercise != "02.first-fit":
        return f"The judge sends nothing for {exercise}: it reads the answers you noted."
    settings = {"capacity": 1 << 30, "alignment": 512, "rules": course.rules[exercise]}
    questions = [
        [1, "new", [settings], []],
        [2, "place", [1 << 20], []],
        [3, "place", [4096], [["reclaim", [0, 1 << 20]]]],
    ]
    answerer = Answerer(_Anywhere)
    spoken = [(json.dumps(question), answerer.answer(json.dumps(question))) for question in questions]
    answerer.close()
    heard = "\n".join(f"judge: {question}\nyou:   {reply}" for question, reply in spoken)
    return (
        f"{heard}\nA question is [serial, method, arguments, told]: the calls in `told` are made first. "
        "Your class is made with `capacity`, `alignment` and `rules`; you write prepare, place and reclaim."
    )


class _Anywhere:
    """An object that always answers 0, to show what messages look like."""

    def __init__(self, capacity: int, alignment: int, rules: dict) -> None:
        self.capacity = capacity

    def place(self, size: int) -> int:
        return 0

    def reclaim(self, offset: int, size: int) -> None:
        return None
