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
    "02.pool": (
        "Look at the lanes of your run: before which calls does the host stand still, and which chunk was free then?",
        "# take: the size you would ask for; is a chunk of that size free, on this stream or told by reached()?\n"
        "#   yes: it is not free any more; no: ask the device for that size, so that near sizes can share it\n"
        "# give: the chunk is free, for its stream alone; while more than cache_bytes are free, the oldest goes\n"
        "# trim: the oldest go, until what is left of the device holds the need",
        'blocks("02.pool") gives the lines of `take` and `give` to put in order, with two that do not belong.',
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
    "02.pool": (
        {
            "a": "wanted = size, rounded up to one of four sizes a doubling",
            "b": "for each free chunk, the oldest first:",
            "c": "    if it has wanted bytes, and is of this stream or was told by reached():",
            "d": '        strike it off the free chunks; return ["chunk", id]',
            "e": "    if it has size bytes or more:",
            "f": 'return ["grow", wanted], after the last free chunk',
            "g": "give: the chunk is free from now on, for its stream alone",
            "h": "while more than cache_bytes are free: hand back the oldest free chunk",
            "i": "give: hand the chunk back, so that nothing is ever stranded",
        },
        "abcdfgh",
    ),
}
