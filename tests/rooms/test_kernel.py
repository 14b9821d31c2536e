"""Costs, amounts and checks of kernels. What the sources compute is in ``test_kernel_sources``."""

import re
from types import SimpleNamespace

import numpy
import pytest

from gpulab.device.kernel import MOST_BLOCKS, Kernel, Operand
from gpulab.device.kernels import COPY, FILL, GATHER, KERNELS, MATMUL, PAGED_ATTENTION, SAXPY, SOFTMAX, SPIN
from gpulab.errors import KernelFault
from gpulab.units import MiB

# A board of round numbers: 1 GB/s is a byte a nanosecond.
BOARD = SimpleNamespace(
    sms=10,
    max_threads_per_sm=1000,
    max_blocks_per_sm=16,
    bandwidth_bytes_per_s=100 * 10**9,
    copy_efficiency_permille=500,
    gather_efficiency_permille=250,
    fp32_flops_per_s=10**12,
)
ATTENTION = {
    "sequences": 2, "kv_heads": 2, "group": 2, "head_dim": 8, "block_tokens": 4, "pool_blocks": 9,
    "table_blocks": 3, "tokens": 9,
}  # fmt: skip


def floats(*values: float) -> numpy.ndarray:
    return numpy.array(values, numpy.float32)


# -- amounts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "shape", "amounts"),
    [
        (COPY, {"n": 257}, (2, 2_056, 0, 0)),
        (FILL, {"n": 256, "value": 0}, (1, 1_024, 0, 0)),
        (SAXPY, {"n": 100, "a": 2}, (1, 1_200, 200, 0)),
        (GATHER, {"n": 100, "entries": 7}, (1, 1_200, 0, 0)),
        (SOFTMAX, {"rows": 3, "columns": 50}, (3, 1_200, 750, 512)),
        (MATMUL, {"m": 32, "n": 48, "k": 10}, (6, 4 * (320 * 3 + 480 * 2 + 1_536), 30_720, 2_048)),
        # 4 heads x (9 tokens of 8 keys and values, 2 queries and results of 8, 2 lengths, 9 // 4 + 2 entries)
        (PAGED_ATTENTION, ATTENTION, (8, 4 * 4 * (144 + 32 + 2 + 4), 4 * 9 * 37, 4 * 20)),
        (SPIN, {"blocks": 7, "spin_ns": 9}, (7, 28, 0, 0)),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "",
)
def test_blocks_bytes_flops_and_shared_bytes_are_those_of_the_table_in_each_file(kernel, shape, amounts):
    got = (
        kernel.blocks(**shape),
        kernel.bytes_moved(**shape),
        kernel.flops(**shape),
        kernel.shared_bytes(**shape),
    )

    assert got == amounts


def test_what_two_blocks_read_counts_twice_and_what_one_reads_again_counts_once():
    one_tile = MATMUL.bytes_moved(m=16, n=16, k=160) - 4 * 256

    assert MATMUL.bytes_moved(m=16, n=32, k=160) - 4 * 512 == 2 * one_tile
    assert SOFTMAX.bytes_moved(rows=1, columns=1000) == 8000  # read three times by its block


# -- cost ------------------------------------------------------------------------------------------


