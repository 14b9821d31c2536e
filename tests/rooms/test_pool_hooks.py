"""A pool that somebody else writes: take, give and trim as values, and what is said to answers that cannot be."""

import numpy as np
import pytest

from gpulab.errors import AllocatorFault, OutOfMemory, StreamFault
from gpulab.memory.pool import Pool
from gpulab.memory.streams import Streams
from gpulab.report.audit import check
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Refused, Withdrawn
from gpulab.units import KiB, MiB


class Bins(Pool):
    """A learner's pool: whole chunks by size and stream, sizes in steps of ``rules["step"]``."""

    def prepare(self):
        self.sizes, self.bins, self.asked = {}, {}, []

    def take(self, size, stream):
        step = self.rules.get("step", 512)
        size = -(-size // step) * step
        shelf = self.bins.get((size, stream))
        return ["chunk", shelf.pop()] if shelf else ["grow", size]

    def grown(self, chunk, size, stream):
        self.sizes[chunk] = size

    def give(self, chunk, stream):
        self.bins.setdefault((self.sizes[chunk], stream), []).append(chunk)
        return []

    def trim(self, need):
        self.asked.append(need)
        chunks = sorted(chunk for shelf in self.bins.values() for chunk in shelf)
        self.bins = {}
        return chunks


class Answers(Pool):
    """A pool that answers whatever it is told to, one answer a question."""

    def __init__(self, *, take=(), give=(), trim=(), progress=None, clock=None):
        self.says = {"take": list(take), "give": list(give), "trim": list(trim)}
        super().__init__(4 * MiB, progress=progress, clock=clock)

    def take(self, size, stream):
        return self.next_answer("take")

    def give(self, chunk, stream):
        return self.next_answer("give")

    def trim(self, need):
        return self.next_answer("trim")

    def next_answer(self, hook):
        answer = self.says[hook].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class EqualToEverything:
    __hash__ = None

    def __eq__(self, other):
        return True


GROW = ["grow", 1 * MiB]


def test_a_pool_of_three_hooks_reuses_what_was_given_back():
    pool = Bins(8 * MiB)
    first = pool.allocate(1000, "a")
    pool.free(first)

    second = pool.allocate(900, "b")

    assert (first.offset, second.offset, second.size) == (0, 0, 1024)
    assert [fact.size for fact in pool.ledger.of(Granted)] == [1024, 1024, 1024]
    assert (pool.used_bytes, pool.total_bytes, pool.free_bytes, pool.n_free_blocks) == (1024, 1024, 0, 0)
    check(pool.ledger)


def test_a_chunk_that_is_never_cut_is_held_whole_and_the_rest_is_stranded():
    pool = Bins(8 * MiB, rules={"step": 64 * KiB})

    extent = pool.allocate(1000)

    assert (extent.size, extent.asked, pool.used_bytes) == (64 * KiB, 1000, 64 * KiB)


def test_trim_is_asked_before_a_refusal_and_again_until_it_fits():
    pool = Bins(4 * MiB)
    for extent in [pool.allocate(1 * MiB), pool.allocate(2 * MiB)]:
        pool.free(extent)

    pool.allocate(4 * MiB)
    with pytest.raises(OutOfMemory):
        pool.allocate(1 * MiB)

    assert pool.asked == [4 * MiB, 1 * MiB]
    assert (pool.total_bytes, len(pool.ledger.of(Refused))) == (4 * MiB, 3)
    check(pool.ledger)


def test_what_give_names_goes_back_to_the_device_at_once():
    pool = Answers(take=[GROW, GROW], give=[[], [0]])
    first, second = pool.allocate(1 * MiB), pool.allocate(1 * MiB)
    pool.free(first)

    pool.free(second)

    assert pool.ledger[-1] == Freed(0, 1)
    assert pool.holes() == ((second.offset, 1 * MiB),)
    check(pool.ledger)


def test_the_cache_is_emptied_by_asking_trim():
    pool = Bins(8 * MiB)
    pool.free(pool.allocate(1 * MiB))
    pool.allocate(2 * MiB)

    assert pool.free_all_blocks() == 1 * MiB
    assert (pool.total_bytes, pool.bins, pool.backing.marks) == (2 * MiB, {}, {})


def test_numpy_integers_are_ids_and_sizes_too():
    pool = Answers(take=[["grow", np.int64(1 * MiB)], ["chunk", np.int32(0)]], give=[[]])
    pool.free(pool.allocate(512))

    assert pool.allocate(512).offset == 0


NOT_TO_TAKE = {
    "None": (None, "type"),
    "a number": (0, "type"),
    "a tuple": (("chunk", 0), "type"),
    "one word": (["chunk"], "type"),
    "another word": (["hold", 0], "type"),
    "a truth value": (["chunk", True], "type"),
    "a fraction": (["grow", 512.0], "type"),
    "equal to every word": ([EqualToEverything(), 0], "type"),
    "a list for a word": ([["chunk"], 0], "type"),
    "less than the claim": (["grow", 1 * MiB - 512], "size"),
    "no multiple of 512": (["grow", 1 * MiB + 1], "size"),
    "a chunk that is not there": (["chunk", 77], "chunk"),
    "a chunk that is held": (["chunk", 0], "held"),
    "a chunk that is too small": (["chunk", 4 * MiB], "size"),
}


@pytest.mark.parametrize(("answer", "law"), NOT_TO_TAKE.values(), ids=NOT_TO_TAKE)
def test_what_take_may_not_answer_grants_nothing_and_the_claim_waits(answer, law):
    pool = Answers(take=[GROW, ["grow", 512], answer, ["grow", 1 * MiB]], give=[[]])
    pool.allocate(1 * MiB)
    pool.free(pool.allocate(512))

    with pytest.raises(
        AllocatorFault, match=r"Answers\.take\(1,048,576, 0\) answered .* mend `take`"
    ) as fault:
        pool.allocate(1 * MiB, "x")

    assert fault.value.law == law
    assert (pool.used_bytes, len(pool.held())) == (1 * MiB, 1)
    assert pool.allocate(0, claim=fault.value.numbers["claim"]).owner == "x"
    check(pool.ledger)


@pytest.mark.parametrize(
    ("answer", "law"),
    [
        (None, "type"),
        ((0,), "type"),
        (["0"], "type"),
        ([True], "type"),
        ([77], "chunk"),
        ([0], "held"),
        ([4 * MiB, 4 * MiB], "twice"),
    ],
)
@pytest.mark.parametrize("hook", ["give", "trim"])
def test_what_may_not_go_back_stays(hook, answer, law):
    says = {"give": [answer], "trim": [answer]} if hook == "give" else {"give": [[]], "trim": [answer]}
    pool = Answers(take=[GROW, ["grow", 512], ["grow", 4 * MiB]], **says)
    pool.allocate(1 * MiB)
    small = pool.allocate(512)

    with pytest.raises(AllocatorFault, match=rf"Answers\.{hook}\(.*\) answered") as fault:
        pool.free(small)
        pool.allocate(4 * MiB)

    assert fault.value.law == law
    assert pool.total_bytes == 1 * MiB + 512
    check(pool.ledger)


def test_a_claim_whose_trim_was_wrong_is_withdrawn_at_the_device_too():
    pool = Answers(take=[GROW, ["grow", 4 * MiB]], trim=[None])
    pool.allocate(1 * MiB)
    with pytest.raises(AllocatorFault, match="trim") as fault:
        pool.allocate(4 * MiB)

    pool.withdraw(fault.value.numbers["claim"])

    assert [fact.claim for fact in pool.ledger.of(Withdrawn)] == [2, 3]
    assert {fact.claim for fact in pool.ledger.of(Claimed)} == {0, 1, 2, 3}


@pytest.mark.parametrize("hook", ["take", "give", "trim"])
def test_a_hook_that_raises_is_named_with_what_it_was_given(hook):
    wrong = ZeroDivisionError("division by zero")
    pool = Answers(
        take=[wrong] if hook == "take" else [GROW, ["grow", 4 * MiB]],
        give=[wrong] if hook == "give" else [[]],
        trim=[wrong],
    )

    with pytest.raises(
        AllocatorFault, match=rf"{hook}\(.* raised ZeroDivisionError: .* in line \d+"
    ) as fault:
        pool.free(pool.allocate(1 * MiB))
        pool.allocate(4 * MiB)

    assert (fault.value.law, fault.value.numbers["hook"]) == ("raised", hook)
    check(pool.ledger)


def test_a_chunk_of_another_stream_is_taken_only_after_its_mark():
    clock = Clock()
    streams = Streams(clock)
    pool = Answers(
        take=[GROW, ["chunk", 0], ["chunk", 0], ["chunk", 0]], give=[[]] * 2, progress=streams, clock=clock
    )
    streams.run(0, 100)
    pool.free(pool.allocate(512, stream=0))

    with pytest.raises(
        StreamFault, match="stream 0, on which it was freed, has not reached its mark"
    ) as fault:
        pool.allocate(512, stream=1)
    assert (fault.value.law, fault.value.numbers["other"]) == ("race", 0)
    pool.free(pool.allocate(512, stream=0))  # its own stream: in order by itself

    streams.run(0, 100)  # after the free: no business of the chunk
    clock.advance_to(100)
    assert pool.allocate(512, stream=1).offset == 0
    check(pool.ledger)


def test_a_chunk_that_went_to_another_stream_is_now_behind_that_one():
    clock = Clock()
    streams = Streams(clock)
    pool = Answers(take=[GROW, ["chunk", 0], ["chunk", 0]], give=[[]] * 2, progress=streams, clock=clock)
    pool.free(pool.allocate(512, stream=0))
    extent = pool.allocate(512, stream=1)
    streams.run(1, 100)
    pool.free(extent)

    with pytest.raises(StreamFault, match="stream 1, on which it was freed"):
        pool.allocate(512, stream=0)


def test_a_rule_that_cuts_says_how_much_it_keeps():
    class Cuts(Pool):
        answer = 512

        def prepare(self):
            self.shelf = self.segments.new_shelf()

        def shelf_for(self, size, stream):
            return self.shelf

        def take(self, size, stream):
            chunk = self.segments.best_fit(self.shelf, size)
            return ["grow", 4096] if chunk is None else ["chunk", chunk.start]

        def keep(self, held, size):
            return self.answer

        def give(self, chunk, stream):
            return []

        def trim(self, need):
            return []

    pool = Cuts(1 * MiB)
    assert (pool.allocate(512).size, pool.holes()) == (512, ((512, 3584),))

    for wrong in (0, 511, 4096, True, None, "512"):
        pool.answer = wrong
        with pytest.raises(AllocatorFault, match=r"Cuts\.keep\(3,584, 512\) answered") as fault:
            pool.allocate(512)
        assert fault.value.law == "size"
    assert pool.holes() == ((512, 3584),)
    check(pool.ledger)


@pytest.mark.parametrize("name", ["allocate", "free", "clock", "ledger", "segments", "holdings"])
def test_a_name_that_every_pool_needs_is_refused_by_name(name):
    class Takes(Pool):
        take = give = trim = lambda *anything: []

        def prepare(self):
            setattr(self, name, 1)

    with pytest.raises(AllocatorFault, match=f"`self.{name}`, a name that every pool has already"):
        Takes(1 * MiB)


def test_a_class_that_writes_what_is_final_is_refused_where_it_is_written():
    with pytest.raises(
        AllocatorFault, match="class Takes defines `free`, a name that every pool has already"
    ):

        class Takes(Pool):
            def free(self):
                pass
