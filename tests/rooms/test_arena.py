"""Three plain rules: where each claim goes, and what becomes of freed bytes."""

import pytest

from gpulab.errors import OutOfMemory
from gpulab.memory.arena import BestFit, Bump, FirstFit
from gpulab.units import KiB

KINDS = (Bump, FirstFit, BestFit)


def offsets(arena, *sizes: int) -> list[int]:
    return [arena.allocate(size).offset for size in sizes]


def pitted(kind, *sizes: int, capacity: int):
    """An arena whose every other extent was freed: holes of ``sizes`` KiB in order, 1 KiB held between."""
    arena = kind(capacity * KiB)
    held = [(arena.allocate(size * KiB), arena.allocate(1 * KiB)) for size in sizes]
    rest = arena.capacity - held[-1][1].end
    if rest:
        arena.allocate(rest)
    for extent, _ in held:
        arena.free(extent)
    return arena


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_arena_is_filled_from_the_bottom(kind):
    assert offsets(kind(4096), 512, 1, 1024) == [0, 512, 1024]


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_arena_refuses_and_an_empty_one_is_whole_again(kind):
    arena = kind(2048)
    extents = [arena.allocate(512) for _ in range(4)]
    with pytest.raises(OutOfMemory):
        arena.allocate(1)
    for extent in extents[::2] + extents[1::2]:
        arena.free(extent)

    assert offsets(arena, 2048) == [0]


def test_bump_never_looks_back_while_anything_is_held():
    arena = Bump(2048)
    first = arena.allocate(1024)
    second = arena.allocate(512)
    arena.free(first)

    assert offsets(arena, 512) == [1536]
    with pytest.raises(OutOfMemory, match="`place` refused although"):
        arena.allocate(512)
    arena.free(second)
    with pytest.raises(OutOfMemory):
        arena.allocate(512)


def test_first_fit_takes_the_lowest_hole_that_is_long_enough():
    arena = pitted(FirstFit, 2, 4, 3, capacity=32)

    assert offsets(arena, 3 * KiB, 1 * KiB, 2 * KiB) == [3 * KiB, 0, 8 * KiB]


def test_best_fit_takes_the_tightest_hole_and_of_equal_ones_the_lowest():
    arena = pitted(BestFit, 4, 3, 2, 3, capacity=32)

    assert offsets(arena, 3 * KiB, 3 * KiB, 1 * KiB, 1 * KiB, 2 * KiB) == [
        5 * KiB,
        12 * KiB,
        9 * KiB,
        10 * KiB,
        0,
    ]


@pytest.mark.parametrize("kind", [FirstFit, BestFit])
def test_an_exact_fit_leaves_no_hole_behind(kind):
    arena = pitted(kind, 2, 4, capacity=8)

    assert offsets(arena, 2 * KiB, 4 * KiB) == [0, 3 * KiB]
    with pytest.raises(OutOfMemory, match="0 B of 8 KiB are free"):
        arena.allocate(1)


@pytest.mark.parametrize("kind", [FirstFit, BestFit])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_freed_bytes_join_the_holes_they_touch_whatever_the_order(kind, order):
    arena = kind(4096)
    extents = [arena.allocate(1024) for _ in range(4)]
    for index in order:
        arena.free(extents[index])

    assert arena.gaps() == ((0, 3072),)
    assert offsets(arena, 3072) == [0]


@pytest.mark.parametrize("kind", [FirstFit, BestFit])
def test_holes_that_do_not_touch_stay_apart(kind):
    arena = kind(4096)
    extents = [arena.allocate(1024) for _ in range(4)]
    arena.free(extents[0])
    arena.free(extents[2])

    with pytest.raises(OutOfMemory, match="Enough is free in all, but not in one stretch"):
        arena.allocate(2048)
    assert offsets(arena, 1024, 1024) == [0, 2048]
