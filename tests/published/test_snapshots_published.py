"""Memory snapshots of published cases: `gpulab explain` finds what their reporters found, to the byte.

The files in ``tests/golden/snapshots`` were built by hand or by gpulab's own writer from what the issues
state; ``GPULAB_WRITE_GOLDEN=1`` writes them anew. No PyTorch was involved.
"""

import os
from functools import cache
from pathlib import Path

import pytest

from gpulab.memory.history import retell
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import PyTorchPool
from gpulab.memory.snapshot import read_snapshot
from gpulab.memory.snapshot_rows import snapshot_from
from gpulab.memory.to_snapshot import save_snapshot, to_snapshot
from gpulab.report.account import Account, levels
from gpulab.report.audit import check
from gpulab.report.diagnosis import diagnose
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, MiB

FILES = Path(__file__).parents[1] / "golden" / "snapshots"


def stored(name: str, plain: dict) -> Path:
    path = FILES / name
    if os.environ.get("GPULAB_WRITE_GOLDEN") == "1":
        save_snapshot(plain, path)
    return path


# -- pytorch/pytorch issue 35901 -----------------------------------------------------------------

SEGMENT = 11_643_387_904
ACTIVE = 499_214_336
PIECE = 18_191_360


@cache
def issue_35901() -> dict:
    """The issue's second listing: the segment that held one tensor, now with small ones in it.

    Its comment quotes address, sizes and the first six blocks, in the form of 2020. What follows is ours:
    23 more active blocks of the last quoted size make its ``active_size``, with as many gaps. So is the
    failure: the same tensor again, with 4,000 MiB left on the card.
    """
    sizes = [16_515_072, 16_515_072, 11_400_192, PIECE, PIECE, PIECE]
    states = ["active_allocated"] * 4 + ["inactive", "active_allocated"]
    blocks = [{"size": size, "state": state} for size, state in zip(sizes, states, strict=True)]
    for _ in range(23):
        blocks += [{"size": PIECE, "state": "inactive"}, {"size": PIECE, "state": "active_allocated"}]
    blocks.append({"size": SEGMENT - sum(block["size"] for block in blocks), "state": "inactive"})
    segment = {
        "active_size": ACTIVE,
        "address": 139_624_890_499_072,
        "allocated_size": ACTIVE,
        "blocks": blocks,
        "device": 0,
        "segment_type": "large",
        "total_size": SEGMENT,
    }
    oom = {"action": "oom", "size": SEGMENT, "device_free": 4_000 * MiB, "stream": 0}
    return {"segments": [segment], "device_traces": [[oom]]}


def test_the_files_are_what_the_tests_describe():
    told = [
        read_snapshot(stored("pytorch-35901.json", issue_35901())),
        read_snapshot(stored("vllm-41268.pickle.gz", pull_request_41268())),
    ]
    assert told == [snapshot_from(issue_35901()), snapshot_from(pull_request_41268())]


def test_half_of_the_card_cannot_be_reserved_because_small_blocks_lie_in_the_large_segment():
    """pytorch/pytorch issue 35901: 11,643,387,904 B are asked for again, 499,214,336 B of them are active."""
    ledger = retell(read_snapshot(FILES / "pytorch-35901.json")).ledger
    check(ledger)

    found = diagnose(ledger)

    outside, through = found.terms["device→pool"], found.terms["device→extent"]
    assert (outside.used, outside.stranded) == (ACTIVE, SEGMENT - ACTIVE)
    assert (through.fragmented, through.unscheduled) == (SEGMENT, 0)
    assert through.free == SEGMENT - ACTIVE + 4_000 * MiB > SEGMENT
    assert found.largest_free == SEGMENT - ACTIVE - 24 * PIECE
    assert sum(loss.pinned for loss in found.losses) == SEGMENT - ACTIVE
    assert found.sentence.startswith(
        "Fragmented: 14.29 GiB are free in all, enough for 10.84 GiB, but in 26 pieces of at most 9.97 GiB. "
        "'block at 0x7efd2ab1b400' pins most of it: 9.97 GiB"
    )


def test_before_it_was_cut_the_segment_was_whole_and_could_go_back():
    """pytorch/pytorch issue 35901, first listing: one inactive block of the whole segment."""
    whole = {
        "active_size": 0,
        "address": 139_624_890_499_072,
        "allocated_size": 0,
        "blocks": [{"size": SEGMENT, "state": "inactive"}],
        "device": 0,
        "segment_type": "large",
        "total_size": SEGMENT,
    }
    found = diagnose(retell(snapshot_from([whole])).ledger)
    assert (found.largest_free, found.holes, found.losses) == (SEGMENT, 0, ())


