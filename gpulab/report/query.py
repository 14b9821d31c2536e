"""Questions to the columns of ledgers as plain JSON lists, so that whoever reads a claim can compute its number again.

A query is a list of steps, each a verb and its arguments; twelve verbs are all there is::

    [["rows", "requests", "run"], ["where", "tenant", "is", "chat"], ["percentile", "ttft_ns", 99],
     ["minus"],
     ["rows", "requests", "other"], ["where", "tenant", "is", "chat"], ["percentile", "ttft_ns", 99]]

``rows`` begins with a table of a named run (the first one, where no name is given): ``requests`` (both times and
the second gauge, a row a request, at its arrival), ``account`` (the first gauge in unit * ns, a row for each stretch
of time in which nothing changed), or a kind of fact by its name (``Stepped``). ``where`` and ``between`` keep some rows; ``count``,
``sum``, ``mean``, ``percentile``, ``most``, ``least`` and ``share`` make a number of them; ``minus`` and ``per`` join it with the
number of another ``rows``. No code is run, and nothing but the ledger is read.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpulab.errors import shown
from gpulab.report.account import TERMS
from gpulab.report.columns import Tables
from gpulab.report.metrics import Distribution
from gpulab.units import format_ns, whole

OPERATORS: dict[str, Callable] = {
    **{"is": operator.eq, "is not": operator.ne},
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
}
# Verb to what it takes; a name in brackets may be left out.
VERBS = {
    "rows": ("table", "(run)"),
    "where": ("column", "operator", "value"),
    "between": ("from_ns", "to_ns"),
    "count": (),
    "sum": ("column",),
    "mean": ("column",),
    "percentile": ("column", "percent"),
    "most": ("column",),
    "least": ("column",),
    "share": ("column", "operator", "value"),
    "minus": (),
    "per": (),
}
_KEEP, _JOIN = ("where", "between"), ("minus", "per")
_TIMES = ("arrived_ns", "time_ns")  # when a row was, in order of preference


@dataclass(frozen=True, slots=True)
class Part:
    """From ``rows`` to the number made of them: ``keeps`` in order, then ``makes``, each a verb and its arguments."""

    table: str
    run: str
    keeps: tuple[tuple, ...]
    makes: tuple

    @property
    def columns(self) -> frozenset[str]:
        """The columns it looks at."""
        steps = (*self.keeps, self.makes)
        return frozenset(step[1] for step in steps if VERBS[step[0]][:1] == ("column",))

    def fixed(self, column: str) -> object:
        """The value to which ``column`` is held, None when it is not."""
        wanted = ("where", column, "is")
        return next((step[3] for step in self.keeps if step[:3] == wanted), None)


@dataclass(frozen=True, slots=True)
class Found:
    """What came out: exact, with its unit (``share`` for a plain ratio), of at least ``rows`` rows in each part."""

    value: Fraction
    unit: str
    rows: int

    def __str__(self) -> str:
        """The number for a person."""
        if self.unit == "ns":
            return format_ns(round(self.value))
        if self.unit == "share":
            return f"{float(100 * self.value):.4g} %"
        exact = self.value.denominator == 1
        text = f"{int(self.value):,}" if exact else f"{float(self.value):,.4g}"
        return f"{text} {self.unit}"

    def __repr__(self) -> str:
        return f"<{self}, of {self.rows:,} rows>"


def parsed(query: object) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The parts of ``query`` and the verbs between them.

    Raises:
        ValueError: it is no query; says at which step, counted from 1.
    """
    if not isinstance(query, Sequence) or isinstance(query, str) or not query:
        raise ValueError(f'{shown(query)} is no query; write a list of steps, the first is ["rows", table]')
    parts, joins, steps = [], [], []
    for number, step in enumerate(query, 1):
        verb = _checked(step, number)
        if verb == "rows" and steps:
            raise ValueError(
                f"step {number}: rows begins a part; end the one before with a number and minus or per"
            )
        if verb != "rows" and not steps:
            raise ValueError(f"step {number}: a part begins with rows, not with {verb}")
        if verb in _JOIN:
            parts.append(_part(steps, number))
            joins.append(verb)
            steps = []
        else:
            steps.append(tuple(step))
    parts.append(_part(steps, len(query)))
    return tuple(parts), tuple(joins)


def evaluate(query: object, runs: Mapping[str, Tables]) -> Found:
    """The number that ``query`` asks of ``runs``, by name; joined from left to right.

    Raises:
        ValueError: it is no query, or asks for what is not there; says what.
    """
    parts, joins = parsed(query)
    found = [_number(part, runs) for part in parts]
    total = found[0]
    for verb, other in zip(joins, found[1:], strict=True):
        if total.unit != other.unit:
            raise ValueError(f"{verb} joins {total.unit} with {other.unit}; both must be in one unit")
        rows = min(total.rows, other.rows)
        if verb == "minus":
            total = Found(total.value - other.value, total.unit, rows)
        elif other.value:
            total = Found(total.value / other.value, "share", rows)
        else:
            raise ValueError("per divides by 0")
    return total


