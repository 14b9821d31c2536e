"""The diagnosis of a failed claim: which sentence is said when, and who is charged for which hole."""

import pytest

from gpulab.memory.arena import FirstFit
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool, PyTorchPool
from gpulab.report.diagnosis import Failure, Loss, diagnose
from gpulab.telemetry.events import Claimed, Granted, Opened, Refused, Used
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units
from gpulab.units import MiB


def found(pool, *steps):
    return diagnose(run_operations(pool, list(steps)))


def test_a_hole_is_charged_to_the_smaller_of_the_blocks_beside_it_and_to_the_first_of_equals():
    facts = [
        Opened(0, "device", 1000, "B"),
        Opened(0, "pool", 0, "B", "device"),
        Claimed(0, 0, "device", 1000, Units(1000), "pool"),
        Granted(0, 0, 0, 1000),
    ]
    for claim, (owner, start, size) in enumerate((("a", 100, 50), ("b", 200, 20), ("c", 400, 20)), 1):
        facts += [Claimed(0, claim, "pool", size, Contiguous(size), owner), Granted(0, claim, start, size)]
    facts += [Used(0, 0, 90), Used(0, 2, 15)]

    told = diagnose(Ledger(facts))

    assert {loss.owner: (loss.held, loss.unused, loss.pinned) for loss in told.losses} == {
        "a": (50, 0, 100),  # before it
        "b": (20, 5, 50 + 180),  # between it and a, and behind it up to c, which is as small
        "c": (20, 0, 580),  # behind it
    }
    assert [loss.owner for loss in told.losses] == ["c", "b", "a"]
    assert (told.liquid, told.holes, told.largest_hole, told.largest_free) == (0, 4, 580, 580)


def test_a_segment_of_which_nothing_is_held_is_liquid_with_what_the_device_has_left():
    told = found(CuPyPool(10 * MiB), ["alloc", "a", 4 * MiB], ["alloc", "b", 1 * MiB], ["free", "a"])

    assert (told.liquid, told.holes, told.largest_free) == (9 * MiB, 0, 9 * MiB)
    assert told.losses == (Loss("b", 1, 1 * MiB, 0, 0),)
    assert told.sentence == "Nothing waits: 9 MiB of 10 MiB are free."
    assert told.failure is None


def test_claims_without_an_owner_are_named_by_their_number():
    pool = CuPyPool(10 * MiB)
    pool.allocate(100)
    assert [(loss.owner, loss.unused) for loss in diagnose(pool.ledger).losses] == [("claim 0", 412)]


def test_fragmented_names_who_pins_the_most():
    told = found(
        CuPyPool(10 * MiB),
        ["alloc", "a", 8 * MiB],
        ["free", "a"],
        ["alloc", "keeper", 1 * MiB],
        ["alloc", "wants", 8 * MiB],
    )

    assert told.failure == Failure(3, 14, "wants", 8 * MiB, 8 * MiB, 9 * MiB, 7 * MiB)
    assert told.sentence == (
        "Fragmented: 9 MiB are free in all, enough for 8 MiB, but in 2 pieces of at most 7 MiB. 'keeper' pins most "
        "of it: 7 MiB beside the 1 MiB it holds in 1 block."
    )


def test_too_little_in_all_is_told_from_fragmented():
    told = found(CuPyPool(8 * MiB), ["alloc", "a", 6 * MiB - 100], ["alloc", "b", 3 * MiB])
    assert told.sentence == (
        "Too little in all: 3 MiB wanted, 2 MiB free; the rest is held. 100 B of it are held and not used."
    )


def test_more_than_the_device_is_hopeless():
    told = found(CuPyPool(8 * MiB), ["alloc", "a", 9 * MiB])
    assert told.sentence == "Too large: 9 MiB are more than the whole device of 8 MiB; no freeing would help."


