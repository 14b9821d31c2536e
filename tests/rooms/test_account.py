"""The five-term account: the table of the architecture, instants, windows, levels, and ledgers that cannot be."""

from dataclasses import astuple, replace

import pytest

from gpulab.errors import BrokenLaw
from gpulab.memory.arena import FirstFit
from gpulab.memory.pools import CuPyPool
from gpulab.memory.replay import ByteClaim, replay
from gpulab.report.account import TERMS, Account, Terms, levels
from gpulab.report.books import Books
from gpulab.report.reach import split_free
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Freed,
    Granted,
    Joined,
    Opened,
    Refused,
    TimedOut,
    Used,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Gang, Slots, Units
from gpulab.units import MiB

PAIR = Gang((Units(1), Units(1)), together=True)
# architecture, section 2: lengths of the free extents, what waits -> unscheduled, fragmented, spare
TABLE = {
    "10, 4, 3 free; 5 and 100 wait": ((10, 4, 3), (Contiguous(5), Contiguous(100)), (5, 0, 12)),
    "4, 3 free; 5 waits": ((4, 3), (Contiguous(5),), (0, 5, 2)),
    "79 free; 1 waits": ((79,), (Contiguous(1),), (1, 0, 78)),
    "6 free; 8 waits": ((6,), (Contiguous(8),), (0, 0, 6)),
    "1 GPU on each of two nodes; a gang of 2 on one node waits": ((1, 1), (PAIR,), (0, 2, 0)),
}
MORE = {
    "nothing waits": ((4, 3), (), (0, 0, 7)),
    "nothing is free": ((), (Contiguous(1),), (0, 0, 0)),
    "smallest first, whatever came first": ((6,), (Contiguous(5), Contiguous(2)), (2, 0, 4)),
    "all fit": ((4, 4), (Contiguous(4), Contiguous(3)), (7, 0, 1)),
    "reached as one pool, one of two placed": ((5, 5), (Contiguous(3), Contiguous(6)), (3, 6, 1)),
    "the hole that a small claim opens is too short for the next": (
        (4, 3),
        (Contiguous(2), Contiguous(3)),
        (5, 0, 2),
    ),
    "a later claim fits where an earlier one did not": ((4,), (Slots(2, (9,)), Contiguous(2)), (2, 2, 0)),
    "of equal claims the earlier goes first": ((7,), (Contiguous(4, 8), Slots(4, (1, 2, 3))), (4, 0, 3)),
    "a claim that fits nowhere does not keep the next out": (
        (5, 4),
        (Slots(3, (3,)), Contiguous(4)),
        (4, 3, 2),
    ),
    "what was placed is free no more": ((5, 5), (Contiguous(4), Contiguous(4)), (8, 0, 2)),
    "legal starts only": ((4, 4), (Slots(3, (1,)),), (3, 0, 5)),
    "aligned starts only": ((3, 3), (Contiguous(3, 4),), (3, 0, 3)),
    "sizes that are no multiple of their alignment": ((6,), (Contiguous(3, 4), Contiguous(3, 4)), (3, 3, 0)),
    "no aligned start": ((3,), (Contiguous(3, 2), Contiguous(3, 2)), (3, 0, 0)),
    "units need no place": ((1, 1, 1), (Units(3),), (3, 0, 0)),
    "a divisible claim takes what is there": ((1, 2), (Units(9, divisible=True),), (3, 0, 0)),
    "the part of a divisible claim behind one that is taken": (
        (3, 3),
        (Contiguous(2), Units(9, divisible=True)),
        (6, 0, 0),
    ),
    "a divisible claim takes its part although a smaller one does not fit": (
        (3, 2),
        (Contiguous(6), Units(9, divisible=True)),
        (5, 0, 0),
    ),
    "what a divisible claim left is nothing": (
        (5,),
        (Units(9, divisible=True), Units(10, divisible=True)),
        (5, 0, 0),
    ),
    "a gang in two places": ((1, 1), (Gang((Units(1), Units(1))),), (2, 0, 0)),
    "a gang on the node that has room": ((1, 2), (PAIR,), (2, 0, 1)),
    "half a gang is nothing": ((1,), (PAIR,), (0, 0, 1)),
}


