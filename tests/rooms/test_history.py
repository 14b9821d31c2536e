"""A snapshot's history told as facts: what PyTorch's events leave out is found, what contradicts is mended."""

import pytest

from gpulab.errors import TraceFault
from gpulab.memory.history import retell
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import PyTorchPool
from gpulab.memory.snapshot_rows import snapshot_from
from gpulab.memory.to_snapshot import to_snapshot
from gpulab.report.account import Account, levels
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Freed, Granted, Refused, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, MiB

AT = 1 << 46


def event(action, address=AT, size=0, **more):
    return {"action": action, "addr": address, "size": size, "stream": 0, **more}


def segment(*blocks, address=AT, **more):
    """Blocks are ``(size, state)``, or ``(size, state, asked)``."""
    rows = [
        {"size": size, "state": state, "requested_size": asked[0] if asked else size}
        for size, state, *asked in blocks
    ]
    total = sum(row["size"] for row in rows)
    return {"address": address, "total_size": total, "device": 0, "stream": 0, "blocks": rows, **more}


def told(*segments, trace=(), capacity=None, **settings):
    plain = {"segments": list(segments), "device_traces": [list(trace)], "allocator_settings": settings}
    retold = retell(snapshot_from(plain), capacity=capacity)
    check(retold.ledger)
    return retold


def held(ledger: Ledger) -> list[tuple[int, int, str]]:
    """What is held of the pool at the end: ``(asked, granted, owner)`` in order of address."""
    claims = {fact.claim: fact for fact in ledger.of(Claimed)}
    grants = {fact.claim: fact for fact in ledger.of(Granted) if claims[fact.claim].resource == "pool"}
    for fact in ledger.of(Freed):
        grants.pop(fact.claim, None)
    return [
        (claims[fact.claim].size, fact.size, claims[fact.claim].owner)
        for fact in sorted(grants.values(), key=lambda fact: fact.start)
    ]


def at_the_end(ledger: Ledger, level: str):
    return Account(ledger, level).at(ledger.end_ns)


# -- the last state alone ------------------------------------------------------------------------


def test_a_state_without_history_is_told_at_once_with_its_rounding_and_what_waits_for_a_stream():
    retold = told(segment((1024, "active_allocated", 700), (512, "active_awaiting_free"), (512, "inactive")))

    assert held(retold.ledger) == [(700, 1024, f"block at {AT:#x}"), (512, 512, f"block at {AT + 1024:#x}")]
    terms = at_the_end(retold.ledger, "pool→extent")
    assert (terms.used, terms.stranded, terms.free) == (700, 324 + 512, 512)
    assert at_the_end(retold.ledger, "device→pool").stranded == 512


def test_the_most_that_was_reserved_stands_for_a_device_whose_size_nobody_says():
    retold = told(segment((512, "inactive")))
    assert at_the_end(retold.ledger, "device→pool").capacity == 512
    assert "does not say how large the device is: the most that was reserved, 512 B" in retold.notes[0]

    given = told(segment((512, "inactive")), capacity=4096)
    assert at_the_end(given.ledger, "device→pool").capacity == 4096
    assert given.notes == ()


def test_owners_without_a_stack_are_their_blocks_and_the_reader_is_told():
    assert (
        told(segment((512, "active_allocated"))).notes[-1].startswith("Of some blocks no stack was recorded")
    )


def test_segments_that_happen_to_touch_are_no_stretch():
    """A claim of 2 MiB does not fit into two holes of 1 MiB of which one ends where the other begins."""
    first = segment((1 * MiB, "active_allocated"), (1 * MiB, "inactive"))
    second = segment((1 * MiB, "inactive"), (1 * MiB, "active_allocated"), address=AT + 2 * MiB)
    oom = {"action": "oom", "device_free": 0, "size": 2 * MiB, "stream": 0}

    retold = told(first, second, trace=[oom])

    terms = at_the_end(retold.ledger, "device→extent")
    assert (terms.fragmented, terms.unscheduled, terms.spare) == (2 * MiB, 0, 0)


# -- a history -----------------------------------------------------------------------------------


def test_a_history_that_starts_in_the_middle_is_undone_to_find_its_start():
    trace = [
        event("free_requested", AT + 512, 300, time_us=100),
        event("free_completed", AT + 512, 300, time_us=100),
        event("alloc", AT + 512, 400, time_us=103),
    ]

    ledger = told(
        segment((512, "active_allocated"), (512, "active_allocated", 400), (512, "inactive")), trace=trace
    ).ledger

    account = Account(ledger, "pool→extent")
    assert (account.at(0).used, account.at(0).stranded) == (512 + 300, 212)
    assert (account.at(1_999).used, account.at(1_999).free) == (512, 1024)
    assert (account.at(4_000).used, account.at(4_000).stranded) == (912, 112)
    assert ledger.end_ns == 5_000


