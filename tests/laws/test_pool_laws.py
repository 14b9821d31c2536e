"""What no trace may break in either pool, read from the ledger alone wherever the ledger can show it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulab.errors import OutOfMemory
from gpulab.memory.pools import CuPyPool, PyTorchPool, largest_next
from gpulab.report.account import Account, levels
from gpulab.report.audit import audit
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.units import KiB, MiB

CAPACITY = 128 * MiB
POOLS = {
    "cupy": lambda: CuPyPool(CAPACITY),
    "cupy, limit": lambda: CuPyPool(CAPACITY, limit=48 * MiB),
    "pytorch": lambda: PyTorchPool(CAPACITY),
    "pytorch, split at 20": lambda: PyTorchPool(CAPACITY, max_split_size=20 * MiB),
    "pytorch, split at 31": lambda: PyTorchPool(CAPACITY, max_split_size=31 * MiB),
}
SIZES = st.one_of(
    st.integers(1, 4 * KiB),
    st.integers(1, 3 * MiB),
    st.sampled_from((512, 1 * MiB, 1 * MiB + 1, 10 * MiB - 1, 10 * MiB, 11 * MiB, 20 * MiB, 31 * MiB)),
    st.integers(1 * MiB, 48 * MiB),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), SIZES),
        st.tuples(st.just("free"), st.integers(0, 99)),
        st.tuples(st.sampled_from(("retry", "withdraw")), st.integers(0, 99)),
        st.tuples(st.just("empty"), st.just(0)),
    ),
    max_size=60,
)


def play(pool, steps) -> tuple[list, list[int]]:
    """Do what the steps say as far as it makes sense; what is held and what waits at the end."""
    held, waiting = [], []
    for verb, number in steps:
        pool.clock.advance_to(pool.clock.now_ns + 1)
        try:
            if verb == "alloc":
                held.append(pool.allocate(number))
            elif verb == "free" and held:
                pool.free(held.pop(number % len(held)))
            elif verb == "retry" and waiting:
                held.append(pool.allocate(1, claim=waiting.pop(number % len(waiting))))
            elif verb == "withdraw" and waiting:
                pool.withdraw(waiting.pop(number % len(waiting)))
            elif verb == "empty":
                pool.free_all_blocks()
        except OutOfMemory as full:
            waiting.append(full.claim)
    return held, waiting


def played(name, steps):
    """A pool of its own after ``steps``. Not a deep copy: that tears a sorted list of objects that know it in two."""
    pool = POOLS[name]()
    play(pool, steps)
    return pool


class Watch:
    """Reads a pool's ledger fact by fact and refuses what cannot be."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.at_device: dict[int, bool] = {}  # claim -> it was made at the device
        self.segments: dict[int, list[int]] = {}  # claim -> start, size, bytes said to live
        self.extents: dict[int, tuple[int, int]] = {}
        self.waiting: set[int] = set()
        self.asked: dict[int, int] = {}

    def read(self, fact) -> None:
        match fact:
            case Claimed():
                assert fact.claim not in self.at_device
                self.at_device[fact.claim] = fact.resource == "device"
                self.asked[fact.claim] = fact.size
                self.waiting.add(fact.claim)
            case Granted():
                self.waiting.remove(fact.claim)
                self.granted(fact)
            case Refused() | Withdrawn():
                assert fact.claim in self.waiting
                if isinstance(fact, Withdrawn):
                    self.waiting.remove(fact.claim)
            case Used() if self.at_device[fact.claim]:
                self.segments[fact.claim][2] = fact.units
            case Used():
                assert fact.units == self.asked[fact.claim] < self.extents[fact.claim][1]
            case Freed() if self.at_device[fact.claim]:
                start, size, live = self.segments.pop(fact.claim)
                assert live == 0, "a segment went back with something in it"
                assert not self.inside(start, size)
            case Freed():
                del self.extents[fact.claim]
            case _:
                assert isinstance(fact, Opened | Closed)

    def granted(self, fact: Granted) -> None:
        assert fact.size >= self.asked[fact.claim]
        assert fact.start % 512 == fact.size % 512 == 0
        if self.at_device[fact.claim]:
            assert fact.size == self.asked[fact.claim]
            spans = sorted(
                [(start, size) for start, size, _ in self.segments.values()] + [(fact.start, fact.size)]
            )
            assert all(a + size < b for (a, size), (b, _) in pairwise(spans)), "two segments touch"
            self.segments[fact.claim] = [fact.start, fact.size, fact.size]
            assert sum(size for _, size, _ in self.segments.values()) <= self.limit
        else:
            homes = [
                s for s, n, _ in self.segments.values() if s <= fact.start and fact.start + fact.size <= s + n
            ]
            assert len(homes) == 1, "an extent lies in no segment"
            assert not self.inside(fact.start, fact.size), "two extents overlap"
            self.extents[fact.claim] = fact.start, fact.size

    def inside(self, start: int, size: int) -> list:
        return [e for e in self.extents.values() if e[0] < start + size and start < e[0] + e[1]]

    def settle(self) -> None:
        """At the end of an instant each segment says what lives in it."""
        for start, size, live in self.segments.values():
            assert live == sum(length for _, length in self.inside(start, size))

    def free(self) -> list[tuple[int, int, int]]:
        """The free stretches as (size, start, size of the segment)."""
        found = []
        for start, size, _ in self.segments.values():
            at = start
            for begin, length in [*sorted(self.inside(start, size)), (start + size, 0)]:
                if begin > at:
                    found.append((begin - at, at, size))
                at = begin + length
        return found


