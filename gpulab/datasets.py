"""Public traces, by name. Each has a card: origin, licence, attribution, units, sha256.

A file is looked for in the folder named by ``GPULAB_DATA``, then in ``datasets/`` of the repository, then in
``../datasets``, as it is or without its ``.gz``; then it is fetched from its origin by pooch. Its sha256 must be the one on its card.
"""

import gzip
import hashlib
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from gpulab.cards import CARDS, Card
from gpulab.errors import DatasetError, TraceFault


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it reached a service: when, and how many tokens went in and came out."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int


_AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?")


def names() -> tuple[str, ...]:
    """The names of all data sets, in the order of their cards."""
    return tuple(known.name for known in CARDS)


def card(name: str) -> Card:
    """The card of data set ``name``; ``DatasetError`` lists the names there are."""
    for known in CARDS:
        if known.name == name:
            return known
    raise DatasetError(f"There is no data set {name!r}; there are: {', '.join(names())}.")


def path_of(name: str) -> Path:
    """The local file of data set ``name``, fetched from its origin if it is nowhere on this machine.

    Raises:
        DatasetError: unknown name, content that is not what the card says, or no network to fetch it.
    """
    known = card(name)
    # Last, where the kit of a course has it: beside the lab's folder. Whatever is found must have the card's sha256.
    folders = [os.environ.get("GPULAB_DATA"), Path(__file__).parents[1] / "datasets", Path("..", "datasets")]
    for folder in filter(None, folders):
        for file in (known.file, known.file.removesuffix(".gz")):
            path = Path(folder) / file
            if path.is_file():
                _verify(path, known)
                return path
    return _fetched(known)


def load(name: str) -> list[Request]:
    """All requests of data set ``name`` in order of arrival; the first arrives at 0 ns."""
    return read_azure(path_of(name))


def read_azure(path: str | Path, *, skip_broken: bool = False) -> list[Request]:
    """The requests of a CSV file with the columns of the Azure LLM inference traces (gzip or plain).

    TIMESTAMP is a date and a time with up to nine decimals, ContextTokens and GeneratedTokens are whole
    numbers of 1 or more (0 generated tokens are allowed). Arrivals are counted from the first row. Of rows
    out of order of time as few as possible are called broken; of two ways, the one that blames later rows.

    Raises:
        TraceFault: broken rows, or a file that is cut off; names file, line, column and value of the first
            and how many there are. ``good`` holds all other rows as requests. With ``skip_broken`` these are
            returned instead. Other columns than these are always a fault.
    """
    rows, broken = [], []  # good rows as (line, text of the time, time_ns, prompt, output)
    lines = lines_of(path)
    _check_columns(path, next(lines, (1, "", True)))
    for line, text, is_whole in lines:
        if not is_whole:
            broken.append((line, "file", text))
        elif text.strip():
            cells = _cells(text)
            values, wrong = _azure_row(cells)
            if wrong:
                broken.append((line, *wrong))
            else:
                rows.append((line, cells[0], *values))
    kept = set(in_order([row[2] for row in rows]))
    for index, (line, stamp, *_) in enumerate(rows):
        if index not in kept:
            broken.append((line, "TIMESTAMP", f"{stamp} (out of order)"))
    good = [row[2:] for index, row in enumerate(rows) if index in kept]
    requests = [Request(time_ns - good[0][0], prompt, output) for time_ns, prompt, output in good]
    if broken and not skip_broken:
        broken.sort()
        line, column, value = broken[0]
        raise TraceFault(
            f"{path}, line {line}, column {column}: {value!r} cannot be read. {len(broken)} row(s) of "
            f"{len(broken) + len(requests)} are broken; the other {len(requests)} are in `good`. "
            f"Mend the file, or read it with skip_broken=True.",
            rows=broken,
            good=requests,
        )
    return requests


