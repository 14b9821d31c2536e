"""The account against a slow reference that knows only the words of the architecture, section 2.

The reference walks every nanosecond, holds every unit in a list, and reaches and places claim by claim through
``Shape.take``. It shares no code with the account, and both must agree to the unit and nanosecond.
"""

from dataclasses import astuple
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.report.account import TERMS, Account
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
from gpulab.telemetry.shape import Contiguous, Gang, Slots, Units

CAPACITY = 24


# -- the reference -------------------------------------------------------------------------------


class Node:
    """One resource, unit by unit, after the facts up to an instant."""

    def __init__(self) -> None:
        self.there: set[int] = set()  # units of capacity, by address
        self.holder: dict[int, int] = {}  # unit -> claim
        self.used: dict[int, int] = {}
        self.size: dict[int, int] = {}
        self.waits: dict[int, object] = {}

    def take_down(self, fact) -> None:
        match fact:
            case Claimed():
                self.waits[fact.claim] = fact.shape
            case Granted():
                del self.waits[fact.claim]
                self.used[fact.claim] = self.size[fact.claim] = fact.size
                for unit in range(fact.start, fact.start + fact.size) if fact.start >= 0 else ():
                    self.holder[unit] = fact.claim
            case Withdrawn() | TimedOut():
                del self.waits[fact.claim]
            case Used():
                self.used[fact.claim] = fact.units
            case Freed():
                del self.used[fact.claim], self.size[fact.claim]
                self.holder = {unit: claim for unit, claim in self.holder.items() if claim != fact.claim}

    def units_of(self, claim: int) -> set[int]:
        return {unit for unit, holder in self.holder.items() if holder == claim}

    def extents(self) -> tuple:
        """The free units in order, those that touch as one."""
        found: list[list[int]] = []
        for unit in sorted(self.there - set(self.holder)):
            if found and sum(found[-1]) == unit:
                found[-1][1] += 1
            else:
                found.append([unit, 1])
        return tuple((start, length) for start, length in found)


def five(capacity: int, node: Node, free: tuple) -> tuple[int, ...]:
    """Capacity and the five terms, by the words of the page."""
    granted, used = sum(node.size.values()), sum(node.used.values())
    total = capacity - granted
    assert total == sum(length for _, length in free)
    taken, placed = reached(node, total, free)
    wanted, found = sum(taken.values()), sum(placed.values())
    return capacity, used, granted - used, wanted - found, found, total - wanted


def reached(node: Node, left: int, free: tuple) -> tuple[dict[int, int], dict[int, int]]:
    """What each waiting claim takes of ``left`` liquid units, and what it then finds in the real layout."""
    taken, placed = {}, {}
    for shape, claim in sorted(
        ((s, c) for c, s in node.waits.items()), key=lambda pair: (pair[0].size, pair[1])
    ):
        part = shape.size if shape.size <= left else left if shape.divisible else 0
        if part:
            taken[claim] = part
            left -= part
    for claim in taken:
        got = node.waits[claim].take(free)
        placed[claim] = sum(units for _, units in got[0]) if got else 0
        free = got[1] if got else free
    return taken, placed


def charged(node: Node, left: int, free: tuple) -> dict[int, list[int]]:
    """Used, stranded, fragmented, unscheduled units of each claim.

    What a divisible claim found beyond the part it took was counted as another's: the first ones of those that
    found too little lack so much less.
    """
    found = {claim: [node.used[claim], size - node.used[claim], 0, 0] for claim, size in node.size.items()}
    taken, placed = reached(node, left, free)
    lacks = {claim: max(0, taken[claim] - placed[claim]) for claim in taken}
    for _ in range(sum(max(0, placed[claim] - taken[claim]) for claim in taken)):
        first = next((claim for claim in lacks if lacks[claim]), None)
        if first is not None:
            lacks[first] -= 1
    for claim in taken:
        found[claim] = [0, 0, lacks[claim], placed[claim]]
    return found


def arena_at(ledger: Ledger, time_ns: int, *, liquid: bool) -> tuple[int, ...]:
    node = Node()
    for fact in ledger:
        if fact.time_ns <= time_ns:
            node.take_down(fact)
    capacity = ledger[0].capacity
    node.there = set(range(capacity))
    free = ((0, capacity - sum(node.size.values())),) if liquid else node.extents()
    return five(capacity, node, tuple(extent for extent in free if extent[1]))


