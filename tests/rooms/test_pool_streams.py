"""Streams, marks and costs: when freed bytes may be used again, and what asking the device takes."""

import pytest

from gpulab.errors import AllocatorFault, OutOfMemory, StreamFault
from gpulab.memory.costs import Costs
from gpulab.memory.pool import Pool
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.memory.streams import Streams
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Used
from gpulab.units import MS, US, GiB, MiB

POOLS = (CuPyPool, PyTorchPool)


def with_streams(pool_class, capacity: int = 64 * MiB, **options):
    """A pool, its streams, and the clock of both."""
    clock = Clock()
    streams = Streams(clock)
    return pool_class(capacity, progress=streams, clock=clock, **options), streams, clock


# -- streams -------------------------------------------------------------------------------------


def test_work_of_a_stream_is_done_in_order_and_streams_do_not_wait_for_each_other():
    clock = Clock(10)
    streams = Streams(clock)

    assert (streams.run(0, 5), streams.run(0, 7), streams.run(1, 3)) == (15, 22, 13)
    clock.advance_to(100)
    assert streams.run(0, 1) == 101
    assert (streams.mark(0), streams.mark(7), streams.done(101), streams.done(100)) == (101, 0, False, True)

    streams.wait_for(50)
    assert clock.now_ns == 100
    streams.wait_until_idle()
    assert clock.now_ns == 101


@pytest.mark.parametrize("lasts", [-1, 1.5, None, True])
def test_work_lasts_a_whole_number_of_nanoseconds(lasts):
    with pytest.raises(StreamFault, match="Work for stream 0 was to last"):
        Streams(Clock()).run(0, lasts)


@pytest.mark.parametrize("stream", [-1, 1.0, "0", None, True])
def test_a_stream_is_a_whole_number_wherever_one_is_named(stream):
    pool, streams, _ = with_streams(CuPyPool)
    extent = pool.allocate(512)
    facts = len(pool.ledger)

    for call in (
        lambda: streams.run(stream, 1),
        lambda: pool.allocate(512, stream=stream),
        lambda: pool.queue(512, stream=stream),
        lambda: pool.record_use(extent, stream),
    ):
        with pytest.raises(StreamFault, match="is no stream"):
            call()
    assert len(pool.ledger) == facts


@pytest.mark.parametrize("pool_class", POOLS)
def test_a_freed_chunk_is_used_again_at_once_by_its_own_stream_and_by_no_other(pool_class):
    pool = pool_class(64 * MiB)
    first = pool.allocate(2 * MiB, stream=0)
    pool.free(first)

    other, same = pool.allocate(2 * MiB, stream=1), pool.allocate(2 * MiB, stream=0)

    assert (same.offset, other.offset == first.offset) == (first.offset, False)
    check(pool.ledger)


@pytest.mark.parametrize("pool_class", POOLS)
def test_what_one_stream_cached_goes_back_for_another_when_the_device_is_full(pool_class):
    pool = pool_class(30 * MiB)
    pool.free(pool.allocate(20 * MiB, stream=0))

    pool.allocate(24 * MiB, stream=1)

    assert pool.total_bytes == 24 * MiB


# -- marks ---------------------------------------------------------------------------------------


def test_a_use_on_another_stream_holds_the_free_until_that_stream_gets_there():
    pool, streams, clock = with_streams(CuPyPool)
    extent = pool.allocate(400, "x")
    pool.record_use(extent, 1)
    streams.run(1, 100)
    clock.advance_to(5)
    before = len(pool.ledger)

    pool.free(extent)
    assert list(pool.ledger)[before:] == [Used(5, extent.claim, 0)]
    assert (pool.held(), pool.used_bytes, pool.n_free_blocks) == ((), 512, 0)
    clock.advance_to(99)
    assert pool.allocate(400).offset != extent.offset
    clock.advance_to(100)

    assert pool.allocate(400).offset == extent.offset
    assert Freed(100, extent.claim) in list(pool.ledger)
    check(pool.ledger)


def test_bytes_that_wait_for_a_mark_are_stranded():
    pool, streams, clock = with_streams(CuPyPool)
    extent = pool.allocate(512)
    pool.record_use(extent, 1)
    streams.run(1, 100)
    pool.free(extent)
    clock.advance_to(100)
    pool.allocate(512)

    account = Account(pool.ledger, "pool→extent")
    assert (account.at(0).used, account.at(0).stranded) == (0, 512)
    assert (account(0, 100).stranded, account.at(100).used) == (51_200, 512)