def watched(pool) -> Watch:
    watch = Watch(min(pool.capacity, pool.limit or pool.capacity))
    for before, fact in pairwise([*pool.ledger, Closed(pool.clock.now_ns + 1)]):
        watch.read(before)
        if fact.time_ns > before.time_ns:
            watch.settle()
    return watch


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_extents_never_overlap_keep_the_alignment_and_lie_in_segments_that_go_back_only_whole(name, steps):
    pool = POOLS[name]()

    held, waiting = play(pool, steps)

    watch = watched(pool)
    assert sorted(watch.extents.values()) == [(extent.offset, extent.size) for extent in pool.held()]
    assert sorted(held, key=lambda extent: extent.offset) == list(pool.held())
    assert {claim for claim in watch.waiting if not watch.at_device[claim]} == set(waiting)
    assert sum(watch.at_device[claim] for claim in watch.waiting) <= len(waiting)


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_every_byte_is_held_cached_or_left_to_the_device(name, steps):
    pool = POOLS[name]()

    held, _ = play(pool, steps)

    assert pool.used_bytes == sum(extent.size for extent in held)
    assert pool.free_bytes == sum(size for _, size in pool.holes())
    assert pool.total_bytes == sum(size for _, size, _ in watched(pool).segments.values())
    assert pool.used_bytes + pool.free_bytes == pool.total_bytes <= min(CAPACITY, pool.limit or CAPACITY)
    assert sorted((start, size) for size, start, _ in watched(pool).free()) == list(pool.holes())
    assert pool.n_free_blocks == len(pool.holes())


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_when_all_is_freed_and_the_cache_emptied_the_device_has_everything_again(name, steps):
    pool = POOLS[name]()
    held, waiting = play(pool, steps)

    for extent in held:
        pool.free(extent)
    for claim in waiting:
        pool.withdraw(claim)
    pool.free_all_blocks()

    assert (pool.used_bytes, pool.total_bytes, pool.n_free_blocks, pool.holes()) == (0, 0, 0, ())
    watch = watched(pool)
    assert (watch.segments, watch.extents, watch.waiting) == ({}, {}, set())
    assert largest_next(pool) == (pool.limit or CAPACITY)


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_the_audit_finds_no_broken_law(name, steps):
    pool = POOLS[name]()

    play(pool, steps)

    assert audit(pool.ledger) == []


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS)
def test_the_account_adds_up_at_every_level_and_instant(name, steps):
    pool = POOLS[name]()

    play(pool, steps)

    assert levels(pool.ledger) == ["device→pool", "pool→extent", "device→extent"]
    ends = {level: Account(pool.ledger, level).at(pool.ledger.end_ns) for level in levels(pool.ledger)}
    assert (
        ends["device→pool"].used == ends["pool→extent"].used + ends["pool→extent"].stranded == pool.used_bytes
    )
    assert ends["device→pool"].stranded == pool.free_bytes == ends["pool→extent"].free
    assert ends["device→extent"].used == ends["pool→extent"].used


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS, more=st.lists(st.integers(1, CAPACITY // 512), min_size=3, max_size=3))
def test_the_largest_claim_that_fits_next_fits_and_nothing_larger_does(name, steps, more):
    pool = POOLS[name]()
    play(pool, steps)
    facts = len(pool.ledger)

    largest = largest_next(pool)

    assert largest % 512 == 0
    assert largest == 0 or played(name, steps).allocate(largest).size >= largest
    for size in (largest + 1, *(largest + step * 512 for step in more)):
        with pytest.raises(OutOfMemory):
            played(name, steps).allocate(size)
    assert len(pool.ledger) == facts


@pytest.mark.parametrize("name", POOLS)
@given(steps=STEPS, size=SIZES)
def test_the_next_claim_takes_the_chunk_that_a_plain_reading_of_the_rule_takes(name, steps, size):
    pool = POOLS[name]()
    play(pool, steps)
    rounded = -(-size // 512) * 512
    free = watched(pool).free()
    if name.startswith("pytorch"):
        free = [chunk for chunk in free if (chunk[2] == 2 * MiB) == (rounded <= 1 * MiB)]
    fits = min((chunk for chunk in free if chunk[0] >= rounded), default=None)
    cap = getattr(pool, "max_split_size", None)
    if fits and cap and fits[0] >= cap and (rounded < cap or fits[0] >= rounded + 20 * MiB):
        fits = None
    grown = len(pool.ledger.of(Granted))

    try:
        extent = pool.allocate(size)
    except OutOfMemory:
        assert fits is None
        return

    new_grants = len(pool.ledger.of(Granted)) - grown
    assert new_grants == (1 if fits else 2)
    assert fits is None or extent.offset == fits[1]
