from gpulab.report.lifetimes import Level, Lifetime, lifetimes, resources, stacked
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Freed,
    Granted,
    Grew,
    Opened,
    Refused,
    Returned,
    TimedOut,
    Used,
)
from gpulab.telemetry.shape import Contiguous, Units

OPEN = Opened(0, "arena", 100, "B")


def of(*facts):
    return lifetimes([OPEN, *facts], OPEN)


def test_a_claim_is_followed_from_its_first_ask_to_its_end():
    facts = [
        Claimed(1, 7, "arena", 9, Contiguous(10, 5), "chat"),
        Refused(1, 7, 100, 4),
        Granted(3, 7, 20, 10),
        Used(4, 7, 9),
        Freed(6, 7),
    ]

    read = of(*facts)

    assert read.claims == [
        Lifetime(7, "chat", 9, 10, (1, 1), (3, 3), 20, 10, (5, 6), [(3, 3, 10), (4, 4, 9)]),
    ]
    assert read.refusals == [(2, facts[1])]
    assert read.last == (5, 6)


def test_levels_are_held_used_and_waiting_units_after_each_change():
    facts = [
        Claimed(1, 0, "arena", 9, Units(10)),
        Granted(2, 0, -1, 10),
        Used(3, 0, 4),
        Claimed(4, 1, "arena", 5, Units(5)),
        TimedOut(5, 1),
        Freed(6, 0),
    ]

    assert of(*facts).levels() == [
        *(Level(1, 1, 0, 0, 10), Level(2, 2, 10, 10, 0), Level(3, 3, 10, 4, 0)),
        *(Level(4, 4, 10, 4, 5), Level(5, 5, 10, 4, 0), Level(6, 6, 0, 0, 0)),
    ]


def test_a_part_that_goes_back_takes_idle_units_first_and_the_rest_is_held_on():
    facts = [
        *(Claimed(1, 0, "arena", 10, Units(10)), Granted(1, 0, -1, 10), Used(2, 0, 7)),
        *(Returned(3, 0, 2), Returned(4, 0, 3), Returned(5, 0, 5), Freed(6, 0)),
    ]

    levels = of(*facts).levels()

    assert [(level.time_ns, level.held, level.used) for level in levels] == [
        *((1, 10, 10), (2, 10, 7), (3, 8, 7), (4, 5, 5), (6, 0, 0)),
    ]


def test_facts_that_contradict_the_rest_are_left_out():
    claim = Claimed(1, 0, "arena", 5, Units(5))
    facts = [
        Granted(0, 9, 0, 5),
        claim,
        claim,
        Granted(1, 0, 0, 5),
        Granted(2, 0, 50, 7),
        Freed(3, 0),
        Used(4, 0, 1),
    ]

    (life,) = of(*facts, Closed(5)).claims

    assert (life.start, life.size, life.over, life.use) == (0, 5, (6, 3), [(4, 1, 5)])


def test_claims_on_another_resource_are_not_read():
    other = Opened(0, "other", 5, "B")

    assert of(other, Claimed(1, 0, "other", 5, Units(5))).claims == []
    assert resources([OPEN, other, Closed(1)]) == {"arena": OPEN, "other": other}


def life(claim, start, size, granted, over=None):
    return Lifetime(claim, "", size, size, (granted, 0), (granted, 0), start, size, over and (over, 0))


def test_segments_are_stacked_lowest_place_first_and_a_place_is_used_again():
    segments = [
        life(0, 1000, 10, 1, over=5),
        life(1, 2000, 20, 2),
        life(2, 3000, 10, 6),
        life(3, 4000, 11, 7),
    ]

    assert stacked(segments, []) == {0: 0, 1: 10, 2: 0, 3: 30}


def test_a_grant_is_placed_inside_the_segment_that_was_there_then():
    segments = [life(0, 1000, 10, 1, over=5), life(1, 1000, 20, 6)]
    grants = [life(2, 1004, 2, 2), life(3, 1015, 2, 7), life(4, 1004, 2, 5), life(5, 9, 2, 8)]

    places = stacked(segments, grants)

    assert (places[2], places[3]) == (4, 15)
    assert 4 not in places
    assert 5 not in places


def test_pages_that_touch_are_one_box_whatever_lies_between_their_grants():
    pages = [life(0, 1000, 10, 1), life(2, 1010, 10, 5), life(3, 1020, 10, 6, over=9)]
    other = life(1, 5000, 7, 3)
    grants = [life(4, 1005, 20, 7), life(5, 5001, 2, 8)]

    places = stacked([pages[0], other, *pages[1:]], grants)

    assert [places[claim] for claim in (0, 2, 3)] == [0, 10, 20]
    assert (places[1], places[4], places[5]) == (30, 5, 31)


def test_a_page_that_was_there_before_its_neighbour_came_is_a_box_of_its_own():
    assert stacked([life(0, 1000, 10, 1, over=3), life(1, 1010, 10, 4)], []) == {0: 0, 1: 0}


def test_a_page_that_comes_again_beside_one_that_stayed_has_its_place_again():
    pages = [life(0, 1000, 10, 1, over=3), life(1, 1010, 10, 2), life(2, 1000, 10, 5)]
    assert stacked(pages, [life(3, 1004, 12, 6)]) == {0: 0, 1: 10, 2: 0, 3: 4}


def test_a_grant_that_grew_holds_and_uses_more_from_then_on():
    facts = [
        Claimed(1, 0, "arena", 4, Units(4)),
        Granted(1, 0, -1, 4),
        Used(2, 0, 3),
        Grew(3, 0, 2),
        Returned(4, 0, 1),
        Freed(6, 0),
    ]

    read = of(*facts)

    assert read.claims[0].left == 5
    assert [(level.time_ns, level.held, level.used) for level in read.levels()] == [
        *((1, 4, 4), (2, 4, 3), (3, 6, 5), (4, 5, 5), (6, 0, 0)),
    ]
