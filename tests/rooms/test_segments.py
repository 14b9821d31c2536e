"""The books of segments and chunks, without any rule."""

from gpulab.memory.extent import Extent
from gpulab.memory.segments import SEGMENT_PAGE, Segments
from gpulab.telemetry.events import Used


def grown(books: Segments, size: int, shelf=None, claim: int = 7):
    """A new free segment on ``shelf``, or on a fresh one."""
    return books.grow(size, 0, books.new_shelf() if shelf is None else shelf, lambda start, size: claim)


def held(books: Segments, chunk, size: int) -> None:
    books.hold(chunk, size)
    chunk.extent = Extent(0, chunk.start, size, size)


def cut_in_three():
    """A segment of 3,000 bytes whose chunks of 1,000 are all held."""
    books = Segments()
    left = grown(books, 3000)
    held(books, left, 1000)
    middle = left.after
    held(books, middle, 1000)
    right = middle.after
    held(books, right, 1000)
    return books, left, middle, right


def test_a_chunk_that_is_held_in_part_leaves_the_rest_as_a_free_chunk_behind_it():
    books = Segments()
    chunk = grown(books, 3000)

    held(books, chunk, 1000)

    assert (chunk.start, chunk.size) == (0, 1000)
    assert books.holes() == ((1000, 2000),)
    assert (books.reserved_bytes, books.held_bytes, books.free_chunks) == (3000, 1000, 1)


def test_free_chunks_that_touch_join_on_both_sides():
    books, left, middle, right = cut_in_three()
    books.set_free(left)
    books.set_free(right)
    assert books.holes() == ((0, 1000), (2000, 1000))

    joined = books.set_free(middle)

    assert books.holes() == ((0, 3000),)
    assert (books.free_chunks, books.whole_bytes, books.held_bytes) == (1, 3000, 0)
    assert books.returnable() == [joined]
    assert (joined.before, joined.after, books.chunks) == (None, None, {0: joined})


def test_a_chunk_joins_the_one_before_or_the_one_after_alone():
    books, left, middle, _ = cut_in_three()
    books.set_free(left)
    assert books.set_free(middle) is left
    assert books.holes() == ((0, 2000),)

    books, _, middle, right = cut_in_three()
    books.set_free(right)
    assert books.set_free(middle) is middle
    assert books.holes() == ((1000, 2000),)


def test_chunks_of_different_segments_never_touch_and_never_join():
    books = Segments()
    shelf = books.new_shelf()
    first, second = grown(books, SEGMENT_PAGE, shelf), grown(books, 512, shelf)

    assert second.start - (first.start + first.size) >= SEGMENT_PAGE
    assert books.holes() == ((0, SEGMENT_PAGE), (2 * SEGMENT_PAGE, 512))


def test_the_best_fit_is_the_smallest_that_is_long_enough_and_of_equal_ones_the_lowest():
    books = Segments()
    shelf = books.new_shelf()
    for size in (4096, 1024, 2048, 1024):
        grown(books, size, shelf)
    lowest = books.holes()[1][0]

    assert books.best_fit(shelf, 513).start == lowest
    assert books.best_fit(shelf, 1024).start == lowest
    assert books.best_fit(shelf, 1025).size == 2048
    assert books.best_fit(shelf, 4097) is None


def test_a_whole_segment_leaves_the_books_and_its_address_is_not_used_again():
    books = Segments()
    shelf = books.new_shelf()
    first = grown(books, 1024, shelf, claim=5)

    assert books.hand_back(first) == [5]
    second = grown(books, 1024, shelf, claim=6)

    assert second.start > first.start
    assert (books.reserved_bytes, books.free_chunks, books.returnable()) == (1024, 1, [second])


def test_a_piece_cannot_go_back_and_a_whole_segment_can():
    books, left, middle, right = cut_in_three()
    books.set_free(left)
    assert (books.can_go(left), books.returnable(), books.whole_bytes) == (False, [], 0)

    books.set_free(right)
    books.set_free(middle)

    assert (books.can_go(left), books.returnable(), books.whole_bytes) == (True, [left], 3000)


def test_the_largest_chunk_is_looked_for_on_every_shelf():
    books = Segments()
    assert (books.largest(), books.largest_chunk()) == (0, None)

    grown(books, 1024, books.uncut)
    grown(books, 4096, claim=1)

    assert books.largest() == 4096
    assert books.largest_chunk().segment.claim == 1


def test_a_segment_tells_what_lives_in_it_only_when_the_ledger_does_not_know():
    books = Segments()
    segment = grown(books, 3000, claim=7).segment

    assert segment.note(0, 3000, 5) == ()  # a grant is all used until something else is said
    assert segment.note(0, -1000, 6) == (Used, 6, 7, 2000)
    assert segment.note(0, 1000, 7) == (Used, 7, 7, 3000)
