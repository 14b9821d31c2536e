"""gpulab/device/sim.py, streams.py, engine.py, multiprocessors.py: when things run, in whole nanoseconds."""

import numpy as np
import pytest

from gpulab.device.engine import Work
from gpulab.device.multiprocessors import Multiprocessors
from gpulab.device.spec import load, parse
from gpulab.errors import KernelFault, StreamFault
from gpulab.report.audit import check
from gpulab.telemetry.events import Attached, Ended, Launched, Marked, Occupied, Sent, Waited
from gpulab.units import KiB, MiB
from tests.devices import ADD, BROAD, BUSY, ROOMY, WAIT, filled, mover, runs, sim

H100 = load("h100-80")
SLOTS = H100.sms * 32  # blocks of 64 threads that are resident at once


@pytest.fixture
def device():
    """A simulated H100 whose ledger keeps every law when the test is over."""
    made = sim()
    yield made
    made.synchronize()
    check(made.ledger)


# -- one stream ------------------------------------------------------------------------------------


def test_the_first_fact_says_which_device_it_is_what_its_times_are_worth_and_why(device):
    assert device.ledger[0] == Attached(
        0,
        "NVIDIA H100 80GB HBM3",
        "sim",
        132,
        3_350_000_000_000,
        "simulated: NVIDIA H100 80GB HBM3, published constants",
        "sim was asked for",
    )


def test_a_launch_keeps_the_host_for_launch_ns_and_the_kernel_runs_meanwhile(device):
    stream = device.stream()
    stream.launch(WAIT, [], grid=1, ns=1_000)
    assert device.now_ns() == 2_500
    stream.launch(WAIT, [], grid=1, ns=1_000)
    device.synchronize()
    assert runs(device) == {0: (2_500, 3_500), 1: (5_000, 6_000)}


def test_work_of_one_stream_never_overlaps(device):
    stream = device.stream()
    for ns in (9_000, 5_000, 1):
        stream.launch(WAIT, [], grid=1, ns=ns)
    device.synchronize()
    assert runs(device) == {0: (2_500, 11_500), 1: (11_500, 16_500), 2: (16_500, 16_501)}
    assert device.now_ns() == 16_501


def test_what_a_program_computes_is_right_and_arrives_when_its_copy_ends(device):
    stream = device.stream()
    ones, twos = filled(device, stream, [1, 1, 1]), filled(device, stream, [2, 2, 2])
    stream.launch(ADD, [ones, twos], n=2)
    out = stream.copy_out(twos)
    assert np.isnan(out).all()  # not there yet
    device.synchronize()
    assert out.tolist() == [3, 3, 2]


def test_bytes_that_nobody_set_are_nan_and_minus_one(device):
    stream = device.stream()
    assert np.isnan(stream.copy_out(device.empty(3), pinned=False)).all()
    assert (stream.copy_out(device.empty((2, 2), "int64"), pinned=False) == -1).all()


