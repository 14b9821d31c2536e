"""Facts kept flat: one list of kinds and fields, and an object made only when a fact is read.

A million facts as objects are a million things that Python's garbage collector visits again and again. As
``[Granted, time, claim, start, size, Used, time, ...]`` they are one list, and writing three facts of one
instant is one step.
"""

from array import array
from collections.abc import Collection, Iterator
from dataclasses import fields
from typing import final

from gpulab.errors import shown
from gpulab.telemetry.events import KINDS

FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in KINDS.values()}
_STEPS = {kind: len(names) + 1 for kind, names in FIELDS.items()}  # from one fact to the next


@final
class Columns:
    """Facts in order. Whoever writes adds to ``flat``: a kind, its fields in order, the next kind.

    Reading makes equal facts, not the same objects. Where facts start is found when the first is read, and
    then only for what came since: O(1) a fact after that.
    """

    __slots__ = ("_starts", "flat")

    def __init__(self) -> None:
        self.flat: list = []
        self._starts = array("Q")

    def starts(self) -> array:
        """Where in ``flat`` each fact starts.

        Raises:
            TypeError: what stands there is no kind of fact, so the one before it was written with other fields.
        """
        flat, starts = self.flat, self._starts
        at = starts[-1] + _STEPS[flat[starts[-1]]] if starts else 0
        end, add = len(flat), starts.append
        try:
            while at < end:
                step = _STEPS[flat[at]]
                add(at)
                at += step
        except (KeyError, TypeError):
            raise _not_a_fact(len(starts), flat[at]) from None
        if at > end:
            raise _not_a_fact(len(starts) - 1, flat[starts.pop()])
        return starts

    def __len__(self) -> int:
        return len(self.starts())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and self.flat == other.flat

    __hash__ = None

    def __getitem__(self, serial: int):
        """Fact #``serial``; from the end if negative."""
        at, flat = self.starts()[serial], self.flat
        kind = flat[at]
        return kind(*flat[at + 1 : at + _STEPS[kind]])

    def __iter__(self) -> Iterator:
        """The facts in order; those that are added meanwhile come too."""
        flat, at = self.flat, 0
        self.starts()  # says what is wrong, if anything is
        while at < len(flat):
            kind = flat[at]
            end = at + _STEPS[kind]
            yield kind(*flat[at + 1 : end])
            at = end

    def of(self, kinds: tuple[type, ...]) -> list:
        """The facts of these kinds, in order."""
        flat = self.flat
        return [flat[at](*flat[at + 1 : at + _STEPS[flat[at]]]) for at in self.starts() if flat[at] in kinds]

    def each(self, kinds: Collection[type]) -> Iterator[tuple[int, object]]:
        """The facts of these kinds with their serials, in order; of the others no object is made."""
        flat = self.flat
        for serial, at in enumerate(self.starts()):
            kind = flat[at]
            if kind in kinds:
                yield serial, kind(*flat[at + 1 : at + _STEPS[kind]])

    def rows(self) -> Iterator[tuple[type, list]]:
        """Each fact as its kind and its fields, in order."""
        flat = self.flat
        for at in self.starts():
            yield flat[at], flat[at + 1 : at + _STEPS[flat[at]]]

    def serials(self, kinds: tuple[type, ...]) -> list[int]:
        """The serials of the facts of these kinds, in order."""
        flat = self.flat
        return [serial for serial, at in enumerate(self.starts()) if flat[at] in kinds]

    def table(self, kind: type) -> dict:
        """``serial`` and each field of ``kind`` as a column, as ``Ledger.columns`` gives them."""
        import numpy as np

        starts, flat = self.starts(), self.flat
        serials = self.serials((kind,))
        table: dict = {"serial": np.array(serials, dtype=np.int64)}
        for offset, field in enumerate(fields(kind), 1):
            values = [flat[starts[serial] + offset] for serial in serials]
            if field.type is int:
                wide = any(abs(value) >= 1 << 63 for value in values)  # a claim may ask for any number
                values = np.array(values, dtype=object if wide else np.int64)
            table[field.name] = values
        return table


def _not_a_fact(serial: int, value: object) -> TypeError:
    return TypeError(
        f"Fact #{serial:,} begins with {shown(value)}, which is no kind of fact with all its fields behind it: it, or "
        f"the one before it, was written with too many fields or too few."
    )