def test_a_use_that_is_over_by_the_free_holds_nothing():
    pool, streams, clock = with_streams(PyTorchPool)
    extent = pool.allocate(400)
    pool.record_use(extent, 1)
    streams.run(1, 100)
    clock.advance_to(100)

    pool.free(extent)

    assert pool.ledger.of(Freed)[-1] == Freed(100, extent.claim)


def test_a_use_on_its_own_stream_holds_nothing():
    pool, streams, _ = with_streams(PyTorchPool)
    extent = pool.allocate(400, stream=2)
    pool.record_use(extent, 2)
    streams.run(2, 100)

    pool.free(extent)

    assert pool.ledger.of(Freed) == [Freed(0, extent.claim)]


def test_a_free_waits_for_the_last_of_several_streams():
    pool, streams, clock = with_streams(PyTorchPool)
    extent = pool.allocate(400)
    for stream, lasts in ((1, 100), (2, 300), (3, 200)):
        pool.record_use(extent, stream)
        pool.record_use(extent, stream)
        streams.run(stream, lasts)
    pool.free(extent)

    for time_ns, freed in ((200, False), (299, False), (300, True)):
        clock.advance_to(time_ns)
        pool.free(pool.allocate(5 * MiB))
        assert (extent.claim in {fact.claim for fact in pool.ledger.of(Freed)}) is freed


def test_a_slow_stream_does_not_hold_up_what_another_used():
    pool, streams, clock = with_streams(PyTorchPool)
    slow, quick = pool.allocate(400), pool.allocate(400)
    pool.record_use(slow, 1)
    pool.record_use(quick, 2)
    streams.run(1, 1000)
    streams.run(2, 10)
    pool.free(slow)
    pool.free(quick)

    clock.advance_to(10)
    pool.allocate(5 * MiB)

    assert [fact.claim for fact in pool.ledger.of(Freed)] == [quick.claim]


def test_what_waits_for_a_mark_was_freed_and_cannot_be_freed_or_used_again():
    pool, streams, _ = with_streams(PyTorchPool)
    extent = pool.allocate(400)
    pool.record_use(extent, 1)
    streams.run(1, 100)
    pool.free(extent)

    for call in (lambda: pool.free(extent), lambda: pool.record_use(extent, 2)):
        with pytest.raises(AllocatorFault, match="which nobody holds"):
            call()


@pytest.mark.parametrize("pool_class", POOLS)
def test_a_pool_without_memory_waits_for_marks_before_it_refuses(pool_class):
    pool, streams, clock = with_streams(pool_class, 40 * MiB)
    extent = pool.allocate(40 * MiB)
    pool.record_use(extent, 1)
    streams.run(1, 100)
    pool.free(extent)

    assert pool.allocate(30 * MiB).size == 30 * MiB
    assert clock.now_ns == 100
    check(pool.ledger)


def test_emptying_the_cache_waits_for_marks():
    pool, streams, clock = with_streams(PyTorchPool)
    extent = pool.allocate(12 * MiB)
    pool.record_use(extent, 1)
    streams.run(1, 100)
    pool.free(extent)

    assert (pool.free_all_blocks(), clock.now_ns) == (12 * MiB, 100)


# -- costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "cost"),
    [
        (512, 60_007),
        (1 * MiB, 75 * US),
        (64 * MiB, 1_020 * US),
        (96 * MiB, 1_500 * US),
        (8 * GiB, 1_500 * US),
    ],
)
def test_a_growth_costs_60_us_and_15_a_mib_up_to_a_millisecond_and_a_half(size, cost):
    """gpu-facts C4, suggested defaults."""
    assert Costs().growth_ns(size) == cost
    pool = CuPyPool(8 * GiB, costs=Costs())

    pool.allocate(size)

    assert pool.clock.now_ns == cost
    claims, grants = pool.ledger.of(Claimed), pool.ledger.of(Granted)
    assert {fact.time_ns for fact in claims} == {0}
    assert {fact.time_ns for fact in grants} == {cost}


def test_a_hit_costs_a_microsecond_and_a_half_and_a_free_nothing():
    pool = CuPyPool(8 * GiB, costs=Costs())
    pool.free(pool.allocate(1 * MiB))
    before = pool.clock.now_ns

    pool.free(pool.allocate(1 * MiB))

    assert pool.clock.now_ns - before == 1_500


