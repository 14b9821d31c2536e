"""Tables: the twin of every picture, for reading by eye, by screen reader and by code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gpulab.report.lifetimes import resources
from gpulab.telemetry.events import (
    Claimed,
    Ended,
    Granted,
    Launched,
    Marked,
    Occupied,
    Opened,
    Refused,
    Sent,
    Started,
    Used,
    Waited,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, KiB, MiB, format_ns

_CELL = "padding:2px 10px;text-align:{};white-space:nowrap"


@dataclass(frozen=True)
class Table:
    """A caption, column names and rows of text. Columns named in ``right`` are numbers.

    Shows as an HTML table with row and column headers in a notebook, as aligned text elsewhere.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()

    def records(self) -> list[dict[str, str]]:
        """One dict a row, keyed by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def _repr_html_(self) -> str:
        sides = [_CELL.format("right" if name in self.right else "left") for name in self.columns]
        head = "".join(
            f'<th scope="col" style="{side}">{escape(name)}</th>'
            for name, side in zip(self.columns, sides, strict=True)
        )
        body = "".join(f"<tr>{_html_row(row, sides)}</tr>\n" for row in self.rows)
        return (
            f'<table>\n<caption style="text-align:left">{escape(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
        )

    def __repr__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        text = [
            "  ".join(
                cell.rjust(width) if name in self.right else cell.ljust(width)
                for cell, width, name in zip(line, widths, self.columns, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, *text])


def exact_size(size: int, unit: str = "B") -> str:
    """``size`` without rounding: ``'1,536 MiB'``, ``'400 B'``, ``'3 blocks'``.

    Bytes take the largest binary unit that divides them.
    """
    if unit == "B" and size:
        for name, step in (("GiB", GiB), ("MiB", MiB), ("KiB", KiB)):
            if size % step == 0:
                return f"{size // step:,} {name}"
    return f"{size:,} {unit}"


def captioned(text: str, shown: int, total: int, things: str) -> str:
    """A caption that says how much of the whole a table shows."""
    return f"{text}: the first {shown:,} of {total:,} {things}" if shown < total else f"{text}: all {things}"


def table(ledger: Ledger, *, first: int = 0, limit: int = 40) -> Table:
    """The facts of ``ledger`` from ``first`` on, at most ``limit``, one a row; the caption says which.

    ``size`` is what the fact is about: asked, granted, free, used or capacity, exact to the unit.
    """
    owners = owners_of(ledger)
    end = min(first + limit, len(ledger))
    rows = tuple(fact_row(serial, ledger[serial], owners) for serial in range(first, end))
    shown = f"facts #{first} to #{end - 1} of {len(ledger):,}" if rows else f"no facts of {len(ledger):,}"
    return fact_table(f"Ledger: {shown}", rows)


def fact_table(caption: str, rows: Sequence[tuple[str, ...]]) -> Table:
    """A table of rows that ``fact_row`` made."""
    columns = ("event", "time", "fact", "claim", "owner", "size", "place")
    return Table(caption, columns, tuple(rows), frozenset({"event", "time", "claim", "size"}))


def owners_of(ledger: Ledger) -> dict[int, tuple[str, str]]:
    """The owner and the unit of each claim, for ``fact_row``. Cost: one pass over the ledger."""
    units = {name: opened.unit for name, opened in resources(ledger).items()}
    return {fact.claim: (fact.owner, units.get(fact.resource, "")) for fact in ledger.of(Claimed)}


def fact_row(serial: int, fact, owners: Mapping[int, tuple[str, str]]) -> tuple[str, ...]:
    """One fact in words: event, time, kind, claim, owner, size, place."""
    claim = getattr(fact, "claim", None)
    owner, unit = owners.get(claim, ("", ""))
    size = place = ""
    match fact:
        case Opened(resource=owner, capacity=capacity, unit=unit, inside=inside):
            size = f"capacity {exact_size(capacity, unit)}" if not inside else ""
            place = f"inside {inside}" if inside else ""
        case Claimed(size=units, resource=place):
            size = f"wants {exact_size(units, unit)}"
        case Granted(start=start, size=units):
            size = exact_size(units, unit)
            place = f"{exact_size(start, unit)} to {exact_size(start + units, unit)}" if start >= 0 else "any"
        case Refused(free=free, largest=largest):
            size = f"{exact_size(free, unit)} free"
            place = f"longest stretch {exact_size(largest, unit)}"
        case Used(units=units):
            size = f"uses {exact_size(units, unit)}"
        case Launched(work=work, stream=owner, kernel=kernel, size_bytes=moved):
            size, place = exact_size(moved), f"work {work}: {kernel}"
        case Sent(work=work, stream=owner, way=way, size_bytes=moved):
            size, place = exact_size(moved), f"work {work}: copy {way}"
        case Marked(work=work, stream=owner) | Waited(work=work, stream=owner):
            place = f"work {work}"
        case Started(work=work) | Ended(work=work):
            place = f"work {work}"
        case Occupied(sms=sms, blocks=blocks):
            size, place = exact_size(blocks, "blocks"), f"on {sms} multiprocessors"
    name = "" if claim is None else str(claim)
    return f"#{serial}", format_ns(fact.time_ns), type(fact).__name__, name, owner, size, place


def _html_row(row: tuple[str, ...], sides: list[str]) -> str:
    first = f'<th scope="row" style="{sides[0]}">{escape(row[0])}</th>'
    rest = (f'<td style="{side}">{escape(cell)}</td>' for cell, side in zip(row[1:], sides[1:], strict=True))
    return first + "".join(rest)
