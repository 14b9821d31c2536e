"""Prefix sharing, copy on write, and what is forgotten when."""

import os
import subprocess
import sys

import pytest

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.blocks import BlockPool
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import Admitted, PrefixCache, Written, digest
from gpulab.report.account import Account
from gpulab.report.audit import check


@pytest.fixture
def cache():
    cache = PrefixCache(FreeQueue(10, block_tokens=4))
    yield cache
    check(cache.pool.ledger)


def test_a_digest_tells_its_tokens_its_past_and_its_salt_and_is_the_same_everywhere():
    first = digest("", [1, 2, 3, 4])
    assert first == "903a19ee68f1af6db637174039367c2b6eb037490d783e3213e8905c6460b9b7"
    others = [
        digest("", [1, 2, 3, 5]),
        digest("", [12, 3, 4]),
        digest("", [1, 2, 3, 4], "b"),
        digest(first, [1, 2, 3, 4]),
    ]
    assert len({first, *others}) == 5


def test_a_second_prompt_shares_the_full_blocks_it_has_in_common(cache):
    cache.admit("a", range(10))

    assert cache.admit("b", [*range(8), 50, 51]) == Admitted(hits=(0, 1), new=(3,))

    assert cache.pool.holders(0) == ("a", "b")
    assert Account(cache.pool.ledger).at(0).used == 12


