"""What a refusal says: the numbers, since when, and the one thing that would help."""

import pytest

from gpulab.errors import OutOfMemory
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.units import GiB, KiB, MiB


def refusal(pool, size: int) -> str:
    with pytest.raises(OutOfMemory) as full:
        pool.allocate(size)
    return str(full.value)


def test_a_piece_that_cannot_go_back_is_named_with_who_holds_the_rest_since_when():
    pool = CuPyPool(6 * MiB)
    pool.free(pool.allocate(4 * MiB))
    pool.clock.advance_to(9)
    pool.allocate(1 * MiB, "keeper")
    pool.clock.advance_to(11)

    assert refusal(pool, 4 * MiB) == (
        "4 MiB were refused at 11 ns (#14): of 6 MiB the device has 2 MiB left, the cache 3 MiB in one free "
        "chunk. Enough is free in all, but in no single place. The largest chunk is a piece of a segment of 4 MiB "
        "and cannot go back while claim 2 ('keeper') holds 1 MiB beside it, since 9 ns: free that first. Claim 3 "
        "waits until it is retried or withdrawn."
    )


def test_more_than_the_device_is_said_to_be_hopeless():
    assert "the cache nothing. That takes 9 GiB, more than the whole device" in refusal(
        CuPyPool(8 * GiB), 9 * GiB
    )


def test_too_little_in_all_is_told_from_too_little_in_one_place():
    pool = CuPyPool(8 * MiB)
    pool.allocate(6 * MiB)

    assert "Too little is free in all" in refusal(pool, 3 * MiB)


def test_a_limit_in_the_way_is_told_from_a_full_device():
    pool = CuPyPool(8 * MiB, limit=4 * MiB)
    pool.allocate(3 * MiB)

    said = refusal(pool, 2 * MiB)

    assert "the device has 5 MiB left (the limit leaves 1 MiB)" in said
    assert "The limit of 4 MiB is in the way, not the device" in said


def test_a_rule_that_keeps_a_small_claim_out_of_a_large_chunk_is_said_to():
    pool = PyTorchPool(20 * MiB)
    pool.allocate(2 * MiB)

    assert "this pool's rule does not serve such a claim from it" in refusal(pool, 4 * KiB)


def test_a_segment_larger_than_the_claim_is_said_to_be_what_does_not_fit():
    assert "takes 20 MiB, more than the whole device" in refusal(PyTorchPool(12 * MiB), 5 * MiB)
    pool = PyTorchPool(24 * MiB)
    pool.allocate(12 * MiB)

    assert "A new segment for it takes 20 MiB, more than is left" in refusal(pool, 5 * MiB)


def test_several_free_chunks_are_counted_and_the_largest_is_named():
    pool = CuPyPool(3 * MiB)
    pool.free(pool.allocate(3 * MiB))
    first, _, third, _ = [pool.allocate(size * KiB) for size in (1024, 512, 768, 768)]
    pool.free(first)
    pool.free(third)

    said = refusal(pool, 1536 * KiB)

    assert "the device has 0 B left, the cache 1.75 MiB in 2 free chunks, the largest of 1 MiB" in said
