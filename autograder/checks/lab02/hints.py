"""Hints and blocks of lab 02."""

HINTS = {
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

BLOCKS = {
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
