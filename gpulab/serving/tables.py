"""Tables of measurements: rows of a CSV or Parquet file, checked, and the times at their points."""

import csv
import gzip
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpulab.errors import SpecFault, shown
from gpulab.serving.kernels import Table

_FEWEST = 3  # sizes of a table; with two, a bend between them cannot be seen


def rows_of(
    path: Path,
    names: Iterable[str],
    *,
    sizes: tuple[str, ...] = (),
    counts: tuple[str, ...] = (),
    times: tuple[str, ...] = (),
    keep: dict[str, object] | None = None,
) -> Iterator[dict]:
    """The rows of ``path``, CSV (also gzip) or Parquet, with numbers in ``sizes`` and ``times`` (above 0) and in ``counts`` (0 or more).

    ``keep``: only rows that have these values, as far as the file has these columns.

    Raises:
        SpecFault: a file that cannot be read, a column that is missing, a number that is not what it must be.
    """
    columns = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    missing = [name for name in names if name not in columns]
    if missing:
        raise SpecFault(
            f"{path} has no column {', '.join(missing)}; it has: {', '.join(columns) or 'none'}. "
            f"Give a table of this kind as it was measured."
        )
    tests = [(columns[name], str(value)) for name, value in (keep or {}).items() if name in columns]
    for line in range(len(columns[names[0]])):
        if all(str(column[line]) == value for column, value in tests):
            row = {name: columns[name][line] for name in names}
            for name in (*sizes, *times, *counts):
                row[name] = _number(row[name], path, f"row {line + 1}, {name}", zero=name in counts)
            yield row


def _number(value: object, path: Path, where: str, *, zero: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        least = "0 or more" if zero else "above 0"
        raise SpecFault(
            f"{path}, {where}: {shown(value)}; a number {least} is needed. Measure again, or leave the row out."
        )
    return number


def _csv(path: Path) -> dict[str, list[str]]:
    """The columns of a CSV file, by name, as texts."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.reader(lines))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as wrong:
        raise SpecFault(f"{path} cannot be read: {wrong}.") from None
    head, body = (rows[0], [row for row in rows[1:] if row]) if rows else ([], [])
    for line, row in enumerate(body, 1):
        if len(row) != len(head):
            raise SpecFault(f"{path}, row {line} has {len(row)} values; there are {len(head)} columns.")
    return {name: [row[place] for row in body] for place, name in enumerate(head)}


def _parquet(path: Path) -> dict[str, list]:
    """The columns of a Parquet file, by name."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise SpecFault(f"{path} is read by pyarrow, which is not here: pip install 'gpulab[fit]'.") from None
    try:
        return parquet.read_table(path).to_pydict()
    except (OSError, pyarrow.ArrowException) as wrong:
        raise SpecFault(f"{path} cannot be read: {wrong}") from None


def table_of(path: Path, points: Iterable[tuple[tuple[float, ...], float]]) -> Table:
    """The table of ``points``. ``SpecFault`` when a dimension has fewer than three sizes."""
    found = list(points)
    for axis in range(len(found[0][0]) if found else 1):
        sizes = len({place[axis] for place, _ in found})
        if sizes < _FEWEST:
            raise SpecFault(
                f"{path} has {len(found)} usable points of {sizes} different sizes; a fit needs {_FEWEST} sizes at least. "
                f"Measure more, or give the model whose kernels these are."
            )
    return Table(found)
