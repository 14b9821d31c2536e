"""Hints and blocks of lab 03: bytes, plans, the pool, the trace and the size of a block."""

HINTS = {
    "03.kv-bytes": (
        "Draw one layer of the model: which vectors must a later token still find, and how long is each?",
        "# 1. how many heads does this device store? (devices may be more than heads)\n"
        "# 2. how many vectors is that for one token, and is there one latent vector instead?\n"
        "# 3. bytes of a vector, with its checksum\n"
        "# 4. times layers",
    ),
    "03.waste": (
        "Look at the map: how much of each stretch holds tokens when its request ends, and how much on the way?",
        "# max, pow2, oracle: how many tokens does the plan make room for, once and for all?\n"
        "#   then the smallest unit * 2 * 2 ... that holds them\n"
        "# paged: the tokens that are there now, in whole blocks",
    ),
    "03.block-pool": (
        "Look at a request of many blocks that ends: which of its blocks may be asked for again, and which never?",
        "# prepare: all blocks are free, the lowest first\n"
        "# take: how many would be left, and how many must be?\n"
        "#   the first n leave your books, or none\n"
        "# give: in reverse; which part goes to the tail, which to the head?",
        'blocks("03.block-pool") gives the lines of both methods to put in order, with two that do not belong.',
    ),
}
BLOCKS = {
    "03.block-pool": (
        {
            "a": "take: least = 0 if urgent else the watermark",
            "b": "give: back = the blocks, last one first",
            "c": "      the first n leave the order and are returned",
            "d": "      if fewer than least would be left: return None",
            "e": "      all but the last `kept` of back go to the head",
            "f": "      the last `kept` of back go to the tail",
            "g": "      if least or fewer would be left: return None",
            "h": "      all but the last `kept` of back go to the tail",
        },
        "adcbef",
    ),
}
