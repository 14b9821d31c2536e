"""Lab 03: the references of 03.kv-bytes, 03.waste and 03.block-pool."""

from gpulab.memory.blocks import BlockPool


def kv_bytes(card: dict, rules: dict) -> int:
    """Bytes that one token keeps on one device."""
    if "latent" in card:
        vectors, width = 1, card["latent"]
    else:
        vectors, width = 2 * max(1, card["kv_heads"] // card["tp"]), card["head_dim"]
    number = 1 if card["dtype"] == "fp8" else 2
    return card["layers"] * vectors * (width * number + rules["checksum"])


def reserve(plan: str, request: dict, rules: dict) -> int:
    """Slots that a plan holds for one request at one moment."""
    if plan == "paged":
        return -(-(request["prompt"] + request["output_so_far"]) // rules["block"]) * rules["block"]
    if plan == "max":
        tokens = rules["max_len"]
    elif plan == "oracle":
        tokens = request["prompt"] + request["output"]
    else:
        guess = 1
        while guess < request["output"]:
            guess *= 2
        tokens = request["prompt"] + guess
    slots = rules["unit_tokens"]
    while slots < tokens:
        slots *= 2
    return slots


class MyPool(BlockPool):
    """Taken from the head; back in reverse, a request's beginning to the tail and the rest to the head."""

    def prepare(self) -> None:
        self.order = list(range(self.n_blocks))

    def take(self, n: int, urgent: bool = False) -> list[int] | None:
        least = 0 if urgent else self.rules["watermark_blocks"]
        if len(self.order) - n < least:
            return None
        taken, self.order = self.order[:n], self.order[n:]
        return taken

    def give(self, blocks: list[int]) -> None:
        back = blocks[::-1]
        cut = max(0, len(blocks) - self.rules["kept_blocks"])
        self.order = back[:cut] + self.order + back[cut:]
