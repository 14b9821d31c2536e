"""What a claim needs of free units: how many, and in which places.

A shape answers one question, ``take(free)``: which units would the claim get by first fit, and what is
free afterwards? A divisible shape takes the part that fits where the whole has no place. So a reader of the ledger can judge whether a claim had a legal place without knowing
the allocator that wrote it. Free units are a tuple of half-open extents ``((start, size), ...)`` in
order of ``start``; extents that touch are one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

Free = tuple[tuple[int, int], ...]


class Shape(Protocol):
    """Any shape. ``size`` counts the units it takes; ``divisible`` claims take the part that fits."""

    size: int
    divisible: bool

    def take(self, free: Free) -> tuple[Free, Free] | None:
        """``(what it takes, free after)`` by first fit, or None when there is no legal place."""


@dataclass(frozen=True, slots=True)
class Contiguous:
    """``size`` units in one stretch that starts on a multiple of ``align``."""

    size: int
    align: int = 1
    divisible: bool = False

    def take(self, free: Free) -> tuple[Free, Free] | None:
        for index, (start, length) in enumerate(free):
            at = -(-start // self.align) * self.align
            if at + self.size <= start + length:
                return ((at, self.size),), _cut(free, index, at, self.size)
        starts = ((-(-start // self.align) * self.align, index) for index, (start, _) in enumerate(free))
        return _longest(free, starts) if self.divisible else None


@dataclass(frozen=True, slots=True)
class Units:
    """``size`` units, any of them: KV blocks, bytes behind a page table, SM time."""

    size: int
    divisible: bool = False

    def take(self, free: Free) -> tuple[Free, Free] | None:
        if not self.divisible and sum(length for _, length in free) < self.size:
            return None
        taken, left, after = [], self.size, []
        for start, length in free:
            part = min(length, left)
            if part:
                taken.append((start, part))
                left -= part
            if part < length:
                after.append((start + part, length - part))
        return (tuple(taken), tuple(after)) if taken else None


@dataclass(frozen=True, slots=True)
class Slots:
    """``size`` units in one stretch that starts at one of ``starts`` (MIG instances)."""

    size: int
    starts: tuple[int, ...]
    divisible: bool = False

    def take(self, free: Free) -> tuple[Free, Free] | None:
        for at in self.starts:
            for index, (start, length) in enumerate(free):
                if start <= at and at + self.size <= start + length:
                    return ((at, self.size),), _cut(free, index, at, self.size)
        starts = ((at, i) for at in self.starts for i, (start, _) in enumerate(free) if start <= at)
        return _longest(free, starts) if self.divisible else None


@dataclass(frozen=True, slots=True)
class Gang:
    """Several members that start together or not at all; if ``divisible``, those that find a place.

    Each of ``parts`` is placed in turn. With ``together`` all of them must come out of one free extent
    (one node; of a divisible gang, the first one with the most); otherwise each finds its own place.
    """

    parts: tuple[Shape, ...]
    together: bool = False
    divisible: bool = False

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def take(self, free: Free) -> tuple[Free, Free] | None:
        if not self.together:
            return self._take_from(free)
        best = None
        for index, extent in enumerate(free):
            got = self._take_from((extent,))
            if got is not None and (best is None or _units(got[0]) > _units(best[0])):
                best = got[0], free[:index] + got[1] + free[index + 1 :]
                if not self.divisible:
                    return best
        return best

    def _take_from(self, free: Free) -> tuple[Free, Free] | None:
        taken: Free = ()
        for part in self.parts:
            got = part.take(free)
            if got is not None:
                taken, free = taken + got[0], got[1]
            elif not self.divisible:
                return None
        return (taken, free) if taken else None


_KINDS = {"contiguous": Contiguous, "units": Units, "slots": Slots, "gang": Gang}


def shape_to_json(shape: Shape) -> list:
    """``shape`` as a JSON list: its kind, then its fields in order."""
    match shape:
        case Contiguous(size, align, divisible):
            return ["contiguous", size, align, divisible]
        case Units(size, divisible):
            return ["units", size, divisible]
        case Slots(size, starts, divisible):
            return ["slots", size, list(starts), divisible]
        case Gang(parts, together, divisible):
            return ["gang", [shape_to_json(part) for part in parts], together, divisible]
    raise TypeError(f"{shape!r} is not a shape; use Contiguous, Units, Slots or Gang")


def shape_from_json(data: list) -> Shape:
    """The shape that ``shape_to_json`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError`` on anything else."""
    kind, *values = data
    if kind == "gang":
        parts, *flags = values
        shape: Shape = Gang(tuple(shape_from_json(part) for part in parts), *flags)
        numbers: tuple = ()
    elif kind == "slots":
        size, starts, *flags = values
        shape = Slots(size, tuple(starts), *flags)
        numbers = size, *starts
    else:
        *numbers, flag = values
        shape, flags = _KINDS[kind](*values), [flag]
    if any(type(number) is not int for number in numbers) or any(type(flag) is not bool for flag in flags):
        raise TypeError(f"{data!r} is no shape: sizes and starts are whole numbers, flags are true or false")
    if kind == "contiguous" and shape.align < 1:
        raise ValueError(f"{data!r} is no shape: every start is a multiple of 1 or more")
    return shape


def _units(extents: Free) -> int:
    return sum(length for _, length in extents)


def _longest(free: Free, starts: Iterable[tuple[int, int]]) -> tuple[Free, Free] | None:
    """The first of the longest stretches from one of ``starts``, an address and the extent for it, to its extent's end."""
    lengths = [(sum(free[index]) - at, -number, at, index) for number, (at, index) in enumerate(starts)]
    size, _, at, index = max(lengths, default=(0, 0, 0, 0))
    return (((at, size),), _cut(free, index, at, size)) if size > 0 else None


def _cut(free: Free, index: int, at: int, size: int) -> Free:
    """``free`` without ``[at, at + size)``, which lies inside extent ``index``."""
    start, length = free[index]
    before = ((start, at - start),) if at > start else ()
    after = ((at + size, start + length - at - size),) if at + size < start + length else ()
    return free[:index] + before + after + free[index + 1 :]
