"""The block table, and paged attention that reads keys and values through it."""

import random

import numpy as np
import pytest

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.block_table import BlockTable
from gpulab.memory.free_queue import FreeQueue

BLOCK, HEAD = 16, 8
LENGTHS = (1, 15, 16, 17, 31, 32, 33, 100)


def contiguous_attention(query, keys, values):
    """One query over all positions: softmax(q k / sqrt(d)) v."""
    scores = keys @ query / np.sqrt(HEAD)
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


def paged_attention(query, key_blocks, value_blocks, table):
    """The same, block by block with a running maximum, as a kernel goes through a block table."""
    best, total, result = -np.inf, 0.0, np.zeros(HEAD)
    for index, block in enumerate(table.blocks):
        count = min(table.block_tokens, table.length - index * table.block_tokens)
        keys, values = key_blocks[block, :count], value_blocks[block, :count]
        scores = keys @ query / np.sqrt(HEAD)
        now = max(best, scores.max())
        weights = np.exp(scores - now)
        total = total * np.exp(best - now) + weights.sum()
        result = result * np.exp(best - now) + weights @ values
        best = now
    return result / total


def interleaved(lengths, n_blocks=64):
    """Tables of sequences that grow by turns, token by token, over shuffled blocks; their tokens' places."""
    pool = FreeQueue(n_blocks, block_tokens=BLOCK)
    blocks = pool.allocate(n_blocks, "all")
    random.Random(7).shuffle(blocks)
    pool.release(blocks, "all")  # so that they come again in another order than that of their numbers
    tables = [BlockTable(BLOCK) for _ in lengths]
    for length in range(1, max(lengths) + 1):
        for number, (table, last) in enumerate(zip(tables, lengths, strict=True)):
            if length <= last:
                table.grow(length, lambda n, number=number: pool.allocate(n, f"sequence {number}"))
    return tables


@pytest.mark.parametrize("length", LENGTHS)
def test_paged_attention_through_the_table_equals_contiguous_attention(length):
    """Issue 4: to 1e-5, with NaN in every slot that no token was written to."""
    draws = np.random.default_rng(7)
    tables = interleaved((length, 40, 23))
    assert len({block for table in tables for block in table.blocks}) == sum(len(t.blocks) for t in tables)
    key_blocks = np.full((64, BLOCK, HEAD), np.nan)
    value_blocks = key_blocks.copy()
    plain = []
    for table in tables:
        keys, values = draws.standard_normal((2, table.length, HEAD))
        key_blocks.reshape(-1, HEAD)[table.slots()] = keys
        value_blocks.reshape(-1, HEAD)[table.slots()] = values
        plain.append((keys, values))
    for table, (keys, values) in zip(tables, plain, strict=True):
        query = draws.standard_normal(HEAD)
        expected = contiguous_attention(query, keys, values)
        np.testing.assert_allclose(
            paged_attention(query, key_blocks, value_blocks, table), expected, rtol=0, atol=1e-5
        )


def test_the_physical_blocks_of_that_test_are_in_no_order():
    assert all(table.blocks != sorted(table.blocks) for table in interleaved((100, 40, 33)))


def test_a_table_asks_for_a_block_at_the_first_token_that_needs_it_and_not_before():
    table, asked = BlockTable(16), []

    def take(n):
        asked.append(n)
        return list(range(len(table.blocks), len(table.blocks) + n))

    news = {length: table.grow(length, take) for length in (1, 15, 16, 17, 32, 33, 100)}

    assert news == {1: [0], 15: [], 16: [], 17: [1], 32: [], 33: [2], 100: [3, 4, 5, 6]}
    assert asked == [1, 1, 1, 4]


def test_a_slot_is_physical_block_times_block_size_plus_the_place_in_it():
    table = BlockTable(4, [7, 2], 6)
    assert table.slots() == [28, 29, 30, 31, 8, 9]
    assert table.slot(np.int64(4)) == 8


@pytest.mark.parametrize("position", [-1, 6, 1.0, None, True])
def test_a_position_without_a_token_has_no_slot(position):
    with pytest.raises(AllocatorFault, match="0 to 5"):
        BlockTable(4, [7, 2], 6).slot(position)


@pytest.mark.parametrize("length", [5, -1, 6.5, None])
def test_a_table_does_not_shrink(length):
    with pytest.raises(AllocatorFault, match="loses no tokens"):
        BlockTable(4, [7, 2], 6).grow(length, lambda n: [0] * n)


def test_a_table_whose_blocks_were_refused_stays_as_it_was():
    pool = FreeQueue(2, block_tokens=4)
    table = BlockTable(4)
    table.grow(4, lambda n: pool.allocate(n, "a"))
    with pytest.raises(OutOfMemory):
        table.grow(12, lambda n: pool.allocate(n, "a"))
    assert (table.blocks, table.length) == ([0], 4)


def test_a_copy_grows_alone():
    table = BlockTable(4, [7], 4)
    table.copy().grow(5, lambda n: [1])
    assert (table.blocks, table.length) == ([7], 4)
