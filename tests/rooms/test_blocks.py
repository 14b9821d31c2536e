"""A pool of KV blocks: who holds what, what a learner's hooks may answer, and what the ledger says."""

import pytest

from gpulab.errors import AllocatorFault, BrokenLaw, OutOfMemory
from gpulab.memory.blocks import BlockPool
from gpulab.memory.free_queue import FreeQueue
from gpulab.report.account import Account, Terms
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Returned, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units


@pytest.fixture
def pools():
    """Makes pools; the ledger of each is audited at the end."""
    made = []

    def make(n_blocks=10, kind=FreeQueue, **more):
        made.append(kind(n_blocks, **more))
        return made[-1]

    yield make
    for pool in made:
        check(pool.ledger)


def kinds(ledger):
    return [type(fact).__name__ for fact in ledger]


# -- the plain rule ------------------------------------------------------------------------------


def test_blocks_come_from_the_head_and_go_back_to_the_tail_last_block_first(pools):
    pool = pools(6)
    blocks = pool.allocate(4, "a")
    assert blocks == [0, 1, 2, 3]

    pool.release(blocks, "a")

    assert pool.order() == [4, 5, 3, 2, 1, 0]
    assert pool.free_blocks == 6


def test_a_claim_for_more_than_is_free_gets_nothing_and_waits(pools):
    pool = pools(4)
    first = pool.allocate(3, "a")

    with pytest.raises(OutOfMemory, match=r"2 blocks were refused .* 1 of 4 are free") as full:
        pool.allocate(2, "b")

    assert (full.value.size, full.value.free) == (2, 1)
    assert pool.order() == [3]
    pool.release(first[:1], "a")
    assert pool.allocate(2, claim=full.value.claim) == [3, 0]
    assert pool.holders(0) == ("b",)


def test_a_retry_for_another_number_is_a_new_claim(pools):
    pool = pools(4)
    with pytest.raises(OutOfMemory) as full:
        pool.allocate(5, "b")

    assert pool.allocate(2, claim=full.value.claim) == [0, 1]

    assert pool.ledger.of(Withdrawn) == [Withdrawn(0, full.value.claim)]
    assert [fact.size for fact in pool.ledger.of(Claimed)] == [5, 2]


# -- holders -------------------------------------------------------------------------------------


def test_a_shared_block_is_free_when_its_last_holder_lets_go(pools):
    pool = pools(4)
    blocks = pool.allocate(2, "a")
    pool.share(blocks, "b")
    pool.release(blocks, "a")
    assert (pool.held(), pool.holders(0), pool.free_blocks) == ((0, 1), ("b",), 2)

    pool.release(blocks, "b")

    assert (pool.held(), pool.holders(0), pool.order()) == ((), (), [2, 3, 1, 0])
    assert kinds(pool.ledger) == ["Opened", "Claimed", "Granted", "Freed"]


def test_hits_are_held_before_new_blocks_are_taken_and_only_what_was_free_is_claimed(pools):
    pool = pools(4)
    kept = pool.allocate(1, "a")
    gone = pool.allocate(1, "b")
    pool.release(gone, "b")
    assert pool.order() == [2, 3, 1]

    assert pool.allocate(2, "c", hits=[0, 1]) == [0, 1, 2, 3]

    assert pool.holders(kept[0]) == ("a", "c")
    assert pool.ledger[-1] == Granted(0, 2, -1, 3)


def test_a_refused_admission_leaves_its_hits_where_they_were_in_the_queue(pools):
    pool = pools(4)
    pool.release(pool.allocate(2, "a"), "a")
    pool.allocate(1, "b")
    assert pool.order() == [3, 1, 0]

    with pytest.raises(OutOfMemory, match=r"4 blocks \(1 of them cached hits\)"):
        pool.allocate(3, "c", hits=[1])

    assert pool.order() == [3, 1, 0]
    assert pool.holders(1) == ()


def test_hits_that_others_hold_need_no_claim_at_all(pools):
    pool = pools(2)
    pool.allocate(2, "a")
    before = len(pool.ledger)

    assert pool.allocate(0, "b", hits=[1, 0]) == [1, 0]

    assert len(pool.ledger) == before
    assert pool.holders(1) == ("a", "b")


