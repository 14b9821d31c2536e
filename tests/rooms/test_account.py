"""The five terms: the table of the architecture, windows, levels, and ledgers with nothing in them."""

import pytest

from gpulab.errors import BrokenLaw
from gpulab.memory.pools import CuPyPool
from gpulab.report.account import TERMS, Account, Terms, levels
from gpulab.report.books import split_free
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Freed,
    Granted,
    Opened,
    Refused,
    TimedOut,
    Used,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Gang, Shape, Slots, Units
from gpulab.units import MiB

OPEN = Opened(0, "arena", 100, "B")


def claim(serial: int, size: int, time_ns: int = 0, shape: Shape | None = None) -> Claimed:
    return Claimed(time_ns, serial, "arena", size, shape or Contiguous(size), "")


def held(serial: int, start: int, size: int, time_ns: int = 0) -> list:
    return [claim(serial, size, time_ns), Granted(time_ns, serial, start, size)]


def extents(*lengths: int) -> tuple[tuple[int, int], ...]:
    """Free stretches of these lengths, each 1,000 after the other."""
    return tuple((1000 * number, length) for number, length in enumerate(lengths))


# -- the arithmetic at one instant ---------------------------------------------------------------

PAIR_ON_ONE_NODE = Gang((Units(1), Units(1)), together=True)

# Architecture, section 2: free extents, waiting -> unscheduled, fragmented, spare.
TABLE = {
    "10, 4, 3 free and 5, 100 wait": (extents(10, 4, 3), [Contiguous(5), Contiguous(100)], (5, 0, 12)),
    "4, 3 free and 5 waits": (extents(4, 3), [Contiguous(5)], (0, 5, 2)),
    "79 free and 1 waits": (extents(79), [Contiguous(1)], (1, 0, 78)),
    "6 free and 8 waits": (extents(6), [Contiguous(8)], (0, 0, 6)),
    "a GPU on each of two nodes and a gang of 2 on one": (extents(1, 1), [PAIR_ON_ONE_NODE], (0, 2, 0)),
}
SPLITS = {
    "nothing waits": (extents(4, 3), [], (0, 0, 7)),
    "nothing is free": ((), [Contiguous(5)], (0, 0, 0)),
    "any units need no place": (extents(4, 3), [Units(5)], (5, 0, 2)),
    "a divisible claim takes the part that fits": (extents(4, 3), [Units(9, divisible=True)], (7, 0, 0)),
    "a divisible claim comes after what fits whole": (
        extents(4, 3),
        [Units(9, divisible=True), Contiguous(2)],
        (7, 0, 0),
    ),
    "a divisible claim takes its part though a smaller one fits nowhere": (
        extents(6),
        [Contiguous(8), Units(9, divisible=True)],
        (6, 0, 0),
    ),
    "only one divisible claim takes a part": (
        extents(6),
        [Units(7, divisible=True), Units(8, divisible=True)],
        (6, 0, 0),
    ),
    "the smaller claim goes first": (extents(5, 2), [Contiguous(5), Contiguous(2)], (2, 5, 0)),
    "of equal claims the earlier goes first": (
        ((0, 4), (8, 2)),
        [Contiguous(4, 8), Contiguous(4)],
        (4, 0, 2),
    ),
    "a place needs its alignment": (((2, 6),), [Contiguous(4, 4)], (4, 0, 2)),
    "no place keeps the alignment": (((2, 5),), [Contiguous(4, 4)], (0, 4, 1)),
    "a place needs a legal start": (((1, 3), (5, 3)), [Slots(3, (0, 4))], (0, 3, 3)),
    "a gang is taken whole or not at all": (extents(3, 1), [Gang((Contiguous(2), Contiguous(2)))], (0, 4, 0)),
    "what was placed is free no more": (extents(5, 5), [Contiguous(4), Contiguous(4)], (8, 0, 2)),
    "a claim that fits nowhere does not keep the next out": (
        ((1, 5), (8, 4)),
        [Slots(3, (0,)), Contiguous(4)],
        (4, 3, 2),
    ),
}


@pytest.mark.parametrize(("free", "waiting", "terms"), TABLE.values(), ids=TABLE)
def test_the_table_of_the_architecture(free, waiting, terms):
    assert split_free(free, waiting) == terms


@pytest.mark.parametrize(("free", "waiting", "terms"), SPLITS.values(), ids=SPLITS)
def test_free_units_are_split_by_what_waits(free, waiting, terms):
    assert split_free(free, waiting) == terms


LAYOUTS = {
    "10, 4, 3 free and 5, 100 wait": ([(10, 5), (19, 5), (27, 73)], [5, 100], (83, 0, 0, 5, 12)),
    "4, 3 free and 5 waits": ([(4, 6), (13, 87)], [5], (93, 0, 5, 0, 2)),
    "79 free and 1 waits": ([(79, 21)], [1], (21, 0, 0, 1, 78)),
    "6 free and 8 waits": ([(0, 94)], [8], (94, 0, 0, 0, 6)),
}


