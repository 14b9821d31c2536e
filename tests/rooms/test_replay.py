"""What a replay does at each instant, and what is left of one that goes wrong."""

import numpy as np
import pytest

from gpulab.datasets import Request
from gpulab.errors import AllocatorFault, BrokenLaw
from gpulab.memory.allocator import Allocator
from gpulab.memory.arena import BestFit, Bump, FirstFit
from gpulab.memory.pools import CuPyPool
from gpulab.memory.replay import ByteClaim, claims_from, replay
from gpulab.report.account import Account
from gpulab.report.audit import audit
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Refused, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous


def happened(ledger: Ledger) -> list[tuple]:
    """``(time, kind, claim)`` of each fact after the opening."""
    return [
        (fact.time_ns, type(fact).__name__, getattr(fact, "claim", None))
        for fact in ledger
        if not isinstance(fact, Opened)
    ]


def test_a_claim_is_held_for_its_time_and_the_ledger_ends_when_the_last_one_goes():
    arena = FirstFit(1024)

    ledger = replay([ByteClaim(5, 512, 10, "a"), ByteClaim(7, 512, 3, "b")], arena)

    assert ledger is arena.ledger
    assert list(ledger) == [
        Opened(0, "arena", 1024, "B"),
        Claimed(5, 0, "arena", 512, Contiguous(512, 512), "a"),
        Granted(5, 0, 0, 512),
        Claimed(7, 1, "arena", 512, Contiguous(512, 512), "b"),
        Granted(7, 1, 512, 512),
        Freed(10, 1),
        Freed(15, 0),
        Closed(15),
    ]
    assert audit(ledger) == []


def test_an_empty_trace_is_an_opened_and_closed_arena():
    assert list(replay([], FirstFit(512))) == [Opened(0, "arena", 512, "B"), Closed(0)]


def test_at_one_instant_frees_come_before_grants():
    ledger = replay([ByteClaim(0, 512, 10), ByteClaim(10, 512, 5)], FirstFit(512))

    assert happened(ledger) == [
        (0, "Claimed", 0),
        (0, "Granted", 0),
        (10, "Freed", 0),
        (10, "Claimed", 1),
        (10, "Granted", 1),
        (15, "Freed", 1),
        (15, "Closed", None),
    ]


def test_frees_of_one_instant_all_come_before_the_line_is_served():
    trace = [ByteClaim(0, 512, 10), ByteClaim(0, 512, 10), ByteClaim(1, 1024, 5)]

    ledger = replay(trace, FirstFit(1024))

    assert happened(ledger)[-6:] == [
        (1, "Refused", 2),
        (10, "Freed", 0),
        (10, "Freed", 1),
        (10, "Granted", 2),
        (15, "Freed", 2),
        (15, "Closed", None),
    ]


def test_a_claim_held_for_no_time_is_gone_before_the_next_of_its_instant():
    ledger = replay([ByteClaim(3, 512, 0), ByteClaim(3, 512, 0)], FirstFit(512))

    assert [kind for _, kind, _ in happened(ledger)] == ["Claimed", "Granted", "Freed"] * 2 + ["Closed"]
    assert ledger.end_ns == 3


def test_a_waiting_claim_held_for_no_time_lets_the_next_in_at_the_same_instant():
    trace = [ByteClaim(0, 512, 10), ByteClaim(1, 512, 0), ByteClaim(2, 512, 4)]

    ledger = replay(trace, FirstFit(512))

    assert happened(ledger)[-7:] == [
        (10, "Freed", 0),
        (10, "Granted", 1),
        (10, "Refused", 2),
        (10, "Freed", 1),
        (10, "Granted", 2),
        (14, "Freed", 2),
        (14, "Closed", None),
    ]


def test_nobody_overtakes_the_head_of_the_line_even_where_it_would_fit():
    trace = [ByteClaim(0, 512, 10), ByteClaim(0, 512, 30), ByteClaim(1, 1024, 5), ByteClaim(2, 512, 5)]

    ledger = replay(trace, FirstFit(1024))

    assert {fact.claim: fact.time_ns for fact in ledger.of(Granted)} == {0: 0, 1: 0, 2: 30, 3: 35}
    assert [(fact.time_ns, fact.claim) for fact in ledger.of(Refused)] == [(1, 2), (10, 2), (30, 3)]
    assert Account(ledger).at(10).unscheduled == 512  # claim 3 would fit: order keeps it out


def test_all_that_fit_leave_the_line_together_in_order_of_arrival():
    trace = [ByteClaim(0, 1024, 10), *(ByteClaim(n, 512, 5) for n in (1, 2, 3))]

    ledger = replay(trace, FirstFit(1024))

    assert [(fact.time_ns, fact.claim) for fact in ledger.of(Granted)] == [(0, 0), (10, 1), (10, 2), (15, 3)]


def test_a_claim_larger_than_the_arena_is_refused_once_and_withdrawn():
    trace = [ByteClaim(0, 2048, 10), ByteClaim(1, 512, 2)]

    ledger = replay(trace, FirstFit(1024))

    assert happened(ledger)[:3] == [(0, "Claimed", 0), (0, "Refused", 0), (0, "Withdrawn", 0)]
    assert [fact.claim for fact in ledger.of(Granted)] == [1]


def test_a_claim_larger_than_the_arena_leaves_the_line_when_its_turn_comes():
    trace = [ByteClaim(0, 1024, 9), ByteClaim(1, 512, 5), ByteClaim(2, 2048, 5), ByteClaim(3, 512, 5)]

    ledger = replay(trace, FirstFit(1024))

    assert [(fact.time_ns, fact.claim) for fact in ledger.of(Withdrawn)] == [(9, 2)]
    assert [fact.claim for fact in ledger.of(Refused)] == [1, 2]
    assert [(fact.time_ns, fact.claim) for fact in ledger.of(Granted)] == [(0, 0), (9, 1), (9, 3)]


