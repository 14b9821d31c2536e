"""Facts of a real device, put in order once it is idle.

The host knows when it handed work over; when work ran is known only afterwards, from events that the device
timed. So a real device's ledger is written at ``synchronize``. Two clocks that drift by microseconds could
contradict each other: a time is moved, by no more than that, to where the order of the work allows it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpulab.telemetry.events import Ended, Fact, Launched, Marked, Sent, Started, Waited

_ENDED, _MARKED, _WAITED, _STARTED = 1, 2, 3, 4  # at one instant, ends come first; the host's facts are 0


@dataclass(slots=True)
class Observed:
    """Work of a real device. ``fact`` is what handed over a kernel or a copy, None for a mark or a wait.

    ``start_ns`` and ``end_ns`` are measured, on the host's clock; ``mark`` is the mark that a wait is for.
    """

    work: int
    stream: str
    handed_ns: int
    fact: Launched | Sent | None = None
    mark: int | None = None
    start_ns: int = 0
    end_ns: int = 0


def in_order(works: Iterable[Observed], told: Iterable[Fact], since_ns: int) -> list[Fact]:
    """The facts about ``works`` (in the order in which they were handed over) and ``told``, by time.

    Everything before ``since_ns`` is written already.
    """
    rows: list[tuple[int, int, int, Fact]] = [(fact.time_ns, 0, n, fact) for n, fact in enumerate(told)]
    ends: dict[str, int] = {}  # stream -> when its last work was over
    reached: dict[int, int] = {}
    for seen in works:
        free_ns = max(since_ns, seen.handed_ns, ends.get(seen.stream, 0))
        if seen.fact is not None:
            start = max(free_ns, seen.start_ns)
            free_ns = max(start + 1, seen.end_ns)
            rows.append((seen.handed_ns, 0, len(rows), seen.fact))
            rows.append((start, _STARTED, seen.work, Started(start, seen.work)))
            rows.append((free_ns, _ENDED, seen.work, Ended(free_ns, seen.work)))
        elif seen.mark is None:
            reached[seen.work] = free_ns
            rows.append((free_ns, _MARKED, seen.work, Marked(free_ns, seen.work, seen.stream)))
        else:
            free_ns = max(free_ns, reached.get(seen.mark, 0))
            rows.append((free_ns, _WAITED, seen.work, Waited(free_ns, seen.work, seen.stream, seen.mark)))
        ends[seen.stream] = free_ns
    return [row[3] for row in sorted(rows, key=lambda row: row[:3])]
