"""What no trace over several streams may break in any pool: overlap, reuse before a mark, a leak, a lost byte."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulab.errors import OutOfMemory
from gpulab.memory.costs import Costs
from gpulab.memory.pool import Pool
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.memory.streams import Streams
from gpulab.report.account import Account, levels
from gpulab.report.audit import check
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Refused
from gpulab.units import KiB, MiB

CAPACITY = 128 * MiB


class Bins(Pool):
    """What a learner may write: whole chunks in steps of a quarter of a doubling, taken by any stream when they may be."""

    def prepare(self):
        self.free_ones, self.sizes = [], {}

    def take(self, size, stream):
        step = max(512, 1 << max(0, size.bit_length() - 3))
        size = -(-size // step) * step
        for chunk in self.free_ones:
            mine = self.segments.chunks[chunk].stream == stream
            if self.sizes[chunk] == size and (mine or self.backing.may_cross(self.segments.chunks[chunk])):
                self.free_ones.remove(chunk)
                return ["chunk", chunk]
        return ["grow", size]

    def grown(self, chunk, size, stream):
        self.sizes[chunk] = size

    def give(self, chunk, stream):
        self.free_ones.append(chunk)
        return []

    def trim(self, need):
        chunks, self.free_ones = self.free_ones, []
        return chunks


POOLS = {
    "cupy": lambda **parts: CuPyPool(CAPACITY, **parts),
    "pytorch, split at 20": lambda **parts: PyTorchPool(CAPACITY, max_split_size=20 * MiB, **parts),
    "pytorch, garbage, costs": lambda **parts: PyTorchPool(
        CAPACITY, garbage_permille=300, costs=Costs(), **parts
    ),
    "pytorch, expandable": lambda **parts: PyTorchPool(CAPACITY, expandable=True, **parts),
    "pytorch, expandable, split at 20": lambda **parts: PyTorchPool(
        CAPACITY, expandable=True, max_split_size=20 * MiB, **parts
    ),
    "pytorch, expandable, limit, costs": lambda **parts: PyTorchPool(
        CAPACITY, limit=70 * MiB, expandable=True, costs=Costs(), **parts
    ),
    "a learner's": lambda **parts: Bins(CAPACITY, **parts),
}
SIZES = st.one_of(
    st.integers(1, 4 * KiB),
    st.integers(1, 3 * MiB),
    st.sampled_from((512, 1 * MiB, 1 * MiB + 1, 10 * MiB, 20 * MiB, 31 * MiB)),
    st.integers(1 * MiB, 60 * MiB),
)
STREAM = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), SIZES, STREAM),
        st.tuples(st.just("alloc"), SIZES, STREAM),
        st.tuples(st.just("free"), st.integers(0, 99), STREAM),
        st.tuples(st.just("use"), st.integers(0, 99), STREAM),
        st.tuples(st.just("run"), st.integers(0, 400_000), STREAM),
        st.tuples(st.just("wait"), st.integers(0, 400_000), STREAM),
        st.tuples(st.sampled_from(("retry", "withdraw", "empty")), st.integers(0, 99), STREAM),
    ),
    max_size=40,
)


class Play:
    """A pool under a trace, with a plain memory of which bytes are whose and until when."""

    def __init__(self, name: str, steps: list) -> None:
        self.clock = Clock()
        self.streams = Streams(self.clock)
        self.pool = POOLS[name](progress=self.streams, clock=self.clock)
        self.whole = name == "a learner's"  # may cross streams
        self.held: dict[int, tuple] = {}  # claim -> extent, its stream, other streams that use it
        self.waiting: dict[int, int] = {}  # claim -> stream
        self.freed: list[tuple] = []  # extent, its stream, when the others are done with it, its own mark
        for verb, number, stream in steps:
            self.clock.advance_to(self.clock.now_ns + 1)
            getattr(self, verb)(number, stream)

    def alloc(self, size: int, stream: int, claim: int | None = None) -> None:
        try:
            extent = self.pool.allocate(size, "o", claim=claim, stream=stream)
        except OutOfMemory as full:
            self.waiting[full.claim] = stream
            return
        for old, owner, until, mark in self.freed:
            if old.offset < extent.end and extent.offset < old.end:
                assert self.clock.now_ns >= until, "reused before the mark of another stream"
                crossed = owner != stream
                assert not crossed or (self.whole and self.clock.now_ns >= mark), "reused across streams"
        self.held[extent.claim] = extent, stream, set()

    def free(self, number: int, stream: int) -> None:
        if self.held:
            extent, owner, users = self.held.pop(sorted(self.held)[number % len(self.held)])
            until = max((self.streams.mark(user) for user in users), default=0)
            self.freed.append((extent, owner, until, self.streams.mark(owner)))
            self.pool.free(extent)

    def use(self, number: int, stream: int) -> None:
        if self.held:
            extent, owner, users = self.held[sorted(self.held)[number % len(self.held)]]
            users |= {stream} - {owner}
            self.pool.record_use(extent, stream)

    def run(self, lasts_ns: int, stream: int) -> None:
        self.streams.run(stream, lasts_ns)

    def wait(self, lasts_ns: int, stream: int) -> None:
        self.clock.advance_to(self.clock.now_ns + lasts_ns)

    def retry(self, number: int, stream: int) -> None:
        if self.waiting:
            claim = sorted(self.waiting)[number % len(self.waiting)]
            self.alloc(1, self.waiting.pop(claim), claim=claim)

    def withdraw(self, number: int, stream: int) -> None:
        if self.waiting:
            claim = sorted(self.waiting)[number % len(self.waiting)]
            del self.waiting[claim]
            self.pool.withdraw(claim)

    def empty(self, number: int, stream: int) -> None:
        self.pool.free_all_blocks()

    def free_everything(self) -> None:
        while self.held:
            self.free(0, 0)
        self.pool.holdings.wait_for_users()


def check_bytes(pool: Pool) -> None:
    """Every byte is held, awaited, cached or left to the device, and the books and the ledger say the same."""
    assert pool.used_bytes + pool.free_bytes == pool.total_bytes <= (pool.limit or CAPACITY)
    assert pool.free_bytes == sum(size for _, size in pool.holes())
    assert pool.used_bytes >= sum(extent.size for extent in pool.held())
    assert {extent.offset % 512 for extent in pool.held()} <= {0}
    account = Account(pool.ledger, "device→pool").at(pool.ledger.end_ns)
    assert (account.used, account.used + account.stranded) == (pool.used_bytes, pool.total_bytes)


def check_accounts(pool: Pool) -> None:
    """The five terms add up at every level: ``Terms`` refuses any that do not."""
    for level in levels(pool.ledger):
        account = Account(pool.ledger, level)
        assert len(account.steps()) >= 1
        assert account().capacity >= 0


def check_refusals(pool: Pool) -> None:
    """A claim is refused only right after the device was asked for it in vain."""
    resource = {fact.claim: fact.resource for fact in pool.ledger.of(Claimed)}
    where = ["", *(resource[fact.claim] for fact in pool.ledger.of(Refused))]
    assert all(before == "device" for before, after in pairwise(where) if after == "pool")


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_no_byte_is_held_twice_used_again_too_early_or_lost_and_no_law_is_broken(name, steps):
    play = Play(name, steps)  # asserts at each grant that no mark was passed over

    check(play.pool.ledger)
    assert sorted(play.held) == sorted(extent.claim for extent in play.pool.held())
    check_bytes(play.pool)
    check_accounts(play.pool)
    check_refusals(play.pool)


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_what_is_freed_joins_and_is_given_out_again_and_in_the_end_the_device_has_it_all(name, steps):
    play = Play(name, steps)
    pool = play.pool
    play.free_everything()
    assert (pool.used_bytes, pool.held()) == (0, ())

    chunk = pool.segments.largest_chunk()
    if chunk is not None:
        page = getattr(chunk.segment, "page", chunk.segment.size)
        small = name.startswith("pytorch") and page <= 2 * MiB  # then it serves claims up to 1 MiB
        size, before = min(chunk.size, 1 * MiB) if small else chunk.size, pool.total_bytes
        extent = pool.allocate(size, stream=chunk.stream)
        assert (extent.size >= size, pool.total_bytes) == (True, before)
        pool.free(extent)
    pool.free_all_blocks()

    assert (pool.total_bytes, pool.n_free_blocks, pool.holes()) == (0, 0, ())
    check(pool.ledger)