def test_without_waiting_a_refused_claim_leaves_at_once():
    trace = [ByteClaim(0, 512, 10), ByteClaim(1, 512, 5), ByteClaim(10, 512, 5)]

    ledger = replay(trace, FirstFit(512), wait=False)

    assert happened(ledger)[2:5] == [(1, "Claimed", 1), (1, "Refused", 1), (1, "Withdrawn", 1)]
    assert [fact.claim for fact in ledger.of(Granted)] == [0, 2]


def test_what_is_refused_by_an_empty_arena_waits_until_the_trace_ends():
    class Refuses(Allocator):
        def place(self, size: int) -> None:
            return None

        def reclaim(self, offset: int, size: int) -> None:
            """Never called."""

    ledger = replay([ByteClaim(0, 512, 5), ByteClaim(8, 512, 5)], Refuses(1024))

    assert happened(ledger) == [
        (0, "Claimed", 0),
        (0, "Refused", 0),
        (8, "Claimed", 1),
        (8, "Closed", None),
    ]
    assert Account(ledger)().unscheduled == 512 * 8  # claim 0 waits to the end


class Forgetful(Allocator):
    """Places everything at 0 and forgets that it did."""

    def place(self, size: int) -> int:
        return 0

    def reclaim(self, offset: int, size: int) -> None:
        raise ValueError("what was that?")


def test_a_broken_allocator_ends_the_replay_with_the_ledger_up_to_there():
    arena = Forgetful(1024)

    with pytest.raises(AllocatorFault) as fault:
        replay([ByteClaim(0, 512, 9), ByteClaim(4, 512, 9)], arena)

    assert fault.value.law == "overlap"
    assert happened(arena.ledger) == [(0, "Claimed", 0), (0, "Granted", 0), (4, "Claimed", 1)]
    assert audit(arena.ledger) == []


def test_a_broken_reclaim_ends_it_too():
    arena = Forgetful(1024)

    with pytest.raises(AllocatorFault, match="reclaim"):
        replay([ByteClaim(0, 512, 9)], arena)

    assert happened(arena.ledger)[-1] == (9, "Freed", 0)


def test_a_claim_of_no_size_ends_the_replay_with_the_ledger_up_to_there():
    arena = FirstFit(1024)

    with pytest.raises(AllocatorFault, match="asked for -1 bytes at 4 ns"):
        replay([ByteClaim(0, 512, 9), ByteClaim(4, -1, 9)], arena)

    assert happened(arena.ledger) == [(0, "Claimed", 0), (0, "Granted", 0)]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (ByteClaim(3, 512, 9), "from 5 ns to 3 ns"),
        (ByteClaim(6.5, 512, 9), r"from 5 ns to 6\.5"),
        (ByteClaim(True, 512, 9), "from 5 ns to True"),
    ],
)
def test_a_trace_out_of_order_or_not_in_whole_nanoseconds_is_refused(second, says):
    arena = FirstFit(1024)

    with pytest.raises(BrokenLaw, match=says):
        replay([ByteClaim(5, 512, 9), second], arena)

    assert happened(arena.ledger) == [(5, "Claimed", 0), (5, "Granted", 0)]


def test_a_claim_that_is_held_for_less_than_no_time_is_refused():
    with pytest.raises(BrokenLaw, match="from 5 ns to 4 ns"):
        replay([ByteClaim(5, 512, -1)], FirstFit(1024))


def test_numpy_numbers_in_a_trace_give_the_ledger_that_plain_ones_give():
    plain = [ByteClaim(5, 512, 9), ByteClaim(6, 700, 2)]
    numpy = [ByteClaim(*(np.int64(n) for n in (c.time_ns, c.size, c.hold_ns))) for c in plain]

    assert replay(numpy, FirstFit(2048)).digest() == replay(plain, FirstFit(2048)).digest()


def test_a_request_claims_the_cache_of_all_its_tokens_for_as_many_steps():
    requests = [Request(0, 3, 2), Request(9, 1, 0)]

    claims = claims_from(requests, bytes_per_token=100, step_ns=7)

    assert claims == [ByteClaim(0, 500, 35, "request 0"), ByteClaim(9, 100, 7, "request 1")]


@pytest.mark.parametrize("kind", [Bump, FirstFit, BestFit])
def test_everything_granted_is_freed_by_the_end(kind):
    trace = [ByteClaim(n, 300 + 97 * n, 40 - n) for n in range(30)]
    arena = kind(4096)

    ledger = replay(trace, arena)

    assert arena.held() == ()
    assert len(ledger.of(Freed)) == len(ledger.of(Granted)) == 30
    assert audit(ledger) == []


def test_a_claim_that_no_empty_pool_could_serve_does_not_hold_up_the_line():
    # 12,800 B of a device, of which the pool may take 1,024: the second claim fits the device, never the pool.
    pool = CuPyPool(12_800, limit=1024)
    assert (pool.could_hold(1024), pool.could_hold(1025)) == (True, False)
    claims = [ByteClaim(0, 512, 10, "a"), ByteClaim(1, 4096, 10, "too large"), ByteClaim(2, 512, 10, "c")]
    ledger = replay(claims, pool)
    held = {fact.claim for fact in ledger.of(Granted)}
    owners = {fact.owner for fact in ledger.of(Claimed) if fact.claim in held and fact.resource == "pool"}
    assert owners == {"a", "c"}
    gone = {fact.claim for fact in ledger.of(Withdrawn)}
    assert "too large" in {fact.owner for fact in ledger.of(Claimed) if fact.claim in gone}
    assert ledger.end_ns == 12
