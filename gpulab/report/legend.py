"""What the colours of a memory map say: the owner, or with many owners how large a grant is."""

from dataclasses import dataclass

from gpulab.report.lifetimes import Lifetime
from gpulab.report.table import exact_size
from gpulab.units import format_bytes

# Okabe and Ito, "Color Universal Design" (2008): told apart with every common colour blindness.
OWNER_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#F0E442", "#D55E00")
SIZE_COLOURS = ("#9ECAE1", "#57A0CE", "#1F6FB2", "#08306B")
_DARK = {"#0072B2", "#1F6FB2", "#08306B"}  # white text on these, black on the others: contrast above 4.5


@dataclass(frozen=True)
class Legend:
    """Keys in order of appearance with their colours, and what the colour says."""

    title: str
    keys: tuple[str, ...]
    colours: tuple[str, ...]

    def ink(self, key: str) -> str:
        return "white" if self.colours[self.keys.index(key)] in _DARK else "black"


def legend_of(grants: list[Lifetime], unit: str) -> tuple[Legend, dict[int, str]]:
    """The legend and the key of each grant by claim: owners while seven colours do, else sizes.

    More than seven owners cannot be told apart by colour; then it shows how large a grant is, light to
    dark, in four classes with equally many grants.
    """
    owners = list(dict.fromkeys(owner_name(life.owner) for life in grants))
    if len(owners) <= len(OWNER_COLOURS):
        keys = {life.claim: owner_name(life.owner) for life in grants}
        return Legend("owner", tuple(owners), OWNER_COLOURS[: len(owners)]), keys
    sizes = sorted(life.size for life in grants)
    tops = sorted({sizes[(len(sizes) * quarter - 1) // 4] for quarter in (1, 2, 3, 4)})
    names = [f"up to {format_bytes(top) if unit == 'B' else exact_size(top, unit)}" for top in tops]
    keys = {
        life.claim: next(n for n, top in zip(names, tops, strict=True) if life.size <= top) for life in grants
    }
    names = list(dict.fromkeys(names))
    return Legend("size of a grant", tuple(names), SIZE_COLOURS[-len(names) :]), keys


def owner_name(owner: str) -> str:
    """``owner`` as a legend can hold it."""
    owner = plain(owner)
    return "(no owner)" if not owner else owner if len(owner) <= 60 else owner[:59] + "…"


def plain(text: str) -> str:
    """``text`` without what no picture can show: control characters and halves of characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)
