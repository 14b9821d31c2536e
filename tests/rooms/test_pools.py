"""The two published rules: what is asked of the device, what is cut, what goes back."""

import copy

import pytest

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.pools import CuPyPool, PyTorchPool, largest_next
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Granted, Refused, Withdrawn
from gpulab.units import GiB, KiB, MiB


def cached(pool, *sizes: int):
    """``pool`` after segments for ``sizes`` were taken and all freed, in order of address."""
    for extent in [pool.allocate(size) for size in sizes]:
        pool.free(extent)
    return pool


def segments_of(pool) -> list[int]:
    """The sizes of the segments that the pool got, in order."""
    mine = {
        fact.claim
        for fact in pool.ledger
        if getattr(fact, "resource", "") == "device" and hasattr(fact, "claim")
    }
    return [fact.size for fact in pool.ledger.of(Granted) if fact.claim in mine]


# -- CuPy ----------------------------------------------------------------------------------------


def test_cupy_grows_by_exactly_the_rounded_size():
    pool = CuPyPool(8 * GiB)
    pool.allocate(1)
    pool.allocate(3 * MiB + 1)

    assert segments_of(pool) == [512, 3 * MiB + 512]


def test_cupy_takes_the_tightest_chunk_and_always_cuts_it():
    pool = cached(CuPyPool(8 * GiB), 8 * MiB, 2 * MiB, 4 * MiB)
    tightest = pool.holes()[1][0]

    extent = pool.allocate(2 * MiB - 512)

    assert (extent.offset, extent.size) == (tightest, 2 * MiB - 512)
    assert (tightest + 2 * MiB - 512, 512) in pool.holes()


def test_cupy_takes_the_lower_address_of_two_equal_chunks():
    pool = cached(CuPyPool(8 * GiB), 1 * MiB, 1 * MiB)

    assert pool.allocate(1 * MiB).offset == 0


def test_cupy_hands_back_every_whole_segment_at_once_when_the_device_is_full():
    pool = cached(CuPyPool(8 * MiB), 1 * MiB, 2 * MiB, 3 * MiB)

    pool.allocate(4 * MiB)

    assert pool.total_bytes == 4 * MiB
    assert len(pool.ledger.of(Refused)) == 1


def test_a_limit_is_a_device_that_ends_earlier():
    pool = CuPyPool(8 * GiB, limit=1 * GiB)
    pool.allocate(768 * MiB)

    with pytest.raises(OutOfMemory) as full:
        pool.allocate(512 * MiB)

    assert pool.room_bytes == 256 * MiB
    assert [(fact.free, fact.largest) for fact in pool.ledger.of(Refused)] == [
        (8 * GiB - 768 * MiB, 256 * MiB),
        (8 * GiB - 768 * MiB, 256 * MiB),
    ]
    assert full.value.largest == 256 * MiB


# -- PyTorch -------------------------------------------------------------------------------------


def test_pytorch_shares_a_small_segment_and_cuts_it_down_to_512():
    pool = PyTorchPool(8 * GiB)
    pool.allocate(2 * MiB - 512 - 1 * MiB)
    pool.allocate(1 * MiB)

    assert segments_of(pool) == [2 * MiB]
    assert pool.holes() == ((2 * MiB - 512, 512),)


def test_pytorch_does_not_mix_small_and_large_claims():
    pool = cached(PyTorchPool(8 * GiB), 1 * MiB, 5 * MiB)

    pool.allocate(1 * MiB)
    pool.allocate(1 * MiB + 1)

    assert segments_of(pool) == [2 * MiB, 20 * MiB]
    pool.allocate(1 * MiB)
    pool.allocate(1 * MiB)
    assert segments_of(pool) == [2 * MiB, 20 * MiB, 2 * MiB]


def test_pytorch_leaves_a_rest_of_one_mib_in_the_grant_and_cuts_a_larger_one():
    kept_whole = cached(PyTorchPool(8 * GiB), 20 * MiB).allocate(19 * MiB)
    cut = cached(PyTorchPool(8 * GiB), 20 * MiB).allocate(19 * MiB - 512)

    assert (kept_whole.size, kept_whole.asked) == (20 * MiB, 19 * MiB)
    assert cut.size == 19 * MiB - 512


def test_pytorch_never_cuts_for_a_claim_of_max_split_size_or_more():
    pool = cached(PyTorchPool(8 * GiB, max_split_size=30 * MiB), 48 * MiB)

    assert pool.allocate(30 * MiB).size == 48 * MiB
    assert cached(PyTorchPool(8 * GiB), 48 * MiB).allocate(30 * MiB).size == 30 * MiB


def test_pytorch_keeps_oversize_chunks_from_smaller_claims():
    pool = cached(PyTorchPool(8 * GiB, max_split_size=30 * MiB), 30 * MiB)

    pool.allocate(30 * MiB - 512)

    assert segments_of(pool) == [30 * MiB, 30 * MiB]


