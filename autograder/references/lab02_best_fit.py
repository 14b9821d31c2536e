"""The reference solution of 02.best-fit."""


def choose(holes, size, align):
    """The index of the smallest hole that holds the claim from a multiple of ``align`` on, None where none does."""
    good = [
        (length, index)
        for index, (start, length) in enumerate(holes)
        if -(-start // align) * align + size <= start + length
    ]
    return min(good)[1] if good else None
