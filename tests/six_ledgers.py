"""Six ledgers that were computed by hand, and how ``gpulab/DESIGN.md`` draws them."""

from gpulab.report.served import Requests
from gpulab.telemetry.events import (
    Answered,
    Arrived,
    Claimed,
    Closed,
    Finished,
    Freed,
    Granted,
    Opened,
    Prefilled,
    Stepped,
    Used,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units


def asks(time_ns, claim, size, owner, *, shape=Contiguous, where="arena"):
    return Claimed(time_ns, claim, where, size, shape(size), owner)


def blocks(time_ns, claim, size, owner):
    return asks(time_ns, claim, size, owner, shape=Units, where="kv")


STRANDED = Ledger(
    [
        Opened(0, "arena", 8, "B"),
        *(Claimed(0, 0, "arena", 3, Contiguous(4), "a"), Granted(0, 0, 0, 4), Used(0, 0, 3)),
        Used(6, 0, 0),
        Freed(8, 0),
        Closed(10),
    ]
)
FRAGMENTED = Ledger(
    [
        Opened(0, "arena", 8, "B"),
        *(asks(0, 0, 2, "a"), Granted(0, 0, 2, 2)),
        *(asks(0, 1, 2, "b"), Granted(0, 1, 6, 2)),
        asks(2, 2, 3, "c"),
        *(Freed(6, 0), Granted(6, 2, 0, 3)),
        Closed(10),
    ]
)
UNSCHEDULED = Ledger(
    [
        Opened(0, "kv", 4, "block"),
        *(blocks(0, 0, 1, "a"), Granted(0, 0, -1, 1)),
        blocks(2, 1, 2, "b"),
        Granted(7, 1, -1, 2),
        Closed(10),
    ]
)
SPARE = Ledger(
    [
        Opened(0, "kv", 4, "block"),
        *(blocks(0, 0, 3, "a"), Granted(0, 0, -1, 3)),
        blocks(3, 1, 2, "b"),
        Closed(10),
    ]
)
WAITING = Ledger(
    [
        Opened(0, "kv", 4, "block"),
        *(Arrived(0, 0, "a", "chat", 2, 3), blocks(0, 0, 3, "a"), Granted(0, 0, -1, 3)),
        Arrived(1, 1, "b", "code", 2, 1),
        blocks(2, 1, 2, "b"),
        *(Stepped(4, "kv", 0, 1, 0, 0, 4000, 0, 0), Prefilled(4, 0, 2)),
        *(Stepped(10, "kv", 4, 2, 1, 2, 3000, 0, 0), Finished(10, 0, 3, 9), Freed(10, 0)),
        Granted(13, 1, -1, 2),
        *(
            Stepped(17, "kv", 13, 1, 0, 0, 4000, 0, 1),
            Prefilled(17, 1, 2),
            Finished(17, 1, 1, 2),
            Freed(17, 1),
        ),
        Answered(19, 1),
        Closed(20),
    ]
)
MIXED = Ledger(
    [
        Opened(0, "arena", 10, "B"),
        *(Claimed(0, 0, "arena", 2, Contiguous(3), "a"), Granted(0, 0, 0, 3), Used(0, 0, 2)),
        *(asks(0, 1, 2, "b"), Granted(0, 1, 5, 2)),
        asks(2, 2, 4, "c"),
        asks(4, 3, 1, "d"),
        Granted(6, 3, 3, 1),
        Freed(7, 1),
        Granted(9, 2, 4, 4),
        Closed(12),
    ]
)
# used, stranded, fragmented, unscheduled, spare: each product below is units * ns, see the drawings
SIX = {
    "stranded": (STRANDED, (3 * 6, 1 * 6 + 4 * 2, 0, 0, 4 * 8 + 8 * 2)),
    "fragmented": (FRAGMENTED, (4 * 6 + 5 * 4, 0, 3 * 4, 0, 4 * 2 + 1 * 4 + 3 * 4)),
    "unscheduled": (UNSCHEDULED, (1 * 10 + 2 * 3, 0, 0, 2 * 5, 3 * 2 + 1 * 5 + 1 * 3)),
    "spare": (SPARE, (3 * 10, 0, 0, 0, 1 * 10)),
    "waiting": (WAITING, (3 * 10 + 2 * 4, 0, 0, 2 * 3, 1 * 10 + 2 * 3 + 2 * 4 + 4 * 3)),
    "mixed": (
        MIXED,
        (
            2 * 12 + 2 * 7 + 1 * 6 + 4 * 3,
            1 * 12,
            4 * 5,
            1 * 2 + 4 * 2,
            5 * 2 + 1 * 2 + 2 * 2 + 2 * 3,
        ),
    ),
}


def drawn(ledger: Ledger) -> str:
    """One line a unit, from the last to the first, a column a nanosecond: A used by a, a held idle by it, . free.

    Then a line for each claim that waits (=), and for each request what it is served (#).
    """
    opened, width = ledger[0], ledger.end_ns
    columns = [_units(ledger, time_ns) for time_ns in range(width)]
    lines = [
        f"{unit:>9} {''.join(column[unit] for column in columns)}"
        for unit in reversed(range(opened.capacity))
    ]
    requests = Requests()
    for serial, fact in enumerate(ledger):
        requests.note(serial, fact)
    requests.end(width)
    for fact in ledger.of(Claimed):
        ends = [f.time_ns for f in ledger.of(Granted, Withdrawn) if f.claim == fact.claim]
        end = min([*ends, width])
        if end > fact.time_ns:
            lines.append(f"{fact.owner} wants {fact.size} {' ' * fact.time_ns}{'=' * (end - fact.time_ns)}")
    for served in requests.served.values():
        row = "".join("#" if any(s <= t < e for _, s, e in served.services) else " " for t in range(width))
        lines.append(f"{served.arrived.owner:>8}: {row.rstrip()}")
    scale = "".join(str(time_ns % 10) for time_ns in range(width))
    return "\n".join([*lines, f"       ns {scale}"])


def _units(ledger: Ledger, time_ns: int) -> list[str]:
    """The letter of each unit at ``time_ns``; units without an address are stacked in the order of their claims."""
    held, owners = {}, {}
    for fact in ledger:
        if fact.time_ns <= time_ns:
            match fact:
                case Claimed():
                    owners[fact.claim] = fact.owner
                case Granted():
                    held[fact.claim] = [fact.start, fact.size, fact.size]
                case Used():
                    held[fact.claim][2] = fact.units
                case Freed():
                    del held[fact.claim]
    letters, top = ["."] * ledger[0].capacity, 0
    for claim, (start, size, used) in held.items():
        at = start if start >= 0 else top
        top += size
        letters[at : at + size] = owners[claim].upper() * used + owners[claim] * (size - used)
    return letters
