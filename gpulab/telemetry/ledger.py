"""The ledger: facts in the order in which they became true. Writers append, readers only read.

A fact's serial is its position, written ``#17``. Equal runs give byte-equal files: integers only, fields
in a fixed order, nothing taken from the machine. How a million facts are kept small is in ``columns``.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

from gpulab.errors import BrokenLaw, TraceFault, shown
from gpulab.telemetry.columns import FIELDS, Columns
from gpulab.telemetry.events import KINDS, Claimed, Fact
from gpulab.telemetry.shape import shape_from_json, shape_to_json

_HEADER = {"gpulab": "ledger", "version": 1}
_GETTERS = {kind: attrgetter(*names) for kind, names in FIELDS.items() if len(names) > 1}
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class Ledger:
    """An append-only list of facts, ordered by time.

    ``ledger[17]`` is fact #17; ``len``, iteration and slices work as for a list. A fact that is read is equal
    to the one that was written, and not the same object: nothing can be changed afterwards.
    """

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts = Columns()
        self._flat = self._facts.flat
        self._last_ns = 0
        for fact in facts:
            self.append(fact)

    def append(self, fact: Fact) -> int:
        """Write ``fact`` and return its serial. Time may stand still, never run back (``BrokenLaw``).

        Raises:
            TypeError: it is no fact.
        """
        kind = type(fact)
        if kind not in FIELDS:
            raise TypeError(f"{shown(fact)} is no fact; gpulab.telemetry.events has their kinds")
        self.write(kind, *(_GETTERS[kind](fact) if kind in _GETTERS else (fact.time_ns,)))
        return len(self._facts) - 1

    def write(self, *facts) -> None:
        """Write facts of one instant without making them: ``write(Freed, 7, claim, Used, 7, other, 0)``.

        For whoever writes a million: each is a kind and all of its fields in order, which nobody checks before
        they are read. Time may stand still, never run back (``BrokenLaw``).
        """
        time_ns = facts[1]
        if time_ns < self._last_ns and self._flat:
            raise BrokenLaw(
                f"{facts[0].__name__} at {time_ns:,} ns was written after #{len(self) - 1} "
                f"at {self._last_ns:,} ns. Facts are written in the order of their time.",
                law="time",
                event=len(self),
            )
        self._last_ns = time_ns
        self._flat += facts

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._facts[serial] for serial in range(*index.indices(len(self._facts)))]
        try:
            return self._facts[index]
        except IndexError:
            last = f"the last event is #{len(self) - 1:,}" if len(self) else "the ledger is empty"
            raise IndexError(f"there is no event #{index:,}: {last}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._facts == other._facts

    __hash__ = None

    def __repr__(self) -> str:
        return f"<Ledger: {len(self):,} facts, {self.start_ns:,} to {self.end_ns:,} ns>"

    @property
    def start_ns(self) -> int:
        """Time of the first fact, 0 when empty."""
        return self._facts[0].time_ns if len(self._facts) else 0

    @property
    def end_ns(self) -> int:
        """Time of the last fact, 0 when empty."""
        return self._last_ns

    def of(self, *kinds: type) -> list[Fact]:
        """The facts of these kinds, in order."""
        return self._facts.of(kinds)

    def each(self, kinds: Collection[type]) -> Iterator[tuple[int, Fact]]:
        """The facts of these kinds as ``(serial, fact)``, one at a time: half the cost of looking at all of them."""
        return self._facts.each(kinds)

    def rows(self) -> Iterator[tuple[type, list]]:
        """Each fact as its kind and the list of its fields, for whoever writes a million of them down again."""
        return self._facts.rows()

    def serials(self, *kinds: type) -> list[int]:
        """The serials of the facts of these kinds, in order."""
        return self._facts.serials(kinds)

    def owned_by(self, owner: str) -> list[Fact]:
        """The facts about claims that ``owner`` made, in order."""
        mine = {fact.claim for fact in self.of(Claimed) if fact.owner == owner}
        return [fact for fact in self if getattr(fact, "claim", None) in mine]

    def story(self, claim: int, last: int = 6) -> list[tuple[int, Fact]]:
        """The ``last`` facts about ``claim`` as ``(serial, fact)``. Cost: one pass over the ledger."""
        told = [(serial, fact) for serial, fact in enumerate(self) if getattr(fact, "claim", None) == claim]
        return told[-last:]

    def columns(self, kind: type) -> dict:
        """One array a field for the facts of ``kind``, plus ``serial``; feeds pandas, polars or Altair.

        Integers come as ``int64`` (NumPy), or as Python's where one needs more bits; text and shapes as lists.
        """
        return self._facts.table(kind)

    def lines(self) -> Iterator[str]:
        """The JSON lines of this ledger: a header, then one fact a line as ``["Kind", field, ...]``."""
        yield _ENCODE(_HEADER)
        for kind, row in self._facts.rows():
            if kind is Claimed:
                row[4] = shape_to_json(row[4])
            yield _ENCODE([kind.__name__, *row])

    def to_jsonl(self, path: str | Path) -> None:
        """Write the ledger to ``path``, LF line ends, UTF-8."""
        with open(path, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(line + "\n" for line in self.lines())

    @classmethod
    def from_jsonl(cls, path: str | Path) -> "Ledger":
        """The ledger in ``path``.

        Raises:
            TraceFault: a line is no fact; says file, line, column and value, and ``good`` holds the
                facts before it, so a file cut off in the middle is not lost.
        """
        ledger = cls()
        with open(
            path, encoding="utf-8", errors="backslashreplace"
        ) as lines:  # junk is no JSON, so it is named
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line.rstrip("\n"), parse_constant=_no_constants)
                    if number == 1:
                        _check_header(row)
                    else:
                        ledger.append(_fact(row))
                except (ValueError, KeyError, TypeError, BrokenLaw) as wrong:
                    column = getattr(wrong, "colno", 1)
                    raise TraceFault(
                        f"{path}, line {number}, column {column}: {line.strip()[:80]!r} is no fact of a ledger "
                        f"({wrong}). The {len(ledger)} facts before it were read and are in `good`.",
                        rows=[(number, column, line.strip())],
                        good=list(ledger),
                    ) from None
        return ledger

    def digest(self) -> str:
        """SHA-256 of the JSON lines: equal runs, equal digest, on every machine and Python."""
        sha = hashlib.sha256()
        for line in self.lines():
            sha.update(line.encode() + b"\n")
        return sha.hexdigest()


def _fact(row: list) -> Fact:
    name, *values = row
    names = FIELDS[KINDS[name]]
    if len(values) != len(names):
        raise ValueError(f"{name} has {len(names)} fields, not {len(values)}")
    if name == "Claimed":
        values[4] = shape_from_json(values[4])
    for field, value in zip(fields(KINDS[name]), values, strict=True):
        if field.type in (int, str) and type(value) is not field.type:
            raise ValueError(f"{name}.{field.name} is {value!r}, not {field.type.__name__}")
    return KINDS[name](*values)


def _check_header(row: object) -> None:
    if row != _HEADER:
        raise ValueError(f"the first line must be {_ENCODE(_HEADER)}")


def _no_constants(text: str) -> None:
    raise ValueError(f"{text} is no number of a ledger; facts hold whole numbers")