@pytest.mark.parametrize(("chunk", "hit"), [(59 * MiB + 1, False), (58 * MiB, True)])
def test_pytorch_takes_an_oversize_chunk_only_if_it_is_less_than_20_mib_larger(chunk, hit):
    pool = cached(PyTorchPool(8 * GiB, max_split_size=30 * MiB), chunk)

    pool.allocate(40 * MiB)

    assert (len(segments_of(pool)) == 1) is hit


def test_pytorch_first_hands_back_the_smallest_oversize_chunk_that_suffices():
    pool = cached(PyTorchPool(160 * MiB, max_split_size=30 * MiB), 50 * MiB, 40 * MiB, 66 * MiB)

    pool.allocate(20 * MiB)

    assert [size for _, size in pool.holes()] == [50 * MiB, 66 * MiB]


def test_pytorch_hands_back_several_oversize_chunks_the_largest_first_when_none_suffices():
    pool = cached(PyTorchPool(140 * MiB, max_split_size=30 * MiB), 30 * MiB, 60 * MiB, 50 * MiB)

    pool.allocate(90 * MiB)

    assert pool.holes() == ((0, 30 * MiB),)


def test_pytorch_counts_only_oversize_chunks_before_it_hands_back_everything():
    pool = cached(PyTorchPool(100 * MiB, max_split_size=30 * MiB), 60 * MiB, 28 * MiB, 1 * KiB)

    pool.allocate(85 * MiB)

    assert (pool.total_bytes, pool.n_free_blocks) == (86 * MiB, 0)


def test_pytorch_then_hands_back_everything_whole():
    pool = cached(PyTorchPool(64 * MiB, max_split_size=30 * MiB), 1 * MiB, 5 * MiB, 40 * MiB)

    pool.allocate(62 * MiB)

    assert (pool.total_bytes, pool.n_free_blocks) == (62 * MiB, 0)


def test_pytorch_without_a_split_size_hands_back_everything_whole_at_once():
    pool = cached(PyTorchPool(64 * MiB), 1 * MiB, 20 * MiB, 40 * MiB)

    pool.allocate(42 * MiB)

    assert (pool.total_bytes, pool.n_free_blocks) == (42 * MiB, 0)


@pytest.mark.parametrize("value", [0, 19 * MiB, 20 * MiB + 1, 20.5 * MiB, "20 MiB", True])
def test_a_split_size_is_a_whole_number_of_mib_20_or_more(value):
    with pytest.raises(AllocatorFault, match="max_split_size is"):
        PyTorchPool(8 * GiB, max_split_size=value)


@pytest.mark.parametrize(("rest", "hit"), [(20 * MiB, False), (21 * MiB, True)])
def test_pytorch_takes_a_larger_oversize_chunk_if_it_is_told_to(rest, hit):
    pool = cached(PyTorchPool(8 * GiB, max_split_size=30 * MiB, oversize_rest=rest), 60 * MiB)

    pool.allocate(40 * MiB)

    assert (len(segments_of(pool)) == 1) is hit


def test_pytorch_gives_up_only_oversize_chunks_of_the_stream_that_asks():
    pool = PyTorchPool(120 * MiB, max_split_size=30 * MiB)
    for extent in [pool.allocate(50 * MiB, stream=1), pool.allocate(40 * MiB, stream=0)]:
        pool.free(extent)

    pool.allocate(62 * MiB, stream=0)

    assert pool.total_bytes == 62 * MiB  # 40 do not suffice for stream 0, so everything went


# -- PyTorch's garbage ---------------------------------------------------------------------------


def test_pytorch_hands_back_what_has_been_free_longest_before_it_grows_above_the_threshold():
    pool = PyTorchPool(100 * MiB, garbage_permille=400)
    old, young = pool.allocate(20 * MiB), pool.allocate(24 * MiB)
    pool.free(old)
    keeper = pool.allocate(30 * MiB)  # 44 of 40 allowed: old goes, though there would be room
    assert segments_of(pool) == [20 * MiB, 24 * MiB, 30 * MiB]
    assert pool.total_bytes == 54 * MiB

    pool.free(young)
    pool.free(keeper)
    pool.allocate(21 * MiB)  # a hit in young: nothing is collected
    assert pool.total_bytes == 54 * MiB


