"""What holds for every program on the simulated device."""

import os
import subprocess
import sys
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpulab.device.spec import load
from gpulab.report.audit import check
from gpulab.telemetry.events import Ended, Launched, Occupied, Sent, Started
from tests.devices import BROAD, HUNGRY, STEPS, WAIT, play, runs, sim

H100 = load("h100-80")

programs = st.lists(
    st.tuples(
        st.integers(0, 9),  # stream: more than there are hardware queues
        st.sampled_from(STEPS),
        st.integers(1, 3 * H100.sms * 32),  # blocks
        st.integers(1, 40_000),  # ns, or bytes
    ),
    min_size=1,
    max_size=12,
)


@given(programs)
def test_every_program_ends_and_its_ledger_keeps_every_law(program):
    device = play(program, sim())
    assert len(device.ledger.of(Started)) == len(device.ledger.of(Ended))
    assert len(device.ledger.of(Ended)) == len(device.ledger.of(Launched, Sent))
    check(device.ledger)


@given(programs)
def test_a_stream_never_reorders_and_never_overlaps_itself(program):
    device = play(program, sim())
    ran = runs(device)
    last: dict[str, int] = {}
    for fact in device.ledger.of(Launched, Sent):
        start, end = ran[fact.work]
        assert fact.time_ns <= start < end
        assert last.get(fact.stream, 0) <= start
        last[fact.stream] = end


@given(programs)
def test_no_kernel_is_faster_than_alone_and_bandwidth_is_never_given_twice(program):
    device = play(program, sim())
    ran = runs(device)
    moved = [fact for fact in device.ledger.of(Launched) if fact.size_bytes]
    for fact in moved:
        start, end = ran[fact.work]
        assert end - start >= device.time(HUNGRY, grid=fact.blocks, size=fact.size_bytes)
    if moved:
        busy_ns = max(ran[f.work][1] for f in moved) - min(ran[f.work][0] for f in moved)
        assert H100.memory_ns(sum(fact.size_bytes for fact in moved)) <= busy_ns + len(moved)


@given(st.lists(st.tuples(st.integers(1, 9_000), st.integers(1, 30_000)), min_size=1, max_size=12))
def test_block_time_is_conserved_nothing_is_lost_and_nothing_done_twice(kernels):
    device = sim()
    streams = [device.stream(str(number)) for number in range(4)]
    for number, (grid, ns) in enumerate(kernels):
        streams[number % 4].launch(WAIT, [], grid=grid, ns=ns)
    device.synchronize()
    room = H100.sms * 32
    wanted = sum(grid * -(-ns * min(grid, room) // grid) for grid, ns in kernels)
    told = [*device.ledger.of(Occupied), Occupied(device.now_ns(), 0, 0)]
    given_out = sum(a.blocks * (b.time_ns - a.time_ns) for a, b in pairwise(told))
    assert given_out == wanted


@given(st.lists(st.tuples(st.integers(1, 9_000), st.integers(1, 9_000)), min_size=1, max_size=7))
def test_no_room_stays_empty_while_a_block_waits(kernels):
    """Work conserving, so Graham's bound holds (1966): at most all the work over all the room, and one block."""
    device, room = sim(), H100.sms * 32
    gate = device.stream("gate")
    gate.launch(BROAD, [], grid=2 * H100.sms, ns=10**6)  # fills the device until all have come
    block_ns = []
    for number, (grid, ns) in enumerate(kernels):
        device.stream(str(number)).launch(WAIT, [], grid=grid, ns=ns)
        block_ns.append(-(-ns * min(grid, room) // grid))
    device.synchronize()
    work_ns = sum(grid * ns for (grid, _), ns in zip(kernels, block_ns, strict=True))
    lasted_ns = device.now_ns() - runs(device)[0][1]
    assert work_ns <= room * lasted_ns
    assert lasted_ns <= -(-work_ns // room) + max(block_ns)


@given(programs)
def test_equal_programs_write_equal_ledgers(program):
    assert play(program, sim()).ledger.digest() == play(program, sim()).ledger.digest()


# Changes only with the rules of the device, its kernels' test doubles, or the spec of the A100.
DIGEST = "d4fcc685e76a3de62be1b2f3b71259e291081f2de11fd99873e213446171c561"
SCRIPT = """
import random
from tests.devices import STEPS, play, sim
draw = random.Random("device").randint
program = [(draw(0, 9), STEPS[draw(0, 7)], draw(1, 12000), draw(1, 40000)) for _ in range(60)]
print(play(program, sim("a100-40")).ledger.digest())
"""


def test_other_processes_with_other_hash_seeds_write_the_same_bytes_as_every_machine_and_python():
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1")
    ]
    assert [process.communicate()[0].strip() for process in running] == [DIGEST, DIGEST]
