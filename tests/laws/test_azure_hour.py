"""A real hour of chats through first fit: enough of it waits, no law breaks, and the account is exact."""

from dataclasses import astuple
from random import Random

import pytest

from gpulab.datasets import load
from gpulab.memory.arena import FirstFit
from gpulab.memory.pools import CuPyPool
from gpulab.memory.replay import claims_from, replay
from gpulab.report.account import Account, levels
from gpulab.report.audit import audit
from gpulab.telemetry.events import Claimed, Freed, Granted, Refused, Used
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB

CAPACITY = 12 * GiB


def hour() -> list:
    """The conversations of Azure's hour as claims of Llama 3 8B: 128 KiB a token, 400 steps a second."""
    return claims_from(load("azure-conv-2023"), bytes_per_token=131_072, step_ns=2_500_000)


@pytest.fixture(scope="module")
def ledgers() -> dict[str, Ledger]:
    """The hour through an arena, and through a pool: one level, and three."""
    return {"arena": replay(hour(), FirstFit(CAPACITY)), "pool": replay(hour(), CuPyPool(CAPACITY))}


@pytest.mark.parametrize("name", ["arena", "pool"])
def test_the_hour_breaks_no_law(ledgers, name):
    assert audit(ledgers[name]) == []


def test_at_least_one_claim_in_twenty_waits(ledgers):
    facts = ledgers["arena"]
    claimed = {fact.claim: fact.time_ns for fact in facts.of(Claimed)}
    granted = {fact.claim: fact.time_ns for fact in facts.of(Granted)}

    waited = {claim for claim, time_ns in claimed.items() if granted[claim] > time_ns}

    assert (len(claimed), len(waited)) == (19_366, 3_614)
    assert len(waited) >= len(claimed) * 5 // 100
    # Who is refused has waited; most others wait behind one who is, and are granted at their first try.
    assert {fact.claim for fact in facts.of(Refused)} <= waited
    assert len({fact.claim for fact in facts.of(Refused)}) == 936


def test_everything_is_granted_in_order_held_for_its_time_and_freed(ledgers):
    facts, trace = ledgers["arena"], hour()
    since = {fact.claim: fact.time_ns for fact in facts.of(Granted)}

    assert list(since) == list(range(19_366))
    assert {f.claim: f.time_ns - since[f.claim] for f in facts.of(Freed)} == {
        number: claim.hold_ns for number, claim in enumerate(trace)
    }


def held_at(ledger: Ledger, time_ns: int, resource: str) -> tuple[int, int]:
    """Units granted and units used of ``resource``, counted from the first fact on."""
    here = {fact.claim for fact in ledger.of(Claimed) if fact.resource == resource}
    size, used = {}, {}
    for fact in ledger.of(Granted, Used, Freed):
        if fact.time_ns > time_ns:
            break
        if fact.claim in here:
            match fact:
                case Granted():
                    size[fact.claim] = used[fact.claim] = fact.size
                case Used():
                    used[fact.claim] = fact.units
                case Freed():
                    del size[fact.claim], used[fact.claim]
    return sum(size.values()), sum(used.values())


CASES = [("arena", "arena→extent"), *(("pool", level) for level in levels(CuPyPool(512).ledger))]


@pytest.mark.parametrize(("name", "level"), CASES)
def test_the_identity_holds_to_the_byte_and_nanosecond_at_the_end_and_at_1000_instants(ledgers, name, level):
    ledger, draw = ledgers[name], Random(f"azure hour/{level}")
    account = Account(ledger, level)
    instants = sorted(draw.randrange(ledger.start_ns, ledger.end_ns + 1) for _ in range(1_000))

    for time_ns in instants:
        capacity, *terms = astuple(account.at(time_ns))
        window, *lasted = astuple(account(t1=time_ns))
        assert sum(terms) == capacity and min(terms) >= 0
        assert sum(lasted) == window and min(lasted) >= 0
        if level != "pool→extent":
            assert (capacity, window) == (CAPACITY, CAPACITY * (time_ns - ledger.start_ns))
    whole = account()
    pieces = [
        account(start, end) for start, end in zip([0, *instants], [*instants, ledger.end_ns], strict=True)
    ]
    assert astuple(whole) == tuple(sum(column) for column in zip(*map(astuple, pieces), strict=True))
    assert sum(astuple(whole)[1:]) == whole.capacity


@pytest.mark.parametrize(("name", "level"), CASES)
def test_what_is_used_and_stranded_is_what_the_facts_add_up_to(ledgers, name, level):
    ledger, account = ledgers[name], Account(ledgers[name], level)
    resource = {"device→pool": "device", "arena→extent": "arena"}.get(level, "pool")
    draw = Random(f"azure hour/facts/{level}")

    for _ in range(8):
        time_ns = draw.randrange(ledger.end_ns)
        granted, used = held_at(ledger, time_ns, resource)
        terms = account.at(time_ns)
        assert (terms.used + terms.stranded, terms.used) == (granted, used)


def test_the_next_level_holds_what_the_one_before_it_granted(ledgers):
    outer, inner, through = (Account(ledgers["pool"], level) for level in levels(ledgers["pool"]))
    draw = Random("azure hour/levels")

    for _ in range(200):
        time_ns = draw.randrange(outer.end_ns)
        granted = outer.at(time_ns).used + outer.at(time_ns).stranded
        assert inner.at(time_ns).capacity == granted
        assert through.at(time_ns).used == inner.at(time_ns).used
        assert through.at(time_ns).stranded == inner.at(time_ns).stranded
