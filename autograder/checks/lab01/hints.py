"""Hints and blocks of lab 01."""

HINTS = {
    "01.overlap": (
        "Take two rectangles of the map that share an edge, and two of which one lies inside the other. "
        "What does the printed solution say of each pair?",
        "# run the printed solution on the map, count its pairs, count them in the picture\n"
        "# which pair differs? follow that pair through the four steps",
    ),
    "01.capacity": (
        "Stand on one instant of the picture: which grants are held then? Which of them only just ended?",
        "# two changes a grant: its size comes at start, and goes at end\n"
        "# in order of time; of one instant those that go first\n"
        "# after each change: more than the capacity?",
    ),
    "01.lawful": (
        "Take one piece of work as a rectangle on the map. Which grants of its owner tile it, and is a corner bare?",
        "# the instants that matter: the start of the work, and every edge of a grant during it\n"
        "# at each of them: the owner's grants in order of address; is a byte of the work left out?",
    ),
    "01.choice": (
        "Put your finger on one finish in the picture: how much is free, who waits, who of them fits alone, do all fit?",
        "# the instants: every ready, every end, each once\n"
        "# free = capacity - sizes of those that run on over this instant\n"
        "# waiting = those that are ready and have not started before\n"
        "# the smallest fits, and the sum does not: list those that fit",
    ),
    "01.account": (
        "Cut the map where anything changes. In one slice: who holds, what is free, who waits, and who of them is looked at?",
        "# for each slice between two changes in the window\n"
        "#   grants: what they use is used, the rest stranded\n"
        "#   free extents; of the waiting claims the depth_claims oldest, the oldest first\n"
        "#   reach R: each that still fits into what is left of the free units in all\n"
        "#   placed U: the same claims into the real extents\n"
        "#   unscheduled U, fragmented R - U, spare F - R; times the length of the slice",
        'blocks("01.account") gives the lines of the free rule to put in order, with two that do not belong.',
    ),
}

BLOCKS = {
    "01.account": (
        {
            "a": "for claim in the depth_claims oldest waiting claims, oldest first:",
            "b": "    if the claim is larger than left: go on to the next",
            "c": "left = F, placed = 0",
            "d": "    left -= size of the claim",
            "e": "    try to take the claim out of the real extents",
            "f": "    if that worked: placed += size of the claim",
            "g": "unscheduled = placed, fragmented = F - left - placed, spare = left",
            "h": "for claim in the waiting claims, smallest first:",
            "i": "unscheduled = placed, fragmented = left, spare = 0",
        },
        "cabdefg",
    ),
}