@pytest.mark.parametrize(("grants", "waiting", "terms"), LAYOUTS.values(), ids=LAYOUTS)
def test_the_table_read_from_a_ledger(grants, waiting, terms):
    ledger = Ledger([OPEN])
    for serial, (start, size) in enumerate(grants):
        for fact in held(serial, start, size):
            ledger.append(fact)
    for serial, size in enumerate(waiting, len(grants)):
        ledger.append(claim(serial, size))

    assert Account(ledger).at(0) == Terms(100, *terms)


def test_the_row_of_the_gang_read_from_a_ledger():
    facts = [
        Opened(0, "arena", 4, "GPU"),
        *held(0, 1, 1),
        *held(1, 3, 1),
        claim(2, 2, shape=PAIR_ON_ONE_NODE),
    ]

    assert Account(Ledger(facts)).at(0) == Terms(4, 2, 0, 2, 0, 0)


# -- the five terms themselves -------------------------------------------------------------------


def test_terms_that_do_not_add_up_or_are_negative_cannot_be_made():
    assert Terms(15, 1, 2, 3, 4, 5).free == 12
    for numbers in ((16, 1, 2, 3, 4, 5), (3, 1, -2, 3, 0, 1)):
        with pytest.raises(BrokenLaw, match="does not add up") as broken:
            Terms(*numbers)
        assert broken.value.law == "identity"


def test_shares_and_the_largest_loss():
    terms = Terms(20, 11, 2, 3, 3, 1)

    assert [terms.share(term) for term in TERMS] == [0.55, 0.1, 0.15, 0.15, 0.05]
    assert terms.largest_loss() == "fragmented"
    assert Terms(0, 0, 0, 0, 0, 0).share("used") == 0.0


# -- instants and windows ------------------------------------------------------------------------

RUN = Ledger(
    [
        OPEN,
        *held(0, 0, 60, time_ns=10),
        Used(10, 0, 50),
        claim(1, 50, time_ns=20),
        Refused(20, 1, 40, 40),
        claim(2, 30, time_ns=30),
        Freed(50, 0),
        Granted(50, 2, 10, 30),
        Withdrawn(60, 1),
        Closed(100),
    ]
)
STEPS = [
    (0, Terms(100, 0, 0, 0, 0, 100)),
    (10, Terms(100, 50, 10, 0, 0, 40)),
    (20, Terms(100, 50, 10, 0, 0, 40)),
    (30, Terms(100, 50, 10, 0, 30, 10)),
    (50, Terms(100, 30, 0, 0, 50, 20)),
    (60, Terms(100, 30, 0, 0, 0, 70)),
]


def test_steps_are_the_terms_after_each_instant_at_which_something_changed():
    assert Account(RUN).steps() == STEPS


@pytest.mark.parametrize(
    ("time_ns", "step"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (49, 3), (50, 4), (99, 5), (100, 5)]
)
def test_an_instant_has_the_terms_of_the_last_change(time_ns, step):
    assert Account(RUN).at(time_ns) == STEPS[step][1]


def test_the_whole_run_is_the_default_window():
    assert (
        Account(RUN)()
        == Account(RUN)(0, 100)
        == Terms(
            10_000,
            40 * 50 + 50 * 30,
            40 * 10,
            0,
            20 * 30 + 10 * 50,
            1000 + 20 * 40 + 20 * 10 + 10 * 20 + 40 * 70,
        )
    )


def test_a_window_that_cuts_grants_counts_only_what_lies_inside():
    assert Account(RUN)(45, 55) == Terms(1000, 5 * 50 + 5 * 30, 50, 0, 5 * 30 + 5 * 50, 5 * 10 + 5 * 20)
    assert Account(RUN)(t1=5) == Terms(500, 0, 0, 0, 0, 500)
    assert Account(RUN)(t0=90) == Terms(1000, 300, 0, 0, 0, 700)
    assert Account(RUN)(50, 50) == Terms(0, 0, 0, 0, 0, 0)


def test_what_is_no_instant_or_window_of_the_run_is_refused_with_the_run():
    account = Account(RUN)
    for time_ns in (-1, 101):
        with pytest.raises(ValueError, match="outside the run, 0 to 100 ns"):
            account.at(time_ns)
    for window in ((-1, 5), (5, 101), (6, 5)):
        with pytest.raises(ValueError, match="no window of the run, 0 to 100 ns"):
            account(*window)


def test_units_that_do_no_work_are_stranded_until_the_ledger_says_otherwise():
    facts = [OPEN, *held(0, 0, 60), Used(10, 0, 0), Used(20, 0, 45), Freed(30, 0), Closed(40)]
    account = Account(Ledger(facts))

    assert [(account.at(t).used, account.at(t).stranded) for t in (0, 10, 20, 30)] == [
        (60, 0),
        (0, 60),
        (45, 15),
        (0, 0),
    ]


