"""Numbers that others published, or that their published rules decide, come out of the two pools exactly."""

import pytest

from gpulab.errors import OutOfMemory
from gpulab.memory.operations import run_operations
from gpulab.memory.pool import Pool
from gpulab.memory.pools import CuPyPool, PyTorchPool, largest_next
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.telemetry.events import Refused
from gpulab.units import GiB, KiB, MiB


def model_loading(layers: int = 36, temporary: int = 530 * MiB, weight: int = 270 * MiB) -> list:
    """Each layer takes a temporary, frees it, and keeps a smaller weight."""
    steps = []
    for layer in range(layers):
        steps += [
            ["alloc", f"temporary {layer}", temporary],
            ["free", f"temporary {layer}"],
            ["alloc", f"weight {layer}", weight],
        ]
    return steps


def httomo(with_c: bool) -> list:
    """Method A (1 GiB out, 4 GiB temporary), method B (1 GiB out), then what A needs again."""
    steps = [
        ["alloc", "a", 1 * GiB],
        ["alloc", "t", 4 * GiB],
        ["free", "t"],
        ["alloc", "b", 1 * GiB],
        ["free", "a"],
    ]
    return [*steps, ["alloc", "c", 1 * GiB]] if with_c else steps


class CuPyBefore7679(Pool):
    """CuPy's rule as it was: a limit that is reached refuses, whatever the cache holds."""

    def prepare(self) -> None:
        self.shelf = self.segments.new_shelf()

    def shelf_for(self, size: int, stream: int):
        return self.shelf

    def take(self, size: int, stream: int) -> list:
        chunk = self.segments.best_fit(self.shelf, size)
        return ["grow", size] if chunk is None else ["chunk", chunk.start]

    def keep(self, held: int, size: int) -> int:
        return size

    def give(self, chunk: int, stream: int) -> list:
        return []

    def trim(self, need: int) -> list:
        return []


class PinnedHost(Pool):
    """PyTorch's cache of pinned host memory: blocks are never cut, a claim takes the smallest that is large enough.

    That is the rule of torch/cutorch pull request 618. ``rules["power_of_two"]``: since pytorch pull request
    95827 blocks have sizes of a power of two, and a claim takes one of its own power only.
    """

    def prepare(self) -> None:
        self.free_ones, self.sizes = [], {}

    def take(self, size: int, stream: int) -> list:
        if self.rules["power_of_two"]:
            size = 1 << (size - 1).bit_length()
        fits = [(self.sizes[chunk], chunk) for chunk in self.free_ones if self.sizes[chunk] >= size]
        if self.rules["power_of_two"]:
            fits = [fit for fit in fits if fit[0] == size]
        if not fits:
            return ["grow", size]
        self.free_ones.remove(min(fits)[1])
        return ["chunk", min(fits)[1]]

    def grown(self, chunk: int, size: int, stream: int) -> None:
        self.sizes[chunk] = size

    def give(self, chunk: int, stream: int) -> list:
        self.free_ones.append(chunk)
        return []

    def trim(self, need: int) -> list:
        chunks, self.free_ones = self.free_ones, []
        return chunks


# -- F1: stranded segments -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_split_size", "reserved_mib", "stranded_mib"), [(None, 19_080, 9_360), (20 * MiB, 10_250, 530)]
)
def test_freed_temporaries_of_36_layers_strand_half_of_what_is_reserved_unless_splitting_is_capped(
    max_split_size, reserved_mib, stranded_mib
):
    """vllm-project/vllm pull request 41268 (36 layers, 530 MiB freed, 270 MiB kept, cap 20 MiB)."""
    pool = PyTorchPool(80 * GiB, max_split_size=max_split_size)

    ledger = run_operations(pool, model_loading())

    assert pool.used_bytes == 9_720 * MiB
    assert pool.total_bytes == reserved_mib * MiB
    assert pool.free_bytes == stranded_mib * MiB
    terms = Account(ledger, "device→pool").at(ledger.end_ns)
    assert (terms.used, terms.stranded) == (9_720 * MiB, stranded_mib * MiB)
    assert terms.spare == 80 * GiB - reserved_mib * MiB