def test_the_same_tokens_after_another_beginning_are_no_hit(cache):
    cache.admit("a", [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert cache.admit("b", [0, 2, 3, 4, 5, 6, 7, 8, 9]).hits == ()


def test_a_block_that_is_not_full_is_no_hit(cache):
    cache.admit("a", range(7))
    assert cache.admit("b", range(8)).hits == (0,)


def test_the_last_token_of_a_prompt_is_computed_even_if_all_of_it_is_known(cache):
    """vLLM, v1 KVCacheManager.get_computed_blocks: at most all tokens but one."""
    cache.admit("a", range(8))
    assert cache.admit("b", range(8)) == Admitted(hits=(0,), new=(2,))
    assert cache.admit("c", range(9)) == Admitted(hits=(0, 1), new=(3,))


def test_another_salt_shares_nothing(cache):
    cache.admit("a", range(9), "tenant 1")
    assert cache.admit("b", range(9), "tenant 2").hits == ()
    assert cache.admit("c", range(9), "tenant 1").hits == (0, 1)


def test_a_freed_block_is_found_until_it_is_handed_out_for_something_else(cache):
    cache.admit("a", range(8))
    cache.finish("a")
    assert cache.admit("b", range(9)) == Admitted(hits=(0, 1), new=(2,))
    cache.finish("b")
    assert cache.pool.order() == [3, 4, 5, 6, 7, 8, 9, 2, 1, 0]

    cache.admit("c", range(100, 136))

    assert cache.pool.order() == [0]
    assert cache.cached()[0] == digest("", range(4))
    assert cache.admit("d", range(2)).new == (0,)
    assert 0 not in cache.cached()


def test_a_block_whose_beginning_was_forgotten_is_no_hit_on_its_own(cache):
    cache.admit("a", range(4))
    cache.admit("b", range(4))  # its block 0 is a copy that is not found
    for token in range(4, 8):
        cache.append("b", token)
    cache.finish("a")
    cache.admit("c", range(100, 132))
    assert digest("", range(4)) not in cache.cached().values()
    assert cache.cached()[2] == digest(digest("", range(4)), range(4, 8))
    cache.finish("c")

    assert cache.admit("d", range(9)).hits == ()


def test_blocks_for_a_running_sequence_are_asked_for_as_urgent():
    asked = []

    class Asks(BlockPool):
        def prepare(self):
            self.mine = list(range(self.n_blocks))

        def take(self, n, urgent=False):
            asked.append((n, urgent))
            return [self.mine.pop(0) for _ in range(n)]

        def give(self, blocks):
            self.mine += blocks

    cache = PrefixCache(Asks(9, block_tokens=2))
    cache.admit("a", [1, 2])
    cache.append("a", 3)
    cache.fork("a", "b")
    cache.append("b", 4)

    assert asked == [(1, False), (1, True), (1, True)]


def test_generated_tokens_are_found_once_their_block_is_full(cache):
    cache.admit("a", [0, 1, 2])
    assert cache.admit("b", [0, 1, 2, 3, 4]).hits == ()
    cache.finish("b")
    assert cache.append("a", 3) == Written(0, 3)
    assert cache.append("a", 4).place == 0
    assert cache.table("a").length == 5
    assert cache.admit("c", [0, 1, 2, 3, 9]).hits != ()


def test_a_fork_shares_all_and_copies_the_last_block_when_it_writes(cache):
    cache.admit("a", range(6))
    cache.fork("a", "b")
    assert cache.table("b").blocks == [0, 1]
    assert cache.pool.free_blocks == 8

    assert cache.append("b", 60) == Written(block=2, place=2, copied_from=1)

    assert (cache.table("a").blocks, cache.table("b").blocks) == ([0, 1], [0, 2])
    assert cache.append("a", 61) == Written(block=1, place=2)
    assert (cache.pool.holders(0), cache.pool.holders(1)) == (("a", "b"), ("a",))
    assert Account(cache.pool.ledger).at(0).stranded == 2


def test_a_fork_after_a_full_block_copies_nothing(cache):
    cache.admit("a", range(4))
    cache.fork("a", "b")
    assert cache.append("b", 60) == Written(block=1, place=0)
    assert cache.append("a", 61) == Written(block=2, place=0)


def test_what_a_fork_wrote_is_known_by_all_of_its_past(cache):
    cache.admit("a", range(6))
    cache.fork("a", "b")
    for token in (60, 61):
        cache.append("b", token)
    assert cache.admit("c", [0, 1, 2, 3, 4, 5, 60, 61, 9]).hits == (0, 2)


def test_an_admission_without_room_takes_nothing_and_can_be_retried(cache):
    cache.admit("a", range(32))
    cache.admit("b", [0, 1, 2, 3, 70])
    with pytest.raises(OutOfMemory, match="1 of 10 are free") as full:
        cache.admit("c", range(40, 52))
    assert cache.pool.free_blocks == 1
    cache.finish("a")

    admitted = cache.admit("c", range(40, 52), claim=full.value.claim)

    assert admitted == Admitted((), (9, 7, 6))


def test_an_append_without_room_changes_nothing_and_can_be_retried():
    cache = PrefixCache(FreeQueue(2, block_tokens=2))
    cache.admit("a", [0, 1, 2])
    cache.fork("a", "b")
    with pytest.raises(OutOfMemory) as full:
        cache.append("b", 3)
    assert (cache.table("b").blocks, cache.table("b").length) == ([0, 1], 3)
    cache.finish("a")

    assert cache.append("b", 3, claim=full.value.claim) == Written(1, 1)
    check(cache.pool.ledger)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda cache: cache.admit("a", [1]), "'a' was admitted again"),
        (lambda cache: cache.fork("a", "a"), "'a' was forked again"),
        (lambda cache: cache.finish("b"), "'b' is no sequence here"),
        (lambda cache: cache.append("b", 1), "'b' is no sequence here"),
        (lambda cache: cache.append("a", "one"), "whole numbers"),
        (lambda cache: cache.admit("b", []), "at least one"),
        (lambda cache: cache.admit("b", [1.5]), "whole numbers"),
        (lambda cache: cache.fork("a", 3), "owner 3"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_changes(act, says, cache):
    cache.admit("a", [0])
    with pytest.raises(AllocatorFault, match=says):
        act(cache)
    assert (cache.pool.held(), cache.table("a").length) == ((0,), 1)


def test_no_order_depends_on_the_hash_seed_of_a_process():
    code = """
from gpulab.memory.blocks import BlockPool
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import PrefixCache
cache = PrefixCache(FreeQueue(24, block_tokens=2))
for turn in range(12):
    name = f"sequence {turn}"
    cache.admit(name, [turn % 3, turn % 2, *range(turn % 5)])
    cache.fork(name, name + " fork")
    cache.append(name + " fork", turn)
    if turn % 3 == 2:
        for old in range(turn - 2, turn + 1):
            cache.finish(f"sequence {old} fork"), cache.finish(f"sequence {old}")
print(cache.pool.order(), cache.cached(), cache.pool.ledger.digest())
"""
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