def layers_at(ledger: Ledger, time_ns: int) -> dict[str, tuple[int, ...]]:
    """The three levels of a device with one pool in it."""
    device, pool, of = Node(), Node(), {}
    for fact in ledger:
        if fact.time_ns > time_ns:
            break
        if isinstance(fact, Claimed):
            of[fact.claim] = device if fact.resource == "device" else pool
        if getattr(fact, "claim", None) is not None:
            of[fact.claim].take_down(fact)
    capacity = ledger[0].capacity
    inside = sum(device.size.values())
    pool.there = set(device.holder)
    whole = 0  # cached segments of which nothing is held
    pinned: set[int] = set()  # units of the others
    for segment in device.size:
        units = device.units_of(segment)
        if units & set(pool.holder):
            pinned |= units
        else:
            whole += len(units)
    outside = ((0, capacity - inside),) if inside < capacity else ()
    liquid = capacity - inside + whole
    seen = Node()
    seen.there, seen.holder = pinned, pool.holder
    through = seen.extents() + (((1 << 62, liquid),) if liquid else ())
    return {
        "device→pool": five(capacity, device, outside),
        "pool→extent": five(inside, pool, pool.extents()),
        "device→extent": five(capacity, pool, through),
    }


def added_up(instants: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip(*instants, strict=True)) if instants else (0,) * 6


# -- random ledgers: a seed and a number of steps, so that a shorter one is the start of a longer one -----


def any_shape(draw: Random) -> object:
    """Any shape there is, sometimes divisible, sometimes with few legal places or none."""
    size = draw.randint(1, 9)
    kind = draw.randrange(6)
    if kind < 2:
        return Contiguous(size, draw.choice((1, 1, 2, 4)), divisible=draw.random() < 0.3)
    if kind < 4:
        return Units(size, divisible=draw.random() < 0.5)
    if kind == 4:
        return Slots(
            draw.randint(1, 4),
            tuple(draw.randrange(20) for _ in range(draw.randint(1, 3))),
            draw.random() < 0.3,
        )
    parts = [draw.choice((Contiguous, Units))(draw.randint(1, 4)) for _ in range(draw.randint(2, 3))]
    return Gang(tuple(parts), together=draw.random() < 0.5, divisible=draw.random() < 0.3)


def even_shape(draw: Random) -> Contiguous:
    """Plain stretches of one alignment: what an arena's claims are."""
    return Contiguous(2 * draw.randint(1, 4), 2)


def units_shape(draw: Random) -> Units:
    """Units without a place."""
    return Units(draw.randint(1, 9), divisible=draw.random() < 0.5)


def ledger_of(seed: int, steps: int, shape_of=any_shape, *, liquid: bool = False) -> Ledger:
    """A ledger of one resource that breaks no law: claims wait, are granted anywhere legal, used, and leave."""
    draw = Random(seed)
    now_ns, serial = draw.randrange(4), 0
    ledger, node = Ledger([Opened(now_ns, "arena", CAPACITY, "B")]), Node()
    node.there = set(range(CAPACITY))
    for _ in range(steps):
        now_ns += draw.choice((0, 0, 1, 2))
        verb = draw.choice(("claim", "claim", "claim", "grant", "grant", "refuse", "use", "free", "leave"))
        fact = None
        if verb == "claim":
            shape = shape_of(draw)
            fact = Claimed(now_ns, serial, "arena", shape.size, shape, f"o{serial % 3}")
            serial += 1
        elif verb == "use" and node.size:
            claim = draw.choice(sorted(node.size))
            fact = Used(now_ns, claim, draw.randint(0, node.size[claim]))
        elif verb == "free" and node.size:
            fact = Freed(now_ns, draw.choice(sorted(node.size)))
        elif node.waits:
            claim = draw.choice(sorted(node.waits))
            if verb == "leave":
                fact = draw.choice((Withdrawn, TimedOut))(now_ns, claim)
            elif verb == "refuse":
                fact = Refused(now_ns, claim, 0, 0)
            else:
                fact = granted(node, now_ns, claim, draw, liquid)
        if fact is not None:
            ledger.append(fact)
            node.take_down(fact)
    if draw.random() < 0.5:
        ledger.append(Closed(now_ns + draw.randrange(4)))
    return ledger


