"""Requests from rows of plain names and values: a line of a CSV file, or one object of a JSON Lines file.

``prompt_tokens``, ``output_tokens`` and one of ``arrival_s``, ``arrival_ms``, ``arrival_us``, ``arrival_ns`` are
needed. Optional: ``id``, ``most_tokens``, ``predicted_tokens``, ``tenant``, ``slo``, ``prefix`` (a list, JSON
only), and the times ``first_token``, ``patience`` and ``aborted``, each with one of the four units.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from gpulab.serving.request import Request
from gpulab.units import MS, SECOND, US

UNITS = {"s": SECOND, "ms": MS, "us": US, "ns": 1}
_COUNTS = ("id", "most_tokens", "predicted_tokens")
_TEXTS = ("tenant", "slo")
_TIMES = ("first_token", "patience", "aborted")
_MOST = 1 << 62  # ns: more than a hundred years, and beyond it sums leave 64 bits
_NEEDED = ("arrival_s", "prompt_tokens", "output_tokens")
Wrong = tuple[str, object]  # a column and the value in it that cannot be read


def unknown(names: Iterable[str]) -> str | None:
    """What is wrong with the columns ``names``, or None: a needed one that is missing, or one nobody knows."""
    names = list(names)
    times = {f"{time}_{unit}": time for time in ("arrival", *_TIMES) for unit in UNITS}
    known = {"prompt_tokens", "output_tokens", "prefix", *_COUNTS, *_TEXTS, *times}
    for name in names:
        if name not in known:
            return f"{name!r} is no column of a trace; there are: {', '.join(sorted(known))}"
    given = [times.get(name, name) for name in names]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice:
        return f"{twice} is given twice"
    missing = next((name for name in _NEEDED if times.get(name, name) not in given), None)
    return f"{missing} is missing" if missing else None


def request_of(row: Mapping[str, object], place: int) -> Request | Wrong:
    """The request that ``row`` tells of, or the first column that cannot be read and its value.

    ``place`` is its number where the row has none. An empty value of an optional column is none.
    """
    found: dict = {"id": place}
    for name, value in row.items():
        base, _, unit = name.rpartition("_")
        if value is None or value == "":
            if base == "arrival" or name in ("prompt_tokens", "output_tokens"):
                return name, value
        elif name in _TEXTS:
            found[name] = str(value)
        elif name == "prefix":
            found[name] = _prefix(value)
        elif unit in UNITS:
            found[f"{base}_ns"] = _time_ns(value, UNITS[unit])
        else:
            found[name] = count(value, 1 if name in ("prompt_tokens", "output_tokens") else 0)
        if (name in found and found[name] is None) or found.get(f"{base}_ns", 0) is None:
            return name, value
    most = found.get("most_tokens")
    if most and most < found["output_tokens"]:
        return "most_tokens", row["most_tokens"]
    return Request(**found)


def count(value: object, least: int = 0) -> int | None:
    """``value`` as a whole number of at least ``least`` and under a thousand million, or None."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    return value if type(value) is int and least <= value < 1_000_000_000 else None


def _time_ns(value: object, unit: int) -> int | None:
    """A time as whole nanoseconds, by decimals: a float would lose the last digits of a long one."""
    if type(value) not in (str, int, Decimal):
        return None
    try:
        time_ns = Decimal(value) * unit
    except InvalidOperation:
        return None
    return int(time_ns) if time_ns.is_finite() and 0 <= time_ns < _MOST else None


def _prefix(value: object) -> tuple[int, ...] | None:
    """Ids of shared blocks: a list of whole numbers, each once."""
    if not isinstance(value, list) or len(set(map(str, value))) < len(value):
        return None
    ids = tuple(value)
    return ids if all(type(name) is int and 0 <= name < _MOST for name in ids) else None
