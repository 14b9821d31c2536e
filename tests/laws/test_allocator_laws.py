"""What no valid trace may break in any arena, read from its ledger and from a map of every unit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.arena import BestFit, Bump, FirstFit
from gpulab.memory.replay import ByteClaim, replay
from gpulab.report.account import Account
from gpulab.report.audit import audit
from gpulab.telemetry.events import Freed, Granted, Refused
from gpulab.telemetry.ledger import Ledger

UNIT, UNITS = 512, 24
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), st.integers(1, UNIT * 9)),
        st.tuples(st.just("alloc"), st.integers(1, 12).map(lambda units: units * UNIT)),
        st.tuples(st.sampled_from(("free", "free", "retry", "withdraw")), st.integers(0, 99)),
    ),
    max_size=60,
)
KINDS = (Bump, FirstFit, BestFit)


class Map:
    """The arena unit by unit: who holds it. Knows no hole, so it can lose none."""

    def __init__(self) -> None:
        self.holder: list[int | None] = [None] * UNITS
        self.bump = 0  # where a bump allocator would go on

    def grant(self, fact: Granted) -> None:
        units = range(fact.start // UNIT, (fact.start + fact.size) // UNIT)
        assert fact.start % UNIT == fact.size % UNIT == 0
        assert all(self.holder[unit] is None for unit in units), "two hold one unit"
        for unit in units:
            self.holder[unit] = fact.claim
        self.bump = units.stop

    def free(self, fact: Freed) -> None:
        assert fact.claim in self.holder, "what is not held was freed"
        self.holder = [None if claim == fact.claim else claim for claim in self.holder]
        if all(claim is None for claim in self.holder):
            self.bump = 0

    def holes(self) -> list[tuple[int, int]]:
        """``(start, length)`` in units, in order."""
        found, start = [], None
        for unit, claim in enumerate([*self.holder, -1]):
            if claim is None and start is None:
                start = unit
            elif claim is not None and start is not None:
                found.append((start, unit - start))
                start = None
        return found

    def rule(self, kind: type, units: int) -> int | None:
        """Where a claim of so many units must go, in bytes."""
        if kind is Bump:
            return self.bump * UNIT if self.bump + units <= UNITS else None
        fits = [
            (length if kind is BestFit else 0, start) for start, length in self.holes() if length >= units
        ]
        return min(fits)[1] * UNIT if fits else None


def play(arena, steps) -> Map:
    """Do what the steps say as far as it makes sense, and hold each answer against the map."""
    here, held, waiting = Map(), [], {}
    for verb, number in steps:
        arena.clock.advance_to(arena.clock.now_ns + 1)
        before = len(arena.ledger)
        if verb == "free" and held:
            arena.free(held.pop(number % len(held)))
            here.free(arena.ledger[-1])
        elif verb == "withdraw" and waiting:
            claim = sorted(waiting)[number % len(waiting)]
            arena.withdraw(claim)
            del waiting[claim]
        elif verb == "alloc" or (verb == "retry" and waiting):
            claim = sorted(waiting)[number % len(waiting)] if verb == "retry" else None
            size = number if claim is None else waiting.pop(claim)
            expected = here.rule(type(arena), -(-size // UNIT))
            try:
                extent = arena.allocate(size, claim=claim)
            except OutOfMemory as full:
                waiting[full.claim] = size
                assert expected is None, "refused although the rule has a place"
                assert arena.ledger[-1] == Refused(arena.clock.now_ns, full.claim, full.free, full.largest)
                assert full.free == here.holder.count(None) * UNIT
                assert full.largest == max((length for _, length in here.holes()), default=0) * UNIT
            else:
                held.append(extent)
                assert (extent.offset, extent.asked) == (expected, size)
                (granted,) = (f for f in arena.ledger[before:] if isinstance(f, Granted))
                here.grant(granted)
        assert arena.free_bytes == here.holder.count(None) * UNIT
        assert arena.free_bytes + sum(extent.size for extent in arena.held()) == arena.capacity
        assert arena.gaps() == tuple((start * UNIT, length * UNIT) for start, length in here.holes())
        assert sorted(held, key=lambda extent: extent.offset) == list(arena.held())
    return here


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
@settings(max_examples=2 * settings.default.max_examples)
def test_every_answer_is_the_rules_and_no_unit_is_lost_or_held_twice(kind, steps):
    arena = kind(UNIT * UNITS)

    here = play(arena, steps)

    assert audit(arena.ledger) == []
    assert Account(arena.ledger).at(arena.ledger.end_ns).free == here.holder.count(None) * UNIT


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS, order=st.randoms(use_true_random=False))
def test_whatever_happened_before_freed_neighbours_are_one_stretch_again(kind, steps, order):
    arena = kind(UNIT * UNITS)
    play(arena, steps)
    held = list(arena.held())
    order.shuffle(held)

    for extent in held:
        arena.free(extent)

    assert arena.allocate(arena.capacity).offset == 0


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
def test_an_extent_is_freed_once_whatever_happened_since(kind, steps):
    arena = kind(UNIT * UNITS)
    extent = arena.allocate(1)
    arena.free(extent)
    play(arena, [])
    arena.clock.advance_to(1)

    for size in (number for verb, number in steps if verb == "alloc"):
        try:
            arena.allocate(size)
        except OutOfMemory:
            break
    before = (arena.held(), arena.free_bytes, len(arena.ledger))
    with pytest.raises(AllocatorFault):
        arena.free(extent)

    assert (arena.held(), arena.free_bytes, len(arena.ledger)) == before


TRACES = st.lists(st.tuples(st.integers(0, 9), st.integers(1, UNIT * 30), st.integers(0, 30)), max_size=40)


def trace_of(drawn) -> list[ByteClaim]:
    now_ns, claims = 0, []
    for gap_ns, size, hold_ns in drawn:
        now_ns += gap_ns
        claims.append(ByteClaim(now_ns, size, hold_ns))
    return claims


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wait", [True, False])
@given(drawn=TRACES)
def test_a_replay_grants_all_that_can_be_in_order_of_arrival_and_gives_all_back(kind, wait, drawn):
    arena, trace = kind(UNIT * UNITS), trace_of(drawn)

    ledger = replay(trace, arena, wait=wait)

    granted = [fact.claim for fact in ledger.of(Granted)]
    possible = [n for n, claim in enumerate(trace) if claim.size <= arena.capacity]
    assert audit(ledger) == []
    assert arena.held() == ()
    assert granted == sorted(granted)
    assert (granted == possible) if wait else (set(granted) <= set(possible))
    since = {fact.claim: fact.time_ns for fact in ledger.of(Granted)}
    assert {f.claim: f.time_ns - since[f.claim] for f in ledger.of(Freed)} == {
        claim: trace[claim].hold_ns for claim in granted
    }


@pytest.mark.parametrize("kind", KINDS)
@given(drawn=TRACES)
def test_a_ledger_survives_the_way_to_a_file_and_back(kind, drawn, tmp_path_factory):
    ledger = replay(trace_of(drawn), kind(UNIT * UNITS))
    path = tmp_path_factory.getbasetemp() / f"{kind.__name__}.jsonl"

    ledger.to_jsonl(path)

    assert Ledger.from_jsonl(path) == ledger
