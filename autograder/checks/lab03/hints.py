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
    "03.prefix-trace": (
        "Write the free queue down after each line of the trace. Which blocks does somebody still hold?",
        "# 1. blocks of each request in order; which are full, and which of them are shared\n"
        "# 2. whoever ends gives back, last block first, what nobody else holds\n"
        "# 3. full blocks with the same beginning are hits; they leave the queue wherever they stand\n"
        "# 4. the rest comes from the head",
    ),
    "03.block-size": (
        "Compute the three parts of the price for block 1 and for block 256. Which part hurts at which end?",
        "# for each size: slots held and not filled; tokens of beginnings in no full block; entries\n"
        "# times the three prices; take the size with the least sum\n"
        "# then the two shares at that size, of a thousand",
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