def test_expandable_segments_strand_only_the_end_of_one_temporary():
    """vllm-project/vllm pull request 41268 names them as the other repair; pytorch, note on expandable segments.

    270 MiB are cut from the front of one range and each later temporary continues what is free behind them: the
    last one's 530 MiB end on a page of 20 MiB, and 260 of 9,980 MiB are free.
    """
    pool = PyTorchPool(80 * GiB, expandable=True)

    ledger = run_operations(pool, model_loading())

    assert (pool.used_bytes, pool.total_bytes, pool.free_bytes) == (9_720 * MiB, 9_980 * MiB, 260 * MiB)
    terms = Account(ledger, "device→pool").at(ledger.end_ns)
    assert (terms.used, terms.stranded) == (9_720 * MiB, 260 * MiB)
    check(ledger)


def test_expandable_segments_load_the_model_on_a_card_that_is_full_without_them():
    """The same 36 layers on 10 GiB: 19,080 MiB are reserved without, 9,980 with."""
    plain, expandable = PyTorchPool(10 * GiB), PyTorchPool(10 * GiB, expandable=True)

    assert run_operations(plain, model_loading()).of(Refused)
    assert not run_operations(expandable, model_loading()).of(Refused)


@pytest.mark.parametrize(
    ("asked", "granted", "segment"),
    [
        (1, 512, 2 * MiB),
        (513, 1_024, 2 * MiB),
        (1 * MiB, 1 * MiB, 2 * MiB),
        (1 * MiB + 1, 1 * MiB + 512, 20 * MiB),
        (10 * MiB - 512, 10 * MiB - 512, 20 * MiB),
        (10 * MiB, 10 * MiB, 10 * MiB),
        (11 * MiB, 12 * MiB, 12 * MiB),
    ],
)
def test_a_first_claim_reserves_the_segment_that_pytorchs_table_gives(asked, granted, segment):
    """pytorch, c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kSmallBuffer, kLargeBuffer, kRoundLarge.

    11 MiB keep the 1 MiB that is left of their 12: a rest is cut off only above 1 MiB.
    """
    pool = PyTorchPool(80 * GiB)

    extent = pool.allocate(asked)

    assert (extent.size, pool.total_bytes) == (granted, segment)


def test_a_large_claim_ignores_an_oversize_chunk_that_is_20_mib_or_more_larger():
    """pytorch/pytorch pull request 136174: 500 MiB do not take the cached 1,024 MiB."""
    pool = PyTorchPool(8 * GiB, max_split_size=200 * MiB)
    pool.free(pool.allocate(1024 * MiB))

    pool.allocate(500 * MiB)

    assert (pool.used_bytes, pool.free_bytes, pool.total_bytes) == (500 * MiB, 1024 * MiB, 1524 * MiB)


def test_a_larger_oversize_chunk_is_reused_when_the_rounding_is_raised():
    """pytorch/pytorch pull request 136174: 500 + 600 MiB are more than 1,024, so the cached chunk is taken."""
    pool = PyTorchPool(8 * GiB, max_split_size=200 * MiB, oversize_rest=600 * MiB)
    pool.free(pool.allocate(1024 * MiB))

    pool.allocate(500 * MiB)

    assert (pool.used_bytes, pool.total_bytes) == (1024 * MiB, 1024 * MiB)


def test_one_piece_of_16_mib_keeps_a_segment_of_11_gigabytes_from_going_back():
    """pytorch/pytorch issue 35901: a segment of 11,643,387,904 B (5,552 times 2 MiB) cut into 16 MB pieces."""
    pool = PyTorchPool(24 * GiB)
    pool.free(pool.allocate(11_643_387_904))
    assert pool.total_bytes == 11_643_387_904

    piece = pool.allocate(16 * MiB)
    assert pool.free_all_blocks() == 0

    pool.free(piece)
    assert pool.free_all_blocks() == 11_643_387_904


def test_a_claim_of_1_86_gib_fails_with_5_08_gib_cached_when_all_of_it_is_pieces():
    """pytorch/pytorch issue 31353 gives the two numbers; the trace is ours: three segments, a weight in each."""
    pool = PyTorchPool(6 * GiB)
    weights, activations = [], []
    for batch in [pool.allocate(1934 * MiB) for _ in range(3)]:
        pool.free(batch)
        weights.append(pool.allocate(200 * MiB))
        activations.append(pool.allocate(1734 * MiB))
    for activation in activations:
        pool.free(activation)
    assert round(pool.free_bytes / GiB, 2) == 5.08

    with pytest.raises(OutOfMemory) as full:
        pool.allocate(1905 * MiB)

    assert full.value.size / GiB == pytest.approx(1.86, abs=0.005)
    assert full.value.free > 5.08 * GiB
    pool.free(weights[0])
    assert pool.allocate(1905 * MiB, claim=full.value.claim).size == 1905 * MiB


