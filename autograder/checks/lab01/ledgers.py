"""The rows of lab 01 as ledgers, so that the pictures and the account of gpulab can read them."""

from collections.abc import Iterable

from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units

_FREED, _WITHDRAWN, _CLAIMED, _GRANTED, _USED = range(5)  # the order of facts at one instant: frees first


def of_grants(grants: Iterable[dict], capacity: int = 0) -> Ledger:
    """Rows ``{id, owner, offset, size, start, end}`` as a ledger; those that hold nothing leave none."""
    timed = []
    real = [grant for grant in grants if grant["size"] > 0 and grant["start"] < grant["end"]]
    for grant in real:
        claim, size, owner = grant["id"], grant["size"], f"{grant['id']} {grant['owner']}"
        at, end = grant["start"], grant["end"]
        timed.append((at, _CLAIMED, claim, Claimed(at, claim, "arena", size, Contiguous(size), owner)))
        timed.append((at, _GRANTED, claim, Granted(at, claim, grant["offset"], size)))
        timed.append((end, _FREED, claim, Freed(end, claim)))
    capacity = capacity or max((grant["offset"] + grant["size"] for grant in real), default=1)
    return _in_order(timed, Opened(0, "arena", capacity, "B"))


def of_runs(claims: Iterable[dict], capacity: int) -> Ledger:
    """Rows ``{id, size, ready, start, end}`` of units without a place as a ledger."""
    timed = []
    for row in claims:
        claim, size = row["id"], row["size"]
        asked = Claimed(row["ready"], claim, "device", size, Units(size), f"request {claim}")
        timed.append((row["ready"], _CLAIMED, claim, asked))
        timed.append((row["start"], _GRANTED, claim, Granted(row["start"], claim, -1, size)))
        timed.append((row["end"], _FREED, claim, Freed(row["end"], claim)))
    return _in_order(timed, Opened(0, "device", capacity, "blocks"))


def of_account(claims: Iterable[dict], capacity: int, end_ns: int) -> Ledger:
    """Rows ``{id, size, used, claimed, granted, offset, ended}`` as a ledger that closes at ``end_ns`` or later."""
    timed = []
    for row in claims:
        claim, size, end = row["id"], row["size"], row["ended"]
        asked = Claimed(row["claimed"], claim, "device", size, Contiguous(size), f"request {claim}")
        timed.append((row["claimed"], _CLAIMED, claim, asked))
        if row["granted"] is None:
            timed.append((end, _WITHDRAWN, claim, Withdrawn(end, claim)))
            continue
        at = row["granted"]
        timed.append((at, _GRANTED, claim, Granted(at, claim, row["offset"], size)))
        timed.append((at, _USED, claim, Used(at, claim, row["used"])))
        timed.append((end, _FREED, claim, Freed(end, claim)))
    return _in_order(timed, Opened(0, "device", capacity, "units"), end_ns)


def _in_order(timed: list, opened: Opened, end_ns: int = 0) -> Ledger:
    timed.sort(key=lambda entry: entry[:3])
    end_ns = max(end_ns, timed[-1][0] if timed else 0)
    return Ledger([opened, *(fact for *_, fact in timed), Closed(end_ns)])


def map_of(ledger: Ledger, title: str) -> object:
    """A map of addresses over time."""
    from gpulab.report.charts import memory_map

    return memory_map(ledger, time="ns", title=title)


def use_of(ledger: Ledger, title: str) -> object:
    """What was held and waited for, over time."""
    from gpulab.report.charts import use_over_time

    return use_over_time(ledger, time="ns", title=title)
