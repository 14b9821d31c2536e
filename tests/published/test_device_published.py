"""F10: launch overhead, and the counter that says 100 % of one block.

Sources: gpu-benches, back-to-back small kernels (a launch 2.5 µs, in a graph 1.3 µs on an H200, ratio 1.7 to 2.0
over the boards); NVML API reference, ``utilization.gpu``: any kernel ran in the sample window.
"""

from fractions import Fraction
from itertools import pairwise

import pytest

from gpulab.device.kernels import SPIN
from gpulab.device.spec import load, names
from gpulab.report.audit import check
from gpulab.telemetry.counters import LONG_WINDOW_NS, SHORT_WINDOW_NS, sample
from gpulab.telemetry.events import Started
from tests.devices import sim


def intervals(device, launch):
    """The times from one start of a kernel to the next, of what ``launch`` hands over."""
    since = len(device.ledger)
    launch()
    device.synchronize()
    starts = [fact.time_ns for fact in device.ledger[since:] if isinstance(fact, Started)]
    return {after - before for before, after in pairwise(starts)}


@pytest.mark.parametrize("board", names())
def test_launches_in_a_graph_follow_each_other_faster_by_the_quotient_of_the_two_constants(board):
    device, spec = sim(board), load(board)
    done, stream = device.empty(1, "int32"), device.stream()

    def launch():
        for _ in range(100):
            stream.launch(SPIN, [done], blocks=1, spin_ns=100)

    with stream.capture() as graph:
        launch()
    assert intervals(device, launch) == {spec.launch_ns}
    assert intervals(device, lambda: stream.launch_graph(graph)) == {spec.graph_launch_ns}
    check(device.ledger)


def test_on_an_h100_the_ratio_is_the_published_one():
    spec = load("h100-80")
    assert Fraction(17, 10) <= Fraction(spec.launch_ns, spec.graph_launch_ns) <= 2


@pytest.mark.parametrize("window_ns", [SHORT_WINDOW_NS, LONG_WINDOW_NS])
@pytest.mark.parametrize(("board", "permille"), [("t4", 25), ("l4", 17), ("a100-80", 9), ("h100-80", 7)])
def test_one_block_that_spins_reads_100_percent_while_one_multiprocessor_works(board, permille, window_ns):
    device, spec = sim(board), load(board)
    stream, done = device.stream(), device.empty(1, "int32")
    stream.launch(SPIN, [done], blocks=1, spin_ns=2 * window_ns)
    device.wait_until(device.now_ns() + window_ns)
    seen = sample(device.ledger, device.now_ns(), window_ns)
    assert (seen.utilization_gpu_percent, seen.sm_active_permille) == (100, permille)
    assert Fraction(seen.sm_ns, seen.sms * window_ns) == Fraction(1, spec.sms)


def test_a_grid_on_every_multiprocessor_reads_the_same_100_percent():
    device = sim()
    blocks = device.spec.sms
    stream, done = device.stream(), device.empty(blocks, "int32")
    stream.launch(SPIN, [done], blocks=blocks, spin_ns=2 * LONG_WINDOW_NS)
    device.wait_until(device.now_ns() + LONG_WINDOW_NS)
    seen = sample(device.ledger, device.now_ns())
    assert (seen.utilization_gpu_percent, seen.sm_active_permille) == (100, 1000)


def test_half_a_window_of_nothing_halves_both():
    device = sim()
    stream, done = device.stream(), device.empty(1, "int32")
    stream.launch(SPIN, [done], blocks=1, spin_ns=LONG_WINDOW_NS // 2)
    device.synchronize()
    device.wait_until(device.now_ns() + LONG_WINDOW_NS // 2)
    seen = sample(device.ledger, device.now_ns())
    assert (seen.utilization_gpu_percent, seen.sm_active_permille) == (50, 3)
