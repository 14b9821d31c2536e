"""The books of expandable segments: pages mapped into ranges of addresses, without any rule."""

import pytest

from gpulab.memory.extent import Extent
from gpulab.memory.ranges import UNMAPPED, Ranges, could_be
from gpulab.telemetry.events import Used

PAGE = 1000


class Stream:
    """One stream's range with pages of 1,000 bytes; remembers what the device granted."""

    def __init__(self, capacity: int = 8000) -> None:
        self.books = Ranges(capacity, lambda size: PAGE)
        self.shelf = self.books.new_shelf()
        self.granted: list[tuple[int, int]] = []

    def hold(self, size: int, stream: int = 0):
        """Grow by ``size`` bytes and hold them."""
        need = self.books.growth(size, stream)
        before = len(self.granted)
        chunk = self.books.grow(size, stream, self.shelf, self._grant)
        assert sum(size for _, size in self.granted[before:]) == need
        self.books.hold(chunk, size)
        chunk.extent = Extent(0, chunk.start, size, size)
        return chunk

    def _grant(self, start: int, size: int) -> int:
        self.granted.append((start, size))
        return len(self.granted) - 1

    def chunks(self) -> list[tuple[int, int, str]]:
        """All chunks in order of address, with what they are."""
        what = {UNMAPPED: "gap", None: "free"}
        return [
            (at, chunk.size, what.get(chunk.extent, "held"))
            for at, chunk in sorted(self.books.chunks.items())
        ]


def test_a_range_has_addresses_for_an_eighth_more_than_the_device_and_maps_only_what_is_needed():
    stream = Stream()

    stream.hold(1500)

    assert stream.granted == [(0, 1000), (1000, 1000)]
    assert stream.chunks() == [(0, 1500, "held"), (1500, 500, "free"), (2000, 7000, "gap")]
    assert (stream.books.reserved_bytes, stream.books.held_bytes) == (2000, 1500)


def test_a_growth_continues_the_free_bytes_before_the_gap():
    stream = Stream()
    stream.hold(1500)

    assert stream.books.growth(1200, 0) == 1000
    chunk = stream.hold(1200)

    assert (chunk.start, stream.granted[2:]) == (1500, [(2000, 1000)])
    assert stream.chunks()[1:] == [(1500, 1200, "held"), (2700, 300, "free"), (3000, 6000, "gap")]


def test_only_pages_that_are_free_in_full_go_back_and_leave_a_gap():
    stream = Stream()
    first, middle, _ = stream.hold(1500), stream.hold(3000), stream.hold(500)
    stream.books.set_free(middle)
    assert stream.books.whole_bytes == 2000

    assert stream.books.hand_back(middle) == [2, 3]

    assert stream.chunks() == [
        (0, 1500, "held"),
        (1500, 500, "free"),
        (2000, 2000, "gap"),
        (4000, 500, "free"),
        (4500, 500, "held"),
        (5000, 4000, "gap"),
    ]
    assert (stream.books.reserved_bytes, stream.books.whole_bytes) == (3000, 0)
    assert not stream.books.can_go(stream.books.chunks[1500])
    assert first.after is stream.books.chunks[1500]


def test_gaps_that_touch_become_one():
    stream = Stream()
    first, second = stream.hold(1000), stream.hold(1000)
    stream.books.set_free(first)
    stream.books.hand_back(first)

    stream.books.set_free(second)
    stream.books.hand_back(second)

    assert stream.chunks() == [(0, 9000, "gap")]


@pytest.mark.parametrize(("size", "at", "pages"), [(2500, 1500, 2), (3100, 5000, 4)])
def test_a_growth_fills_the_lowest_place_that_has_room_for_it(size, at, pages):
    stream = Stream()
    _, middle, _ = stream.hold(1500), stream.hold(3000), stream.hold(500)
    stream.books.set_free(middle)
    stream.books.hand_back(middle)
    before = len(stream.granted)

    assert stream.books.growth(size, 0) == pages * PAGE
    assert stream.hold(size).start == at
    assert len(stream.granted) - before == pages


def test_a_growth_joins_the_free_bytes_on_both_sides_of_a_gap():
    stream = Stream()
    _, middle, _ = stream.hold(1500), stream.hold(3000), stream.hold(500)
    stream.books.set_free(middle)
    stream.books.hand_back(middle)

    chunk = stream.books.grow(600, 0, stream.shelf, stream._grant)

    assert (chunk.start, chunk.size) == (1500, 1500)  # the page at 2000 with what was before it
    assert stream.books.growth(2000, 0) == 1000
    chunk = stream.books.grow(2000, 0, stream.shelf, stream._grant)
    assert (chunk.start, chunk.size) == (1500, 3000)


def test_each_stream_has_a_range_of_its_own():
    stream = Stream()
    stream.hold(100)

    other = stream.hold(100, stream=1)

    assert other.start >= 9000
    assert stream.granted == [(0, 1000), (other.start, 1000)]


def test_another_range_is_made_when_no_stretch_of_addresses_is_long_enough():
    stream = Stream(capacity=2000)  # 3,000 addresses: an eighth more, rounded up to whole pages
    for chunk in [stream.hold(1000) for _ in range(3)][::2]:
        stream.books.set_free(chunk)
        stream.books.hand_back(chunk)

    assert stream.books.growth(1500, 0) == 2000
    assert stream.hold(1500).start > 3000


def test_what_lives_is_told_page_by_page():
    stream = Stream()
    chunk = stream.hold(2500)

    assert list(chunk.segment.note(0, 2500, 5)) == [Used, 5, 2, 500]
    assert list(chunk.segment.note(0, -2500, 6)) == [Used, 6, 0, 0, Used, 6, 1, 0, Used, 6, 2, 0]


def test_a_free_chunk_could_be_as_long_as_with_the_gap_behind_it():
    stream = Stream()
    chunk = stream.hold(1500)

    assert could_be(chunk.after) == 500 + 7000
    assert could_be(stream.books.set_free(chunk)) == 2000 + 7000
