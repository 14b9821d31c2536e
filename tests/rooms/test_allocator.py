"""Bad input to an allocator, and bad answers of its hooks: a named error each, and books that stay right."""

import numpy as np
import pytest

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.allocator import Allocator
from gpulab.memory.arena import FirstFit
from gpulab.memory.extent import Extent
from gpulab.report.audit import audit
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous
from gpulab.units import MiB


class EqualToEverything:
    """What a careless or hostile caller may hand in."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return True


class Scripted(Allocator):
    """Answers what the test wrote down, in order; an exception is raised."""

    def __init__(self, *answers, capacity=4096, **more):
        super().__init__(capacity, **more)
        self.answers, self.asked, self.returned = list(answers), [], []

    def place(self, size):
        self.asked.append(size)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reclaim(self, offset, size):
        self.returned.append((offset, size))


def fault(act, *args, **kwargs) -> AllocatorFault:
    with pytest.raises(AllocatorFault) as found:
        act(*args, **kwargs)
    return found.value


# -- what goes right -----------------------------------------------------------------------------


def test_a_grant_is_rounded_recorded_and_its_use_is_what_was_asked():
    arena = Scripted(0, 512)

    assert arena.allocate(100, "chat") == Extent(0, 0, 512, 100, "chat")
    assert arena.allocate(1024, "code").end == 1536

    assert arena.asked == [512, 1024]
    assert list(arena.ledger) == [
        Opened(0, "arena", 4096, "B"),
        Claimed(0, 0, "arena", 100, Contiguous(512, 512), "chat"),
        Granted(0, 0, 0, 512),
        Used(0, 0, 100),
        Claimed(0, 1, "arena", 1024, Contiguous(1024, 512), "code"),
        Granted(0, 1, 512, 1024),
    ]


def test_free_records_first_and_then_gives_the_bytes_to_reclaim():
    arena = Scripted(512)
    extent = arena.allocate(100)
    arena.clock.advance_to(7)

    arena.free(extent)

    assert arena.ledger[-1] == Freed(7, 0)
    assert arena.returned == [(512, 512)]
    assert (arena.held(), arena.gaps(), arena.free_bytes) == ((), ((0, 4096),), 4096)


def test_held_and_gaps_are_in_order_of_address():
    arena = Scripted(2048, 0)
    late, early = arena.allocate(512), arena.allocate(512)

    assert arena.held() == (early, late)
    assert arena.gaps() == ((512, 1536), (2560, 1536))
    assert arena.free_bytes == 3072


def test_a_clock_a_ledger_a_name_and_rules_can_be_given():
    clock, ledger, rules = Clock(5), Ledger(), {"cap": 3}
    arena = Scripted(clock=clock, ledger=ledger, resource="slab", rules=rules)

    assert list(ledger) == [Opened(5, "slab", 4096, "B")]
    assert (arena.clock, arena.ledger, arena.rules) == (clock, ledger, rules)
    assert arena.rules is not rules


@pytest.mark.parametrize("size", [np.int64(700), np.uint8(200), np.int32(1)])
def test_a_numpy_integer_is_a_size_and_leaves_plain_numbers_in_the_ledger(size):
    arena = Scripted(0)

    arena.allocate(size)

    assert type(arena.ledger[1].size) is int
    assert arena.ledger.digest()


@pytest.mark.parametrize("offset", [np.int64(512), np.uint16(512)])
def test_place_may_answer_a_numpy_integer_and_the_extent_has_a_plain_one(offset):
    arena = Scripted(offset)

    extent = arena.allocate(1)

    assert extent.offset == 512
    assert type(extent.offset) is type(arena.ledger[2].start) is int


# -- sizes and openings --------------------------------------------------------------------------

NO_SIZES = [0, -1, -512, 1.0, 512.5, True, False, "512", None, float("nan"), np.float64(3), np.bool_(True)]


@pytest.mark.parametrize("size", [*NO_SIZES, EqualToEverything()], ids=lambda size: type(size).__name__)
def test_a_size_that_is_no_positive_whole_number_is_refused_before_place_is_asked(size):
    arena = Scripted(0)
    arena.clock.advance_to(2_000_000)

    for act in (arena.allocate, arena.queue):
        found = fault(act, size)
        assert found.law == "size"
        assert " at 2.000 ms. Give a whole number of bytes, 1 or more." in str(found)

    assert arena.asked == []
    assert list(arena.ledger) == [Opened(0, "arena", 4096, "B")]


def test_the_message_shows_the_size_that_was_given():
    assert "was asked for -3 bytes" in str(fault(Scripted().allocate, -3))


@pytest.mark.parametrize("owner", [None, 7, b"chat", EqualToEverything()])
def test_an_owner_that_is_no_text_is_refused_and_nothing_is_recorded(owner):
    arena = Scripted(0)

    assert fault(arena.allocate, 512, owner).law == "owner"
    assert len(arena.ledger) == 1


@pytest.mark.parametrize("size", [4097, 1 << 70])
def test_more_than_the_arena_is_refused_without_asking_place_and_is_said_to_be_hopeless(size):
    arena = Scripted(0)

    with pytest.raises(OutOfMemory, match="more than the whole arena: no freeing would help") as full:
        arena.allocate(size)

    assert arena.asked == []
    assert arena.ledger[-1] == Refused(0, 0, 4096, 4096)
    assert (full.value.claim, full.value.free, full.value.largest) == (0, 4096, 4096)


def test_the_whole_arena_can_be_granted():
    assert FirstFit(4096).allocate(4096) == Extent(0, 0, 4096, 4096)


@pytest.mark.parametrize("number", [0, -512, 512.0, True, None, "512", EqualToEverything()])
@pytest.mark.parametrize("name", ["capacity", "alignment"])
def test_an_arena_cannot_be_opened_with_a_number_of_bytes_that_is_none(name, number):
    ledger = Ledger()
    found = fault(FirstFit, **{"capacity": 4096, name: number}, ledger=ledger)

    assert found.law == "size"
    assert name in str(found)
    assert len(ledger) == 0


def test_a_capacity_must_be_a_multiple_of_the_alignment():
    assert "1,000" in str(fault(FirstFit, 1000))
    assert FirstFit(1000, alignment=8).allocate(9).size == 16


# -- refusals, retries, the queue ----------------------------------------------------------------


def test_a_refused_claim_waits_and_a_retry_grants_the_same_claim():
    arena = Scripted(None, None, 512)
    with pytest.raises(OutOfMemory) as full:
        arena.allocate(100, "chat")
    with pytest.raises(OutOfMemory) as again:
        arena.allocate(100, "chat", claim=full.value.claim)

    extent = arena.allocate(100, "chat", claim=0)

    assert (full.value.claim, again.value.claim, full.value.size) == (0, 0, 512)
    assert extent == Extent(0, 512, 512, 100, "chat")
    assert [type(fact) for fact in arena.ledger] == [Opened, Claimed, Refused, Refused, Granted, Used]


def test_a_retry_gets_what_the_claim_asked_for_whatever_it_says_now():
    arena = Scripted(0)
    claim = arena.queue(1000, "chat")

    assert arena.allocate(1, "other", claim=claim) == Extent(0, 0, 1024, 1000, "chat")


def test_a_queued_claim_waits_without_asking_place():
    arena = Scripted()

    assert [arena.queue(100), arena.queue(200)] == [0, 1]

    assert arena.asked == []
    assert [type(fact) for fact in arena.ledger] == [Opened, Claimed, Claimed]


def test_a_withdrawn_claim_waits_no_longer():
    arena = Scripted(0)
    claim = arena.queue(100)

    arena.withdraw(claim)

    assert arena.ledger[-1] == Withdrawn(0, 0)
    for act in (lambda: arena.withdraw(claim), lambda: arena.allocate(100, claim=claim)):
        found = fault(act)
        assert found.law == "waiting"
        assert "Story of claim 0: #1 0 ns claimed · #2 0 ns withdrawn." in str(found)
    assert len(arena.ledger) == 3


@pytest.mark.parametrize("claim", [0, 7, -1, True, "0", 0.0, EqualToEverything()])
def test_only_a_claim_that_waits_can_be_retried_or_withdrawn(claim):
    arena = Scripted(0)
    arena.allocate(1)
    before = list(arena.ledger)

    assert fault(arena.withdraw, claim).law == "waiting"
    assert fault(arena.allocate, 1, claim=claim).law == "waiting"
    assert list(arena.ledger) == before


REASONS = {
    "too little in all": ([0, None], [3584], 1024, "Too little is free in all"),
    "not in one stretch": (
        [512, 2560, None],
        [512, 512],
        3072,
        "Enough is free in all, but not in one stretch",
    ),
    "place gave up": ([0, None], [512], 1024, "`place` refused although it could have been placed"),
}


@pytest.mark.parametrize(("answers", "held", "size", "why"), REASONS.values(), ids=REASONS)
def test_a_refusal_says_why_with_the_numbers_and_what_to_do(answers, held, size, why):
    arena = Scripted(*answers)
    for length in held:
        arena.allocate(length)

    with pytest.raises(OutOfMemory, match=f"{why}.*waits until it is retried or withdrawn") as full:
        arena.allocate(size)

    largest = max(length for _, length in arena.gaps())
    assert (full.value.free, full.value.largest) == (4096 - sum(held), largest)
    assert arena.ledger[-1] == Refused(0, len(held), 4096 - sum(held), largest)


class Coarse(Scripted):
    """Large claims start on a multiple of 1,024."""

    def alignment_of(self, size):
        return 1024 if size > 512 else 512


def test_a_coarser_alignment_of_some_claims_is_kept_and_given_as_the_reason():
    arena = Coarse(0, 2560, 512, None)
    for size in (512, 512):
        arena.allocate(size)

    found = fault(arena.allocate, 1024)
    with pytest.raises(OutOfMemory, match="Claim 3") as full:
        arena.allocate(2048)

    assert (found.law, found.numbers["offset"]) == ("alignment", 512)
    assert "expected a multiple of 1,024" in str(found)
    assert arena.ledger[5].shape == Contiguous(1024, 1024)
    assert "stretch that long is free, but too little of it from a multiple of 1,024 on" in str(full.value)


# -- free ----------------------------------------------------------------------------------------


def test_free_of_what_is_no_extent_is_refused():
    arena = Scripted(0)
    arena.allocate(512)

    for thing in (None, 0, (0, 512), "extent", EqualToEverything()):
        assert fault(arena.free, thing).law == "not-held"
    assert "give it the Extent that allocate returned" in str(fault(arena.free, 0))
    assert arena.returned == []


def test_a_second_free_is_refused_with_the_story_of_the_claim():
    arena = Scripted(512)
    extent = arena.allocate(512)
    arena.free(extent)
    before = list(arena.ledger)

    found = fault(arena.free, extent)

    assert (found.law, found.numbers) == ("not-held", {"claim": 0, "offset": 512})
    assert "free each extent once" in str(found)
    assert "#1 0 ns claimed · #2 0 ns granted · #3 0 ns freed" in str(found)
    assert (list(arena.ledger), arena.returned, arena.free_bytes) == (before, [(512, 512)], 4096)


def test_free_of_an_extent_whose_bytes_somebody_else_holds_by_now_is_refused():
    arena = Scripted(0, 0)
    old = arena.allocate(512)
    arena.free(old)
    new = arena.allocate(512)

    assert fault(arena.free, old).law == "not-held"
    assert arena.held() == (new,)


@pytest.mark.parametrize(
    "make", [lambda extent: FirstFit(4096).allocate(512), lambda extent: Extent(0, 0, 512, 512)]
)
def test_an_equal_extent_of_another_arena_is_not_held_here(make):
    arena = Scripted(0)
    extent = arena.allocate(512)
    foreign = make(extent)
    assert foreign == extent

    assert fault(arena.free, foreign).law == "not-held"
    assert arena.held() == (extent,)


# -- what place and reclaim may do wrong ---------------------------------------------------------

BAD_ANSWERS = {
    "a fraction": (512.0, "type", "answered a float, 512.0"),
    "a bool": (True, "type", "answered a bool, True"),
    "text": ("512", "type", "answered a str, '512'"),
    "equal to everything": (EqualToEverything(), "type", "answered a EqualToEverything"),
    "negative": (-512, "bounds", "answered -512"),
    "past the end": (4096, "bounds", "expected an offset from 0 to 3,584"),
    "over the end": (3600, "bounds", "answered 3,600"),
    "negative NumPy": (np.int64(-512), "bounds", "answered -512"),
    "misaligned": (1025, "alignment", "expected a multiple of 512"),
    "the same place": (512, "overlap", "claim 0 holds [512, 1,536) since #2 at 1.000 µs"),
    "inside it": (1024, "overlap", "claim 0 holds [512, 1,536) since #2 at 1.000 µs"),
}


@pytest.mark.parametrize(("answer", "law", "says"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_bad_answer_of_place_is_a_fault_that_grants_nothing(answer, law, says):
    arena = Scripted(512, answer, 2048)
    arena.clock.advance_to(1_000)
    first = arena.allocate(1024, "first")
    arena.clock.advance_to(3_000_000)

    found = fault(arena.allocate, 500, "second")

    message = str(found)
    assert (found.law, found.numbers["size"], found.numbers["claim"]) == (law, 512, 1)
    assert message.startswith("Scripted.place(512) answered ")
    assert says in message
    assert " at 3.000 ms; expected " in message
    assert "Nothing was granted: mend `place`; the ledger up to here is kept." in message
    assert message.endswith("Story of claim 1: #3 3.000 ms claimed.")
    assert arena.held() == (first,)
    assert [type(fact) for fact in arena.ledger] == [Opened, Claimed, Granted, Claimed]
    assert audit(arena.ledger) == []


@pytest.mark.parametrize("offset", [0, 512])
def test_an_answer_that_runs_into_the_next_extent_or_covers_it_overlaps(offset):
    arena = Scripted(1024, offset)
    arena.allocate(512)

    found = fault(arena.allocate, 2048)

    assert (found.law, found.numbers["other"], found.numbers["offset"]) == ("overlap", 0, offset)


def test_after_a_fault_the_claim_still_waits_and_may_be_retried_or_withdrawn():
    arena = Scripted(-1, 0)
    fault(arena.allocate, 512)

    assert arena.allocate(512, claim=0) == Extent(0, 0, 512, 512)
    assert audit(arena.ledger) == []


def test_extents_that_touch_do_not_overlap():
    arena = Scripted(512, 0, 1024)

    for _ in range(3):
        arena.allocate(512)

    assert arena.gaps() == ((1536, 2560),)


def test_a_hook_that_raises_is_named_with_its_error_line_and_argument():
    wrong = ValueError("no idea")
    arena = Scripted(wrong)

    found = fault(arena.allocate, 100)

    line = wrong.__traceback__.tb_next.tb_lineno
    assert (found.law, found.numbers["hook"], found.numbers["error"]) == ("raised", "place", "ValueError")
    assert f"Scripted.place(512) raised ValueError: ValueError('no idea') in line {line} at 0 ns" in str(
        found
    )
    assert "Mend `place`; the ledger up to here is kept. Story of claim 0: #1 0 ns claimed." in str(found)
    assert found.__cause__ is wrong
    assert [type(fact) for fact in arena.ledger] == [Opened, Claimed]


def test_running_out_of_memory_inside_place_is_still_a_fault_of_place():
    full = OutOfMemory("full", claim=0, size=1, free=0, largest=0)

    assert fault(Scripted(full).allocate, 1).numbers["error"] == "OutOfMemory"


class Fussy(Scripted):
    def reclaim(self, offset, size):
        raise KeyError(offset)


def test_a_reclaim_that_raises_is_named_and_the_bytes_are_free():
    arena = Fussy(512)
    extent = arena.allocate(512)

    found = fault(arena.free, extent)

    assert "Fussy.reclaim(512, 512) raised KeyError: KeyError(512) in line" in str(found)
    assert "Mend `reclaim`" in str(found)
    assert arena.ledger[-1] == Freed(0, 0)
    assert (arena.held(), arena.free_bytes) == ((), 4096)
    assert audit(arena.ledger) == []


class Unready(Scripted):
    def place(self):
        return 0


def test_a_hook_with_the_wrong_arguments_is_named_without_a_line():
    found = fault(Unready().allocate, 512)

    assert "Unready.place(512) raised TypeError" in str(found)
    assert "in line" not in str(found)


class Unprintable(Exception):
    def __repr__(self):
        raise RuntimeError


def test_an_error_that_cannot_be_shown_is_still_reported():
    assert "an object whose repr raises RuntimeError" in str(fault(Scripted(Unprintable()).allocate, 1))


def test_ctrl_c_goes_through():
    class Endless(Scripted):
        def place(self, size):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Endless().allocate(1)


# -- names that are taken ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["free", "allocate", "queue", "withdraw", "held", "gaps", "free_bytes", "_round"]
)
def test_a_subclass_may_not_define_a_name_that_every_allocator_needs(name):
    found = fault(type, "Mine", (FirstFit.__mro__[1],), {name: lambda self: None})

    assert (found.law, found.numbers) == ("name", {"name": name})
    assert f"class Mine defines `{name}`" in str(found)
    assert f"`my_{name.strip('_')}`" in str(found)


@pytest.mark.parametrize("name", ["free", "place", "capacity", "ledger", "_held", "_offsets", "held"])
def test_prepare_may_not_hide_what_every_allocator_needs(name):
    class Mine(Scripted):
        def prepare(self):
            setattr(self, name, [])

    found = fault(Mine)

    assert (found.law, found.numbers) == ("name", {"name": name})
    assert f"Mine.prepare set `self.{name}`" in str(found)


def test_prepare_may_set_names_of_its_own_and_read_all_there_is():
    class Mine(Scripted):
        def prepare(self):
            self.holes = [(0, self.capacity)]
            self.rules = {**self.rules, "cap": self.alignment * 2}

    arena = Mine(rules={"x": 1}, capacity=1 * MiB)

    assert (arena.holes, arena.rules) == ([(0, MiB)], {"x": 1, "cap": 1024})


def test_a_class_without_the_hooks_cannot_be_opened():
    class Lazy(Allocator):
        def place(self, size):
            return 0

    with pytest.raises(TypeError, match="reclaim"):
        Lazy(4096)
