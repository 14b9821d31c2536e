"""The sheet of 03.kv-bytes: each misconception is the reference with one of its numbers wrong."""

from sheets import Sheet, Wrong

from autograder.references.lab03_blocks import kv_bytes


def misread(*, stores=None, twice=2, number=None, width=None, checksum=True):
    """``kv_bytes`` of somebody who counts the heads, the vectors, a number or a width in another way."""

    def wrong(card, rules):
        latent = "latent" in card
        heads = 1 if latent else (stores or (lambda c: max(1, c["kv_heads"] // c["tp"])))(card)
        vectors = heads * (1 if latent and twice != "always" else 1 if twice == 1 else 2)
        wide = card["latent"] if latent else (width or (lambda c: c["head_dim"]))(card)
        size = wide * (number or (lambda c: 1 if c["dtype"] == "fp8" else 2))(card)
        return card["layers"] * vectors * (size + rules["checksum"] * checksum)

    return wrong


def checksum_once(card, rules):
    return kv_bytes(card, {"checksum": 0}) + card["layers"] * rules["checksum"]


def stub(card, rules):
    raise NotImplementedError("yours to write")


def always(value):
    return lambda card, rules: value


SHEETS = [
    Sheet(
        "03.kv-bytes",
        kv_bytes,
        {
            "query-heads": Wrong(
                misread(stores=lambda c: max(1, c["heads"] // c["tp"])), 4 / 12, 4 / 12, "query-heads"
            ),
            "k-or-v": Wrong(misread(twice=1), 2 / 12, 2 / 12, "k-or-v"),
            "bits": Wrong(misread(number=lambda c: 8 if c["dtype"] == "fp8" else 16), 0.0, 0.0, "bits"),
            "two-bytes": Wrong(misread(number=lambda c: 2), 10 / 12, 10 / 12, "two-bytes", "fp8"),
            "hidden-over-heads": Wrong(
                misread(width=lambda c: c["hidden"] // c["heads"]), 2 / 12, 2 / 12, "hidden-over-heads"
            ),
            "latent-twice": Wrong(misread(twice="always"), 10 / 12, 10 / 12, "latent-twice"),
            "tp-below-one": Wrong(
                misread(stores=lambda c: c["kv_heads"] // c["tp"]), 10 / 12, 10 / 12, "tp-below-one"
            ),
            "all-devices": Wrong(misread(stores=lambda c: c["kv_heads"]), 2 / 12, 6 / 12, "all-devices"),
            "no-checksum": Wrong(misread(checksum=False), 0.0, 0.0, "no-checksum"),
            "checksum-once": Wrong(checksum_once, 2 / 12, 2 / 12, "checksum-once"),
        },
        stub=stub,
        constants=tuple(always(value) for value in (None, 0, 131_072, 819_200, "0", True, 1.5)),
    )
]