def test_a_copy_that_fills_the_device_takes_its_bytes_at_the_rate_of_a_copy():
    # 8 MiB of traffic at 100 GB/s x 0.5
    assert COPY.cost_ns(BOARD, n=1 * MiB) == -(-8 * MiB * 20 // 1000)


def test_a_gather_is_slower_by_its_own_rate():
    assert GATHER.cost_ns(BOARD, n=1 * MiB, entries=5) == 12 * MiB * 40 // 1000 + 1


def test_a_large_product_takes_its_arithmetic_when_that_is_longer():
    slow = SimpleNamespace(**{**vars(BOARD), "fp32_flops_per_s": 10**10})

    assert MATMUL.cost_ns(slow, m=160, n=160, k=160) == 2 * 160**3 // 10
    assert MATMUL.cost_ns(BOARD, m=160, n=160, k=160) > 2 * 160**3 // 1000  # bytes are longer here


def test_a_grid_smaller_than_the_device_has_only_its_share_of_the_peak():
    slow = SimpleNamespace(**{**vars(BOARD), "fp32_flops_per_s": 10**9})

    alone, three = MATMUL.cost_ns(slow, m=16, n=16, k=100), MATMUL.cost_ns(slow, m=16, n=48, k=100)

    assert alone == 10 * 2 * 16 * 16 * 100  # one block, one multiprocessor of ten
    assert three == alone


def test_bandwidth_grows_with_threads_until_four_fifths_of_the_device_are_there():
    full = 8_000  # threads of BOARD x 0.8
    assert COPY.cost_ns(BOARD, n=256) == -(-8 * 256 * 20 * full // (256 * 1000))
    assert COPY.cost_ns(BOARD, n=16 * 256) == COPY.cost_ns(BOARD, n=256)  # 16 blocks have 16 times the rate
    assert COPY.cost_ns(BOARD, n=64 * 256) == -(-8 * 64 * 256 * 20 // 1000)


def test_a_spin_takes_its_time_until_blocks_find_no_room():
    room = 10 * 16
    assert SPIN.cost_ns(BOARD, blocks=1, spin_ns=1000) == 1000
    assert SPIN.cost_ns(BOARD, blocks=room, spin_ns=1000) == 1000
    few = SimpleNamespace(**{**vars(BOARD), "max_threads_per_sm": 64})  # two blocks of 32 on each of ten
    assert SPIN.cost_ns(few, blocks=40, spin_ns=1000) == 2000
    assert SPIN.cost_ns(BOARD, blocks=2 * room + 1, spin_ns=1000) == 2007  # rounded up from 2006.25


def test_costs_are_whole_and_at_least_one_nanosecond_on_the_fastest_device():
    rates = {"bandwidth_bytes_per_s": 10**18, "fp32_flops_per_s": 10**18, "max_threads_per_sm": 1}
    fast = SimpleNamespace(**{**vars(BOARD), **rates})
    costs = [
        made(bytes_moved=lambda s: 0).cost_ns(BOARD, n=1),
        COPY.cost_ns(fast, n=1),
        SOFTMAX.cost_ns(fast, rows=1, columns=1),
        SPIN.cost_ns(BOARD, blocks=1, spin_ns=1),
    ]
    assert costs == [1, 1, 1, 1]
    assert {type(cost) for cost in costs} == {int}


# -- meaning ---------------------------------------------------------------------------------------


def test_meanings_write_into_the_written_arrays_and_leave_what_the_shape_does_not_need():
    x, y = floats(1, 2, 3), floats(10, 20, 30)

    SAXPY.meaning(x, y, n=2, a=0.5)

    assert y.tolist() == [10.5, 21, 30]
    assert x.tolist() == [1, 2, 3]


def test_a_softmax_of_large_values_is_finite():
    y = floats(0, 0, 0, 0)

    SOFTMAX.meaning(floats(1e4, 1e4, 1, 1), y, rows=2, columns=2)

    assert y.tolist() == [0.5, 0.5, 0.5, 0.5]


def test_what_overflows_is_infinite_without_a_warning():
    y = floats(3e38)

    SAXPY.meaning(floats(3e38), y, n=1, a=2)

    assert y.tolist() == [float("inf")]


def test_a_matrix_may_have_its_two_dimensions():
    c = numpy.zeros((2, 2), numpy.float32)

    MATMUL.meaning(floats(1, 2, 3, 4).reshape(2, 2), floats(0, 1, 1, 0).reshape(2, 2), c, m=2, n=2, k=2)

    assert c.tolist() == [[2, 1], [4, 3]]


def attention_arrays(table: list, lengths: list) -> list:
    pool = numpy.ones(9 * 4 * 2 * 8, numpy.float32)
    query = numpy.ones(2 * 4 * 8, numpy.float32)
    whole = [numpy.array(values, numpy.int32) for values in (table, lengths)]
    return [query, pool, pool, *whole, numpy.zeros(64, numpy.float32)]


@pytest.mark.parametrize(
    ("table", "lengths", "message"),
    [
        ([[0, 9, 0], [1, 2, 3]], [5, 4], "entry 1 of sequence 0 names block 9, but the pool has blocks 0 to 8"),
        ([[0, 8, 0], [1, -1, 3]], [4, 5], "entry 1 of sequence 1 names block -1"),
        ([[0, 8, 0], [1, 2, 3]], [13, 1], "sequence 0 has length 13, but its row of the table covers 12 tokens"),
        ([[0, 8, 0], [1, 2, 3]], [-1, 10], "sequence 0 has length -1"),
        ([[0, 8, 0], [1, 2, 3]], [4, 4], "tokens is 9, but the lengths make 8"),
    ],
)  # fmt: skip
def test_attention_names_the_entry_that_leads_out_of_the_pool(table, lengths, message):
    arrays = attention_arrays(table, lengths)

    with pytest.raises(KernelFault, match=message):
        PAGED_ATTENTION.meaning(*arrays, **ATTENTION)

    assert not arrays[-1].any()


def test_attention_ignores_entries_that_no_length_reaches():
    arrays = attention_arrays([[0, 99, 99], [1, 2, -1]], [4, 5])

    PAGED_ATTENTION.meaning(*arrays, **ATTENTION)

    assert arrays[-1].tolist() == [1.0] * 64


@pytest.mark.parametrize("outside", [3, -1])
def test_a_gather_outside_its_table_is_refused_before_anything_is_written(outside):
    target = floats(7, 7)

    with pytest.raises(KernelFault, match=rf"index\[1\] is {outside}, but the table has entries 0 to 2"):
        GATHER.meaning(floats(1, 2, 3), numpy.array([0, outside], numpy.int32), target, n=2, entries=3)

    assert target.tolist() == [7, 7]


# -- what a launch is refused for ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({}, "copy takes the keywords n, not none"),
        ({"m": 3}, "copy takes the keywords n, not m"),
        ({"n": 3, "m": 3}, "copy takes the keywords n, not n, m"),
        ({"n": 0}, "copy: n is 0; it must be a whole number, 1 or more"),
        ({"n": 2.0}, "copy: n is 2.0"),
        ({"n": True}, "copy: n is True"),
        ({"n": 2**63}, "copy: n is 9223372036854775808"),
        ({"n": 256 * MOST_BLOCKS + 1}, "copy would be 2,147,483,648 blocks; a grid has 1 to 2,147,483,647"),
    ],
)
def test_a_shape_that_no_launch_has_is_a_fault(shape, message):
    with pytest.raises(KernelFault, match=message):
        COPY.blocks(**shape)


@pytest.mark.parametrize("wrong", ["two", "2", True, None, [2]])
def test_a_real_keyword_must_be_a_number(wrong):
    with pytest.raises(KernelFault, match=f"saxpy: a is {re.escape(repr(wrong))}; it must be a number"):
        SAXPY.flops(n=3, a=wrong)


def test_shared_memory_that_no_block_gets_is_a_fault():
    with pytest.raises(KernelFault, match="would need 80,016 bytes of shared memory a block"):
        PAGED_ATTENTION.blocks(**{**ATTENTION, "head_dim": 10_000})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((floats(1, 2),), r"copy takes 2 arrays \(source, target\), not 1"),
        ((floats(1, 2), [0, 0]), r"the array target is \[0, 0\]; give an array of float32"),
        ((floats(1, 2), numpy.zeros(2)), "the array target holds float64; make it float32"),
        ((floats(1), floats(1, 2)), "the array source has 1 values, this shape needs 2"),
        ((floats(1, 2, 3, 4)[::2], floats(1, 2)), "the array source is not contiguous"),
        ((floats(1, 2), numpy.frombuffer(bytes(8), numpy.float32)), "the array target is read-only"),
    ],
)
def test_arrays_that_a_device_would_read_past_are_a_fault(arrays, message):
    with pytest.raises(KernelFault, match=message):
        COPY.meaning(*arrays, n=2)
    with pytest.raises(KernelFault, match=message):
        COPY.arguments(*arrays, n=2)