def _checked(step: object, number: int) -> str:
    """The verb of ``step``, whose arguments are as many and of the kinds that it takes."""
    if not isinstance(step, Sequence) or isinstance(step, str) or not step or not _named(step[0], VERBS):
        raise ValueError(
            f"step {number} is {shown(step)}; a list is needed that begins with one of {', '.join(VERBS)}"
        )
    verb, *given = step
    takes = VERBS[verb]
    needed = sum(not name.startswith("(") for name in takes)
    if not needed <= len(given) <= len(takes):
        raise ValueError(f"step {number}: write [{', '.join((verb, *takes))}], not {shown(step)}")
    for name, value in zip(takes, given, strict=False):
        if name == "operator":
            right = _named(value, OPERATORS)
        elif name in ("from_ns", "to_ns"):
            right = whole(value) is not None
        elif name == "percent":
            right = type(value) in (int, float) and 0 < value <= 100
        else:
            right = type(value) is str or (name == "value" and type(value) in (int, float, bool))
        if not right:
            raise ValueError(
                f"step {number}: {name.strip('()')} is {shown(value)}; see [{', '.join((verb, *takes))}]"
            )
    return verb


def _named(value: object, names: Mapping) -> bool:
    return type(value) is str and value in names


def _part(steps: list[tuple], number: int) -> Part:
    if len(steps) < 2:
        raise ValueError(f'step {number}: after rows comes what makes a number of them, e.g. ["count"]')
    (_, table, *run), *keeps, makes = steps
    odd = next((step[0] for step in keeps if step[0] not in _KEEP), None) or (makes[0] in _KEEP and makes[0])
    if odd:
        raise ValueError(
            f"step {number}: a part is rows, then where and between, then one number; {odd} is out of place"
        )
    return Part(table, run[0] if run else "", tuple(keeps), makes)


def _number(part: Part, runs: Mapping[str, Tables]) -> Found:
    name = part.run or next(iter(runs))
    if name not in runs:
        raise ValueError(f"there is no run {shown(name)}; there are: {', '.join(runs)}")
    rows = runs[name].rows(part.table)
    for column in sorted(part.columns):
        if rows and column not in rows[0]:
            raise ValueError(f"{part.table} has no column {shown(column)}; it has: {', '.join(rows[0])}")
    for verb, *given in part.keeps:
        rows = [row for row in rows if (_between if verb == "between" else _holds)(row, *given)]
    verb, *given = part.makes
    if verb == "count":
        return Found(Fraction(len(rows)), "requests" if part.table == "requests" else "facts", len(rows))
    if not rows:
        raise ValueError(f"no row of {part.table} is left; look at its where and between")
    if verb == "share":
        return Found(Fraction(sum(_holds(row, *given) for row in rows), len(rows)), "share", len(rows))
    values = [row[given[0]] for row in rows if row[given[0]] is not None]
    if not values or any(not isinstance(value, int | Fraction) for value in values):
        raise ValueError(f"{given[0]} of {part.table} has no numbers in these rows")
    return Found(_made(verb, values, *given[1:]), _unit(part.table, verb, given[0]), len(values))


def _made(verb: str, values: list, percent: float = 0) -> Fraction:
    if verb == "percentile":
        return Fraction(Distribution.of(values).percentile(percent))
    if verb == "most":
        return Fraction(max(values))
    if verb == "least":
        return Fraction(min(values))
    return Fraction(sum(values)) / (len(values) if verb == "mean" else 1)


def _holds(row: dict, column: str, name: str, value: object) -> bool:
    """Is ``row[column]`` so? What is not there, or of another kind, is not, and is not *is not*."""
    has = row[column]
    if not isinstance(has, str | int | Fraction) or (type(has) is str) != (type(value) is str):
        return False
    return OPERATORS[name](has, value)


def _between(row: dict, from_ns: int, to_ns: int) -> bool:
    at = next(row[name] for name in _TIMES if name in row)
    return from_ns <= at < to_ns


def _unit(table: str, verb: str, column: str) -> str:
    if table == "requests" and column == "kept":  # 1 or 0: their sum is a number of requests
        return "requests" if verb == "sum" else "share"
    if table == "account" and column in ("capacity", *TERMS):
        return "unit * ns"
    if column.endswith("_ns"):
        return "ns"
    if column.endswith("_ps"):
        return "ps"
    return column.rpartition("_")[2]
