"""Four plans for the KV cache on the same requests, read from their ledgers."""

import pytest

from gpulab.datasets import Request
from gpulab.errors import OutOfMemory
from gpulab.memory.reservation import PLANS, replay_plan, reserved_slots
from gpulab.mixes import chat_mix
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.telemetry.events import Granted

SMALL = chat_mix(60)
STEP_NS = 10


def blocks_of(tokens: int) -> int:
    return -(-tokens // 16) * 16


@pytest.mark.parametrize(("plan", "slots"), [("max", 2_048), ("pow2", 128), ("oracle", 64)])
def test_a_plan_in_one_stretch_reserves_a_power_of_two(plan, slots):
    # 20 prompt and 33 output tokens: pow2 guesses 64, 84 in all.
    assert reserved_slots(plan, Request(0, 20, 33), 2_048) == slots


def test_pow2_doubles_the_guess_for_the_output_and_not_the_sum():
    assert reserved_slots("pow2", Request(0, 100, 28), 2_048) == 256  # 100 + 32, then 256; 128 were the sum


@pytest.mark.parametrize("plan", PLANS)
def test_used_and_reserved_slots_are_exact_to_the_slot_and_nanosecond(plan):
    ledger = replay_plan(SMALL, plan, step_ns=STEP_NS)
    used = reserved = 0
    for request in SMALL:
        for step in range(1, request.output_tokens + 1):
            tokens = request.prompt_tokens + step
            used += STEP_NS * tokens
            reserved += STEP_NS * (
                blocks_of(tokens) if plan == "paged" else reserved_slots(plan, request, 2_048)
            )

    terms = Account(ledger)()

    assert (terms.used, terms.used + terms.stranded) == (used, reserved)
    assert (terms.fragmented, terms.unscheduled) == (0, 0)
    check(ledger)


def test_at_every_instant_a_paged_request_strands_less_than_a_block():
    ledger = replay_plan([Request(0, 20, 40)], "paged", step_ns=STEP_NS)
    series = Account(ledger).steps()
    assert [terms.used + terms.stranded for _, terms in series] == [32, 32, 48, 48, 64, 64, 0]
    assert max(terms.stranded for _, terms in series) < 16
    assert [time for time, _ in series] == [0, 110, 120, 270, 280, 390, 400]


def test_too_little_memory_is_said_and_not_waited_for():
    with pytest.raises(OutOfMemory):
        replay_plan([Request(0, 20, 40)], "max", slots=1_024)
    with pytest.raises(OutOfMemory):
        replay_plan([Request(0, 20, 40)], "paged", slots=48)


@pytest.mark.parametrize(("plan", "slots"), [("max", 2_048), ("oracle", 64), ("paged", 64)])
def test_what_ends_at_an_instant_makes_room_for_what_arrives_then(plan, slots):
    pair = [Request(0, 24, 40), Request(400, 24, 40)]
    ledger = replay_plan(list(reversed(pair)), plan, slots=slots, step_ns=STEP_NS)
    assert Account(ledger)().spare < Account(ledger)().capacity
    check(ledger)


def test_an_unknown_plan_lists_the_plans():
    with pytest.raises(ValueError, match="'min'; there are: max, pow2, oracle, paged"):
        replay_plan(SMALL, "min")


def test_a_plan_of_the_caller_is_granted_as_it_reserves_in_a_buddy_of_its_own_unit():
    requests = [Request(0, 20, 20), Request(5, 30, 10)]
    ledger = replay_plan(requests, "oracle", slots=24 * 16, unit=24, reserve=lambda request: 96)
    assert [fact.size for fact in ledger.of(Granted)] == [96, 96]