# -- what the ledger and the account say ---------------------------------------------------------


def test_a_unit_is_a_slot_for_a_token_and_empty_slots_are_stranded(pools):
    pool = pools(10, block_tokens=4)
    blocks = pool.allocate(4, "a")
    pool.fill(blocks[-1], 3, "a")

    terms = Account(pool.ledger).at(0)

    assert terms == Terms(40, used=15, stranded=1, fragmented=0, unscheduled=0, spare=24)


def test_blocks_alone_are_counted_in_blocks(pools):
    pool = pools(10)
    assert (pool.ledger[0].capacity, pool.ledger[0].unit) == (10, "block")
    pool.allocate(4, "a")
    assert Account(pool.ledger).at(0) == Terms(10, 4, 0, 0, 0, 6)


def test_part_of_a_claim_goes_back_when_the_rest_is_shared(pools):
    pool = pools(10, block_tokens=4)
    blocks = pool.allocate(3, "a")
    pool.fill(blocks[-1], 1, "a")
    pool.share(blocks[:2], "b")
    pool.clock.advance_to(5)

    pool.release(blocks, "a")

    assert pool.ledger[-1] == Returned(5, 0, 4)
    assert Account(pool.ledger).at(5) == Terms(40, 8, 0, 0, 0, 32)
    pool.release(blocks[:2], "b")
    assert pool.ledger[-1] == Freed(5, 0)


def test_a_full_block_that_goes_back_leaves_the_empty_slots_of_the_others_stranded(pools):
    pool = pools(10, block_tokens=4)
    blocks = pool.allocate(2, "a")
    pool.fill(blocks[1], 1, "a")
    pool.release(blocks[:1], "a")

    assert pool.ledger[-2:] == [Returned(0, 0, 4), Used(0, 0, 1)]
    assert Account(pool.ledger).at(0) == Terms(40, 1, 3, 0, 0, 36)


@pytest.mark.parametrize(("start", "units"), [(-1, 0), (-1, 4), (-1, -1), (0, 2)])
def test_an_account_refuses_a_part_that_cannot_go_back(start, units):
    facts = [Opened(0, "kv", 9, "block"), Claimed(0, 0, "kv", 4, Units(4)), Granted(0, 0, start, 4)]
    with pytest.raises(BrokenLaw, match=f"#3: claim 0 gives back {units} of 4"):
        Account(Ledger([*facts, Returned(1, 0, units)]))


def test_a_waiting_claim_makes_what_it_could_have_unscheduled_and_nothing_fragmented(pools):
    pool = pools(10)
    pool.allocate(6, "a")
    pool.queue(3, "b")
    pool.queue(5, "c")

    assert Account(pool.ledger).at(0) == Terms(10, 6, 0, fragmented=0, unscheduled=3, spare=1)


def test_the_ledger_reads_back_from_its_file(pools, tmp_path):
    pool = pools(4, block_tokens=4)
    blocks = pool.allocate(2, "a")
    pool.release(blocks[:1], "a")
    pool.ledger.to_jsonl(tmp_path / "facts.jsonl")

    assert Ledger.from_jsonl(tmp_path / "facts.jsonl") == pool.ledger


# -- faults of the caller ------------------------------------------------------------------------


def double_release(pool):
    pool.release([0], "a")
    pool.release([0], "a")