@pytest.mark.parametrize(("power_of_two", "reserved"), [(False, 8 * GiB), (True, 4 * GiB + 16 * KiB)])
def test_a_pinned_block_of_4_gib_serves_10_kb_unless_sizes_are_powers_of_two(power_of_two, reserved):
    """pytorch/pytorch pull request 95827: 8 GiB used for 4 GiB."""
    pool = PinnedHost(16 * GiB, rules={"power_of_two": power_of_two})
    pool.free(pool.allocate(4 * GiB))

    pool.allocate(10_000)
    pool.allocate(4 * GiB)

    assert pool.total_bytes == reserved


# -- F2: CuPy's pool -----------------------------------------------------------------------------


def test_400_bytes_take_512():
    """CuPy user guide, memory management: an array of 400 B shows 512 B used and 512 B in the pool."""
    pool = CuPyPool(8 * GiB)

    extent = pool.allocate(400)
    assert (pool.used_bytes, pool.total_bytes, pool.n_free_blocks) == (512, 512, 0)

    pool.free(extent)
    assert (pool.used_bytes, pool.total_bytes, pool.n_free_blocks) == (0, 512, 1)

    assert pool.free_all_blocks() == 512
    assert (pool.used_bytes, pool.total_bytes, pool.n_free_blocks) == (0, 0, 0)


def test_a_pool_at_its_limit_first_hands_back_what_it_caches():
    """cupy/cupy issue 7678: limit 1 GiB, 536,870,912 B freed, then 805,306,368 B; pull request 7679 mends it."""
    pool = CuPyPool(8 * GiB, limit=1 * GiB)
    pool.free(pool.allocate(536_870_912))

    assert pool.allocate(805_306_368).size == 805_306_368
    assert pool.total_bytes == 805_306_368


def test_a_pool_that_does_not_hand_back_first_fails_at_its_limit():
    """cupy/cupy issue 7678, before the repair."""
    pool = CuPyBefore7679(8 * GiB, limit=1 * GiB)
    pool.free(pool.allocate(536_870_912))

    with pytest.raises(OutOfMemory, match="The limit of 1 GiB is in the way") as full:
        pool.allocate(805_306_368)

    assert full.value.free == 8 * GiB


def test_4_gib_fail_with_6_free_when_a_kept_piece_pins_its_segment():
    """DiamondLightSource/httomo issue 667, on a card of 8 GiB."""
    pool = CuPyPool(8 * GiB)
    steps = httomo(with_c=True)

    ledger = run_operations(pool, [*steps, ["alloc", "again", 4 * GiB]])

    terms = Account(ledger, "device→extent").at(ledger.end_ns)
    assert terms.free == 6 * GiB
    assert (terms.fragmented, terms.unscheduled, terms.spare) == (4 * GiB, 0, 2 * GiB)
    assert (terms.used, terms.stranded) == (2 * GiB, 0)
    assert largest_next(pool) == 3 * GiB
    outside = Account(ledger, "device→pool").at(ledger.end_ns)
    assert (outside.used, outside.stranded, outside.spare) == (2 * GiB, 3 * GiB, 3 * GiB)


def test_4_gib_succeed_without_the_one_operation_that_took_the_whole_cached_segment():
    """DiamondLightSource/httomo issue 667, without c: the segment of a goes back and makes 4 GiB of 3."""
    pool = CuPyPool(8 * GiB)
    steps = httomo(with_c=False)
    run_operations(pool, steps)
    assert largest_next(pool) == 4 * GiB

    assert pool.allocate(4 * GiB).size == 4 * GiB
    assert (pool.used_bytes, pool.total_bytes) == (5 * GiB, 8 * GiB)


def test_what_one_stream_cached_in_pieces_is_lost_to_another():
    """rapidsai/rmm issue 2039: a pool fragments with two streams and not with one; no trace or number is given.

    This one is ours, and under CuPy's rule, which keeps an arena for each stream: 3 GiB freed in three pieces
    by stream 0 make one chunk that serves 3 GiB, but not for stream 1 while a fourth piece pins their segment.
    """
    for stream, refused in ((0, False), (1, True)):
        pool = CuPyPool(4 * GiB)
        pool.free(pool.allocate(4 * GiB))
        pieces = [pool.allocate(1 * GiB) for _ in range(4)]
        for piece in pieces[:3]:
            pool.free(piece)

        if refused:
            with pytest.raises(OutOfMemory):
                pool.allocate(3 * GiB, stream=stream)
        else:
            assert pool.allocate(3 * GiB, stream=stream).size == 3 * GiB
