"""The books of segments and chunks, without any rule."""

from gpulab.memory.allocator import Extent
from gpulab.memory.segments import SEGMENT_PAGE, Segments


def held(books: Segments, chunk, size: int) -> None:
    books.hold(chunk, size)
    chunk.extent = Extent(0, chunk.start, size, size)


def cut_in_three():
    """A segment of 3,000 bytes whose chunks of 1,000 are all held."""
    books = Segments()
    left = books.add(3000, books.new_shelf(), claim=7)
    held(books, left, 1000)
    middle = left.after
    held(books, middle, 1000)
    right = middle.after
    held(books, right, 1000)
    return books, left, middle, right


def test_a_chunk_that_is_held_in_part_leaves_the_rest_as_a_free_chunk_behind_it():
    books = Segments()
    chunk = books.add(3000, books.new_shelf(), claim=7)

    held(books, chunk, 1000)

    assert (chunk.start, chunk.size, chunk.segment.live) == (0, 1000, 1000)
    assert books.holes() == ((1000, 2000),)
    assert (books.reserved_bytes, books.held_bytes, books.free_chunks) == (3000, 1000, 1)


def test_free_chunks_that_touch_join_on_both_sides():
    books, left, middle, right = cut_in_three()
    books.release(left)
    books.release(right)
    assert books.holes() == ((0, 1000), (2000, 1000))

    books.release(middle)

    assert books.holes() == ((0, 3000),)
    assert (books.free_chunks, books.whole_bytes, books.held_bytes) == (1, 3000, 0)
    assert [(chunk.before, chunk.after) for chunk in books.whole_chunks()] == [(None, None)]


def test_a_chunk_joins_the_one_before_or_the_one_after_alone():
    books, left, middle, _ = cut_in_three()
    books.release(left)
    books.release(middle)
    assert books.holes() == ((0, 2000),)

    books, _, middle, right = cut_in_three()
    books.release(right)
    books.release(middle)
    assert books.holes() == ((1000, 2000),)


def test_chunks_of_different_segments_never_touch_and_never_join():
    books = Segments()
    shelf = books.new_shelf()
    first, second = books.add(SEGMENT_PAGE, shelf, claim=0), books.add(512, shelf, claim=1)

    assert second.start - (first.start + first.size) >= SEGMENT_PAGE
    assert books.holes() == ((0, SEGMENT_PAGE), (2 * SEGMENT_PAGE, 512))


def test_the_best_fit_is_the_smallest_that_is_long_enough_and_of_equal_ones_the_lowest():
    books = Segments()
    shelf = books.new_shelf()
    for size in (4096, 1024, 2048, 1024):
        books.add(size, shelf, claim=0)
    lowest = books.holes()[1][0]

    assert books.best_fit(shelf, 513).start == lowest
    assert books.best_fit(shelf, 1024).start == lowest
    assert books.best_fit(shelf, 1025).size == 2048
    assert books.best_fit(shelf, 4097) is None


def test_a_whole_segment_leaves_the_books_and_its_address_is_not_used_again():
    books = Segments()
    shelf = books.new_shelf()
    first = books.add(1024, shelf, claim=5)

    gone = books.remove(first)
    second = books.add(1024, shelf, claim=6)

    assert (gone.claim, gone.size) == (5, 1024)
    assert second.start > first.start
    assert (books.reserved_bytes, books.free_chunks, list(books.whole)) == (1024, 1, [second.start])


def test_the_largest_chunk_is_looked_for_on_every_shelf():
    books = Segments()
    assert (books.largest(), books.largest_chunk()) == (0, None)

    books.add(1024, books.new_shelf(), claim=0)
    books.add(4096, books.new_shelf(), claim=1)

    assert books.largest() == 4096
    assert books.largest_chunk().segment.claim == 1
