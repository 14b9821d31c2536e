"""Snapshots: whatever a file says, its ledger keeps the laws; and what a pool did comes back unchanged."""

import pickle
from contextlib import suppress

from hypothesis import assume, given
from hypothesis import strategies as st

from gpulab.errors import OutOfMemory
from gpulab.memory.history import retell
from gpulab.memory.plain_pickle import NotPlain, read_plain_pickle
from gpulab.memory.pools import PyTorchPool
from gpulab.memory.snapshot_rows import ACTIONS, snapshot_from
from gpulab.memory.to_snapshot import to_snapshot
from gpulab.report.account import Account, levels
from gpulab.report.audit import audit
from gpulab.report.diagnosis import diagnose
from gpulab.telemetry.events import Refused
from gpulab.units import KiB, MiB

CAPACITY = 96 * MiB
LEAVES = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False) | st.text()
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(0, 300), inner, max_size=4)
    ),
)


@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_data_is_read_as_python_reads_it(value, protocol):
    data = pickle.dumps(value, protocol)
    assert read_plain_pickle(data) == pickle.loads(data)


@given(value=PLAIN, at=st.integers(0, 10_000), byte=st.integers(0, 255), tail=st.binary(max_size=20))
def test_a_pickle_with_a_wrong_byte_gives_plain_data_or_a_plain_refusal(value, at, byte, tail):
    data = bytearray(pickle.dumps(value, 4))
    data[at % len(data)] = byte
    for wrong in (bytes(data), b"\x80\x04" + tail):
        try:
            read_plain_pickle(wrong)
        except NotPlain:
            continue


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("alloc", "alloc", "free", "empty")),
        st.one_of(
            st.integers(1, 4 * KiB),
            st.integers(1, 3 * MiB),
            st.integers(1 * MiB, 48 * MiB),
            st.sampled_from((1 * MiB, 10 * MiB - 512, 19 * MiB + 512)),
        ),
    ),
    max_size=25,
)


def play(steps, last: int) -> PyTorchPool:
    """A pool after a byte at 0 ns, the steps (a refused claim is withdrawn at once), and a claim that may wait."""
    pool = PyTorchPool(CAPACITY)
    held = [pool.allocate(1)]
    pool.clock.advance_to(1_000)
    for verb, number in steps:
        try:
            if verb == "alloc":
                held.append(pool.allocate(number))
            elif verb == "free" and held:
                pool.free(held.pop(number % len(held)))
            elif verb == "empty":
                pool.free_all_blocks()
        except OutOfMemory as full:
            pool.withdraw(full.claim)
        pool.clock.advance_to(pool.clock.now_ns + 1_000)
    with suppress(OutOfMemory):
        pool.allocate(last)
    return pool


@given(steps=STEPS, last=st.integers(1, CAPACITY))
def test_a_pools_history_written_as_a_snapshot_and_read_again_gives_equal_accounts(steps, last):
    ledger = play(steps, last).ledger

    back = retell(snapshot_from(to_snapshot(ledger)), 0, capacity=CAPACITY).ledger

    assert audit(back) == []
    for level in levels(ledger):
        before, after = Account(ledger, level), Account(back, level)
        for time_ns in range(0, ledger.end_ns, 1_000):
            was = before.at(min(time_ns + 999, ledger.end_ns))
            now = after.at(min(time_ns + 999, back.end_ns))
            assert (was.used, was.stranded, was.free) == (now.used, now.stranded, now.free), (level, time_ns)
        if isinstance(ledger[-1], Refused):  # else a claim withdrawn long ago may still wait in the history
            assert before.at(ledger.end_ns) == after.at(back.end_ns)


@given(steps=STEPS, last=st.integers(1, CAPACITY))
def test_a_pools_last_state_alone_gives_what_is_used_stranded_and_free(steps, last):
    ledger = play(steps, last).ledger
    plain = to_snapshot(ledger, history=False)
    assume(plain["segments"])

    back = retell(snapshot_from(plain), capacity=CAPACITY).ledger

    for level in levels(ledger):
        was, now = Account(ledger, level).at(ledger.end_ns), Account(back, level).at(back.end_ns)
        assert (was.used, was.stranded, was.free) == (now.used, now.stranded, now.free)


@given(steps=STEPS, last=st.integers(1, CAPACITY), cut=st.integers(0, 100))
def test_a_history_of_which_the_beginning_is_lost_ends_in_the_same_state(steps, last, cut):
    ledger = play(steps, last).ledger
    plain = to_snapshot(ledger)
    plain["device_traces"][0] = plain["device_traces"][0][cut:]
    assume(plain["segments"])

    retold = retell(snapshot_from(plain), capacity=CAPACITY)

    assert audit(retold.ledger) == []
    assert not any("contradicts" in note for note in retold.notes)
    for level in levels(ledger):
        was = Account(ledger, level).at(ledger.end_ns)
        now = Account(retold.ledger, level).at(retold.ledger.end_ns)
        assert (was.used, was.stranded, was.free) == (now.used, now.stranded, now.free)


PLACES = st.integers(0, 12).map(lambda place: place * 512)
EVENTS = st.fixed_dictionaries(
    {
        "action": st.sampled_from(sorted(ACTIONS)),
        "addr": PLACES,
        "size": st.integers(0, 6).map(lambda size: size * 512) | st.integers(0, 3_000),
        "stream": st.integers(0, 1),
        "device_free": PLACES,
    },
    optional={"time_us": st.integers(0, 9)},
)
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {
            "size": st.integers(1, 3).map(lambda size: size * 512),
            "state": st.sampled_from(["active_allocated", "active_awaiting_free", "inactive"]),
        }
    ),
    min_size=1,
    max_size=5,
)


@given(trace=st.lists(EVENTS, max_size=25), blocks=BLOCKS, expandable=st.booleans(), at=PLACES)
def test_whatever_a_history_says_its_ledger_keeps_every_law_and_the_account_adds_up(
    trace, blocks, expandable, at
):
    total = sum(block["size"] for block in blocks)
    segment = {"address": at, "total_size": total, "blocks": blocks, "is_expandable": expandable}

    ledger = retell(snapshot_from({"segments": [segment], "device_traces": [trace]})).ledger

    assert audit(ledger) == []
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    idle = sum(block["size"] for block in blocks if block["state"] == "active_awaiting_free")
    terms = [Account(ledger, level).at(ledger.end_ns) for level in levels(ledger)]
    assert [sum((t.used, t.stranded, t.fragmented, t.unscheduled, t.spare)) for t in terms] == [
        t.capacity for t in terms
    ]
    assert terms[0].used == used + idle
    assert terms[0].used + terms[0].stranded == total
    found = diagnose(ledger)
    assert found.largest_free <= list(found.terms.values())[-1].free
    assert sum(loss.pinned for loss in found.losses) + found.liquid == list(found.terms.values())[-1].free
