"""Quantities as people write them: bytes and nanoseconds to text and back.

Integers everywhere: bytes and nanoseconds are ``int``; only text for a person is rounded.
"""

import operator
import re

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB

US = 1_000
MS = 1_000 * US
SECOND = 1_000 * MS

_TIMES = {"ns": 1, "us": US, "µs": US, "ms": MS, "s": SECOND, "min": 60 * SECOND}
_BYTES = {"B": 1, "KIB": KiB, "MIB": MiB, "GIB": GiB, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


def format_bytes(size: int) -> str:
    """``size`` bytes with the largest binary unit that leaves at least 1, e.g. ``'1.50 GiB'``.

    Whole multiples lose the fraction (``'512 MiB'``); below 1 KiB the bytes are exact.
    """
    for name, unit in (("GiB", GiB), ("MiB", MiB), ("KiB", KiB)):
        if abs(size) >= unit:
            return f"{size // unit:,} {name}" if size % unit == 0 else f"{size / unit:,.2f} {name}"
    return f"{size:,} B"


def format_ns(time_ns: int) -> str:
    """``time_ns`` nanoseconds with the largest unit that leaves at least 1, e.g. ``'12.500 ms'``."""
    for name, unit in (("s", SECOND), ("ms", MS), ("µs", US)):
        if abs(time_ns) >= unit:
            return f"{time_ns / unit:,.3f} {name}"
    return f"{time_ns:,} ns"


def parse_bytes(text: str) -> int:
    """The number of bytes in ``'12 GiB'``, ``'512MiB'`` or ``'4096'``.

    Raises:
        ValueError: not a whole number of bytes; the message gives the accepted units.
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = _BYTES.get((found[2] or "B").upper()) if found else None
    if unit is None:
        raise ValueError(
            f"{text!r} is not a size in bytes; write a number and one of B, KiB, MiB, GiB, kB, MB, GB"
        )
    digits, _, decimals = found[1].partition(".")  # by integers: floats make 1000.9999999999999 of 1.001 kB
    size, rest = divmod(int(digits + decimals) * unit, 10 ** len(decimals))
    if rest:
        raise ValueError(
            f"{text!r} is {size + rest / 10 ** len(decimals)} bytes; a size is a whole number of bytes"
        )
    return size


def parse_ns(text: str) -> int:
    """The number of nanoseconds in ``'50ms'``, ``'1.5 s'`` or ``'20 min'``.

    Raises:
        ValueError: no time, without a unit, or not a whole number of nanoseconds.
    """
    found = re.fullmatch(r"\s*([0-9]+)(?:\.([0-9]+))?\s*(ns|us|µs|ms|s|min)\s*", text)
    if not found:
        raise ValueError(f"{text!r} is not a time; write a number and one of ns, us, ms, s, min")
    decimals = found[2] or ""
    time_ns, rest = divmod(int(found[1] + decimals) * _TIMES[found[3]], 10 ** len(decimals))
    if rest:
        raise ValueError(f"{text!r} is not a whole number of nanoseconds")
    return time_ns


def whole(value: object) -> int | None:
    """``value`` as a plain int, or None when it is no whole number. NumPy integers are; bools are not.

    Never raises: a learner's object may do anything when it is asked for its value.
    """
    if type(value) is bool:  # not isinstance, which asks the object
        return None
    try:
        return operator.index(value)
    except Exception:
        return None