def test_a_segment_that_was_there_and_went_back_was_there_at_the_start():
    trace = [event("segment_free", AT + 4096, 2048), event("segment_alloc", AT + 8192, 1024)]

    ledger = told(segment((1024, "inactive"), address=AT + 8192), trace=trace).ledger

    account = Account(ledger, "device→pool")
    assert [account.at(t).stranded for t in (0, 1_000, 2_000)] == [2048, 0, 1024]


@pytest.mark.parametrize(
    ("asked", "settings", "granted"),
    [
        (700, {}, 1024),
        (3 * MiB, {}, 3 * MiB),
        (int(19.5 * MiB), {}, 20 * MiB),
        (25 * MiB, {"max_split_size": 22 * MiB}, 40 * MiB),
    ],
    ids=["rounded", "cut", "rest of 0.5 MiB kept", "oversize"],
)
def test_what_was_granted_follows_from_the_rule_where_the_block_is_gone(asked, settings, granted):
    whole = 40 * MiB if asked > 20 * MiB else 20 * MiB
    trace = [
        event("segment_alloc", AT, whole),
        event("alloc", AT, asked),
        event("free_requested", AT, asked),
        event("free_completed", AT, asked),
    ]

    ledger = told(segment((whole, "inactive")), trace=trace, **settings).ledger

    assert [fact.size for fact in ledger.of(Granted)] == [whole, granted]


def test_a_segment_that_touches_another_is_no_room_for_its_blocks():
    """Else 19.5 MiB at the end of the first would seem to leave more than 1 MiB, and be cut."""
    trace = [event("alloc", AT, int(19.5 * MiB)), event("free_completed", AT, int(19.5 * MiB))]
    both = segment((20 * MiB, "inactive")), segment((20 * MiB, "inactive"), address=AT + 20 * MiB)

    assert told(*both, trace=trace).ledger.of(Granted)[-1].size == 20 * MiB


def test_a_block_from_before_the_history_keeps_its_rest_up_to_the_next_block():
    trace = [event("free_completed", AT, int(19.5 * MiB))]

    ledger = told(segment((20 * MiB, "inactive"), (20 * MiB, "active_allocated")), trace=trace).ledger

    assert sorted(fact.size for fact in ledger.of(Granted)) == [20 * MiB, 20 * MiB, 40 * MiB]


def test_a_block_that_is_still_there_says_what_it_was_granted():
    """Settings may round otherwise (roundup_power2_divisions): 700 B took 2,048 here."""
    trace = [event("segment_alloc", AT, 4096), event("alloc", AT, 700)]

    retold = told(segment((2048, "active_allocated", 700), (2048, "inactive")), trace=trace)

    assert not any("contradicts" in note for note in retold.notes)
    assert held(retold.ledger) == [(700, 2048, f"block at {AT:#x}")]


def test_a_block_waits_for_a_stream_between_the_request_to_free_it_and_the_end_of_that():
    trace = [
        event("segment_alloc", AT, 1024),
        event("alloc", AT, 1024),
        event("free_requested", AT, 1024),
        event("snapshot"),
        event("free_completed", AT, 1024),
    ]

    account = Account(told(segment((1024, "inactive")), trace=trace).ledger, "pool→extent")

    stranded = [account.at(step * 1_000 + 999).stranded for step in range(5)]
    assert stranded == [0, 0, 1024, 1024, 0]


def test_the_claim_that_failed_waits_until_as_much_is_given():
    trace = [
        event("segment_alloc", AT, 4 * MiB),
        event("alloc", AT, 4 * MiB),
        {"action": "oom", "device_free": 1 * MiB, "size": 2 * MiB, "stream": 0},
        event("free_requested", AT, 4 * MiB),
        event("free_completed", AT, 4 * MiB),
        event("alloc", AT, 2 * MiB),
    ]

    retold = told(segment((2 * MiB, "active_allocated"), (2 * MiB, "inactive")), trace=trace)

    pool, device = retold.ledger.of(Refused)[1], retold.ledger.of(Refused)[0]
    assert (device.free, device.largest) == (1 * MiB, 1 * MiB)
    assert (pool.free, pool.largest) == (1 * MiB, 1 * MiB)
    assert [fact.claim for fact in retold.ledger.of(Withdrawn)] == [pool.claim, device.claim]
    account = Account(retold.ledger, "device→extent")
    assert [account.at(step * 1_000 + 999).unscheduled for step in range(6)] == [0, 0, 0, 0, 2 * MiB, 0]
    assert retold.notes[0] == "The allocator could reach 5 MiB of the device when the claim failed."


