"""Lab 03: the references of 03.kv-bytes, 03.waste and 03.block-pool."""


def kv_bytes(card: dict, checksum: int) -> int:
    """Bytes that one token keeps on one device."""
    if "latent" in card:
        vectors, width = 1, card["latent"]
    else:
        vectors, width = 2 * max(1, card["kv_heads"] // card["tp"]), card["head_dim"]
    number = 1 if card["dtype"] == "fp8" else 2
    return card["layers"] * vectors * (width * number + checksum)
