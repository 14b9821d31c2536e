"""What a ledger of a device says of its work: when each piece ran, what overlapped, what waited for what."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpulab.telemetry.events import Ended, Freed, Granted, Launched, Marked, Sent, Started, Waited
from gpulab.telemetry.ledger import Ledger

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel or a copy: its stream, the serials of its three facts and when it ran, ``[start_ns, end_ns)``."""

    work: int
    stream: str
    what: str  # "kernel", "copy in" or "copy out"
    handed_over: int
    started: int
    ended: int
    start_ns: int
    end_ns: int

    @property
    def copies(self) -> bool:
        return self.what != "kernel"

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def runs_of(ledger: Ledger) -> list[Run]:
    """The kernels and copies of ``ledger``, all of which have ended, in the order of their hand-over."""
    started = {ledger[serial].work: serial for serial in ledger.serials(Started)}
    ended = {ledger[serial].work: serial for serial in ledger.serials(Ended)}
    found = []
    for serial in ledger.serials(Launched, Sent):
        fact = ledger[serial]
        first, last = started[fact.work], ended[fact.work]
        what = f"copy {fact.way}" if type(fact) is Sent else "kernel"
        times = ledger[first].time_ns, ledger[last].time_ns
        found.append(Run(fact.work, fact.stream, what, serial, first, last, *times))
    return found


def held_over_time(ledger: Ledger) -> list[int]:
    """Bytes held after each grant and each return, in order."""
    sizes, held, after = {}, 0, []
    for fact in ledger.of(Granted, Freed):
        if type(fact) is Granted:
            sizes[fact.claim] = fact.size
        held += fact.size if type(fact) is Granted else -sizes[fact.claim]
        after.append(held)
    return after


def granted_in_all(ledger: Ledger) -> int:
    """The bytes of all grants together, whether they were returned or not."""
    return sum(fact.size for fact in ledger.of(Granted))


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """The instants that lie in one of ``intervals`` or more, as intervals apart from each other."""
    apart: list[Interval] = []
    for start, end in sorted(intervals):
        if apart and start <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return apart


def overlap_ns(runs: list[Run]) -> int:
    """How long at least one copy and at least one kernel ran, each instant counted once."""
    copies = joined((run.start_ns, run.end_ns) for run in runs if run.copies)
    kernels = joined((run.start_ns, run.end_ns) for run in runs if not run.copies)
    return sum(_common_ns(copy, kernel) for copy in copies for kernel in kernels)


def overlap_of_pairs_ns(runs: list[Run]) -> int:
    """The same for who adds up every pair of a copy and a kernel."""
    return sum(
        _common_ns((copy.start_ns, copy.end_ns), (kernel.start_ns, kernel.end_ns))
        for copy in runs
        for kernel in runs
        if copy.copies and not kernel.copies
    )


def last_kernel(runs: list[Run]) -> Run:
    """The kernel that starts last."""
    return max((run for run in runs if not run.copies), key=lambda run: run.started)


def before_on_stream(runs: list[Run], later: Run) -> Run:
    """What was handed over just before ``later`` on the same stream."""
    return max(
        (run for run in runs if run.stream == later.stream and run.work < later.work), key=lambda r: r.work
    )


def before_mark(ledger: Ledger, runs: list[Run], later: Run) -> Run:
    """What had to end before the mark for which the stream of ``later`` waited."""
    (waited,) = (fact for fact in ledger.of(Waited) if fact.stream == later.stream)
    (mark,) = (fact for fact in ledger.of(Marked) if fact.work == waited.mark)
    return max(
        (run for run in runs if run.stream == mark.stream and run.work < mark.work), key=lambda r: r.work
    )


def released(ledger: Ledger, runs: list[Run], later: Run) -> Run:
    """The work whose end let ``later`` start: the later of what was before it and of what it waited for."""
    return max(before_on_stream(runs, later), before_mark(ledger, runs, later), key=lambda run: run.ended)


def last_copy(runs: list[Run]) -> Run:
    """The copy that ends last."""
    return max((run for run in runs if run.copies), key=lambda run: run.ended)


def _common_ns(one: Interval, other: Interval) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
