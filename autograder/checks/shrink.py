"""A failing trace made small: whole claims are left out as long as the same fault shows."""

from collections.abc import Callable


def shrunk(items: list, still_fails: Callable[[list], bool], *, plays: int = 300) -> list:
    """A short sublist of ``items`` for which ``still_fails`` holds, as it does for ``items`` itself.

    Delta debugging (Zeller and Hildebrandt, 2002) over complements: chunks of halving length are left out.
    At most ``plays`` calls; what is left is then not always minimal.
    """
    length = max(1, len(items) // 2)
    while plays > 0:
        start, cut = 0, False
        while start < len(items) and plays > 0:
            kept = items[:start] + items[start + length :]
            plays -= 1
            if kept and still_fails(kept):
                items, cut = kept, True
            else:
                start += length
        if length == 1 and not cut:
            return items
        length = max(1, length // 2)
    return items