def test_a_rule_or_a_limit_that_keeps_a_claim_out_is_told_from_a_full_device():
    limited = found(CuPyPool(8 * MiB, limit=4 * MiB), ["alloc", "a", 3 * MiB], ["alloc", "b", 2 * MiB])
    assert limited.sentence.startswith(
        "Refused although a stretch of 5 MiB is free: the pool does not serve 2 MiB"
    )

    small = found(PyTorchPool(12 * MiB), ["alloc", "a", 5 * MiB])
    assert small.sentence.startswith("Refused although a stretch of 12 MiB is free")


def test_the_last_refusal_counts_at_its_moment_and_what_came_later_does_not():
    steps = [["alloc", "a", 6 * MiB], ["alloc", "b", 4 * MiB], ["free", "b"], ["free", "a"]]

    told = found(CuPyPool(8 * MiB), *steps)

    assert (told.failure.owner, told.time_ns) == ("b", 1_000)
    assert told.terms["device→pool"].used == 6 * MiB


def test_what_happens_in_the_same_nanosecond_but_later_does_not_count():
    pool = CuPyPool(8 * MiB)
    held = pool.allocate(6 * MiB, "a")
    with pytest.raises(Exception, match="refused"):
        pool.allocate(4 * MiB, "b")
    pool.free(held)

    assert diagnose(pool.ledger).terms["device→pool"].used == 6 * MiB


def test_an_arena_is_one_segment_that_never_goes_back():
    told = found(
        FirstFit(8 * MiB),
        ["alloc", "a", 3 * MiB],
        ["alloc", "b", 2 * MiB],
        ["free", "a"],
        ["alloc", "c", 4 * MiB],
    )

    assert (told.liquid, told.holes, told.largest_free) == (0, 2, 3 * MiB)
    assert told.sentence.startswith("Fragmented: 6 MiB are free in all, enough for 4 MiB, but in 2 pieces")
    empty = found(FirstFit(8 * MiB))
    assert (empty.liquid, empty.holes) == (0, 1)
    assert (empty.largest_free, empty.sentence) == (8 * MiB, "Nothing waits: 8 MiB of 8 MiB are free.")


def pages(*blocks: tuple[int, int]) -> list:
    """Four pages of 10 bytes that touch, and blocks ``(start, size)`` that may cross them."""
    facts = [Opened(0, "device", 100, "B"), Opened(0, "pool", 0, "B", "device")]
    for page in range(4):
        facts += [Claimed(0, page, "device", 10, Units(10), "pool"), Granted(0, page, page * 10, 10)]
    for claim, (start, size) in enumerate(blocks, 4):
        facts += [Claimed(0, claim, "pool", size, Contiguous(size), "a"), Granted(0, claim, start, size)]
    return facts


def test_of_pages_that_touch_each_free_one_could_go_back_and_the_rest_of_a_hole_is_pinned():
    told = diagnose(Ledger(pages((5, 3))))

    assert (told.liquid, told.holes, told.largest_hole) == (60 + 30, 2, 5)
    assert told.losses == (Loss("a", 1, 3, 0, 7),)


def test_a_block_across_pages_pins_the_holes_at_its_ends():
    told = diagnose(Ledger(pages((8, 14))))
    assert (told.liquid, told.holes, told.losses[0].pinned) == (60 + 10, 2, 8 + 8)


def test_what_waits_finds_the_same_places_in_the_account():
    claim = Claimed(1, 9, "pool", 95, Contiguous(95), "b")
    told = diagnose(Ledger([*pages((5, 3)), claim, Refused(1, 9, 97, 90)]))
    assert (told.terms["device→extent"].fragmented, told.largest_free) == (95, 90)

    claim = Claimed(1, 9, "pool", 90, Contiguous(90), "b")
    told = diagnose(Ledger([*pages((5, 3)), claim, Refused(1, 9, 97, 90)]))
    assert told.terms["device→extent"].unscheduled == 90


@pytest.mark.parametrize("facts", [[], [Opened(0, "blocks", 5, "blocks")]])
def test_a_ledger_without_bytes_cannot_be_explained(facts):
    with pytest.raises(ValueError, match="no memory to explain"):
        diagnose(Ledger(facts))
