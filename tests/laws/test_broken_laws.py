"""Whatever is wrong with a ledger, its readers say so: no reader stops with anything but a sentence."""

from dataclasses import fields, replace
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpulab.errors import GpulabError
from gpulab.report.account import Account, levels
from gpulab.report.audit import audit
from gpulab.report.instant import at
from gpulab.report.metrics import Slo, summarize
from gpulab.report.table import table
from gpulab.report.waiting import Waiting
from gpulab.telemetry.events import (
    Attached,
    Claimed,
    Closed,
    Ended,
    Freed,
    Granted,
    Grew,
    Joined,
    Launched,
    Marked,
    Occupied,
    Opened,
    Refused,
    Returned,
    Sent,
    Started,
    Used,
    Waited,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Gang, Slots, Units
from tests.six_ledgers import SIX

TWO_DEVICES = [
    *(Opened(5, "d0", 16, "B"), Opened(5, "d1", 16, "B")),
    *(Opened(5, "p0", 0, "B", "d0"), Opened(5, "p1", 0, "B", "d0")),
    *(Claimed(6, 0, "d0", 8, Units(8), "p0"), Granted(6, 0, 0, 8)),
    *(Claimed(6, 1, "p0", 4, Contiguous(4), "x"), Granted(7, 1, 0, 4), Used(8, 1, 2)),
    *(Claimed(8, 2, "d1", 4, Gang((Units(2), Units(2)), True), "y"), Granted(9, 2, -1, 4)),
    *(Grew(9, 2, 2), Returned(10, 2, 1)),
    *(Claimed(11, 3, "p0", 8, Contiguous(8, 1, True), "z"), Refused(11, 3, 4, 4)),
    *(
        Claimed(11, 4, "d1", 2, Slots(2, (0, 4, 8)), "z"),
        Joined(11, 4, 3),
        Withdrawn(12, 4),
        Withdrawn(12, 3),
    ),
    *(Freed(13, 1), Freed(13, 0), Freed(14, 2), Closed(20)),
]
WORK = [
    *(Attached(0, "d", "sim", 4, 100, "b", "r"), Launched(1, 0, "s", "k", 8, 100)),
    *(Sent(1, 1, "s", "in", 10, "pinned"), Started(2, 0), Occupied(2, 2, 4), Ended(5, 0), Started(5, 1)),
    *(Occupied(5, 0, 0), Ended(7, 1), Marked(7, 2, "s"), Waited(8, 3, "t", 2), Closed(9)),
]
SOUND = [TWO_DEVICES, WORK, *(list(ledger) for ledger, _ in SIX.values())]
VALUES = {
    int: (-5, -1, 0, 1, 2, 3, 5, 10**18, 10**40),
    str: ("", "a", "b", "arena", "kv", "d0", "p0", "s", "<b>"),
}
SHAPES = (Units(0), Units(5, True), Contiguous(3, 2), Contiguous(-2), Slots(2, ()), Gang(()))


def spoilt(seed: int) -> list:
    """A sound ledger with one to three things wrong, its times in order."""
    draw = Random(seed)
    facts = [replace(fact) for fact in draw.choice(SOUND)]
    for _ in range(draw.choice((1, 1, 2, 3))):
        here = draw.randrange(len(facts))
        match draw.randrange(5):
            case 0:
                del facts[here]
            case 1:
                facts.insert(here, replace(draw.choice(facts)))
            case 2:
                facts = facts[: here + 1]
            case 3:
                facts += [replace(fact) for fact in draw.choice(SOUND)]
            case 4:
                field = draw.choice(fields(facts[here])).name
                setattr(
                    facts[here], field, draw.choice(VALUES.get(type(getattr(facts[here], field)), SHAPES))
                )
        facts = facts or [Closed(0)]
    for before, fact in pairwise(facts):
        fact.time_ns = max(before.time_ns, fact.time_ns)
    return facts


def said(read) -> bool:
    """Whether ``read()`` stopped with a sentence of ours."""
    try:
        read()
    except GpulabError:
        return True
    return False


@given(st.integers(0, 2**32))
def test_readers_of_a_broken_ledger_say_so_and_those_of_a_sound_one_read_it(seed):
    ledger = Ledger(spoilt(seed))
    broken = audit(ledger)
    reads = [lambda level=level: accounted(ledger, level) for level in levels(ledger)]
    stopped = [said(read) for read in (*reads, lambda: waited(ledger), lambda: summarize(ledger, Slo(5)))]

    assert broken or not any(stopped)
    assert table(ledger).caption


def accounted(ledger, level):
    """Each reading of an account, held together."""
    account = Account(ledger, level)
    whole, causes = account(), account.causes(1000)
    assert sum(terms.capacity for terms in account.by_owner().values()) + whole.spare == whole.capacity
    for term in ("stranded", "fragmented", "unscheduled"):
        assert sum(cause.unit_ns for cause in causes if cause.term == term) == getattr(whole, term)


def waited(ledger):
    for part in Waiting(ledger).requests:
        parts = part.alone_ns, part.slowed_ns, part.behind_ns, part.blocked_ns, part.outside_ns
        assert sum(parts) == part.latency_ns
        assert min(parts) >= 0


def test_what_a_reader_once_stopped_at_is_a_sentence():
    orphan = Ledger([Opened(0, "pool", 0, "B", inside="nowhere"), Closed(5)])
    joined = Ledger(
        [Opened(0, "a", 4, "B"), Claimed(0, 1, "a", 2, Units(2), "x"), Joined(0, 1, 7), Closed(5)]
    )
    less = Ledger([Opened(0, "a", -5, "B")])

    assert levels(orphan) == ["pool→extent"]
    assert [found.law for found in audit(orphan)] == ["opened"]
    for ledger in (joined, less):
        assert said(lambda ledger=ledger: Account(ledger))
        assert audit(ledger)
        assert "There is no account" in repr(at(ledger)) or "Run the audit" in repr(at(ledger))
