"""The axes of a picture: which window of a ledger it shows, and in which units."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gpulab.report.lifetimes import When
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND, US, GiB, KiB, MiB

WIDTH = 560  # px inside the axes; 680 wide with them fits a notebook at 1366 by 768
STEPS_UP_TO = 60  # facts; more numbers than that under one axis cannot be told apart at 560 px


@dataclass(frozen=True)
class Frame:
    """A window from ``low`` to ``high``, in event numbers or in ns, and the divisors of both axes."""

    low: int
    high: int
    counts_events: bool
    x_step: int
    x_title: str
    y_step: int
    y_unit: str
    width: int = WIDTH

    def position(self, when: When | None) -> int:
        """Where a fact is on the x axis before division, kept inside the window; None is its right end."""
        if when is None:
            return self.high
        return min(max(when[0] if self.counts_events else when[1], self.low), self.high)

    def x(self, when: When | None) -> float:
        return self.position(when) / self.x_step

    def y(self, units: int) -> float:
        return units / self.y_step

    def overlaps(self, start: When, end: When | None) -> bool:
        """True when ``[start, end)`` has a part in the window."""
        at = 0 if self.counts_events else 1
        return start[at] <= self.high and (end is None or end[at] >= self.low)


def frame(
    ledger: Ledger,
    *,
    t0: int | None,
    t1: int | None,
    time: str,
    capacity: int,
    unit: str,
    width: int = WIDTH,
) -> Frame:
    """The frame for ``ledger`` between ``t0`` and ``t1`` (ns; None: all of it), ``width`` px wide.

    ``time`` is ``"ns"``, ``"steps"`` (event numbers, all equally wide) or ``"auto"``: steps for at most
    60 facts.

    Raises:
        ValueError: another ``time``, or a window that ends before it starts.
    """
    end = max(ledger.end_ns, t0 or 0) if t1 is None else t1
    start = min(ledger.start_ns, end) if t0 is None else t0
    if time not in ("auto", "steps", "ns") or end < start:
        raise ValueError(
            f"time={time!r}, t0={start:,}, t1={end:,}: time is 'auto', 'steps' or 'ns', and t1 is not before t0"
        )
    first = bisect_left(ledger, start, key=lambda fact: fact.time_ns)
    last = bisect_right(ledger, end, key=lambda fact: fact.time_ns)
    if time == "steps" or (time == "auto" and last - first <= STEPS_UP_TO):
        y_step, y_unit = _divisor(capacity, unit)
        return Frame(first, max(last, first + 1), True, 1, "event (# in the table)", y_step, y_unit, width)
    return window(start, end, capacity=capacity, unit=unit, width=width)


def outside(ledger: Ledger, t0: int | None, t1: int | None) -> str:
    """A sentence when ``t0`` to ``t1`` has nothing of the run; else nothing."""
    start, end = ledger.start_ns, ledger.end_ns
    begins, ends = start if t0 is None else t0, end if t1 is None else t1
    if (begins <= end and ends >= start) or (None not in (t0, t1) and ends < begins):
        return ""
    return f"This part of the time is outside the run, which goes from {start:,} to {end:,} ns."


def window(start: int, end: int, *, capacity: int, unit: str, width: int = WIDTH) -> Frame:
    """The frame from ``start`` to ``end`` ns, where no ledger is at hand."""
    high = max(end, start + 1)
    x_step, name = time_unit(high - start)
    return Frame(start, high, False, x_step, f"time ({name})", *_divisor(capacity, unit), width)


def time_unit(span_ns: int) -> tuple[int, str]:
    """How many ns one unit of an axis over ``span_ns`` has, and its name."""
    return _largest(span_ns, ((SECOND, "s"), (MS, "ms"), (US, "µs")), (1, "ns"))


def _divisor(capacity: int, unit: str) -> tuple[int, str]:
    if unit != "B":
        return 1, unit
    return _largest(capacity, ((GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")), (1, "B"))


def _largest(span: int, steps: Sequence[tuple[int, str]], smallest: tuple[int, str]) -> tuple[int, str]:
    """The largest of ``steps`` that fits twice into ``span``, so that an axis has ticks to show."""
    return next((step for step in steps if span >= 2 * step[0]), smallest)