def test_arguments_are_in_the_order_and_the_sizes_of_the_source():
    x, y = floats(1, 2), floats(1, 2)

    given = SAXPY.arguments(x, y, n=numpy.int32(2), a=3)

    assert given[0] is x
    assert given[1] is y
    assert [(value.dtype.name, value.item()) for value in given[2:]] == [("float32", 3.0), ("int64", 2)]


def made(**changes: object) -> Kernel:
    values = {
        "name": "own",
        "source": "",
        "meaning": lambda x, s: None,
        "operands": (Operand("x", "float32", lambda s: s.n),),
        "shape": ("n",),
        "threads": 32,
        "blocks": lambda s: 1,
        "bytes_moved": lambda s: 4 * s.n,
    }
    return Kernel(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "two words"}, "cannot be called 'two words'"),
        ({"threads": 1025}, "own has 1025 threads a block; a device takes 1 to 1024"),
        ({"threads": 0}, "own has 0 threads"),
        ({"scalars": ("k",)}, "own hands k to its source, but takes no such keyword"),
    ],
)
def test_a_kernel_that_no_device_runs_is_a_fault_where_it_is_made(changes, message):
    with pytest.raises(KernelFault, match=message):
        made(**changes)


def test_a_kernel_shows_its_arrays_and_keywords():
    assert repr(SAXPY) == "<Kernel saxpy(x, y; n, a)>"


def test_the_shipped_kernels_have_names_of_their_own():
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS) == 8
