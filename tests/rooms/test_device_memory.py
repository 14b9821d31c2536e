"""Memory of the simulated device: what it costs, what races, and what a broken allocator cannot break."""

import numpy as np
import pytest

from gpulab.device.spec import load
from gpulab.errors import AllocatorFault, OutOfMemory, StreamFault
from gpulab.memory.allocator import Allocator
from gpulab.memory.arena import FirstFit
from gpulab.memory.pools import CuPyPool
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.telemetry.events import Freed, Granted, Refused
from gpulab.units import GiB, MiB
from tests.devices import ADD, WAIT, filled, sim

H100 = load("h100-80")


# -- costs -----------------------------------------------------------------------------------------


def test_asking_the_device_keeps_the_host_and_grows_with_the_size_up_to_a_most():
    device = sim()
    costs = []
    for size in (MiB, 64 * MiB, 40 * GiB):
        start_ns = device.now_ns()
        device.empty(size, "uint8")
        costs.append(device.now_ns() - start_ns)
    assert costs == [75_000, 1_020_000, 1_500_000]


def test_an_array_larger_than_this_machine_takes_none_of_its_memory_until_it_is_touched():
    device = sim()
    array = device.empty(70 * GiB, "uint8", owner="weights")
    assert (array.data, device.used_bytes, array.owner) == (None, 70 * GiB, "weights")


def test_the_devices_own_free_waits_until_the_device_is_idle():
    device = sim()
    array, stream = device.empty(MiB, "uint8"), device.stream()
    stream.launch(WAIT, [], grid=1, ns=900_000)
    over_ns = device.now_ns() + 900_000
    device.free(array)
    assert device.ledger.of(Freed)[0].time_ns == over_ns
    assert device.now_ns() == over_ns + H100.free_ns


def test_a_plugged_in_allocator_costs_a_hit_and_its_free_waits_for_nobody():
    device = sim(memory=FirstFit)
    start_ns = device.now_ns()
    array = device.empty(MiB, "uint8")
    assert device.now_ns() - start_ns == H100.pool_hit_ns
    device.stream().launch(WAIT, [], grid=1, ns=900_000)
    start_ns = device.now_ns()
    device.free(array)
    assert device.now_ns() - start_ns == H100.pool_hit_ns
    assert device.used_bytes == device.memory.capacity  # the slab


def test_a_pool_costs_a_hit_where_it_has_memory_and_more_where_it_must_ask():
    device = sim(memory=CuPyPool)
    start_ns = device.now_ns()
    array = device.empty(MiB, "uint8")
    assert device.now_ns() - start_ns == H100.pool_hit_ns + 75_000
    device.free(array)
    start_ns = device.now_ns()
    device.empty(MiB, "uint8")
    assert device.now_ns() - start_ns == H100.pool_hit_ns
    assert device.used_bytes == MiB


def test_a_pool_that_hands_back_waits_until_the_device_is_idle():
    device = sim(memory=CuPyPool)
    device.free(device.empty(60 * GiB, "uint8"))
    device.stream().launch(WAIT, [], grid=1, ns=900_000)
    over_ns = device.now_ns() + 900_000
    device.empty(70 * GiB, "uint8")  # does not fit beside the cached 60
    assert device.now_ns() == over_ns + H100.pool_hit_ns + H100.free_ns + 1_500_000
    check(device.ledger)


def test_what_a_pool_is_told_to_hand_back_is_paid_for_at_the_next_call():
    device = sim(memory=CuPyPool)
    device.free(device.empty(MiB, "uint8"))
    device.memory.free_all_blocks()
    start_ns = device.now_ns()
    device.empty(MiB, "uint8")
    assert device.now_ns() - start_ns == H100.pool_hit_ns + H100.free_ns + 75_000


# -- full, or wrong --------------------------------------------------------------------------------


def test_more_than_the_device_has_is_out_of_memory_with_the_numbers_and_the_claim_waits():
    device = sim()
    with pytest.raises(OutOfMemory) as full:
        device.empty(200 * GiB, "uint8", owner="too much")
    assert full.value.free == H100.usable_bytes
    assert device.ledger.of(Refused)
    device.memory.withdraw(full.value.claim)
    check(device.ledger)


