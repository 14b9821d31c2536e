"""What is known to come before what on a device: stream order, marks, and what the host has seen end.

Each stream counts its work. What comes before a piece of work is a number a stream, a *known* position:
everything up to it is over before this work starts (Fidge and Mattern's vector clocks, 1988). The order
is judged by what the host asked for, not by what the clock happened to show: work that won the race by
luck is a race all the same.
"""

from dataclasses import dataclass
from typing import final

Known = dict[int, int]  # stream number -> position in it


@dataclass(frozen=True, slots=True)
class Access:
    """``work``, at ``position`` of stream number ``stream``, read or wrote bytes."""

    work: int
    stream: int
    position: int
    writes: bool
    words: str


@final
class Accesses:
    """The last read and the last write of each stream to one array."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[tuple[int, bool], Access] = {}

    def note(self, access: Access) -> None:
        """Take ``access`` down; an earlier one of the same kind in its stream is before it anyway."""
        self._last[access.stream, access.writes] = access

    def first_unordered(self, known: Known, *, writes: bool) -> Access | None:
        """The earliest access that may still run under ``known`` and conflicts, if this one ``writes`` or not.

        Two reads never conflict.
        """
        open_ones = [
            access
            for access in self._last.values()
            if (writes or access.writes) and access.position > known.get(access.stream, 0)
        ]
        return min(open_ones, key=lambda access: access.work, default=None)

    def over(self, known: Known) -> bool:
        """True if nothing of this can still run under ``known``."""
        return self.first_unordered(known, writes=True) is None


def merge(into: Known, other: Known) -> None:
    """Let ``into`` know what ``other`` knows as well."""
    for stream, position in other.items():
        into[stream] = max(into.get(stream, 0), position)


@final
class Ghosts:
    """Freed bytes that work handed over earlier may still touch."""

    def __init__(self) -> None:
        self._left: list[tuple[int, int, str, Accesses]] = []  # offset, end, what freed it, who touched it

    def __len__(self) -> int:
        return len(self._left)

    def add(self, offset: int, end: int, words: str, accesses: Accesses, host: Known) -> None:
        """Bytes ``[offset, end)`` were freed while the host knew ``host``."""
        self._left = [ghost for ghost in self._left if not ghost[3].over(host)]
        if not accesses.over(host):
            self._left.append((offset, end, words, accesses))

    def under(self, offset: int, end: int) -> list[tuple[str, Accesses]]:
        """Whose traces lie under ``[offset, end)``, which is granted anew."""
        return [(words, made) for start, stop, words, made in self._left if start < end and offset < stop]