def test_giving_back_waits_until_the_device_is_idle():
    """cupy pull request 2898: cudaFree waits for the device, cudaMalloc does not."""
    clock = Clock()
    streams = Streams(clock)
    pool = CuPyPool(8 * MiB, costs=Costs(), progress=streams, clock=clock)
    for extent in [pool.allocate(3 * MiB), pool.allocate(3 * MiB)]:
        pool.free(extent)
    start = clock.now_ns
    streams.run(5, 2 * MS)

    pool.allocate(4 * MiB)

    assert clock.now_ns == start + 2 * MS + 2 * 50 * US + 60 * US + 4 * 15 * US
    assert [fact.time_ns for fact in pool.ledger.of(Freed)][2:] == [
        start + 2 * MS + 50 * US,
        start + 2 * MS + 100 * US,
    ]
    check(pool.ledger)


def test_a_hit_does_not_wait_for_the_device():
    clock = Clock()
    streams = Streams(clock)
    pool = CuPyPool(8 * MiB, costs=Costs(), progress=streams, clock=clock)
    pool.free(pool.allocate(3 * MiB))
    start = clock.now_ns
    streams.run(0, 2 * MS)

    pool.allocate(3 * MiB)

    assert clock.now_ns == start + 1_500


def test_pages_cost_by_their_number_and_wait_for_their_own_stream_only():
    """vAttention's table of call latencies; PyTorch, ``unmapHandles``."""
    clock = Clock()
    streams = Streams(clock)
    pool = PyTorchPool(100 * MiB, expandable=True, costs=Costs(), progress=streams, clock=clock)
    pool.free(pool.allocate(60 * MiB, stream=1))
    assert clock.now_ns == 3 * 69 * US
    streams.run(1, 1 * MS)
    streams.run(2, 9 * MS)

    pool.allocate(60 * MiB, stream=0)

    assert clock.now_ns == 3 * 69 * US + 1 * MS + 3 * 57 * US + 3 * 69 * US
    check(pool.ledger)


def test_without_costs_no_call_moves_the_clock():
    pool, streams, clock = with_streams(CuPyPool, 8 * MiB)
    pool.free(pool.allocate(6 * MiB))
    streams.run(0, 100)

    pool.allocate(7 * MiB)
    with pytest.raises(OutOfMemory):
        pool.allocate(2 * MiB)

    assert clock.now_ns == 0


# -- a rule that is told when a stream is done ----------------------------------------------------


class Told(Pool):
    """Keeps whole chunks, hands out the one that ``wanted`` names, and notes what it is told."""

    def prepare(self):
        self.heard, self.wanted, self.back = [], None, []

    def take(self, size, stream):
        return ["grow", size] if self.wanted is None else ["chunk", self.wanted]

    def give(self, chunk, stream):
        return self.back

    def trim(self, need):
        return []

    def reached(self, chunk):
        self.heard.append((chunk, self.clock.now_ns))


def test_a_rule_hears_once_that_any_stream_may_take_a_chunk_and_not_before():
    pool, streams, clock = with_streams(Told)
    first, second = pool.allocate(1 * MiB), pool.allocate(1 * MiB)
    streams.run(0, 100)
    pool.free(first)
    streams.run(0, 100)
    pool.free(second)

    pool.allocate(1 * MiB, stream=1)
    assert pool.heard == []
    clock.advance_to(100)
    pool.allocate(1 * MiB, stream=1)
    assert pool.heard == [(first.offset, 100)]
    clock.advance_to(300)
    pool.wanted = second.offset
    assert pool.allocate(1 * MiB, stream=1).offset == second.offset
    assert pool.heard == [(first.offset, 100), (second.offset, 300)]
    check(pool.ledger)


def test_a_rule_hears_nothing_of_a_chunk_that_was_taken_again_or_went_back():
    pool, streams, clock = with_streams(Told)
    again, gone = pool.allocate(1 * MiB), pool.allocate(1 * MiB)
    streams.run(0, 100)
    pool.free(again)
    pool.wanted = again.offset
    pool.allocate(1 * MiB)
    pool.wanted, pool.back = None, [gone.offset]
    pool.free(gone)

    clock.advance_to(100)
    pool.allocate(1 * MiB)

    assert pool.heard == []
    check(pool.ledger)


def test_a_rule_that_raises_when_told_is_named():
    pool, _, _ = with_streams(Told)
    pool.free(pool.allocate(1 * MiB))
    pool.heard = None

    with pytest.raises(AllocatorFault, match=r"Told.reached\(0\) raised AttributeError"):
        pool.allocate(1 * MiB)