def test_a_refused_claim_is_retried_by_its_serial():
    device = sim()
    first = device.empty(60 * GiB, "uint8")
    with pytest.raises(OutOfMemory) as full:
        device.empty(60 * GiB, "uint8")
    device.free(first)
    assert device.empty(60 * GiB, "uint8", claim=full.value.claim).extent.claim == full.value.claim
    check(device.ledger)


def test_freeing_twice_or_using_after_the_free_is_told_with_the_array():
    device = sim()
    array, stream = device.empty(4, owner="a"), device.stream()
    device.free(array)
    for use in (lambda: device.free(array), lambda: stream.copy_out(array)):
        with pytest.raises(StreamFault, match="after it was freed") as fault:
            use()
        assert fault.value.law == "freed"
    check(device.ledger)


class Overlapping(Allocator):
    """Gives everybody the first byte."""

    def place(self, size):
        return 0

    def reclaim(self, offset, size):
        pass


class Forgetful(Allocator):
    """Raises when bytes come back, and places by a number nobody can be."""

    def prepare(self):
        self.answers = [0, 4096, "here", 513]

    def place(self, size):
        return self.answers.pop(0)

    def reclaim(self, offset, size):
        raise RuntimeError("no idea")


def test_a_broken_allocator_is_named_and_breaks_nothing_of_the_device():
    device = sim(memory=Overlapping)
    stream = device.stream()
    good = filled(device, stream, [1, 2, 3])
    with pytest.raises(AllocatorFault) as fault:
        device.empty(3)
    assert fault.value.law == "overlap"
    stream.launch(ADD, [good, good], n=3)
    assert stream.copy_out(good, pinned=False).tolist() == [2, 4, 6]
    check(device.ledger)


def test_a_hook_that_raises_or_answers_nonsense_leaves_the_device_usable():
    device = sim(memory=Forgetful)
    stream = device.stream()
    first, second = filled(device, stream, [1]), filled(device, stream, [2])
    for words in ("here", "multiple of 512"):
        with pytest.raises(AllocatorFault, match=words):
            device.empty(1)
    with pytest.raises(AllocatorFault, match="no idea"):
        device.free(first)
    with pytest.raises(StreamFault, match="after it was freed"):
        device.free(first)
    stream.launch(ADD, [second, second], n=1)
    assert stream.copy_out(second, pinned=False).tolist() == [4]
    assert len(device.ledger.of(Granted)) == 2
    check(device.ledger)


# -- races -----------------------------------------------------------------------------------------


def two_streams(**more):
    device = sim(**more)
    return device, device.stream("a"), device.stream("b")


def test_reading_on_one_stream_what_another_still_writes_is_a_race():
    device, a, b = two_streams()
    array = filled(device, a, [1, 2])
    with pytest.raises(StreamFault) as fault:
        b.copy_out(array)
    assert fault.value.law == "race"
    assert "work #0 (copy in) on stream 'a' writes" in str(fault.value)
    assert "Set a mark on 'a'" in str(fault.value)
    assert "Sent(" in str(fault.value)  # the story
    check(device.ledger)


def test_writing_what_another_stream_still_reads_is_a_race():
    device, a, b = two_streams()
    array, total = filled(device, a, [1]), filled(device, a, [1])
    device.synchronize()
    a.launch(ADD, [array, total], n=1)
    with pytest.raises(StreamFault) as fault:
        b.copy_in(array, np.zeros(1, np.float32))
    assert (fault.value.law, fault.value.numbers["work"]) == ("race", 2)


def test_two_streams_may_read_the_same():
    device, a, b = two_streams()
    array = filled(device, a, [7])
    device.synchronize()
    first, second = a.copy_out(array), b.copy_out(array)
    device.synchronize()
    assert (first.tolist(), second.tolist()) == ([7], [7])


def test_a_mark_in_between_makes_it_lawful_also_through_a_third_stream():
    device, a, b = two_streams()
    c = device.stream("c")
    array = filled(device, a, [1])
    b.wait(a.mark())
    c.wait(b.mark())
    c.copy_in(array, np.full(1, 5, np.float32))
    assert c.copy_out(array, pinned=False).tolist() == [5]


def test_a_mark_set_before_the_work_orders_nothing():
    device, a, b = two_streams()
    array, mark = device.empty(1), a.mark()
    a.copy_in(array, np.zeros(1, np.float32))
    b.wait(mark)
    with pytest.raises(StreamFault, match="nothing makes it wait"):
        b.copy_out(array)


