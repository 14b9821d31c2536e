"""gpulab/telemetry/counters.py: what NVML's counters read, from hand-written facts."""

import pytest

from gpulab.telemetry.counters import Sample, sample
from gpulab.telemetry.events import Attached, Ended, Launched, Occupied, Sent, Started
from gpulab.telemetry.ledger import Ledger

DEVICE = Attached(100, "board", "sim", 4, 1_000_000_000, "badge", "asked for")  # 1 B a ns

LEDGER = Ledger(
    [
        DEVICE,
        Launched(200, 0, "a", "k", 2, 50),
        *(Started(200, 0), Occupied(200, 2, 2)),
        Launched(300, 1, "b", "k", 4, 0),
        *(Started(300, 1), Occupied(300, 4, 6)),
        *(Ended(400, 0), Occupied(400, 3, 4)),
        *(Ended(500, 1), Occupied(500, 0, 0)),
        *(Sent(700, 2, "a", "in", 9, "pinned"), Started(700, 2), Ended(800, 2)),
        *(Launched(900, 3, "a", "k", 1, 500), Started(900, 3), Occupied(900, 1, 1)),
    ]
)


def test_a_window_counts_any_kernel_once_memory_while_it_moves_and_multiprocessors_each():
    assert sample(LEDGER, 600, 500) == Sample(100, 600, 4, 300, 50, 2 * 100 + 4 * 100 + 3 * 100)


def test_copies_move_memory_and_are_no_kernels():
    assert sample(LEDGER, 850, 200) == Sample(650, 850, 4, 0, 100, 0)


def test_what_is_still_running_counts_up_to_the_end_of_the_window():
    assert sample(LEDGER, 1_000, 200) == Sample(800, 1_000, 4, 100, 100, 100)
    assert sample(LEDGER, 2_000, 1_000) == Sample(1_000, 2_000, 4, 1_000, 400, 1_000)


def test_a_window_looks_back_no_further_than_the_device_is_old():
    assert sample(LEDGER, 250, 10**9) == Sample(100, 250, 4, 50, 50, 100)
    assert sample(LEDGER) == sample(LEDGER, 900, 10**9)


def test_what_happened_after_the_window_changes_nothing():
    assert sample(LEDGER, 350, 100) == sample(Ledger(LEDGER[:7]), 350, 100)


def test_readings_are_rounded_down_and_none_for_an_empty_window():
    seen = Sample(0, 1_000, 132, 999, 9, 1_000)
    assert (seen.utilization_gpu_percent, seen.utilization_memory_percent, seen.sm_active_permille) == (
        99,
        0,
        7,
    )
    empty = sample(LEDGER, 100)
    assert (empty.utilization_gpu_percent, empty.utilization_memory_percent, empty.sm_active_permille) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("ledger", "end", "window"), [(Ledger(), None, 1), (LEDGER, 99, 1), (LEDGER, 600, 0)]
)
def test_a_window_that_shows_nothing_is_refused(ledger, end, window):
    with pytest.raises(ValueError, match=r"no device|shows nothing"):
        sample(ledger, end, window)