def test_of_two_failures_the_last_one_counts_and_the_largest_hole_is_told():
    ooms = [{"action": "oom", "device_free": free, "size": 8192, "stream": 0} for free in (2048, 512)]

    ledger = told(segment((512, "active_allocated"), (1024, "inactive")), trace=ooms).ledger

    assert at_the_end(ledger, "device→pool").capacity == 1536 + 512
    assert [(fact.free, fact.largest) for fact in ledger.of(Refused)][-2:] == [(512, 512), (1536, 1024)]
    assert len(ledger.of(Withdrawn)) == 2


def test_what_others_hold_of_the_device_is_no_capacity_of_this_allocator():
    oom = {"action": "oom", "device_free": 1024, "size": 4096, "stream": 0}

    retold = told(segment((512, "active_allocated")), trace=[oom], capacity=8192)

    assert at_the_end(retold.ledger, "device→pool").capacity == 1536
    assert retold.notes[1] == "6.50 KiB of the device were held outside this allocator."


def test_a_capacity_below_what_was_reserved_is_refused():
    with pytest.raises(TraceFault, match=r"The capacity 512 B is less than the 1 KiB"):
        told(segment((1024, "inactive")), capacity=512)


def test_events_of_one_microsecond_keep_their_order_in_time():
    trace = [event("segment_alloc", AT, 512, time_us=7)] + [
        event(action, AT, 512, time_us=7) for _ in range(3) for action in ("alloc", "free_completed")
    ]

    ledger = told(segment((512, "inactive")), trace=trace).ledger

    times = [fact.time_ns for fact in ledger.of(Granted, Freed)]
    assert times == sorted(set(times)) == [0, 1, 2, 3, 4, 5, 6]


def test_a_clock_that_runs_back_between_threads_is_held():
    trace = [event("segment_alloc", AT, 512, time_us=7), event("alloc", AT, 512, time_us=3)]
    assert told(segment((512, "active_allocated")), trace=trace).ledger.end_ns == 1 + 1_000


# -- expandable segments -------------------------------------------------------------------------


def pages():
    """Three pages of 2 MiB are mapped, a block crosses two of them, the last is unmapped again."""
    return [
        event("segment_map", AT, 2 * MiB),
        event("segment_map", AT + 2 * MiB, 2 * MiB),
        event("alloc", AT + 1 * MiB, 2 * MiB),
        event("segment_map", AT + 4 * MiB, 2 * MiB),
        event("segment_unmap", AT + 4 * MiB, 2 * MiB),
    ]