def lines_of(path: str | Path) -> Iterator[tuple[int, str, bool]]:
    """``(number, text, True)`` of each line; last ``(number, what is wrong, False)`` if the file is cut off."""
    opener, number = gzip.open if str(path).endswith(".gz") else open, 0
    with opener(path, "rt", encoding="utf-8-sig", errors="backslashreplace") as lines:
        try:
            for number, text in enumerate(lines, 1):
                yield number, text, True
        except (EOFError, gzip.BadGzipFile, zlib.error) as wrong:
            yield number + 1, str(wrong), False


def _cells(text: str) -> list[str]:
    """The cells of a line, without quotes. By the comma alone: no value of these files holds one, and a quote
    that is never closed must not swallow the lines after it."""
    return [cell.strip().strip('"') for cell in text.split(",")]


def in_order(times: list[int]) -> list[int]:
    """The indices of a longest stretch of ``times`` that never runs back; of equals, the earlier rows.

    Fredman, On computing the length of longest increasing subsequences (Discrete Mathematics 11, 1975), from
    the end: ``ends[k]`` is where the best stretch of k + 1 times begins, by its negative.
    """
    ends: list[int] = []
    begins: list[int] = []  # indices, beside ``ends``
    after: dict[int, int | None] = {}  # index -> the next one of its stretch
    for index in range(len(times) - 1, -1, -1):
        length = bisect_right(ends, -times[index])
        after[index] = begins[length - 1] if length else None
        ends[length : length + 1] = [-times[index]]
        begins[length : length + 1] = [index]
    kept, index = [], begins[-1] if begins else None
    while index is not None:
        kept.append(index)
        index = after[index]
    return kept


def _check_columns(path: str | Path, first: tuple[int, str, bool]) -> None:
    row = _cells(first[1])
    if tuple(row) != _AZURE_COLUMNS:
        raise TraceFault(
            f"{path}, line 1: the columns are {', '.join(row)!r}; expected {', '.join(_AZURE_COLUMNS)!r}. "
            f"Give a file with these columns.",
            rows=[(1, "header", ",".join(row))],
            good=[],
        )


def _azure_row(row: list[str]) -> tuple[tuple[int, int, int] | None, tuple[str, str] | None]:
    """``(values, None)``, or ``(None, (column, value))`` for the first column that cannot be read."""
    if len(row) != len(_AZURE_COLUMNS):
        return None, ("row", ",".join(row))
    time_ns = _stamp_ns(row[0])
    if time_ns is None:
        return None, ("TIMESTAMP", row[0])
    tokens = []
    for column, text, least in zip(_AZURE_COLUMNS[1:], row[1:], (1, 0), strict=True):
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
            return None, (column, text)
        tokens.append(int(text))
    return (time_ns, *tokens), None


def _stamp_ns(text: str) -> int | None:
    """A date and time as nanoseconds, by integers: floats would lose the last digits."""
    found = _STAMP.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        return None
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1_000_000_000 + int((found[7] or "0").ljust(9, "0"))


def _verify(path: Path, known: Card) -> None:
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as wrong:
            raise DatasetError(f"{path} is not a whole gzip file ({wrong}); fetch it again.") from None
    got = hashlib.sha256(content).hexdigest()
    if got != known.sha256:
        raise DatasetError(
            f"{path} is not the file that its card describes: sha256 {got[:12]}…, expected {known.sha256[:12]}…. "
            f"Fetch it again from {known.origin}"
        )


def _fetched(known: Card) -> Path:
    import pooch

    pooch.get_logger().setLevel("ERROR")  # gpulab is quiet: what went wrong is said by the error below
    try:
        return Path(pooch.retrieve(known.origin, known_hash=f"sha256:{known.sha256}", progressbar=False))
    except Exception as wrong:  # pooch raises whatever its downloader does
        raise DatasetError(
            f"{known.name} is not on this machine and could not be fetched from {known.origin}: "
            f"{type(wrong).__name__}. Put {known.file} into a folder and name it in GPULAB_DATA."
        ) from wrong