def test_a_race_is_a_race_even_if_the_clock_would_have_let_it_pass():
    device, a, b = two_streams()
    array = filled(device, a, [1])
    device.wait_until(10**9)  # long over, but the host did not ask
    with pytest.raises(StreamFault, match="nothing makes it wait"):
        b.copy_out(array)
    a.synchronize()
    assert b.copy_out(array, pinned=False).tolist() == [1]


def test_bytes_freed_and_granted_again_while_another_stream_uses_them_are_a_use_after_free():
    device, a, b = two_streams(memory=FirstFit)
    old = device.empty(128, owner="old")
    a.copy_in(old, np.zeros(128, np.float32))
    device.free(old)
    new = device.empty(128)
    assert new.extent.offset == old.extent.offset
    with pytest.raises(StreamFault) as fault:
        b.copy_in(new, np.ones(128, np.float32))
    assert fault.value.law == "use-after-free"
    assert "of 'old'" in str(fault.value)
    a.copy_in(new, np.ones(128, np.float32))  # the same stream: in order
    check(device.ledger)


def test_a_use_after_free_is_seen_through_a_grant_that_nobody_touched():
    device, a, b = two_streams(memory=FirstFit)
    old = device.empty(128)
    a.copy_in(old, np.zeros(128, np.float32))
    device.free(old)
    device.free(device.empty(64))
    with pytest.raises(StreamFault, match="use"):
        b.copy_out(device.empty(128))


def test_bytes_beside_the_freed_ones_are_nobodys():
    device, a, b = two_streams(memory=FirstFit)
    first, old, last = (device.empty(128) for _ in range(3))
    a.copy_in(old, np.zeros(128, np.float32))
    for array in (old, first, last):
        device.free(array)
    before, _, after = (device.empty(128) for _ in range(3))
    assert (before.extent.end, after.extent.offset) == (old.extent.offset, old.extent.end)
    for array in (before, after):
        b.copy_in(array, np.zeros(128, np.float32))


def test_a_later_free_does_not_make_an_earlier_one_forgotten():
    device, a, b = two_streams(memory=FirstFit)
    old, other = device.empty(128), device.empty(128)
    for array in (old, other):
        a.copy_in(array, np.zeros(128, np.float32))
    device.free(old)
    device.free(other)
    with pytest.raises(StreamFault) as fault:
        b.copy_out(device.empty(128))
    assert fault.value.law == "use-after-free"


def test_what_the_host_has_seen_end_is_forgotten():
    device, a, _ = two_streams(memory=FirstFit)
    for _ in range(20):
        array = filled(device, a, np.zeros(4))
        device.free(array)
        a.synchronize()
    assert len(device._ghosts) == 1  # the last, which nobody has looked at since


def test_a_mark_between_the_free_and_the_reuse_makes_it_lawful():
    device, a, b = two_streams(memory=FirstFit)
    old = device.empty(128)
    a.copy_in(old, np.zeros(128, np.float32))
    mark = a.mark()
    device.free(old)
    b.wait(mark)
    b.copy_in(device.empty(128), np.ones(128, np.float32))


def test_the_devices_own_memory_is_never_used_after_free_because_its_free_waits():
    device, a, b = two_streams()
    old = device.empty(128)
    a.copy_in(old, np.zeros(128, np.float32))
    device.free(old)
    b.copy_in(device.empty(128), np.ones(128, np.float32))


def test_a_refused_race_changes_nothing():
    device, a, b = two_streams()
    array = filled(device, a, [3])
    facts, now_ns = len(device.ledger), device.now_ns()
    with pytest.raises(StreamFault):
        b.copy_in(array, np.zeros(1, np.float32))
    assert len(device.ledger) - facts <= 2  # what the device did meanwhile
    assert device.now_ns() == now_ns + H100.launch_ns
    assert a.copy_out(array, pinned=False).tolist() == [3]
    check(device.ledger)


def test_an_account_reads_the_memory_of_a_device_like_any_other():
    device = sim(memory=CuPyPool)
    device.empty(MiB, "uint8", owner="a")
    device.free(device.empty(3 * MiB, "uint8", owner="b"))
    terms = Account(device.ledger, "device→pool").at(device.ledger.end_ns)
    assert (terms.used, terms.stranded) == (MiB, 3 * MiB)