FAULTS = {
    "given back twice": (double_release, "not-held", "held by nobody.*released once too often.*returned"),
    "given back by a stranger": (
        lambda pool: pool.release([0], "x"),
        "not-held",
        "held by 'a'.*still read it",
    ),
    "given back with a block it has not": (lambda pool: pool.release([0, 9], "a"), "not-held", "block 9"),
    "given back twice at once": (lambda pool: pool.release([0, 0], "a"), "twice", "block 0 twice"),
    "shared while free": (lambda pool: pool.share([9], "b"), "not-held", "stale.*Block 9 was never granted"),
    "shared with its holder": (lambda pool: pool.share([0], "a"), "held-already", "'a' was to hold block 0"),
    "hit by its holder": (lambda pool: pool.allocate(1, "a", hits=[0]), "held-already", "block 0"),
    "no such block": (lambda pool: pool.release([10], "a"), "bounds", "blocks 0 to 9"),
    "a block that is no number": (lambda pool: pool.share(["1"], "b"), "bounds", "'1'"),
    "a block that is true": (lambda pool: pool.share([True], "b"), "bounds", "True"),
    "no blocks": (lambda pool: pool.allocate(0, "b"), "size", "asked for 0 blocks"),
    "half a block": (lambda pool: pool.allocate(0.5, "b"), "size", "0.5 blocks"),
    "an owner without a name": (lambda pool: pool.allocate(1, 7), "owner", "7"),
    "a child without a name": (lambda pool: pool.share([0], None), "owner", "None"),
    "more tokens than fit": (lambda pool: pool.fill(0, 5, "a"), "size", "5 tokens.*0 to 4"),
    "filled by a stranger": (lambda pool: pool.fill(0, 1, "x"), "not-held", "held by 'a'"),
    "a claim that does not wait": (
        lambda pool: pool.allocate(1, claim=0),
        "waiting",
        "Claim 0 does not wait",
    ),
}


@pytest.mark.parametrize(("act", "law", "says"), FAULTS.values(), ids=FAULTS)
def test_a_broken_rule_is_named_with_its_numbers_and_its_story(act, law, says, pools):
    pool = pools(10, block_tokens=4)
    pool.allocate(2, "a")

    with pytest.raises(AllocatorFault, match=says) as fault:
        act(pool)

    assert fault.value.law == law


def test_a_release_that_is_refused_releases_nothing(pools):
    pool = pools(4)
    pool.allocate(2, "a")
    with pytest.raises(AllocatorFault):
        pool.release([0, 1, 2], "a")
    assert pool.held() == (0, 1)


def test_a_write_into_a_shared_block_is_refused_and_says_who_would_see_it(pools):
    pool = pools(4, block_tokens=4)
    (block,) = pool.allocate(1, "a")
    pool.fill(block, 2, "a")
    pool.share([block], "b")

    with pytest.raises(AllocatorFault, match=r"held by 'a', 'b'.*Copy first") as fault:
        pool.fill(block, 3, "b")

    assert fault.value.law == "shared"
    assert fault.value.numbers["holders"] == ("a", "b")


@pytest.mark.parametrize("number", [0, -1, 2.5, None, True])
def test_a_pool_of_no_blocks_is_not_opened(number):
    with pytest.raises(AllocatorFault, match="n_blocks"):
        FreeQueue(number)
    with pytest.raises(AllocatorFault, match="block_tokens"):
        FreeQueue(4, block_tokens=number)


# -- what a learner's hooks may answer -----------------------------------------------------------


def answering(answer):
    class Answers(BlockPool):
        def take(self, n, urgent=False):
            return answer

        def give(self, blocks):
            pass

    return Answers


ANSWERS = {
    "a block that is held": ([0, 4], "overlap", "0 is held by 'a'.*claim 0.*granted"),
    "a block twice": ([4, 4], "twice", "4 is in it twice"),
    "a block that does not exist": ([4, 10], "bounds", "10 does not exist"),
    "a block below the first": ([-1, 4], "bounds", "-1 does not exist"),
    "fewer than asked": ([4], "all-or-nothing", "2 blocks or None, not 1"),
    "more than asked": ([4, 5, 6], "all-or-nothing", "2 blocks or None, not 3"),
    "nothing but no None": ([], "all-or-nothing", "2 blocks or None, not 0"),
    "a number": (4, "type", "a list of blocks, or None"),
    "names": (["4", 5], "type", "'4' is none"),
    "truth": ([True, 5], "type", "True is none"),
}


@pytest.mark.parametrize(("answer", "law", "says"), ANSWERS.values(), ids=ANSWERS)
def test_a_wrong_answer_of_take_is_named_and_grants_nothing(answer, law, says, pools):
    pool = pools(kind=answering([0]))
    pool.allocate(1, "a")
    pool.take = answering(answer).take.__get__(pool)

    with pytest.raises(AllocatorFault, match=says) as fault:
        pool.allocate(2, "b")

    assert fault.value.law == law
    assert "take(2) answered" in str(fault.value)
    assert (pool.held(), pool.free_blocks) == ((0,), 9)


