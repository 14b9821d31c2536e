"""Written lists of pool operations."""

import pytest

from gpulab.errors import AllocatorFault
from gpulab.memory.arena import FirstFit
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Refused, Withdrawn
from gpulab.units import MiB


def test_each_operation_takes_one_step_and_the_last_one_lasts_one_too():
    ledger = run_operations(CuPyPool(8 * MiB), [["alloc", "a", 512], ["alloc", "b", 512], ["free", "a"]], 10)

    assert [(fact.time_ns, fact.owner) for fact in ledger.of(Claimed) if fact.resource == "pool"] == [
        (0, "a"),
        (10, "b"),
    ]
    assert [fact.time_ns for fact in ledger.of(Freed)] == [20]
    assert ledger[-1] == Closed(30)


def test_a_claim_that_is_out_of_memory_waits_to_the_end():
    ledger = run_operations(
        CuPyPool(8 * MiB), [["alloc", "a", 6 * MiB], ["alloc", "b", 4 * MiB], ["free", "a"]]
    )

    assert [fact.claim for fact in ledger.of(Refused)] == [3, 2]
    assert ledger.of(Withdrawn) == []
    assert len(ledger.of(Granted)) == 2


def test_freeing_the_name_of_a_waiting_claim_withdraws_it():
    ledger = run_operations(CuPyPool(8 * MiB), [["alloc", "b", 9 * MiB], ["free", "b"], ["alloc", "b", 512]])

    assert [(fact.time_ns, fact.claim) for fact in ledger.of(Withdrawn)] == [(1000, 0), (1000, 1)]
    assert len(ledger.of(Granted)) == 2


def test_a_plain_arena_runs_the_same_list():
    ledger = run_operations(FirstFit(8 * MiB), [["alloc", "a", 512], ["free", "a"]])

    assert [type(fact).__name__ for fact in ledger] == ["Opened", "Claimed", "Granted", "Freed", "Closed"]


@pytest.mark.parametrize(
    ("operation", "law", "says"),
    [
        (["free", "x"], "name-unknown", "Operation 1, ['free', 'x']: there is no 'x'; there is: 'a'."),
        (["alloc", "a", 512], "name-taken", "'a' is still there"),
        (["alloc", "b", 0], "size", "Operation 1, ['alloc', 'b', 0]: The pool was asked for 0 bytes"),
        (["alloc", "b"], "operation", 'write ["alloc", name, bytes] or ["free", name]'),
        (["grow", "b", 1], "operation", "Operation 1, ['grow', 'b', 1]"),
        (["free", 3], "operation", "the name as text"),
        (["alloc", 3, 512], "operation", "the name as text"),
        ("free", "operation", "Operation 1, 'free'"),
        (None, "operation", "Operation 1, None"),
        ({"free": "a"}, "operation", "Operation 1, {'free': 'a'}"),
    ],
    ids=str,
)
def test_a_bad_operation_is_a_fault_with_its_number_and_text(operation, law, says):
    pool = CuPyPool(8 * MiB)

    with pytest.raises(AllocatorFault) as fault:
        run_operations(pool, [["alloc", "a", 512], operation])

    assert says in str(fault.value)
    assert (fault.value.law, fault.value.numbers) == (law, {"operation": 1})
    assert len(pool.ledger.of(Granted)) == 2


@pytest.mark.parametrize("step_ns", [0, -1, 0.5, None])
def test_a_step_is_a_positive_whole_number_of_nanoseconds(step_ns):
    with pytest.raises(AllocatorFault, match="step_ns is"):
        run_operations(CuPyPool(8 * MiB), [], step_ns)


def test_equal_lists_give_byte_equal_ledgers():
    trace = [["alloc", "a", 700], ["alloc", "b", 9 * MiB], ["free", "a"], ["free", "b"]]

    assert (
        run_operations(CuPyPool(8 * MiB), trace).digest() == run_operations(CuPyPool(8 * MiB), trace).digest()
    )