def test_a_block_may_cross_pages_that_touch():
    end = segment(
        (1 * MiB, "inactive"), (2 * MiB, "active_allocated"), (1 * MiB, "inactive"), is_expandable=True
    )

    ledger = told(end, trace=pages()).ledger

    account = Account(ledger, "device→pool")
    assert [account.at(step * 1_000 + 999).used // MiB for step in range(5)] == [0, 0, 2, 2, 2]
    assert [account.at(step * 1_000 + 999).stranded // MiB for step in range(5)] == [2, 4, 2, 4, 2]
    assert at_the_end(ledger, "pool→extent").free == 2 * MiB


def test_pages_unmapped_in_the_middle_of_a_mapped_run_went_back_alone():
    """At the start one run of 6 MiB was mapped; the snapshot ends with two runs."""
    trace = [event("segment_unmap", AT + 2 * MiB, 2 * MiB)]
    ends = [segment((2 * MiB, "inactive"), address=AT + n * MiB, is_expandable=True) for n in (0, 4)]

    account = Account(told(*ends, trace=trace).ledger, "device→pool")

    assert [account.at(t).stranded // MiB for t in (0, 1_000)] == [6, 4]


def test_a_run_mapped_at_once_may_go_back_in_parts():
    trace = [event("segment_map", AT, 6 * MiB), event("segment_unmap", AT + 2 * MiB, 2 * MiB)]
    ends = [segment((2 * MiB, "inactive"), address=AT + n * MiB, is_expandable=True) for n in (0, 4)]

    retold = told(*ends, trace=trace)

    account = Account(retold.ledger, "device→pool")
    assert [account.at(step * 1_000 + 999).stranded // MiB for step in (0, 1)] == [6, 4]
    assert not any("contradicts" in note for note in retold.notes)


# -- what contradicts itself ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "trace",
    [
        [event("free_completed", AT + 512, 512)] * 2,
        [event("alloc", AT + 4096, 512)],
        [event("alloc", AT, 512), event("alloc", AT, 512), event("alloc", AT + 100, 2000)],
        [event("segment_free", AT, 1024)],
        [event("segment_free", AT, 512)],
        [
            event("segment_alloc", AT, 1024),
            event("segment_alloc", AT, 2048),
            event("segment_alloc", AT + 5, 100),
        ],
        [event("segment_alloc", AT, 0), event("alloc", AT, 0), event("segment_map", AT, 0)],
        [event("segment_map", AT, 100), event("segment_unmap", AT + 50, 100)],
    ],
)
def test_a_history_that_contradicts_the_last_state_ends_in_it_keeps_all_laws_and_says_so(trace):
    end = segment((512, "active_allocated"), (512, "inactive"))

    retold = told(end, trace=trace)

    assert [granted for _, granted, _ in held(retold.ledger)] == [512]
    assert (
        at_the_end(retold.ledger, "device→pool").free + 1024
        == at_the_end(retold.ledger, "device→pool").capacity
    )
    if any(row["size"] for row in trace):
        assert "the history contradicts itself or the last state; the later is believed" in retold.notes[-1]


def test_events_left_out_are_told():
    retold = told(segment((512, "inactive")), trace=[{"action": "new_one"}])
    assert "1 events with an action unknown here were left out: new_one." in retold.notes


# -- several devices -----------------------------------------------------------------------------


def two_devices(*failed: int):
    traces = [[], []]
    for order, device in enumerate(failed):
        oom = {"action": "oom", "device_free": 0, "size": 512, "stream": 0, "time_us": order}
        traces[device].append(oom)
    segments = [segment((2048, "inactive")), {**segment((1024, "inactive")), "device": 1}]
    return snapshot_from({"segments": segments, "device_traces": traces})


def test_the_device_that_failed_last_is_told_else_the_fullest_else_the_one_asked_for():
    def reserved(*failed: int, device=None) -> int:
        ledger = retell(two_devices(*failed), device).ledger
        return at_the_end(ledger, "device→pool").stranded

    assert reserved() == 2048
    assert reserved(1) == 1024
    assert reserved(1, 0) == 2048
    assert reserved(1, 0, device=1) == 1024


def test_a_device_that_is_not_in_the_snapshot_is_refused_with_those_that_are():
    with pytest.raises(TraceFault, match="There is nothing of device 5 in this snapshot; there is: 0, 1"):
        retell(two_devices(), 5)


def test_the_replay_tells_how_far_it_is():
    told_how: list = []
    trace = [event(action, AT, 512) for _ in range(5_000) for action in ("alloc", "free_completed")]
    plain = {"segments": [segment((512, "inactive"))], "device_traces": [trace]}

    retell(snapshot_from(plain), tick=lambda *how: told_how.append(how))

    assert told_how == [("replaying", done, 10_000) for done in (0, 4096, 8192)]


# -- the way back --------------------------------------------------------------------------------


def test_a_pools_ledger_written_as_a_snapshot_gives_equal_accounts_at_every_step():
    steps = [
        ["alloc", "a", 700],
        ["alloc", "b", 3 * MiB],
        ["alloc", "c", int(14.5 * MiB)],
        ["free", "b"],
        ["alloc", "d", 40 * MiB],
        ["free", "d"],
        ["alloc", "e", 40 * MiB - 5],
        ["free", "a"],
        ["alloc", "f", 30 * MiB],
    ]
    ledger = run_operations(PyTorchPool(64 * MiB), steps)

    back = retell(snapshot_from(to_snapshot(ledger))).ledger

    check(back)
    for level in levels(ledger):
        before, after = Account(ledger, level), Account(back, level)
        for step in range(len(steps)):
            assert before.at(step * 1_000 + 999) == after.at(step * 1_000 + 999), (level, step)


def test_a_ledger_without_a_pool_is_no_snapshot():
    with pytest.raises(ValueError, match="no pool inside a device"):
        to_snapshot(Ledger())


def test_only_segments_of_2_mib_are_written_as_small():
    ledger = run_operations(PyTorchPool(80 * GiB), [["alloc", "a", 79 * GiB], ["alloc", "b", 1]])
    assert [part["segment_type"] for part in to_snapshot(ledger)["segments"]] == ["large", "small"]