# -- waves and occupancy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "waves"), [(1, 1), (SLOTS, 1), (SLOTS + 1, 2), (2 * SLOTS, 2), (5 * SLOTS + 1, 6)]
)
def test_a_grid_takes_whole_waves_of_what_is_resident_at_once(device, grid, waves):
    cost_ns = 1_000 * grid // min(grid, SLOTS)  # a block lasts about 1,000 ns
    block_ns = -(-cost_ns * min(grid, SLOTS) // grid)
    assert device.time(WAIT, grid=grid, ns=cost_ns) == waves * block_ns
    device.stream().launch(WAIT, [], grid=grid, ns=cost_ns)
    device.synchronize()
    start, end = runs(device)[0]
    assert end - start == waves * block_ns


def test_blocks_spread_over_multiprocessors_before_they_share_one(device):
    stream = device.stream()
    stream.launch(WAIT, [], grid=132, ns=1_000)
    stream.launch(WAIT, [], grid=133, ns=1_000)
    stream.launch(
        BROAD, [], grid=3 * 132, ns=1_000
    )  # two of 1,024 threads at once, so the last wave is of 132
    device.synchronize()
    told = [(fact.sms, fact.blocks) for fact in device.ledger.of(Occupied)]
    assert told == [(132, 132), (0, 0), (132, 133), (0, 0), (132, 264), (132, 132), (0, 0)]


@pytest.mark.parametrize(
    ("threads", "shared", "fits"), [(1_025, 0, False), (1_024, 0, True), (32, 49_153, False)]
)
def test_blocks_that_no_multiprocessor_holds_are_refused_at_the_launch(device, threads, shared, fits):
    kernel = mover("big")
    kernel.threads, kernel._shared_bytes = threads, lambda shape: shared
    if fits:
        assert device.time(kernel, grid=1, size=4) >= 1
        return
    with pytest.raises(KernelFault):
        device.stream().launch(kernel, [], grid=1, size=4)
    assert device.ledger.of(Launched) == []


# -- several streams -------------------------------------------------------------------------------


def test_kernels_of_two_streams_run_side_by_side_where_there_is_room(device):
    one, two = device.stream("one"), device.stream("two")
    one.launch(WAIT, [], grid=SLOTS // 2, ns=10_000)
    two.launch(WAIT, [], grid=SLOTS // 2, ns=10_000)
    device.synchronize()
    assert runs(device) == {0: (2_500, 12_500), 1: (5_000, 15_000)}


def test_what_ends_at_one_instant_is_told_in_the_order_in_which_it_was_handed_over(device):
    one, two = device.stream("one"), device.stream("two")
    one.launch(WAIT, [], grid=1, ns=12_500)
    two.launch(WAIT, [], grid=1, ns=10_000)
    device.synchronize()
    assert device.ledger.of(Ended) == [Ended(15_000, 0), Ended(15_000, 1)]


def test_a_later_kernel_gets_what_an_earlier_one_leaves_over_and_no_more(device):
    one, two = device.stream("one"), device.stream("two")
    one.launch(WAIT, [], grid=SLOTS - 1, ns=10_000)
    two.launch(WAIT, [], grid=2, ns=10_000)  # one block fits at once, one after the first kernel
    device.synchronize()
    assert runs(device) == {0: (2_500, 12_500), 1: (5_000, 22_500)}


def test_a_kernel_with_waiting_blocks_lets_no_later_one_start(device):
    one, two, three = (device.stream(name) for name in ("one", "two", "three"))
    one.launch(WAIT, [], grid=SLOTS - 1, ns=20_000)
    two.launch(BROAD, [], grid=1, ns=1_000)  # 1,024 threads fit nowhere before the first is over
    three.launch(WAIT, [], grid=1, ns=1_000)  # would fit, but comes later
    device.synchronize()
    assert runs(device)[1] == (22_500, 23_500)
    assert runs(device)[2][0] == 22_500


def test_a_lower_priority_number_goes_first_and_running_blocks_stay(device):
    low, high = device.stream("low", priority=0), device.stream("high", priority=-1)
    low.launch(WAIT, [], grid=3 * SLOTS, ns=30_000)
    high.launch(WAIT, [], grid=SLOTS, ns=10_000)
    device.synchronize()
    assert runs(device) == {0: (2_500, 42_500), 1: (12_500, 22_500)}


def test_streams_beyond_the_hardware_queues_wait_for_each_other_without_reason(device):
    streams = [device.stream() for _ in range(9)]
    streams[0].launch(WAIT, [], grid=1, ns=100_000)
    streams[0].launch(WAIT, [], grid=1, ns=1_000)  # waits at the head of queue 0 for the one before
    streams[8].launch(WAIT, [], grid=1, ns=1_000)  # behind it in the same queue
    streams[1].launch(WAIT, [], grid=1, ns=1_000)
    device.synchronize()
    assert runs(device)[3] == (10_000, 11_000)
    assert runs(device)[2][0] == 102_500


def test_at_most_as_many_kernels_are_resident_as_the_device_can_hold():
    text = H100.to_toml().replace("resident_grids = { value = 128", "resident_grids = { value = 2")
    device = sim(parse(text, "few"))
    for number in range(3):
        device.stream(str(number)).launch(WAIT, [], grid=1, ns=50_000)
    device.synchronize()
    assert runs(device)[2][0] == runs(device)[0][1]


def test_kernels_that_together_want_twice_the_bandwidth_take_twice_as_long(device):
    hungry = mover("hungry")
    alone_ns = device.time(hungry, grid=66, size=301_500_000)
    assert alone_ns == 100_000
    streams = device.stream("one"), device.stream("two")
    with streams[0].capture() as graph:
        streams[0].launch(hungry, [], grid=66, size=301_500_000)
    gate = device.stream("gate")
    gate.launch(WAIT, [], grid=1, ns=50_000)
    mark = gate.mark()
    for stream in streams:
        stream.wait(mark)
        stream.launch_graph(graph)
    device.synchronize()
    lasted = [end - start for start, end in list(runs(device).values())[1:]]
    assert lasted == [200_000, 200_000]


def test_bandwidth_is_shared_in_proportion_and_given_back_when_a_kernel_ends(device):
    half, full = mover("half", share=500), mover("full")
    gate, one, two = (device.stream(name) for name in ("gate", "one", "two"))
    gate.launch(WAIT, [], grid=1, ns=50_000)
    for stream in (one, two):
        stream.wait(gate.mark())
    one.launch(full, [], grid=66, size=301_500_000)  # 100 µs alone
    two.launch(half, [], grid=66, size=301_500_000)  # 200 µs alone, at half the bandwidth
    device.synchronize()
    first, second = list(runs(device).values())[1:]
    assert first[1] - first[0] == pytest.approx(150_000, abs=1)  # demands add up to 1.5
    assert second[1] - second[0] == pytest.approx(250_000, abs=1)  # 150 at 2/3, then 100 alone


def test_a_kernel_that_moves_nothing_is_not_slowed_by_those_that_do(device):
    one, two, three = (device.stream(name) for name in ("one", "two", "three"))
    one.launch(mover("a"), [], grid=66, size=301_500_000)
    two.launch(mover("b"), [], grid=66, size=301_500_000)
    three.launch(WAIT, [], grid=1, ns=7_000)
    device.synchronize()
    start, end = runs(device)[2]
    assert end - start == 7_000


def test_kernels_that_together_want_twice_the_arithmetic_take_twice_as_long(device):
    gate, one, two, three = (device.stream(name) for name in ("gate", "one", "two", "three"))
    gate.launch(WAIT, [], grid=1, ns=50_000)
    mark = gate.mark()
    for stream in (one, two, three):
        stream.wait(mark)
    one.launch(BUSY, [], flops=6_700_000_000)
    two.launch(BUSY, [], flops=6_700_000_000)
    three.launch(mover("hungry"), [], grid=66, size=301_500_000)  # bandwidth is another thing
    assert device.time(BUSY, flops=6_700_000_000) == 100_000
    device.synchronize()
    lasted = [end - start for start, end in list(runs(device).values())[1:]]
    assert sorted(lasted) == [100_000, 200_000, 200_000]


def test_shared_memory_keeps_blocks_of_two_kernels_apart(device):
    assert device.time(ROOMY, grid=4 * 132, ns=1_000) == 1_000
    assert device.time(ROOMY, grid=8 * 132, ns=2_000) == 2_000
    one, two = device.stream("one"), device.stream("two")
    one.launch(ROOMY, [], grid=3 * 132, ns=20_000)
    two.launch(ROOMY, [], grid=2 * 132, ns=20_000)  # one more on each multiprocessor, the rest after
    device.synchronize()
    assert runs(device) == {0: (2_500, 22_500), 1: (5_000, 42_500)}
    assert max(fact.blocks for fact in device.ledger.of(Occupied)) == 4 * 132


# -- copies ----------------------------------------------------------------------------------------


def test_copies_of_one_way_queue_at_their_engine_and_of_two_ways_overlap(device):
    streams = [device.stream(name) for name in "abc"]
    arrays = [device.empty(5_000_000, "uint8") for _ in streams]
    start_ns = device.now_ns()
    streams[0].copy_in(arrays[0], np.zeros(5_000_000, np.uint8))
    streams[1].copy_in(arrays[1], np.zeros(5_000_000, np.uint8))
    streams[2].copy_out(arrays[2])
    device.synchronize()
    cost_ns = 25_000 + 100_000
    assert runs(device)[0] == (start_ns + 2_500, start_ns + 2_500 + cost_ns)
    assert runs(device)[1][0] == runs(device)[0][1]
    assert runs(device)[2] == (start_ns + 7_500, start_ns + 7_500 + cost_ns)


def test_a_single_copy_engine_serves_both_ways_in_turn():
    text = H100.to_toml().replace("copy_engines = { value = 3", "copy_engines = { value = 1")
    device = sim(parse(text, "one"))
    array, other = device.empty(MiB, "uint8"), device.empty(MiB, "uint8")
    device.stream("in").copy_in(array, np.zeros(MiB, np.uint8))
    device.stream("out").copy_out(other)
    device.synchronize()
    assert runs(device)[1][0] == runs(device)[0][1]


def test_a_pageable_copy_is_slower_and_keeps_the_host_until_it_is_done(device):
    stream, array = device.stream(), device.empty(MiB, "uint8")
    stream.copy_in(array, np.zeros(MiB, np.uint8), pinned=True)
    assert device.now_ns() < H100.copy_cost_ns(MiB, "in", pinned=True) + 200_000
    handed_ns = device.now_ns()
    device.synchronize()
    assert device.now_ns() > handed_ns
    stream.copy_in(array, np.zeros(MiB, np.uint8), pinned=False)
    ended_ns = runs(device)[1][1]
    assert device.now_ns() == ended_ns
    assert [fact.host for fact in device.ledger.of(Sent)] == ["pinned", "pageable"]


@pytest.mark.parametrize("values", [np.zeros(3, np.float64), np.zeros((3, 1), np.float32), [1, 2, 3]])
def test_a_copy_of_another_shape_or_type_is_refused(device, values):
    with pytest.raises(StreamFault, match="same shape") as fault:
        device.stream().copy_in(device.empty(3), values)
    assert fault.value.law == "shape"


# -- marks and waits -------------------------------------------------------------------------------


def test_a_stream_goes_on_only_after_the_mark_it_waits_for(device):
    one, two = device.stream("one"), device.stream("two")
    one.launch(WAIT, [], grid=1, ns=10_000)
    mark = one.mark()
    one.launch(WAIT, [], grid=1, ns=10_000)  # after the mark: nobody waits for it
    two.wait(mark)
    two.launch(WAIT, [], grid=1, ns=1_000)
    device.synchronize()
    assert runs(device) == {0: (2_500, 12_500), 2: (12_500, 22_500), 4: (12_500, 13_500)}
    assert device.ledger.of(Marked) == [Marked(12_500, 1, "one")]
    assert device.ledger.of(Waited) == [Waited(12_500, 3, "two", 1)]


def test_a_mark_that_is_reached_already_holds_nobody_up(device):
    one, two = device.stream("one"), device.stream("two")
    mark = one.mark()
    device.wait_until(1_000)
    two.wait(mark)
    two.launch(WAIT, [], grid=1, ns=5)
    device.synchronize()
    assert runs(device)[2] == (3_500, 3_505)


def test_a_wait_that_could_never_end_is_refused_at_its_line(device):
    other = sim()
    with pytest.raises(StreamFault, match="would never end") as fault:
        device.stream().wait(other.stream("theirs").mark())
    assert fault.value.law == "foreign-mark"
    assert "'theirs'" in str(fault.value)
    with pytest.raises(StreamFault, match="no mark at all"):
        device.stream().wait("now")


def test_a_host_that_waits_for_what_can_never_be_over_is_told_so(device):
    stream = device.stream("main")
    stream.launch(WAIT, [], grid=1, ns=100)
    device.synchronize()
    never = Work(99, stream="x", priority=0, queue=1, ready_ns=0, before=None)
    late = Work(
        98, stream="main", priority=0, queue=0, ready_ns=device.now_ns(), before=never, copy_ns=5, way="in"
    )
    device.hand_over(late)
    with pytest.raises(StreamFault, match="can never be over") as fault:
        device.wait_for(stream, late)
    assert fault.value.law == "stalled"
    device._engine._queues[0].clear()


# -- graphs ----------------------------------------------------------------------------------------


def test_a_graph_repeats_what_it_recorded_and_costs_one_launch(device):
    stream = device.stream()
    total, one = filled(device, stream, [0, 0]), filled(device, stream, [1, 2])
    device.synchronize()
    with stream.capture() as graph:
        stream.launch(ADD, [one, total], n=2)
        stream.launch(ADD, [one, total], n=2)
        out = stream.copy_out(total)
    assert len(device.ledger.of(Launched)) == 0
    before_ns = device.now_ns()
    stream.launch_graph(graph)
    assert device.now_ns() == before_ns + H100.launch_ns
    stream.launch_graph(graph)
    device.synchronize()
    assert out.tolist() == [4, 8]


def test_a_graph_keeps_the_values_that_it_recorded(device):
    stream, array, values = device.stream(), device.empty(1), np.ones(1, np.float32)
    with stream.capture() as graph:
        stream.copy_in(array, values)
    values[0] = 9
    stream.launch_graph(graph)
    assert stream.copy_out(array, pinned=False).tolist() == [1]


def test_a_graph_may_be_launched_on_another_stream(device):
    one, two = device.stream("one"), device.stream("two")
    with one.capture() as graph:
        one.launch(WAIT, [], grid=1, ns=10)
    two.launch_graph(graph)
    assert [fact.stream for fact in device.ledger.of(Launched)] == ["two"]


@pytest.mark.parametrize("call", ["mark", "synchronize", "pageable", "wait", "capture", "graph"])
def test_what_cannot_be_part_of_a_graph_is_refused_while_it_is_recorded(device, call):
    stream = device.stream()
    array, mark = device.empty(4), stream.mark()
    with stream.capture() as graph, pytest.raises(StreamFault) as fault:
        if call == "pageable":
            stream.copy_out(array, pinned=False)
        elif call == "wait":
            stream.wait(mark)
        elif call == "capture":
            with stream.capture():
                pass
        elif call == "graph":
            stream.launch_graph(graph)
        else:
            getattr(stream, call)()
    assert fault.value.law == "capture"


def test_something_else_is_no_graph(device):
    with pytest.raises(StreamFault, match="did not record"):
        device.stream().launch_graph("graph")


# -- names -----------------------------------------------------------------------------------------


def test_streams_have_names_of_their_own_and_whole_priorities(device):
    device.stream("a")
    with pytest.raises(StreamFault, match="no other stream"):
        device.stream("a")
    with pytest.raises(StreamFault, match="whole number"):
        device.stream("b", priority=0.5)


def test_arrays_of_another_device_are_refused(device):
    with pytest.raises(StreamFault, match="no array of its own"):
        device.stream().copy_out(sim().empty(4))
    with pytest.raises(StreamFault, match="no array of its own"):
        device.free(np.zeros(4))


def test_time_moves_with_the_host_and_never_back(device):
    device.stream().launch(WAIT, [], grid=1, ns=10_000)
    device.wait_until(5_000)
    assert (device.now_ns(), runs(device)) == (5_000, {})
    device.wait_until(1)
    assert device.now_ns() == 5_000
    device.wait_until(12_500)
    assert runs(device) == {0: (2_500, 12_500)}


def test_a_library_matmul_takes_what_the_peak_allows(device):
    assert device.gemm_ns(8192, 16) == -(-2 * 8192**3 // 989_000)
    assert device.gemm_ns(16, 32) == H100.memory_ns(3 * 16 * 16 * 4)
    assert H100.shared_bytes_per_sm == 228 * KiB


def test_blocks_go_one_by_one_to_the_multiprocessor_with_fewest_and_of_equal_ones_to_the_first():
    rooms, held, count = [3, 0, 5, 2, 9, 1], [4, 0, 2, 2, 7, 3], 11
    sms = Multiprocessors(H100)
    sms._blocks = list(held)
    blocks, left = list(held), list(rooms)
    for _ in range(count):
        sm = min((sm for sm in range(6) if left[sm]), key=lambda sm: (blocks[sm], sm))
        blocks[sm], left[sm] = blocks[sm] + 1, left[sm] - 1
    wanted = [(sm, rooms[sm] - left[sm]) for sm in range(6) if rooms[sm] > left[sm]]
    assert sms._spread(rooms, count) == wanted