# -- vllm-project/vllm pull request 41268 --------------------------------------------------------

LAYERS = 36


@cache
def pull_request_41268() -> dict:
    """36 times 530 MiB freed and 270 MiB kept; then 8 GiB for the KV cache on a card of 24 GiB (ours)."""
    steps = []
    for layer in range(LAYERS):
        steps += [
            ["alloc", f"quantize layer {layer} (loader.py:88)", 530 * MiB],
            ["free", f"quantize layer {layer} (loader.py:88)"],
            ["alloc", f"keep layer {layer} (loader.py:90)", 270 * MiB],
        ]
    steps.append(["alloc", "allocate_kv_cache (worker.py:210)", 8 * GiB])
    return to_snapshot(run_operations(PyTorchPool(24 * GiB), steps))


def test_freed_temporaries_of_36_layers_strand_9360_of_19080_mib():
    """vllm-project/vllm pull request 41268; the numbers are F1's."""
    retold = retell(read_snapshot(FILES / "vllm-41268.pickle.gz"))
    check(retold.ledger)

    found = diagnose(retold.ledger)

    outside = found.terms["device→pool"]
    assert (outside.used + outside.stranded, outside.stranded) == (19_080 * MiB, 9_360 * MiB)
    assert found.failure.owner == "allocate_kv_cache (worker.py:210)"
    assert (found.terms["device→extent"].fragmented, found.largest_free) == (8 * GiB, 24 * GiB - 19_080 * MiB)
    assert [(loss.held, loss.pinned) for loss in found.losses] == [(270 * MiB, 260 * MiB)] * LAYERS
    assert found.sentence == (
        "Fragmented: 14.51 GiB are free in all, enough for 8 GiB, but in 37 pieces of at most 5.37 GiB. "
        "'keep layer 0 (loader.py:90)' pins the most, 2 %: 260 MiB beside the 270 MiB it holds in 1 block."
    )


def test_the_layers_of_one_function_are_one_owner_with_half_of_what_is_reserved():
    """The same, as a real stack shows it: the layer is no part of the frame."""
    plain = pull_request_41268()
    frames = [{"name": "keep", "filename": "loader.py", "line": 90}]
    segments = [
        {**part, "blocks": [{**block, "frames": frames} for block in part["blocks"]]}
        for part in plain["segments"]
    ]

    found = diagnose(retell(snapshot_from(segments)).ledger)

    assert [(loss.owner, loss.grants, loss.pinned) for loss in found.losses] == [
        ("keep (loader.py:90)", LAYERS, 9_360 * MiB)
    ]
    assert "'keep (loader.py:90)' pins most of it: 9.14 GiB beside the 9.49 GiB" in found.sentence


@pytest.mark.parametrize("history", [True, False])
def test_the_pools_ledger_and_the_one_read_back_have_equal_accounts(history):
    steps = [["alloc", f"w{layer}", 270 * MiB] for layer in range(LAYERS)]
    ledger = run_operations(PyTorchPool(24 * GiB), steps)

    back = retell(snapshot_from(to_snapshot(ledger, history=history)), capacity=24 * GiB).ledger

    for level in levels(ledger):
        assert Account(back, level).at(back.end_ns) == Account(ledger, level).at(ledger.end_ns)


# -- DiamondLightSource/httomo issue 667 ---------------------------------------------------------


def test_4_gib_fail_with_6_free_and_the_second_method_is_found_to_pin_3_of_them():
    """DiamondLightSource/httomo issue 667, recorded around the program that it describes (httomo.py)."""
    ledger = Ledger.from_jsonl(FILES / "httomo-667.jsonl")
    check(ledger)

    found = diagnose(ledger)

    assert (found.failure.size, found.failure.free) == (4 * GiB, 6 * GiB)
    assert found.terms["device→extent"].fragmented == 4 * GiB
    assert (found.liquid, found.largest_hole, found.largest_free) == (3 * GiB, 3 * GiB, 3 * GiB)
    assert found.losses[0].owner.startswith("method_b (httomo.py:")
    assert (found.losses[0].held, found.losses[0].pinned) == (1 * GiB, 3 * GiB)
