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
}
BLOCKS = {}
