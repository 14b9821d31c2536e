"""What every caching pool does: check, record, and let a refused claim wait."""

from datetime import timedelta

import numpy as np
import pytest

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.allocator import Extent
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.memory.replay import ByteClaim, replay
from gpulab.report.account import Account
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units
from gpulab.units import GiB, KiB, MiB

POOLS = (CuPyPool, PyTorchPool)


class EqualToEverything:
    """What a careless or hostile caller may hand in."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return True


def pinned(capacity: int = 6 * MiB) -> tuple[CuPyPool, Extent]:
    """Of 6 MiB: a segment of 4 cut in 1 held and 3 free, and 2 left to the device."""
    pool = CuPyPool(capacity)
    pool.free(pool.allocate(4 * MiB))
    return pool, pool.allocate(1 * MiB, "keeper")


def test_a_pool_opens_a_device_and_itself_inside_it():
    pool = CuPyPool(8 * GiB)

    assert list(pool.ledger) == [Opened(0, "device", 8 * GiB, "B"), Opened(0, "pool", 0, "B", "device")]


def test_a_first_claim_is_two_claims_one_on_the_device_and_one_on_the_pool():
    pool = PyTorchPool(8 * GiB)

    extent = pool.allocate(400, "x")

    assert extent == Extent(0, 0, 512, 400, "x")
    assert list(pool.ledger)[2:] == [
        Claimed(0, 0, "pool", 400, Contiguous(512, 512), "x"),
        Claimed(0, 1, "device", 2 * MiB, Units(2 * MiB), "pool"),
        Granted(0, 1, 0, 2 * MiB),
        Granted(0, 0, 0, 512),
        Used(0, 0, 400),
        Used(0, 1, 512),
    ]


def test_a_hit_asks_the_device_for_nothing_and_says_how_much_of_the_segment_lives():
    pool = CuPyPool(8 * GiB)
    pool.free(pool.allocate(1 * MiB))
    before = len(pool.ledger)

    pool.allocate(512 * KiB)
    pool.allocate(512 * KiB)

    assert list(pool.ledger)[before:] == [
        Claimed(0, 2, "pool", 512 * KiB, Contiguous(512 * KiB, 512), ""),
        Granted(0, 2, 0, 512 * KiB),
        Used(0, 1, 512 * KiB),
        Claimed(0, 3, "pool", 512 * KiB, Contiguous(512 * KiB, 512), ""),
        Granted(0, 3, 512 * KiB, 512 * KiB),
        Used(0, 1, 1 * MiB),
    ]


def test_a_free_says_so_and_what_still_lives_in_the_segment():
    pool = CuPyPool(8 * GiB)
    extent = pool.allocate(1 * MiB)
    pool.clock.advance_to(5)

    pool.free(extent)

    assert list(pool.ledger)[-2:] == [Freed(5, extent.claim), Used(5, 1, 0)]
    assert (pool.used_bytes, pool.free_bytes, pool.total_bytes, pool.n_free_blocks) == (0, MiB, MiB, 1)


def test_a_refused_growth_and_the_claim_behind_it_both_wait_and_both_are_withdrawn():
    pool, _ = pinned()
    before = len(pool.ledger)

    with pytest.raises(OutOfMemory) as full:
        pool.allocate(4 * MiB, "big")
    pool.withdraw(full.value.claim)

    assert (full.value.claim, full.value.size) == (3, 4 * MiB)
    assert (full.value.free, full.value.largest) == (5 * MiB, 3 * MiB)
    assert list(pool.ledger)[before:] == [
        Claimed(0, 3, "pool", 4 * MiB, Contiguous(4 * MiB, 512), "big"),
        Claimed(0, 4, "device", 4 * MiB, Units(4 * MiB), "pool"),
        Refused(0, 4, 2 * MiB, 2 * MiB),
        Refused(0, 3, 5 * MiB, 3 * MiB),
        Withdrawn(0, 3),
        Withdrawn(0, 4),
    ]


def test_a_growth_that_succeeds_after_a_segment_went_back_keeps_its_claim():
    pool = CuPyPool(6 * MiB)
    pool.free(pool.allocate(4 * MiB))
    before = len(pool.ledger)

    pool.allocate(5 * MiB)

    assert list(pool.ledger)[before:] == [
        Claimed(0, 2, "pool", 5 * MiB, Contiguous(5 * MiB, 512), ""),
        Claimed(0, 3, "device", 5 * MiB, Units(5 * MiB), "pool"),
        Refused(0, 3, 2 * MiB, 2 * MiB),
        Freed(0, 1),
        Granted(0, 3, 6 * MiB, 5 * MiB),
        Granted(0, 2, 6 * MiB, 5 * MiB),
    ]


def test_the_device_refuses_once_for_each_try():
    pool = CuPyPool(6 * MiB)
    first, second, _ = pool.allocate(1 * MiB), pool.allocate(2 * MiB), pool.allocate(1 * MiB, "keeper")
    pool.free(second)
    pool.free(first)
    before = len(pool.ledger)

    with pytest.raises(OutOfMemory):
        pool.allocate(6 * MiB)

    assert list(pool.ledger)[before + 2 :] == [
        Refused(0, 7, 2 * MiB, 2 * MiB),
        Freed(0, 1),
        Freed(0, 3),
        Refused(0, 7, 5 * MiB, 5 * MiB),
        Refused(0, 6, 5 * MiB, 5 * MiB),
    ]


def test_a_retry_of_a_waiting_claim_grows_with_the_claim_that_waited_at_the_device():
    pool, keeper = pinned()
    with pytest.raises(OutOfMemory) as full:
        pool.allocate(6 * MiB, "big")
    pool.free(keeper)
    before = len(pool.ledger)

    extent = pool.allocate(1, claim=full.value.claim)

    assert (extent.claim, extent.size, extent.owner) == (3, 6 * MiB, "big")
    assert [type(fact).__name__ for fact in list(pool.ledger)[before:]] == [
        "Refused",
        "Freed",
        "Granted",
        "Granted",
    ]
    assert pool.ledger[-2].claim == 4


def test_a_retry_that_the_cache_serves_withdraws_what_waited_at_the_device():
    pool, keeper = pinned()
    with pytest.raises(OutOfMemory) as full:
        pool.allocate(4 * MiB)
    pool.free(keeper)

    pool.allocate(1, claim=full.value.claim)

    assert [fact.claim for fact in pool.ledger.of(Withdrawn)] == [4]
    with pytest.raises(AllocatorFault, match="Claim 3 does not wait"):
        pool.withdraw(3)


def test_a_claim_that_only_queues_is_recorded_and_served_on_its_retry():
    pool = CuPyPool(8 * MiB)

    claim = pool.queue(700, "later")

    assert pool.ledger[-1] == Claimed(0, claim, "pool", 700, Contiguous(1024, 512), "later")
    assert pool.allocate(0, claim=claim) == Extent(claim, 0, 1024, 700, "later")


def test_a_trace_replays_against_a_pool_as_it_does_against_an_arena():
    trace = [ByteClaim(0, 4 * MiB, 10, "a"), ByteClaim(1, 4 * MiB, 10, "b"), ByteClaim(2, 9 * MiB, 10, "c")]

    ledger = replay(trace, CuPyPool(6 * MiB))

    claims = {fact.claim: fact.owner for fact in ledger.of(Claimed)}
    assert [(fact.time_ns, claims[fact.claim]) for fact in ledger.of(Granted)] == [
        (0, "pool"),
        (0, "a"),
        (10, "b"),
    ]
    assert {claims[fact.claim] for fact in ledger.of(Withdrawn)} >= {"c"}
    assert Account(ledger, "device→extent").at(ledger.end_ns).used == 0


@pytest.mark.parametrize("pool_class", POOLS)
@pytest.mark.parametrize(
    "size",
    [0, -1, 1.0, "12", None, True, timedelta(1), EqualToEverything()],
    ids=lambda value: type(value).__name__,
)
def test_a_size_that_is_no_positive_whole_number_is_refused_and_nothing_recorded(pool_class, size):
    pool = pool_class(8 * MiB)

    with pytest.raises(
        AllocatorFault, match=r"asked for .* bytes at 0 ns\. Give a whole number of bytes"
    ) as fault:
        pool.allocate(size)

    assert fault.value.law == "size"
    assert len(pool.ledger) == 2


@pytest.mark.parametrize("pool_class", POOLS)
def test_numpy_integers_are_sizes_and_are_recorded_as_plain_ones(pool_class):
    pool = pool_class(np.int64(8 * MiB))

    extent = pool.allocate(np.uint16(400))

    assert type(extent.asked) is int
    assert type(pool.ledger[0].capacity) is int
    assert pool.ledger.digest() == Ledger(list(pool.ledger)).digest()


@pytest.mark.parametrize("value", [0, -512, 1.5, "8 GiB", None, True])
def test_a_device_without_a_size_cannot_be_opened(value):
    with pytest.raises(AllocatorFault, match="opened with a capacity of"):
        CuPyPool(value)


@pytest.mark.parametrize("value", [0, -512, 1.5, True])
def test_a_limit_is_a_size_too(value):
    with pytest.raises(AllocatorFault, match="opened with a limit of"):
        CuPyPool(8 * MiB, limit=value)


@pytest.mark.parametrize("pool_class", POOLS)
def test_an_extent_freed_twice_is_a_fault_that_tells_its_story_and_changes_nothing(pool_class):
    pool = pool_class(64 * MiB)
    extent = pool.allocate(400)
    pool.clock.advance_to(7)
    pool.free(extent)
    facts = list(pool.ledger)

    with pytest.raises(AllocatorFault, match=r"#2 0 ns claimed · #5 0 ns granted .* 7 ns freed\.") as fault:
        pool.free(extent)

    assert fault.value.law == "not-held"
    assert list(pool.ledger) == facts


def test_the_extent_of_an_earlier_claim_does_not_free_the_one_that_lies_there_now():
    pool = CuPyPool(8 * MiB)
    old = pool.allocate(512)
    pool.free(old)
    new = pool.allocate(512)
    assert old.offset == new.offset

    with pytest.raises(AllocatorFault, match=f"of claim {old.claim} at"):
        pool.free(old)

    assert pool.held() == (new,)


@pytest.mark.parametrize(
    "thing",
    [None, 0, "x", EqualToEverything(), Extent(0, [], 512, 512), Extent(EqualToEverything(), 0, 512, 512)],
    ids=["None", "offset", "name", "equal to everything", "offset is a list", "claim is equal to everything"],
)
def test_what_was_never_granted_cannot_be_freed(thing):
    pool = CuPyPool(8 * MiB)
    held = pool.allocate(512)

    with pytest.raises(AllocatorFault) as fault:
        pool.free(thing)

    assert fault.value.law == "not-held"
    assert pool.held() == (held,)


@pytest.mark.parametrize(
    "claim",
    [99, -1, True, "0", EqualToEverything()],
    ids=lambda claim: f"{type(claim).__name__} {claim!r:.6}",
)
def test_only_a_claim_that_waits_can_be_retried_or_withdrawn(claim):
    pool = CuPyPool(8 * MiB)
    pool.allocate(512)

    for call in (lambda: pool.withdraw(claim), lambda: pool.allocate(512, claim=claim)):
        with pytest.raises(AllocatorFault, match="does not wait") as fault:
            call()
        assert fault.value.law == "waiting"


def test_emptying_the_cache_hands_back_whole_segments_only():
    pool, keeper = pinned()
    assert pool.free_all_blocks() == 0

    pool.free(keeper)

    assert pool.free_all_blocks() == 4 * MiB
    assert pool.ledger[-1] == Freed(0, 1)
    assert (pool.total_bytes, pool.n_free_blocks, pool.holes()) == (0, 0, ())


def test_what_is_held_and_what_is_free_are_listed_by_address():
    pool = CuPyPool(8 * MiB)
    first, second, third = (pool.allocate(1024) for _ in range(3))
    pool.free(second)

    assert pool.held() == (first, third)
    assert pool.holes() == ((second.offset, 1024),)


def test_pools_on_one_clock_read_the_same_time():
    clock = Clock(40)
    pool = CuPyPool(8 * MiB, clock=clock, ledger=Ledger())
    clock.advance_to(41)
    pool.allocate(512)

    assert [fact.time_ns for fact in pool.ledger] == [40, 40, 41, 41, 41, 41]
