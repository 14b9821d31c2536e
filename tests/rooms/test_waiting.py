"""The second gauge: each part by itself, odd ledgers, and who was ahead."""

from dataclasses import astuple

import pytest

from gpulab.errors import BrokenLaw
from gpulab.report.waiting import Behind, Total, Waiting
from gpulab.telemetry.events import (
    Answered,
    Arrived,
    Claimed,
    Closed,
    Dropped,
    Finished,
    Freed,
    Granted,
    Grew,
    Joined,
    Opened,
    Preempted,
    Prefilled,
    Stepped,
    TimedOut,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units

KV = Opened(0, "kv", 4, "block")


def came(request, time_ns, tenant="chat"):
    return Arrived(time_ns, request, f"r{request}", tenant, 2, 9)


def wants(request, time_ns, size, claim=None, where="kv"):
    claim = request if claim is None else claim
    return Claimed(time_ns, claim, where, size, Units(size), f"r{request}")


def step(start_ns, end_ns, *, where="kv", host_ns=0, steps=1):
    return Stepped(end_ns, where, start_ns, steps, 0, 0, (end_ns - start_ns) * 1000 // steps, 0, host_ns)


def parts(ledger, request=0):
    """alone, slowed, behind, blocked, outside."""
    return astuple(Waiting(Ledger(ledger))[request])[5:10]


def test_what_a_request_takes_alone_is_alone_and_the_rest_of_its_steps_is_slowed():
    facts = [
        KV,
        came(0, 0),
        wants(0, 0, 1),
        Granted(0, 0, -1, 1),
        step(0, 6),
        Finished(6, 0, 1, 4),
        Freed(6, 0),
    ]

    assert parts(facts) == (4, 2, 0, 0, 0)
    facts[5] = Finished(6, 0, 1, 6)
    assert parts(facts) == (6, 0, 0, 0, 0)


def test_work_that_is_done_twice_is_slowed():
    facts = [
        KV,
        came(0, 0),
        wants(0, 0, 1),
        Granted(0, 0, -1, 1),
        step(0, 6),
        Preempted(6, 0, 0),
        Freed(6, 0),
    ]
    facts += [wants(0, 6, 1, claim=1), Granted(6, 1, -1, 1), step(6, 12), Finished(12, 0, 1, 6), Freed(12, 1)]

    assert parts(facts) == (6, 6, 0, 0, 0)


def test_a_claim_in_reach_is_blocked_and_behind_as_soon_as_it_is_not():
    facts = [KV, came(0, 0), wants(0, 0, 3), came(1, 2), wants(1, 2, 2), Granted(5, 1, -1, 2)]
    facts += [Freed(9, 1), Closed(12)]

    # 0-2 alone in the line; 2-5 the smaller one goes first and leaves 2; 5-9 two are held; 9-12 nothing is
    assert parts(facts) == (0, 0, 3 + 4, 2 + 3, 0)


def test_a_request_that_can_never_fit_is_behind_although_nobody_holds_anything():
    facts = [KV, came(0, 0), wants(0, 0, 5), Closed(7)]

    assert parts(facts) == (0, 0, 7, 0, 0)
    assert Waiting(Ledger(facts)).behind(0) == []


def test_a_claim_that_has_room_and_no_place_is_blocked():
    facts = [Opened(0, "kv", 6, "B")]
    for claim, start in enumerate((1, 4), 7):
        facts += [Claimed(0, claim, "kv", 1, Contiguous(1), "other"), Granted(0, claim, start, 1)]
    facts += [came(0, 0), Claimed(0, 0, "kv", 3, Contiguous(3), "r0"), Closed(5)]

    assert parts(facts) == (0, 0, 0, 5, 0)


def test_a_claim_joined_to_one_that_is_out_of_reach_is_behind():
    facts = [KV, Opened(0, "seat", 1, "seat"), Claimed(0, 8, "seat", 1, Units(1), "x"), Granted(0, 8, 0, 1)]
    facts += [
        came(0, 0),
        wants(0, 0, 2),
        wants(0, 0, 1, claim=1, where="seat"),
        Joined(0, 1, 0),
        Freed(4, 8),
        Closed(6),
    ]

    assert parts(facts) == (0, 0, 4, 2, 0)


def test_outside_is_before_the_claim_while_no_step_runs_in_the_hosts_part_of_one_and_after_the_end():
    facts = [KV, came(0, 1), wants(0, 3, 1), Granted(3, 0, -1, 1)]  # 2 before
    facts += [step(5, 13, host_ns=1, steps=2), step(14, 16)]  # 2 before the steps, 2 of them, 1 between
    facts += [Finished(17, 0, 1, 8), Freed(17, 0), Answered(20, 0), Closed(30)]  # 1 and 3 after

    assert parts(facts) == (8, 0, 0, 0, 2 + 2 + 2 + 1 + 1 + 3)


def test_a_preempted_request_without_a_claim_is_outside_and_waits_again_with_its_next():
    facts = [
        KV,
        came(0, 0),
        wants(0, 0, 1),
        Granted(0, 0, -1, 1),
        step(0, 4),
        Preempted(4, 0, 0),
        Freed(4, 0),
    ]
    facts += [wants(0, 7, 1, claim=1), Granted(9, 1, -1, 1), step(9, 12), Finished(12, 0, 1, 5), Freed(12, 1)]

    assert parts(facts) == (5, 2, 0, 2, 3)


@pytest.mark.parametrize("gone", [Withdrawn, TimedOut])
def test_a_claim_that_is_given_up_leaves_its_request_outside_until_the_next(gone):
    facts = [KV, came(0, 0), wants(0, 0, 1), gone(3, 0), wants(0, 5, 1, claim=1), Closed(6)]

    assert parts(facts) == (0, 0, 0, 3 + 1, 2)


def test_claims_made_while_served_change_nothing():
    facts = [KV, came(0, 0), wants(0, 0, 1), Granted(0, 0, -1, 1), wants(0, 1, 4, claim=1), step(0, 6)]
    facts += [Finished(6, 0, 1, 6), Freed(6, 0)]

    assert parts(facts) == (6, 0, 0, 0, 0)


def test_steps_are_cut_where_the_service_begins_and_ends():
    facts = [KV, came(0, 0), wants(0, 0, 1), Granted(3, 0, -1, 1)]
    facts += [
        Dropped(11, 0, "aborted"),
        Freed(11, 0),
        step(0, 18, host_ns=2, steps=3),
    ]  # steps of 6: host at 0, 6, 12

    assert parts(facts) == (0, (6 - 3) + (11 - 8), 0, 3, 2)


def test_steps_of_growing_length_are_cut_to_the_nanosecond():
    stretch = Stepped(0, "kv", 0, 5, 0, 0, 2500, 700, 1)
    stretch.time_ns = stretch.end_of(5)
    assert [stretch.end_of(k) for k in range(6)] == [0, 2, 5, 9, 14, 19]
    for start in range(20):
        for end in range(start, 20):
            facts = [
                KV,
                came(0, 0),
                wants(0, 0, 1),
                Granted(start, 0, -1, 1),
                Dropped(end, 0, "aborted"),
                stretch,
            ]
            slow = sum(t not in {0, 2, 5, 9, 14} for t in range(start, end))
            assert parts(facts)[1] == slow, (start, end)


def test_each_request_is_served_by_the_steps_of_its_own_resource():
    facts = [KV, Opened(0, "kv2", 4, "block"), came(0, 0), wants(0, 0, 1), Granted(0, 0, -1, 1), came(1, 0)]
    facts += [wants(1, 0, 1, where="kv2"), Granted(0, 1, -1, 1), step(0, 3, where="kv2"), step(0, 5)]
    facts += [Finished(5, 0, 1, 5), Finished(5, 1, 1, 3)]

    assert [parts(facts, request) for request in (0, 1)] == [(5, 0, 0, 0, 0), (3, 0, 0, 0, 2)]


def test_of_a_request_that_did_not_finish_nothing_is_alone():
    facts = [KV, came(0, 2), wants(0, 2, 1), Granted(2, 0, -1, 1), step(2, 6)]

    (cut,) = Waiting(Ledger(facts)).requests
    assert (astuple(cut)[5:10], cut.outcome, cut.end_ns, cut.latency_ns) == ((0, 4, 0, 0, 0), "open", 6, 4)
    (gone,) = Waiting(Ledger([*facts, Dropped(6, 0, "aborted"), Closed(9)])).requests
    assert (astuple(gone)[5:10], gone.outcome, gone.end_ns) == ((0, 4, 0, 0, 0), "aborted", 6)


def test_who_held_the_units_is_told_with_time_and_amount_the_most_first():
    facts = [KV, came(0, 0, "code"), wants(0, 0, 1), Granted(0, 0, -1, 1), came(1, 1), wants(1, 1, 3)]
    facts += [Granted(1, 1, -1, 3), came(2, 2), wants(2, 2, 4), Freed(5, 1), Grew(6, 0, 2), Freed(8, 0)]
    facts += [Granted(9, 2, -1, 4), Closed(10)]
    elsewhere = Claimed(0, 9, "kv2", 4, Units(4), "other"), Granted(0, 9, -1, 4)
    facts[1:1] = [Opened(0, "kv2", 4, "block"), *elsewhere]

    assert Waiting(Ledger(facts)).behind(2) == [
        Behind("r0", "code", 6, 1 * 4 + 3 * 2),
        Behind("r1", "chat", 3, 3 * 3),
    ]
    assert parts(facts, 2) == (0, 0, 6, 1, 1)


def test_totals_are_for_all_or_for_a_tenant():
    facts = [KV, came(0, 0, "code"), wants(0, 0, 4), Granted(0, 0, -1, 4), came(1, 1), wants(1, 2, 3)]
    waiting = Waiting(Ledger([*facts, step(0, 6), Finished(6, 0, 1, 5), Freed(6, 0), Closed(7)]))

    assert waiting.total() == Total(2, 6 + 6, 5, 1, 4, 1, 1)
    assert waiting.total("code") == Total(1, 6, 5, 1, 0, 0, 0)
    assert waiting.total("nobody") == Total(0, 0, 0, 0, 0, 0, 0)
    assert repr(waiting) == (
        "<Waiting: 2 requests: alone 5 ns, slowed 1 ns, behind 4 ns, blocked 1 ns, outside 1 ns>"
    )


@pytest.mark.parametrize("facts", [[], [Closed(3)], [KV], [KV, wants(0, 0, 1), Closed(3)]], ids=len)
def test_a_ledger_without_requests_says_so(facts):
    waiting = Waiting(Ledger(facts))

    assert (waiting.requests, repr(waiting)) == ([], "<Waiting: no request arrived in this ledger>")
    with pytest.raises(KeyError, match="no request 0 arrived in this ledger; 0 others did"):
        waiting[0]


CONTRADICTIONS = {
    "arrives twice": ([KV, came(0, 0), came(0, 1)], "request", 2),
    "finishes and was not served": ([KV, came(0, 0), Finished(1, 0, 1, 1)], "request", 2),
    "faster than alone": (
        [KV, came(0, 0), wants(0, 0, 1), Granted(0, 0, -1, 1), step(0, 3), Finished(3, 0, 1, 4)],
        "slowed",
        5,
    ),
    "stretches that overlap": ([KV, step(0, 3), step(2, 4)], "steps", 2),
    "more granted than there is": ([KV, wants(0, 0, 5), Granted(0, 0, -1, 5)], "capacity", 2),
    "a prompt of nobody": ([KV, Prefilled(0, 3, 1)], "request", 1),
}


@pytest.mark.parametrize(("facts", "law", "event"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_ledger_that_contradicts_itself_is_told_with_the_fact_that_does(facts, law, event):
    with pytest.raises(BrokenLaw, match=rf"#{event}.*un the audit for the story") as broken:
        Waiting(Ledger(facts))

    assert (broken.value.law, broken.value.numbers) == (law, {"event": event})