def granted(node: Node, now_ns: int, claim: int, draw: Random, liquid: bool) -> Granted | None:
    """The claim in one stretch, at any place that is free; a divisible one may get less than it asked."""
    shape = node.waits[claim]
    size = draw.randint(1, shape.size) if shape.divisible else shape.size
    if liquid:
        return Granted(now_ns, claim, -1, size) if sum(node.size.values()) + size <= CAPACITY else None
    step = getattr(shape, "align", 1)
    starts = [at for at in room(node, size) if at % step == 0]
    return Granted(now_ns, claim, draw.choice(starts), size) if starts else None


def room(node: Node, size: int) -> list[int]:
    """Every start at which so many units are free."""
    return [at for start, length in node.extents() for at in range(start, start + length - size + 1)]


def layered_ledger(seed: int, steps: int) -> Ledger:
    """A device with a pool inside: segments come and go, extents lie in them, claims wait at both."""
    draw = Random(seed)
    ledger = Ledger([Opened(0, "device", CAPACITY, "B"), Opened(0, "pool", 0, "B", "device")])
    device, pool, now_ns, address = Node(), Node(), 0, 0
    for serial in range(steps):
        now_ns += draw.choice((0, 0, 1, 2))
        verb = draw.choice(("grow", "grow", "trim", "hold", "hold", "free", "want", "leave", "need"))
        size = draw.randint(1, 7)
        facts: list = []
        if verb == "grow" and sum(device.size.values()) + size <= CAPACITY:
            facts = [
                Claimed(now_ns, serial, "device", size, Units(size)),
                Granted(now_ns, serial, address, size),
            ]
            address += size + 1  # segments never touch
        elif verb == "need":
            facts = [Claimed(now_ns, serial, "device", size, Units(size))]
        elif verb in ("hold", "want"):
            facts = [Claimed(now_ns, serial, "pool", size, Contiguous(size, draw.choice((1, 1, 2))))]
            pool.there = set(device.holder)
            starts = room(pool, size)
            if verb == "hold" and starts:
                facts.append(Granted(now_ns, serial, draw.choice(starts), size))
                facts.append(Used(now_ns, serial, draw.randint(0, size)))
        elif verb == "free" and pool.size:
            facts = [Freed(now_ns, draw.choice(sorted(pool.size)))]
        elif verb == "leave" and (device.waits or pool.waits):
            facts = [Withdrawn(now_ns, draw.choice(sorted([*device.waits, *pool.waits])))]
        elif verb == "trim":
            empty = [s for s in device.size if not device.units_of(s) & set(pool.holder)]
            facts = [Freed(now_ns, draw.choice(empty))] if empty else []
        for fact in facts:
            ledger.append(fact)
            at_device = (
                fact.claim in {*device.waits, *device.size} or getattr(fact, "resource", "") == "device"
            )
            (device if at_device else pool).take_down(fact)
    ledger.append(Closed(now_ns + draw.randrange(3)))
    return ledger


# -- the laws ------------------------------------------------------------------------------------

TWICE = settings(max_examples=2 * settings.default.max_examples)
SEED, LENGTH, CUT = st.integers(0, 2**32), st.integers(0, 60), st.integers(0, 200)


def agrees(account: Account, slow: dict[int, tuple[int, ...]], cuts: tuple[int, int]) -> None:
    """The account says what the reference says: at every instant, over the run, and over one window."""
    times = sorted(slow)
    assert (account.start_ns, account.end_ns) == (times[0], times[-1])
    for time_ns in times:
        assert astuple(account.at(time_ns)) == slow[time_ns]
    assert astuple(account()) == added_up([slow[t] for t in times[:-1]])
    start, end = sorted(times[0] + cut % len(times) for cut in cuts)
    assert astuple(account(start, end)) == added_up([slow[t] for t in range(start, end)])
    steps = account.steps()
    assert [time_ns for time_ns, _ in steps] == sorted({time_ns for time_ns, _ in steps})
    for (_, terms), (after, others) in pairwise(steps):
        assert (astuple(terms), astuple(others)) == (slow[after - 1], slow[after])


def slowly(ledger: Ledger, *, liquid: bool = False) -> dict[int, tuple[int, ...]]:
    return {t: arena_at(ledger, t, liquid=liquid) for t in range(ledger.start_ns, ledger.end_ns + 1)}


