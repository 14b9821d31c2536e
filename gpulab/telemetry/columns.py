"""Facts kept small: the fields of each kind in one block of bytes, an object made only when a fact is read.

A million facts as objects are a million things that Python's garbage collector visits again and again; as
bytes they are none. Kinds with text or shapes are kept in one flat list; so are whole numbers that do not
fit into eight bytes.
"""

import struct
from array import array
from collections.abc import Iterator
from dataclasses import fields
from typing import final

from gpulab.errors import shown
from gpulab.telemetry.events import KINDS

_CODES = {kind: code for code, kind in enumerate(KINDS.values())}
_KINDS = tuple(_CODES)
FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS}
_ROWS = {
    kind: struct.Struct(f"={len(FIELDS[kind])}q")
    for kind in _KINDS
    if all(field.type is int for field in fields(kind))
}
_WRITE = {kind: (_CODES[kind], len(FIELDS[kind]), _ROWS[kind].pack if kind in _ROWS else None) for kind in _KINDS}
_BLOCK = 4096  # facts that an iteration reads at a time


@final
class Columns:
    """Facts in order, each as its kind and its fields. Reading makes equal facts, not the same objects."""

    __slots__ = ("_codes", "_kept", "_numbers", "_seen")

    def __init__(self) -> None:
        self._codes = bytearray()  # the kind of each fact
        self._kept: dict[type, bytearray | list] = {kind: bytearray() if kind in _ROWS else [] for kind in _KINDS}
        self._numbers = array("Q")  # of each fact looked up so far: how many of its kind are before it
        self._seen = [0] * len(_KINDS)

    def add(self, kind: type, values: tuple) -> None:
        """Keep the fact ``kind(*values)``. Raises ``TypeError`` if that is no fact."""
        try:
            code, width, pack = _WRITE[kind]
        except (KeyError, TypeError):
            raise TypeError(f"{shown(kind)} is no kind of fact; gpulab.telemetry.events has them all") from None
        if len(values) != width:
            raise TypeError(f"{kind.__name__} has {width} fields, not {len(values)}")
        kept = self._kept[kind]
        if type(kept) is list:
            kept += values
        else:
            try:
                kept += pack(*values)
            except struct.error:  # a number of more than eight bytes, or none
                self._kept[kind] = [value for row in self._rows(kind) for value in row]
                self._kept[kind] += values
        self._codes.append(code)

    def __len__(self) -> int:
        return len(self._codes)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Columns)
            and self._codes == other._codes
            and all(list(self._rows(kind)) == list(other._rows(kind)) for kind in _KINDS)
        )

    __hash__ = None

    def __getitem__(self, serial: int):
        """Fact #``serial``. The first look-up counts the facts once."""
        serial = range(len(self._codes))[serial]
        for code in self._codes[len(self._numbers) : serial + 1]:
            self._numbers.append(self._seen[code])
            self._seen[code] += 1
        kind, number = _KINDS[self._codes[serial]], self._numbers[serial]
        return kind(*next(self._rows(kind, number, number + 1)))

    def __iter__(self) -> Iterator:
        for kind, row in self.rows():
            yield kind(*row)

    def rows(self) -> Iterator[tuple[type, tuple]]:
        """Each fact as its kind and its fields, in order; facts that are added meanwhile come too."""
        done, at = [0] * len(_KINDS), 0
        while at < len(self._codes):
            codes = bytes(self._codes[at : at + _BLOCK])
            at += len(codes)
            readers: list[Iterator[tuple]] = []
            for code, kind in enumerate(_KINDS):
                first, done[code] = done[code], done[code] + codes.count(code)
                readers.append(self._rows(kind, first, done[code]))
            for code in codes:
                yield _KINDS[code], next(readers[code])

    def of(self, kind: type) -> list:
        """The facts of one kind, in order."""
        return [kind(*row) for row in self._rows(kind)] if kind in _CODES else []

    def serials(self, kinds: tuple[type, ...]) -> list[int]:
        """The serials of the facts of these kinds, in order."""
        wanted = {_CODES[kind] for kind in kinds if kind in _CODES}
        return [serial for serial, code in enumerate(self._codes) if code in wanted]

    def table(self, kind: type) -> dict:
        """``serial`` and each field of ``kind`` as a column, as ``Ledger.columns`` gives them."""
        import numpy as np

        serials = np.flatnonzero(np.frombuffer(bytes(self._codes), dtype=np.uint8) == _CODES[kind])
        table: dict = {"serial": serials.astype(np.int64)}
        kept, names = self._kept[kind], FIELDS[kind]
        if type(kept) is bytearray:
            grid = np.frombuffer(bytes(kept), dtype=np.int64).reshape(-1, len(names))
            return table | {name: grid[:, index].copy() for index, name in enumerate(names)}
        for index, field in enumerate(fields(kind)):
            values = kept[index :: len(names)]
            if field.type is int:
                wide = any(abs(value) >= 1 << 63 for value in values)  # a claim may ask for any number
                values = np.array(values, dtype=object if wide else np.int64)
            table[field.name] = values
        return table

    def _rows(self, kind: type, first: int = 0, last: int | None = None) -> Iterator[tuple]:
        """The fields of the facts of ``kind`` from number ``first`` up to ``last``, copied out now."""
        kept = self._kept[kind]
        if type(kept) is bytearray:
            size = _ROWS[kind].size
            return _ROWS[kind].iter_unpack(bytes(kept[first * size : None if last is None else last * size]))
        width = len(FIELDS[kind])
        part = kept[first * width : None if last is None else last * width]
        return zip(*[iter(part)] * width, strict=True)