def test_a_hit_that_comes_back_as_new_is_named(pools):
    class Forgets(BlockPool):
        def prepare(self):
            self.queue_of_mine = list(range(self.n_blocks))

        def take(self, n, urgent=False):
            return self.queue_of_mine[:n]

        def give(self, blocks):
            pass

        def touch(self, blocks):
            pass

    pool = pools(kind=Forgets)

    with pytest.raises(AllocatorFault, match="0 is one and would be lost") as fault:
        pool.allocate(2, "a", hits=[0])

    assert fault.value.law == "hit"


def test_numpy_integers_are_blocks_and_come_back_as_plain_ones(pools):
    import numpy as np

    pool = pools(kind=answering(list(np.array([3, 4]))))
    assert [type(block) for block in pool.allocate(np.int64(2), "a")] == [int, int]


def test_take_may_keep_blocks_back_and_says_so_only_to_those_that_are_not_urgent(pools):
    class Reserve(BlockPool):
        def prepare(self):
            self.mine = list(range(self.n_blocks))

        def take(self, n, urgent=False):
            left = len(self.mine) - n
            if left < (0 if urgent else self.rules["watermark"]):
                return None
            taken, self.mine = self.mine[:n], self.mine[n:]
            return taken

        def give(self, blocks):
            self.mine += reversed(blocks)

    pool = pools(4, kind=Reserve, rules={"watermark": 2})
    pool.allocate(2, "a")
    with pytest.raises(OutOfMemory, match="Enough are free: `take` keeps some back"):
        pool.allocate(1, "b")
    assert pool.ledger.of(Refused) == [Refused(0, 1, 2, 2)]
    assert pool.allocate(1, "a", urgent=True) == [2]


def test_hits_go_back_to_a_pool_that_then_gives_nothing(pools):
    given = []

    class Refuses(BlockPool):
        def take(self, n, urgent=False):
            return None

        def give(self, blocks):
            given.append(("give", blocks))

        def touch(self, blocks):
            given.append(("touch", blocks))

    pool = pools(kind=Refuses)
    with pytest.raises(OutOfMemory):
        pool.allocate(1, "a", hits=[3, 4])
    assert given == [("touch", [3, 4]), ("give", [3, 4])]
    assert pool.held() == ()


def test_give_gets_the_blocks_in_the_order_of_their_holder_and_none_that_is_still_held(pools):
    given = []

    class Listens(BlockPool):
        def take(self, n, urgent=False):
            return list(range(n))

        def give(self, blocks):
            given.append(blocks)

    pool = pools(kind=Listens)
    pool.allocate(4, "a")
    pool.share([1], "b")

    pool.release([3, 1, 0, 2], "a")

    assert given == [[3, 0, 2]]


def test_a_hook_that_raises_is_named_with_its_line_and_its_arguments(pools):
    class Raises(BlockPool):
        def take(self, n, urgent=False):
            return [][n]

        def give(self, blocks):
            pass

    with pytest.raises(AllocatorFault, match=r"take\(2, True\) raised IndexError.* in line \d+") as fault:
        pools(kind=Raises).allocate(2, "a", urgent=True)
    assert fault.value.numbers["hook"] == "take"


def test_a_pool_without_touch_says_that_it_cannot_serve_a_hit(pools):
    with pytest.raises(AllocatorFault, match="block of the caller's choice"):
        pools(kind=answering([0])).allocate(1, "a", hits=[3])


def test_a_learners_name_that_hides_the_pools_own_is_refused_at_once():
    with pytest.raises(AllocatorFault, match="defines `release`, a name that every block pool has"):

        class Hides(BlockPool):
            def release(self, blocks):
                pass

    with pytest.raises(AllocatorFault, match="Make it from BlockPool and write give and take"):

        class Builds(FreeQueue):
            pass

    class Sets(BlockPool):
        def prepare(self):
            self.n_blocks = 7

        def take(self, n, urgent=False):
            return None

        def give(self, blocks):
            pass

    with pytest.raises(AllocatorFault, match=r"prepare set `self\.n_blocks`"):
        Sets(4)