def spaced(lengths: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Free extents of these lengths, 1 unit held behind each; the first at 0, so every start is known."""
    extents, at = [], 0
    for length in lengths:
        extents.append((at, length))
        at += length + 1
    return tuple(extents)


def ledger_of(lengths: tuple[int, ...], waiting: tuple) -> Ledger:
    """A node whose free extents are these, held in between, with these claims waiting."""
    free = spaced(lengths)
    capacity = sum(lengths) + max(len(lengths), 1)
    ledger = Ledger([Opened(0, "node", capacity, "GPU")])
    for claim in range(max(len(lengths), 1)):
        start = sum(free[claim]) if lengths else 0
        ledger.append(Claimed(1, claim, "node", 1, Units(1)))
        ledger.append(Granted(1, claim, start, 1))
    for claim, shape in enumerate(waiting, 100):
        ledger.append(Claimed(2, claim, "node", shape.size, shape))
        ledger.append(Refused(2, claim, sum(lengths), max(lengths, default=0)))
    ledger.append(Closed(2))
    return ledger


@pytest.mark.parametrize(("lengths", "waiting", "expected"), (TABLE | MORE).values(), ids=TABLE | MORE)
def test_free_units_are_split_by_what_waits(lengths, waiting, expected):
    assert split_free(spaced(lengths), waiting) == expected
    account = Account(ledger_of(lengths, waiting))
    terms = account.at(2)
    assert (terms.unscheduled, terms.fragmented, terms.spare) == expected
    assert (terms.used, terms.free) == (max(len(lengths), 1), sum(lengths))


def test_a_long_line_of_plain_claims_is_split_as_each_by_its_own_shape_would_be():
    free = ((0, 1024), (2048, 3072), (8192, 512))
    plain = [Contiguous(512 * n, 512) for n in (2, 3, 1, 3, 4)]

    # a slot with every legal start is the same claim in another form, which is placed one by one
    slow = [Slots(shape.size, tuple(range(0, 9000, 512))) for shape in plain]

    assert split_free(free, plain) == split_free(free, slow) == (512 * 6, 512 * 3, 0)


# -- a run in time -------------------------------------------------------------------------------

RUN = [
    Opened(10, "arena", 100, "B"),
    Claimed(20, 0, "arena", 30, Contiguous(40)),
    Granted(20, 0, 0, 40),
    Used(20, 0, 30),
    Claimed(30, 1, "arena", 50, Contiguous(50)),
    Granted(30, 1, 50, 50),
    Claimed(40, 2, "arena", 15, Contiguous(15)),
    Refused(40, 2, 10, 10),
    Claimed(45, 3, "arena", 5, Contiguous(5)),
    Used(50, 1, 20),
    Freed(50, 0),
    Granted(50, 2, 0, 15),
    Withdrawn(60, 3),
    Freed(60, 1),
    Closed(70),
]
STEPS = {
    # from: used, stranded, fragmented, unscheduled, spare
    10: (0, 0, 0, 0, 100),
    20: (30, 10, 0, 0, 60),
    30: (80, 10, 0, 0, 10),
    40: (80, 10, 0, 0, 10),  # 15 do not fit into 10
    45: (80, 10, 0, 5, 5),
    50: (35, 30, 0, 5, 30),
    60: (15, 0, 0, 0, 85),
}


def test_the_account_at_an_instant_is_what_holds_after_everything_that_happened_then():
    account = Account(Ledger(RUN))

    assert account.steps() == [(time_ns, Terms(100, *terms)) for time_ns, terms in STEPS.items()]
    for time_ns in range(10, 71):
        latest = max(step for step in STEPS if step <= time_ns)
        assert astuple(account.at(time_ns))[1:] == STEPS[latest]


def test_a_window_adds_up_what_its_instants_say_even_if_it_cuts_through_grants():
    account = Account(Ledger(RUN))

    for start in range(10, 71, 3):
        for end in range(start, 71, 4):
            slow = [sum(astuple(account.at(t))[i] for t in range(start, end)) for i in range(6)]
            assert astuple(account(start, end)) == tuple(slow)
    assert account() == account(10, 70)
    assert account(45) == account(45, 70)
    assert account(t1=25) == account(10, 25)
    assert account().capacity == 100 * 60


def test_an_empty_window_holds_nothing():
    assert astuple(Account(Ledger(RUN))(45, 45)) == (0,) * 6


@pytest.mark.parametrize("window", [(0, 20), (9, 20), (20, 71), (40, 30)])
def test_a_window_outside_the_run_is_refused_with_the_run(window):
    with pytest.raises(ValueError, match=r"is no window of the run, 10 to 70 ns"):
        Account(Ledger(RUN))(*window)


@pytest.mark.parametrize("time_ns", [9, 71])
def test_an_instant_outside_the_run_is_refused_with_the_run(time_ns):
    with pytest.raises(ValueError, match=f"{time_ns} ns is outside the run, 10 to 70 ns"):
        Account(Ledger(RUN)).at(time_ns)


def test_a_claim_that_times_out_or_is_withdrawn_wants_nothing_any_more():
    waits = [Opened(0, "arena", 8, "B"), Claimed(0, 0, "arena", 4, Contiguous(4))]

    for leaves in (TimedOut(5, 0), Withdrawn(5, 0)):
        account = Account(Ledger([*waits, leaves, Closed(9)]))
        assert (account.at(4).unscheduled, account.at(5).unscheduled) == (4, 0)
        assert account() == Terms(8 * 9, 0, 0, 0, 4 * 5, 8 * 4 + 4 * 5)


def test_a_refusal_does_not_end_the_waiting():
    account = Account(
        Ledger([Opened(0, "a", 8, "B"), Claimed(0, 0, "a", 4, Units(4)), Refused(3, 0, 8, 8), Closed(9)])
    )

    assert account().unscheduled == 4 * 9


def test_without_a_word_on_use_a_grant_is_used_and_each_word_counts_from_its_instant():
    facts = [
        Opened(0, "arena", 10, "B"),
        Claimed(0, 0, "arena", 6, Contiguous(6)),
        Granted(0, 0, 0, 6),
        Used(2, 0, 0),
        Used(5, 0, 6),
        Used(7, 0, 1),
        Freed(9, 0),
        Closed(10),
    ]
    account = Account(Ledger(facts))

    assert account() == Terms(100, 6 * 2 + 0 * 3 + 6 * 2 + 1 * 2, 6 * 3 + 5 * 2, 0, 0, 4 * 9 + 10)


def test_holes_join_again_when_what_was_between_them_is_freed():
    facts = [Opened(0, "arena", 100, "B")]
    for claim, (start, size) in enumerate(((0, 40), (40, 20), (60, 40))):
        facts += [Claimed(0, claim, "arena", size, Contiguous(size)), Granted(0, claim, start, size)]
    facts += [Claimed(0, 3, "arena", 60, Contiguous(60)), Freed(1, 0), Freed(2, 2), Freed(3, 1)]
    account = Account(Ledger(facts))

    assert account.at(1) == Terms(100, 60, 0, 0, 0, 40)
    assert account.at(2) == Terms(100, 20, 0, 60, 0, 20)
    assert account.at(3) == Terms(100, 0, 0, 0, 60, 40)


def test_units_without_an_address_are_one_liquid_pool():
    facts = [
        Opened(0, "kv", 10, "blocks"),
        Claimed(0, 0, "kv", 6, Units(6)),
        Granted(0, 0, -1, 6),
        Claimed(1, 1, "kv", 3, Contiguous(3)),
        Claimed(1, 2, "kv", 5, Units(5)),
        Freed(4, 0),
        Closed(5),
    ]
    account = Account(Ledger(facts))

    assert account.at(1) == Terms(10, 6, 0, 0, 3, 1)
    assert account.at(4) == Terms(10, 0, 0, 0, 8, 2)


def test_the_free_extents_are_those_that_hold_a_unit():
    books = Books("arena")
    for serial, fact in enumerate(
        [
            Opened(0, "arena", 8, "B"),
            Claimed(0, 0, "arena", 5, Contiguous(5)),
            Granted(0, 0, 0, 5),
            Claimed(0, 1, "arena", 2, Contiguous(2)),
            Granted(0, 1, 6, 2),
        ]
    ):
        books.note(serial, fact)

    assert books.free() == ((5, 1),)


# -- levels --------------------------------------------------------------------------------------


def pool_ledger() -> Ledger:
    """10 MiB of device: a segment of 4, whole and free; one of 2 with 1 held, all but 256 B of it used; 4 left."""
    pool = CuPyPool(10 * MiB)
    big, small = pool.allocate(4 * MiB), pool.allocate(2 * MiB)
    pool.free(big)
    pool.free(small)
    pool.allocate(1 * MiB - 256, "keeper")  # the tightest chunk is the segment of 2
    return pool.ledger


def test_the_levels_of_an_arena_and_of_a_pool():
    assert levels(FirstFit(512).ledger) == ["arena→extent"]
    assert levels(CuPyPool(512).ledger) == ["device→pool", "pool→extent", "device→extent"]
    assert levels(Ledger()) == []


def test_two_arenas_in_one_ledger_have_an_account_each():
    facts = [
        Opened(0, "a", 10, "B"),
        Opened(3, "b", 20, "B"),
        Claimed(4, 0, "b", 5, Contiguous(5)),
        Granted(4, 0, 0, 5),
        Closed(9),
    ]
    ledger = Ledger(facts)

    assert levels(ledger) == ["a→extent", "b→extent"]
    assert Account(ledger)() == Terms(90, 0, 0, 0, 0, 90)
    assert Account(ledger, "b→extent")() == Terms(20 * 6, 5 * 5, 0, 0, 0, 20 * 6 - 25)
    assert Account(ledger, "b→extent").start_ns == 3


def test_the_capacity_of_the_pool_is_what_the_device_granted_and_the_account_looks_through_it():
    ledger = pool_ledger()
    end = ledger.end_ns
    outer, inner, through = (Account(ledger, level).at(end) for level in levels(ledger))

    assert outer == Terms(10 * MiB, 1 * MiB, 5 * MiB, 0, 0, 4 * MiB)
    assert inner == Terms(6 * MiB, 1 * MiB - 256, 256, 0, 0, 5 * MiB)
    assert through == Terms(10 * MiB, 1 * MiB - 256, 256, 0, 0, 9 * MiB)
    assert inner.capacity == outer.used + outer.stranded
    assert through.capacity == outer.capacity


def layered(*more, segments=((0, 6), (10, 4)), capacity: int = 20) -> Ledger:
    """A device of 20 with a pool in it: two segments that do not touch, and what happens then."""
    facts = [Opened(0, "device", capacity, "B"), Opened(0, "pool", 0, "B", "device")]
    for claim, (start, size) in enumerate(segments):
        facts.append(Claimed(0, claim, "device", size, Units(size), "pool"))
        facts.append(Granted(0, claim, start, size))
    return Ledger([*facts, *more])


def test_looked_through_a_pool_whole_free_segments_and_the_devices_rest_are_one_stretch():
    held = [Claimed(1, 5, "pool", 2, Contiguous(2)), Granted(1, 5, 0, 2)]  # 4 of the first segment stay free
    waits = Claimed(1, 6, "pool", 11, Contiguous(11))

    account = Account(layered(*held, waits), "device→extent")

    # 4 pinned beside the held 2; liquid: 4 (second segment) + 10 (never asked for) = 14
    assert account.at(1) == Terms(20, 2, 0, 0, 11, 7)
    assert Account(layered(*held, waits), "pool→extent").at(1) == Terms(10, 2, 0, 0, 0, 8)
    waits.shape = Contiguous(15)
    assert Account(layered(*held, waits), "device→extent").at(1) == Terms(20, 2, 0, 15, 0, 3)


def test_of_segments_that_touch_each_goes_back_by_itself():
    held = [Claimed(1, 5, "pool", 2, Contiguous(2)), Granted(1, 5, 0, 2)]
    held += [Claimed(1, 6, "pool", 1, Contiguous(1)), Granted(1, 6, 13, 1)]
    waits = Claimed(1, 7, "pool", 12, Contiguous(12))
    ledger = layered(*held, waits, segments=((0, 6), (6, 4), (10, 4)))

    # pinned: 4 and 3, though with the segment between them they are one hole; liquid: 4 + 6
    assert Account(ledger, "device→extent").at(1) == Terms(20, 3, 0, 12, 0, 5)
    waits = Claimed(1, 7, "pool", 10, Contiguous(10))
    ledger = layered(*held, waits, segments=((0, 6), (6, 4), (10, 4)))
    assert Account(ledger, "device→extent").at(1) == Terms(20, 3, 0, 0, 10, 7)


def test_a_segment_that_goes_back_takes_its_bytes_from_the_pool():
    account = Account(layered(Freed(4, 1), Closed(6)), "pool→extent")

    assert (account.at(0).capacity, account.at(4).capacity) == (10, 6)
    assert account() == Terms(10 * 4 + 6 * 2, 0, 0, 0, 0, 10 * 4 + 6 * 2)


def test_a_pool_of_units_without_an_address_has_no_layout_either():
    waits = Claimed(1, 7, "pool", 9, Contiguous(9))
    ledger = layered(waits, segments=((-1, 6), (-1, 4)))

    assert Account(ledger, "pool→extent").at(1) == Terms(10, 0, 0, 0, 9, 1)


def test_a_claim_on_the_device_waits_there_and_not_in_the_pool():
    waits = Claimed(2, 7, "device", 8, Units(8), "pool")
    ledger = layered(waits, Withdrawn(5, 7), Closed(9))

    assert [Account(ledger, level).at(2).unscheduled for level in levels(ledger)] == [8, 0, 0]
    assert Account(ledger)().unscheduled == 8 * 3


def test_an_unknown_level_is_told_with_the_levels_there_are():
    with pytest.raises(ValueError, match="no level 'pool' in this ledger; there are: arena→extent"):
        Account(FirstFit(512).ledger, "pool")


def test_a_ledger_in_which_nothing_was_opened_has_no_account():
    with pytest.raises(ValueError, match="opened no resource"):
        Account(Ledger([Closed(3)]))


def test_a_resource_to_which_nothing_happened_is_spare():
    ledger = Ledger([Opened(5, "arena", 8, "B")])

    assert Account(ledger).at(5) == Terms(8, 0, 0, 0, 0, 8)
    assert astuple(Account(ledger)()) == (0,) * 6
    ledger.append(Closed(9))
    assert Account(ledger)() == Terms(32, 0, 0, 0, 0, 32)


# -- what cannot be ------------------------------------------------------------------------------

START = [
    Opened(0, "arena", 16, "B"),
    Claimed(0, 0, "arena", 4, Contiguous(4)),
    Granted(0, 0, 0, 4),
    Claimed(0, 9, "arena", 4, Contiguous(4)),
    Granted(0, 9, 12, 4),
    Claimed(0, 1, "arena", 4, Contiguous(4)),
]
CONTRADICTIONS = {
    "granted what another holds": (Granted(1, 1, 2, 4), "overlap"),
    "granted behind the end": (Granted(1, 1, 14, 4), "overlap"),
    "granted twice": (Granted(1, 0, 4, 4), "waiting"),
    "granted more than there is, without an address": (Granted(1, 1, -1, 9), "capacity"),
    "granted twice, and last in the order of the line": (Granted(1, 9, 4, 4), "waiting"),
    "withdrawn while held": (Withdrawn(1, 0), "waiting"),
    "timed out while held": (TimedOut(1, 0), "waiting"),
    "freed while it waits": (Freed(1, 1), "held"),
    "used while it waits": (Used(1, 1, 2), "held"),
    "more used than granted": (Used(1, 0, 5), "used"),
    "less used than nothing": (Used(1, 0, -1), "used"),
    "claimed twice": (Claimed(1, 0, "arena", 2, Contiguous(2)), "claimed"),
}


@pytest.mark.parametrize(("fact", "law"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_ledger_that_contradicts_itself_is_told_with_the_fact_that_does(fact, law):
    with pytest.raises(BrokenLaw, match=r"#6.*un the audit for the story") as broken:
        Account(Ledger([*START, fact]))

    assert (broken.value.law, broken.value.numbers) == (law, {"event": 6})


@pytest.mark.parametrize("fact", [Freed(2, 0), Granted(2, 0, 0, 4), Used(2, 0, 1), Withdrawn(2, 0)])
def test_what_is_over_is_over(fact):
    with pytest.raises(BrokenLaw) as broken:
        Account(Ledger([*START, Freed(1, 0), fact]))

    assert broken.value.numbers == {"event": 7}


OUTSIDE = {
    "a segment granted twice": ((Granted(1, 0, 30, 6),), "waiting"),
    "a segment freed that was never granted": (
        (Claimed(1, 7, "device", 2, Units(2)), Freed(1, 7)),
        "held",
    ),
    "a segment freed while something in it is held": (
        (Claimed(1, 7, "pool", 2, Contiguous(2)), Granted(1, 7, 2, 2), Freed(1, 0)),
        "overlap",
    ),
    "a segment freed under grants without an address": (
        (Claimed(1, 7, "pool", 8, Units(8)), Granted(1, 7, -1, 8), Freed(1, 0)),
        "inside",
    ),
    "granted between two segments": ((Claimed(1, 7, "pool", 8, Units(8)), Granted(1, 7, 4, 8)), "overlap"),
}


@pytest.mark.parametrize(("facts", "law"), OUTSIDE.values(), ids=OUTSIDE)
def test_a_pool_that_contradicts_its_device_is_told(facts, law):
    ledger = layered(*facts)

    for level in ("pool→extent", "device→extent"):
        with pytest.raises(BrokenLaw) as broken:
            Account(ledger, level)
        assert (broken.value.law, broken.value.numbers) == (law, {"event": len(ledger) - 1})


# -- terms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [(10, 5, 4, 0, 0, 0), (10, 5, 6, 0, 0, 0), (10, 11, -1, 0, 0, 0)])
def test_terms_that_do_not_add_up_cannot_be_made(terms):
    with pytest.raises(BrokenLaw, match="does not add up") as broken:
        Terms(*terms)

    assert broken.value.law == "identity"


def test_terms_know_their_free_units_shares_and_largest_loss():
    terms = Terms(20, 5, 3, 4, 4, 4)

    assert TERMS == ("used", "stranded", "fragmented", "unscheduled", "spare")
    assert terms.free == 12
    assert [terms.share(term) for term in TERMS] == [0.25, 0.15, 0.2, 0.2, 0.2]
    assert terms.largest_loss() == "fragmented"  # of equals, the one named first
    assert Terms(20, 20, 0, 0, 0, 0).largest_loss() == "stranded"
    assert Terms(0, 0, 0, 0, 0, 0).share("used") == 0.0


def test_the_account_of_a_replay_says_who_lost_what():
    trace = [ByteClaim(0, 700, 10), ByteClaim(2, 2048, 4)]
    account = Account(replay(trace, FirstFit(2048)))

    assert account(0, 2) == Terms(2048 * 2, 700 * 2, 324 * 2, 0, 0, 1024 * 2)
    assert account(2, 10) == Terms(2048 * 8, 700 * 8, 324 * 8, 0, 0, 1024 * 8)
    assert account(10, 14) == Terms(2048 * 4, 2048 * 4, 0, 0, 0, 0)


# -- several pools, several dimensions -----------------------------------------------------------


def two_pools(*more) -> Ledger:
    """A device of 30: pool a has a segment of 8, pool b one of 6, and 5 are held without a pool."""
    facts = [Opened(0, "device", 30, "B"), Opened(0, "a", 0, "B", "device"), Opened(0, "b", 0, "B", "device")]
    for claim, (owner, start, size) in enumerate((("a", 0, 8), ("b", 10, 6), ("weights", 20, 5))):
        facts += [Claimed(0, claim, "device", size, Units(size), owner), Granted(0, claim, start, size)]
    facts += [Used(0, 2, 4), Claimed(0, 5, "a", 2, Contiguous(2), "chat"), Granted(0, 5, 3, 2)]
    return Ledger(
        [*facts, Claimed(0, 6, "b", 3, Contiguous(3), "code"), Granted(0, 6, 10, 3), *more, Closed(9)]
    )


def test_each_of_two_pools_has_the_capacity_that_was_granted_to_its_name():
    ledger = two_pools()

    assert levels(ledger) == ["device→a, b", "a→extent", "b→extent", "device→extent"]
    assert [Account(ledger, level).at(0) for level in levels(ledger)] == [
        Terms(30, 8 + 6 + 4, 1, 0, 0, 11),
        Terms(8, 2, 0, 0, 0, 6),
        Terms(6, 3, 0, 0, 0, 3),
        Terms(30, 2 + 3 + 4, 1, 0, 0, 30 - 10),
    ]


def test_a_device_is_looked_through_all_of_its_pools_at_once():
    # stretches: 3 and 3 beside chat's 2 in pool a, 3 behind code's 3 in pool b, 11 that the device has left
    waits = [Claimed(1, 7, "a", 8, Contiguous(8)), Claimed(1, 8, "b", 4, Contiguous(4))]
    through = Account(two_pools(*waits), "device→extent")

    assert through.at(1) == Terms(30, 9, 1, 8, 4, 8)  # 7 of the 11 are left after the 4
    assert Account(two_pools(*waits), "b→extent").at(1) == Terms(6, 3, 0, 0, 0, 3)
    freed = Account(two_pools(*waits, Freed(5, 6)), "device→extent")  # now pool b's segment is whole: 17 left
    assert freed.at(5) == Terms(30, 6, 1, 0, 12, 11)
    assert freed.by_owner(5, 9)[""].unscheduled == 12 * 4


def test_a_claim_of_another_owner_on_the_device_waits_there_beside_those_of_the_pools():
    waits = [Claimed(1, 7, "device", 11, Units(11), "images"), Claimed(1, 8, "b", 3, Contiguous(3), "code")]

    through = Account(two_pools(*waits), "device→extent")

    assert through.at(1) == Terms(30, 9, 1, 0, 14, 6)
    assert through.by_owner(1, 2)["images"] == Terms(11, 0, 0, 0, 11, 0)


# Of 4 GPUs and 10 cores, 6 cores are held. a wants an aligned pair of GPUs and 3 cores, b wants 1 GPU and 4 cores.
DIMENSIONS = [
    *(Opened(0, "gpu", 4, "GPU"), Opened(0, "cpu", 10, "core")),
    *(Claimed(0, 0, "cpu", 6, Units(6), "other"), Granted(0, 0, 0, 6)),
    *(
        Claimed(1, 1, "gpu", 2, Contiguous(2, 2), "a"),
        Claimed(1, 2, "cpu", 3, Units(3), "a"),
        Joined(1, 2, 1),
    ),
    *(Claimed(2, 3, "gpu", 1, Units(1), "b"), Claimed(2, 4, "cpu", 4, Units(4), "b"), Joined(2, 4, 3)),
]


def both(*more) -> tuple[Account, Account]:
    ledger = Ledger([*DIMENSIONS, *more, Closed(9)])
    return Account(ledger, "gpu→extent"), Account(ledger, "cpu→extent")


def test_a_claim_of_several_dimensions_is_taken_only_if_it_fits_in_all_and_each_has_its_own_reach():
    gpu, cpu = both()

    assert [gpu.at(1), cpu.at(1)] == [Terms(4, 0, 0, 0, 2, 2), Terms(10, 6, 0, 0, 3, 1)]
    # by GPUs b goes first, and a's 3 cores are not left; by cores a goes first, and b's 4 are not
    assert [gpu.at(2), cpu.at(2)] == [Terms(4, 0, 0, 0, 1, 3), Terms(10, 6, 0, 0, 3, 1)]


def test_a_claim_of_several_dimensions_is_placed_only_if_each_has_a_place():
    pins = []
    for claim, start in ((7, 1), (8, 2)):
        pins += [Claimed(3, claim, "gpu", 1, Units(1), "pin"), Granted(3, claim, start, 1)]
    gpu, cpu = both(*pins, Withdrawn(4, 3), Withdrawn(4, 4))

    # 2 GPUs are free and not an aligned pair: a's cores are fragmented with them
    assert [gpu.at(4), cpu.at(4)] == [Terms(4, 2, 0, 2, 0, 0), Terms(10, 6, 0, 3, 0, 1)]
    assert [gpu.by_owner(4, 9)["a"].fragmented, cpu.by_owner(4, 9)["a"].fragmented] == [2 * 5, 3 * 5]


def test_what_is_joined_to_nothing_keeps_its_rule_beside_what_is():
    single = Claimed(2, 9, "gpu", 7, Units(7, divisible=True), "c")
    gpu, _ = both(single, Withdrawn(3, 1), Withdrawn(3, 2))

    assert gpu.at(2) == Terms(4, 0, 0, 0, 4, 0)  # 1 for b, and the 3 that are left
    assert gpu.by_owner(3, 4)["c"] == Terms(3, 0, 0, 0, 3, 0)


def test_three_dimensions_are_joined_one_by_one():
    facts = [Opened(0, name, 4, "unit") for name in "xyz"]
    facts += [Claimed(0, n, name, 1 + n, Units(1 + n), "a") for n, name in enumerate("xyz")]
    facts += [
        Joined(0, 1, 0),
        Joined(0, 2, 0),
        Claimed(1, 9, "z", 2, Units(2), "b"),
        Granted(1, 9, 0, 2),
        Closed(3),
    ]

    accounts = [Account(Ledger(facts), f"{name}→extent") for name in "xyz"]
    assert [account.at(0).unscheduled for account in accounts] == [1, 2, 3]
    assert [account.at(1).spare for account in accounts] == [4, 4, 2]  # 3 of z do not fit, so nothing does


# -- who is charged ------------------------------------------------------------------------------


def test_a_gang_that_waits_is_charged_whole():
    facts = ledger_of((1, 1), (PAIR,))
    facts.append(Closed(5))

    assert [(c.term, c.unit_ns, c.claim) for c in Account(facts).causes()] == [("fragmented", 2 * 3, 100)]


def test_a_divisible_claim_is_charged_with_the_part_that_fits():
    facts = ledger_of((3, 2), (Units(2), Units(9, divisible=True)))
    facts.append(Closed(3))

    assert [(c.unit_ns, c.claim) for c in Account(facts).causes()] == [(3, 101), (2, 100)]


def test_claims_without_an_owner_are_those_of_nobody_and_an_owner_without_requests_is_its_own_tenant():
    account = Account(Ledger(RUN))

    # used: 30 of claim 0 for 30 ns, 50 and then 20 of claim 1, 15 of claim 2; see STEPS
    mine = Terms(3075, 30 * 30 + 50 * 20 + 20 * 10 + 15 * 20, 10 * 30 + 30 * 10, 0, 5 * 15, 0)
    assert account.by_owner() == account.by_tenant() == {"": mine}
    facts = [replace(fact, owner="chat") if isinstance(fact, Claimed) else fact for fact in RUN]
    assert Account(Ledger(facts)).by_tenant() == {"chat": account.by_owner()[""]}


@pytest.mark.parametrize("ask", ["by_owner", "by_tenant", "causes"])
def test_a_window_outside_the_run_is_refused_for_charges_too(ask):
    account = Account(Ledger(RUN))
    window = {"t0": 0, "t1": 20}

    with pytest.raises(ValueError, match=r"\[0, 20\) ns is no window of the run, 10 to 70 ns"):
        getattr(account, ask)(**window)


def test_nobody_is_charged_in_an_empty_window_or_by_a_ledger_in_which_nothing_happened():
    account = Account(Ledger(RUN))
    assert (account.by_owner(45, 45), account.causes(10, 45, 45)) == ({}, [])
    account = Account(Ledger([Opened(5, "arena", 8, "B")]))
    assert (account.by_owner(), account.causes(), account.steps()) == ({}, [], [(5, Terms(8, 0, 0, 0, 0, 8))])


def test_a_cause_names_at_most_eight_facts_and_its_own_claim_first():
    facts = [Opened(0, "arena", 40, "B")]
    for claim in range(20):
        facts += [Claimed(0, claim, "arena", 1, Contiguous(1)), Granted(0, claim, 2 * claim, 1)]
    facts += [Claimed(1, 30, "arena", 2, Contiguous(2), "c"), Closed(4)]

    (cause,) = Account(Ledger(facts)).causes()

    assert (cause.term, cause.unit_ns, len(cause.events)) == ("fragmented", 2 * 3, 8)
    assert 41 in cause.events


def test_a_long_line_costs_what_the_reach_moves_and_not_its_length():
    books = Books("kv")
    books.note(0, Opened(0, "kv", 100, "block"))
    for claim in range(1, 2001):
        books.note(claim, Claimed(0, claim, "kv", 1 + claim % 50, Units(1 + claim % 50)))
    books.terms()
    before = books.line.looks
    for claim in range(1, 2001, 2):
        books.note(0, Granted(0, claim, -1, 1))
        books.terms()
        books.note(0, Freed(0, claim))
        books.terms()

    assert books.line.looks - before < 6 * 1000