@pytest.mark.parametrize(("permille", "left"), [(50, [12, 24]), (20, [12])])
def test_pytorch_collects_in_rounds_all_that_are_of_mean_age_or_older(permille, left):
    pool = PyTorchPool(1000 * MiB, garbage_permille=permille)
    other = pool.allocate(12 * MiB)
    for extent in [pool.allocate(size * MiB) for size in (20, 22, 24)]:
        pool.free(extent)
        pool.free(other)
        other = pool.allocate(12 * MiB)  # a hit: one turn later

    pool.allocate(30 * MiB)  # their ages are now 4, 3 and 2

    assert sorted(chunk.size // MiB for chunk in pool.segments.chunks.values()) == [*left, 30]


def test_pytorch_collects_no_small_segments_and_nothing_below_the_threshold():
    pool = cached(PyTorchPool(100 * MiB, garbage_permille=999), 1 * KiB, 20 * MiB)
    pool.allocate(30 * MiB)
    assert pool.total_bytes == 52 * MiB

    pool = cached(PyTorchPool(100 * MiB, garbage_permille=1), 1 * KiB)
    pool.allocate(30 * MiB)
    assert pool.total_bytes == 32 * MiB


def test_pytorch_measures_garbage_against_the_limit_if_there_is_one():
    pool = cached(PyTorchPool(1 * GiB, limit=100 * MiB, garbage_permille=100), 20 * MiB)

    pool.allocate(30 * MiB)

    assert pool.total_bytes == 30 * MiB


@pytest.mark.parametrize("value", [0, 1000, -1, 0.8, "800", True])
def test_a_garbage_threshold_is_a_number_of_thousandths(value):
    with pytest.raises(AllocatorFault, match="garbage_permille is"):
        PyTorchPool(8 * GiB, garbage_permille=value)


@pytest.mark.parametrize("value", [0, 19 * MiB, 20.5 * MiB, None, True])
def test_the_rest_that_an_oversize_claim_may_leave_is_20_mib_or_more(value):
    with pytest.raises(AllocatorFault, match="oversize_rest is"):
        PyTorchPool(8 * GiB, oversize_rest=value)


# -- PyTorch's expandable segments ---------------------------------------------------------------


def expandable(capacity: int = 8 * GiB, **options) -> PyTorchPool:
    return PyTorchPool(capacity, expandable=True, **options)


def test_an_expandable_pool_maps_pages_of_2_mib_for_small_and_20_for_large_claims():
    pool = expandable()
    pool.allocate(1 * KiB)
    pool.allocate(1 * MiB)
    assert segments_of(pool) == [2 * MiB]

    pool.allocate(30 * MiB)
    pool.allocate(9 * MiB)

    assert segments_of(pool) == [2 * MiB, 20 * MiB, 20 * MiB]
    assert pool.free_bytes == 2 * MiB - 1 * MiB - 1 * KiB + 1 * MiB
    check(pool.ledger)


def test_an_expandable_pool_cuts_every_chunk_to_size():
    pool = expandable(max_split_size=20 * MiB)

    pool.free(pool.allocate(40 * MiB))

    assert pool.allocate(39 * MiB + 512).size == 39 * MiB + 512


def test_a_claim_that_finds_its_pages_mapped_asks_the_device_for_nothing():
    pool = expandable(
        max_split_size=20 * MiB
    )  # a free page of 20 MiB may not be cut, but the range may go on in it
    for owner in ("first", "second"):
        pool.free(pool.allocate(3 * MiB, owner))

    assert [fact.size for fact in pool.ledger.of(Claimed) if fact.resource == "device"] == [20 * MiB]
    check(pool.ledger)


def test_an_expandable_pool_grows_the_chunk_at_its_end():
    pool = expandable()
    keeper = pool.allocate(10 * MiB)
    pool.free(pool.allocate(20 * MiB))

    extent = pool.allocate(50 * MiB)

    assert (extent.offset, segments_of(pool)) == (keeper.end, [20 * MiB] * 3)
    check(pool.ledger)


def test_an_expandable_pool_prefers_a_chunk_that_cannot_grow_to_the_one_at_the_end():
    pool = expandable()
    first, _, last = pool.allocate(40 * MiB), pool.allocate(5 * MiB), pool.allocate(35 * MiB)
    pool.free(first)
    pool.free(last)  # the tighter fit for 34, but it could become the whole range

    assert pool.allocate(34 * MiB).offset == first.offset


def test_an_expandable_pool_hands_back_pages_from_the_middle_and_fills_the_gap_first():
    pool = expandable(120 * MiB)
    low, middle, high = pool.allocate(10 * MiB), pool.allocate(65 * MiB), pool.allocate(15 * MiB)
    pool.free(middle)
    assert pool.total_bytes == 100 * MiB

    other = pool.allocate(60 * MiB, stream=1)  # needs what lies free in the middle
    assert pool.total_bytes == 60 * MiB + 60 * MiB
    pool.free(other)

    assert pool.allocate(30 * MiB).offset == low.end
    assert high in pool.held()
    check(pool.ledger)


def test_a_refused_growth_of_pages_waits_as_one_claim_and_is_granted_page_by_page():
    pool = expandable(60 * MiB)
    keeper = pool.allocate(25 * MiB)
    with pytest.raises(OutOfMemory) as full:
        pool.allocate(50 * MiB, "big")
    waits = pool.ledger.of(Claimed)[-1]
    assert (waits.resource, waits.size) == ("device", 40 * MiB)
    pool.free(keeper)
    before = len(pool.ledger)

    extent = pool.allocate(0, claim=full.value.claim)

    assert (extent.size, extent.owner) == (50 * MiB, "big")
    assert [
        (fact.claim == waits.claim) for fact in list(pool.ledger)[before:] if type(fact) is Withdrawn
    ] == [True]
    assert pool.total_bytes == 60 * MiB
    check(pool.ledger)


def test_what_an_expandable_pool_refuses_is_explained():
    pool = expandable(60 * MiB)
    pool.allocate(30 * MiB, "keeper")

    with pytest.raises(OutOfMemory, match="Too little is free in all"):
        pool.allocate(40 * MiB)
    with pytest.raises(
        OutOfMemory, match=r"is a piece of a range and cannot go back while claim 0 \('keeper'\)"
    ) as full:
        pool.allocate(25 * MiB, stream=1)
    assert full.value.free == 30 * MiB


def test_a_copy_of_an_expandable_pool_is_a_pool_of_its_own():
    pool = expandable()
    extent = pool.allocate(30 * MiB)
    twin = copy.deepcopy(pool)

    twin.free(extent)
    twin.free_all_blocks()

    assert (twin.total_bytes, pool.total_bytes, pool.held()) == (0, 40 * MiB, (extent,))
    assert len(twin.ledger) > len(pool.ledger)


@pytest.mark.parametrize(
    ("pool", "most"),
    [
        (CuPyPool(30 * MiB), 30 * MiB),
        (CuPyPool(30 * MiB, limit=7 * MiB), 7 * MiB),
        (PyTorchPool(30 * MiB), 30 * MiB),
        (PyTorchPool(19 * MiB), 18 * MiB),
        (PyTorchPool(9 * MiB), 1 * MiB),
        (expandable(39 * MiB), 20 * MiB),
        (expandable(19 * MiB), 1 * MiB),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_empty_pool_could_hold_is_what_it_holds(pool, most):
    assert (pool.could_hold(most), pool.could_hold(most + 1)) == (True, False)
    for size in (most, most + 1):
        assert succeeds(pool, size) is pool.could_hold(size)


def test_what_fits_next_is_not_known_of_expandable_pools():
    with pytest.raises(ValueError, match="expandable"):
        largest_next(expandable())


# -- what would fit next -------------------------------------------------------------------------


def succeeds(pool, size: int) -> bool:
    try:
        copy.deepcopy(pool).allocate(size)
    except OutOfMemory:
        return False
    return True


def test_what_fits_next_in_an_empty_pool_is_the_device():
    assert largest_next(CuPyPool(8 * GiB + 100)) == 8 * GiB
    assert largest_next(CuPyPool(8 * GiB, limit=3 * GiB)) == 3 * GiB
    assert largest_next(PyTorchPool(8 * GiB + 1 * MiB)) == 8 * GiB


def test_what_fits_next_counts_whole_cached_segments_with_the_device_but_no_piece():
    pool = cached(CuPyPool(8 * GiB), 2 * GiB, 1 * GiB)
    assert largest_next(pool) == 8 * GiB

    pool.allocate(512 * MiB)
    facts = list(pool.ledger)

    assert largest_next(pool) == 7 * GiB
    assert list(pool.ledger) == facts


def test_what_fits_next_may_be_a_piece_that_is_larger_than_what_the_device_has_left():
    pool = cached(CuPyPool(8 * GiB), 7 * GiB)
    pool.allocate(1 * GiB)

    assert largest_next(pool) == 6 * GiB


@pytest.mark.parametrize(
    ("left", "largest"),
    [
        (20 * MiB, 20 * MiB),
        (11 * MiB, 10 * MiB),
        (10 * MiB - 512, 1 * MiB),
        (2 * MiB, 1 * MiB),
        (2 * MiB - 512, 0),
    ],
)
def test_what_fits_next_knows_the_sizes_of_pytorchs_segments(left, largest):
    pool = PyTorchPool(left)

    assert largest_next(pool) == largest
    assert not succeeds(pool, largest + 512)
    assert largest == 0 or succeeds(pool, largest)


def test_what_fits_next_in_a_small_segment_is_a_small_claim():
    pool = cached(PyTorchPool(2 * MiB + 512), 1 * KiB)
    pool.allocate(256 * KiB)
    assert largest_next(pool) == 1 * MiB

    pool.allocate(1 * MiB)
    assert largest_next(pool) == 768 * KiB