def test_a_claim_stops_waiting_when_it_times_out_and_not_when_it_is_refused():
    facts = [OPEN, claim(0, 70), Refused(0, 0, 100, 100), TimedOut(9, 0), Closed(10)]

    assert [Account(Ledger(facts)).at(t).unscheduled for t in (0, 8, 9)] == [70, 70, 0]


def test_holes_join_again_when_what_was_between_them_is_freed():
    facts = [OPEN, *held(0, 0, 40), *held(1, 40, 20), *held(2, 60, 40), claim(3, 60)]
    frees = [Freed(1, 0), Freed(2, 2), Freed(3, 1)]
    account = Account(Ledger([*facts, *frees]))

    assert [account.at(t) for t in (1, 2, 3)] == [
        Terms(100, 60, 0, 0, 0, 40),
        Terms(100, 20, 0, 60, 0, 20),
        Terms(100, 0, 0, 0, 60, 40),
    ]


def test_units_without_an_address_are_one_pool():
    blocks = Opened(0, "arena", 10, "block")
    facts = [
        blocks,
        claim(0, 4, shape=Units(4)),
        Granted(0, 0, -1, 4),
        claim(1, 5, shape=Units(5)),
        Closed(2),
    ]

    assert Account(Ledger(facts))() == Terms(20, 8, 0, 0, 10, 2)


# -- levels --------------------------------------------------------------------------------------


def test_a_pool_is_read_at_three_levels_and_each_capacity_is_what_the_one_before_granted():
    pool = CuPyPool(6 * MiB)
    pool.free(pool.allocate(4 * MiB))
    pool.allocate(1 * MiB - 100)
    pool.queue(4 * MiB)
    device, inner, through = (Account(pool.ledger, level).at(0) for level in levels(pool.ledger))

    assert levels(pool.ledger) == ["device→pool", "pool→extent", "device→extent"]
    assert device == Terms(6 * MiB, 1 * MiB, 3 * MiB, 0, 0, 2 * MiB)
    assert inner == Terms(4 * MiB, 1 * MiB - 100, 100, 0, 0, 3 * MiB)
    assert through == Terms(6 * MiB, 1 * MiB - 100, 100, 4 * MiB, 0, 1 * MiB)


def test_looked_through_whole_cached_segments_and_the_rest_of_the_device_are_one_stretch():
    pool = CuPyPool(6 * MiB)
    first, second = pool.allocate(2 * MiB), pool.allocate(2 * MiB)
    for extent in (first, second):
        pool.free(extent)
    pool.queue(5 * MiB)

    assert Account(pool.ledger, "pool→extent").at(0) == Terms(4 * MiB, 0, 0, 0, 0, 4 * MiB)
    assert Account(pool.ledger, "device→extent").at(0) == Terms(6 * MiB, 0, 0, 0, 5 * MiB, 1 * MiB)


def test_the_first_level_is_the_default_and_an_unknown_one_is_told_which_there_are():
    assert Account(RUN).level == "arena→extent"
    with pytest.raises(ValueError, match=r"no level 'tokens' in this ledger; there are: arena→extent\."):
        Account(RUN, "tokens")


# -- ledgers with little in them, and broken ones ------------------------------------------------


def test_a_ledger_that_opened_nothing_has_no_account():
    with pytest.raises(ValueError, match="opened no resource"):
        Account(Ledger())


def test_a_resource_that_nobody_asked_for_is_spare():
    assert Account(Ledger([OPEN]))() == Terms(0, 0, 0, 0, 0, 0)
    assert Account(Ledger([OPEN])).at(0) == Terms(100, 0, 0, 0, 0, 100)
    assert Account(Ledger([OPEN, Closed(7)]))() == Terms(700, 0, 0, 0, 0, 700)


def test_a_run_starts_when_its_resource_was_opened():
    account = Account(Ledger([Opened(30, "arena", 10, "B"), Closed(50)]))

    assert (account.start_ns, account.end_ns, account().capacity) == (30, 50, 200)


BROKEN = {
    "granted over another": ([*held(0, 0, 60), *held(1, 50, 10)], "overlap", 4),
    "granted past the end": (held(0, 50, 51), "overlap", 2),
    "granted twice": ([*held(0, 0, 10), Granted(0, 0, 20, 10)], "waiting", 3),
    "withdrawn while held": ([*held(0, 0, 10), Withdrawn(0, 0)], "waiting", 3),
    "freed while it waits": ([claim(0, 10), Freed(0, 0)], "held", 2),
    "used more than granted": ([*held(0, 0, 10), Used(0, 0, 11)], "used", 3),
}


@pytest.mark.parametrize(("facts", "law", "event"), BROKEN.values(), ids=BROKEN)
def test_a_ledger_that_contradicts_itself_has_no_account(facts, law, event):
    with pytest.raises(BrokenLaw) as broken:
        Account(Ledger([OPEN, *facts])).at(0)

    assert (broken.value.law, broken.value.numbers.get("event")) == (law, event)