@pytest.mark.soak
@given(seed=SEED, length=LENGTH, cuts=st.tuples(CUT, CUT))
@TWICE
def test_the_account_is_the_references_to_the_unit_and_nanosecond(seed, length, cuts):
    ledger = ledger_of(seed, length)

    agrees(Account(ledger), slowly(ledger), cuts)


@pytest.mark.soak
@given(seed=SEED, length=LENGTH, cuts=st.tuples(CUT, CUT))
@TWICE
def test_claims_and_holes_of_one_alignment_need_no_walk_each_but_get_the_same(seed, length, cuts):
    ledger = ledger_of(seed, length, even_shape)

    agrees(Account(ledger), slowly(ledger), cuts)


@pytest.mark.soak
@given(seed=SEED, length=LENGTH, cuts=st.tuples(CUT, CUT))
@TWICE
def test_units_without_an_address_need_no_layout(seed, length, cuts):
    ledger = ledger_of(seed, length, units_shape, liquid=True)

    agrees(Account(ledger), slowly(ledger, liquid=True), cuts)


@pytest.mark.soak
@given(seed=SEED, length=LENGTH, cuts=st.tuples(CUT, CUT))
@TWICE
def test_every_level_of_a_pool_is_the_references(seed, length, cuts):
    ledger = layered_ledger(seed, length)

    slow = [layers_at(ledger, t) for t in range(ledger.end_ns + 1)]
    for level in ("device→pool", "pool→extent", "device→extent"):
        agrees(Account(ledger, level), {t: terms[level] for t, terms in enumerate(slow)}, cuts)


@pytest.mark.soak
@given(seed=SEED, length=LENGTH, cuts=st.tuples(CUT, CUT))
@TWICE
def test_every_owner_is_charged_with_what_the_reference_charges_it(seed, length, cuts):
    ledger = ledger_of(seed, length)
    account = Account(ledger)
    start, end = sorted(ledger.start_ns + cut % (ledger.end_ns - ledger.start_ns + 1) for cut in cuts)
    slow: dict[str, list[int]] = {}
    for time_ns in range(start, end):
        node = Node()
        for fact in ledger:
            if fact.time_ns <= time_ns:
                node.take_down(fact)
        node.there = set(range(CAPACITY))
        for claim, terms in charged(node, CAPACITY - sum(node.size.values()), node.extents()).items():
            sums = slow.setdefault(f"o{claim % 3}", [0, 0, 0, 0])
            sums[:] = [a + b for a, b in zip(sums, terms, strict=True)]

    fast = account.by_owner(start, end)

    assert {owner: list(astuple(terms))[1:5] for owner, terms in fast.items()} == slow
    assert {owner: (terms.capacity, terms.spare) for owner, terms in fast.items()} == {
        owner: (sum(terms), 0) for owner, terms in slow.items()
    }


@pytest.mark.soak
@given(seed=SEED, length=LENGTH, level=st.sampled_from(("device→pool", "pool→extent", "device→extent")))
@TWICE
def test_the_charges_of_every_level_of_a_pool_add_up_to_its_account(seed, length, level):
    account = Account(layered_ledger(seed, length), level)

    sums = [sum(column) for column in zip(*map(astuple, account.by_owner().values()), strict=True)] or [0] * 6

    assert sums[1:5] == list(astuple(account()))[1:5]


DRAWN = {
    "any": lambda seed: Account(ledger_of(seed, 60)),
    "even": lambda seed: Account(ledger_of(seed, 60, even_shape)),
    "layered": lambda seed: Account(layered_ledger(seed, 60), "device→extent"),
    "units": lambda seed: Account(ledger_of(seed, 60, units_shape, liquid=True)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_drawn_ledgers_are_sound_and_hold_every_term(name):
    """The laws above say nothing about a term that no drawn ledger has."""
    runs = [DRAWN[name](seed)() for seed in range(40)]

    held = {term: sum(getattr(run, term) > 0 for run in runs) for term in TERMS}
    expected = {term: 0 if (name, term) == ("units", "fragmented") else 8 for term in TERMS}
    assert all(held[term] >= expected[term] for term in TERMS), held
    assert name != "units" or held["fragmented"] == 0  # what has no layout is never fragmented
