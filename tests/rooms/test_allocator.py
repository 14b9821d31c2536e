"""The final half of every allocator: what it checks, what it records, what it says when a rule is broken."""

import json

import numpy as np
import pytest

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.allocator import Allocator
from gpulab.memory.arena import BestFit, Bump, FirstFit
from gpulab.memory.extent import Extent
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous
from gpulab.units import MiB


class Scripted(Allocator):
    """Answers ``place`` from a list; an answer that is an exception is raised."""

    def __init__(self, *answers: object, capacity: int = 4096, reclaims: Exception | None = None) -> None:
        self.answers = list(answers)
        self.reclaims = reclaims
        self.told: list[tuple[int, int]] = []
        super().__init__(capacity)

    def place(self, size: int) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reclaim(self, offset: int, size: int) -> None:
        self.told.append((offset, size))
        if self.reclaims is not None:
            raise self.reclaims


class EqualToEverything:
    """What a careless or hostile ``place`` may answer."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "<equal to everything>"


class Unspeakable:
    """Raises when it is asked for its value or its looks."""

    def __index__(self) -> int:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


class LiesAboutItself(int):
    """A whole number whose comparisons lie."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


def fault_of(arena: Allocator, size: int = 512, time_ns: int = 1500) -> AllocatorFault:
    arena.clock.advance_to(time_ns)
    with pytest.raises(AllocatorFault) as fault:
        arena.allocate(size, "chat")
    return fault.value


# -- opening -------------------------------------------------------------------------------------


def test_an_arena_opens_with_one_fact_and_is_free_in_one_stretch():
    arena = FirstFit(8192, clock=Clock(7), resource="slab")

    assert list(arena.ledger) == [Opened(7, "slab", 8192, "B")]
    assert (arena.free_bytes, arena.held(), arena.gaps()) == (8192, (), ((0, 8192),))


def test_a_shared_clock_and_ledger_are_the_ones_given_even_when_empty():
    clock, ledger = Clock(), Ledger()
    arena = FirstFit(8192, clock=clock, ledger=ledger)

    assert (arena.clock, arena.ledger) == (clock, ledger)
    assert arena.ledger is ledger
    assert len(ledger) == 1


@pytest.mark.parametrize("capacity", [0, -512, 512.0, "512", None, True, Unspeakable(), EqualToEverything()])
def test_a_capacity_that_is_no_positive_whole_number_opens_nothing(capacity):
    with pytest.raises(AllocatorFault, match=r"with a capacity of .* bytes\. Give a whole number") as fault:
        FirstFit(capacity)

    assert fault.value.law == "size"


def test_a_capacity_that_is_no_multiple_of_the_alignment_says_the_nearest_that_are():
    with pytest.raises(AllocatorFault, match=r"1,000 bytes .* alignment, 512\. Take 512 or 1,024") as fault:
        FirstFit(1000)

    assert (fault.value.law, fault.value.numbers) == ("size", {"capacity": 1000})


@pytest.mark.parametrize("alignment", [0, -2, 1.0, None])
def test_an_alignment_that_is_none_opens_nothing(alignment):
    with pytest.raises(AllocatorFault, match="with an alignment of"):
        FirstFit(1024, alignment=alignment)


def test_numpy_capacity_and_alignment_become_plain_so_that_the_ledger_can_be_written():
    arena = FirstFit(np.int32(8192), alignment=np.uint8(4))

    assert (type(arena.capacity), type(arena.alignment)) == (int, int)
    assert FirstFit(8192, alignment=4).ledger.digest() == arena.ledger.digest()


def test_rules_are_a_copy_that_an_allocator_may_change():
    class Changes(Scripted):
        def prepare(self) -> None:
            self.rules = {**self.rules, "threshold": 2}

    given = {"threshold": 1}
    FirstFit(1024, rules=given).rules["threshold"] = 3

    assert given == {"threshold": 1}
    assert Changes().rules == {"threshold": 2}


@pytest.mark.parametrize("name", ["free", "held", "gaps", "allocate", "ledger", "clock", "capacity", "_held"])
def test_prepare_that_takes_a_name_of_every_allocator_is_refused_at_once(name):
    class Hides(Scripted):
        def prepare(self) -> None:
            setattr(self, name, [])

    with pytest.raises(AllocatorFault) as fault:
        Hides()

    assert f"Hides.prepare set `self.{name}`, a name that every allocator has already" in str(fault.value)
    assert f"Choose another, for example `my_{name.strip('_')}`" in str(fault.value)
    assert (fault.value.law, fault.value.numbers) == ("name", {"name": name})


def test_a_name_taken_before_the_arena_is_set_up_is_refused_too():
    class Hides(Scripted):
        def __init__(self) -> None:
            self.gaps = []
            super().__init__()

    with pytest.raises(AllocatorFault, match="a name that every allocator has already"):
        Hides()


def test_attributes_of_a_subclass_may_change_in_prepare():
    class Counts(Scripted):
        def prepare(self) -> None:
            self.told = [(0, 0)]
            self.holes = []

    assert Counts().told == [(0, 0)]


@pytest.mark.parametrize("name", ["allocate", "free", "_round", "held"])
def test_a_subclass_that_writes_what_is_final_is_refused_where_it_is_defined(name):
    with pytest.raises(AllocatorFault, match=f"class Mine defines `{name}`, a name that every") as fault:
        type("Mine", (Allocator,), {name: lambda self: None})

    assert fault.value.law == "name"


@pytest.mark.parametrize("parent", [Bump, FirstFit, BestFit])
def test_a_finished_allocator_is_not_built_upon_directly_or_at_second_hand(parent):
    with pytest.raises(
        AllocatorFault, match=f"class Mine is made from {parent.__name__}, which is final"
    ) as fault:
        type("Mine", (parent,), {})

    assert (fault.value.law, fault.value.numbers) == ("final", {"name": parent.__name__})


def test_place_and_reclaim_must_be_written():
    with pytest.raises(TypeError, match="abstract"):
        Allocator(512)


# -- granting ------------------------------------------------------------------------------------


def test_a_grant_is_rounded_up_and_says_how_much_of_it_is_used():
    arena = FirstFit(4096)
    arena.clock.advance_to(5)

    extent = arena.allocate(513, "chat")

    assert extent == Extent(claim=0, offset=0, size=1024, asked=513, owner="chat")
    assert extent.end == 1024
    assert list(arena.ledger)[1:] == [
        Claimed(5, 0, "arena", 513, Contiguous(1024, 512), "chat"),
        Granted(5, 0, 0, 1024),
        Used(5, 0, 513),
    ]
    assert (arena.free_bytes, arena.held(), arena.gaps()) == (3072, (extent,), ((1024, 3072),))


def test_a_grant_of_whole_units_needs_no_word_on_its_use():
    arena = FirstFit(4096)

    arena.allocate(1024)

    assert [type(fact) for fact in arena.ledger] == [Opened, Claimed, Granted]


def test_the_whole_arena_can_be_granted():
    arena = FirstFit(4096)

    assert arena.allocate(4096).size == 4096
    assert (arena.free_bytes, arena.gaps()) == (0, ())


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16, np.uint64])
def test_numpy_sizes_and_offsets_are_accepted_and_recorded_as_plain_numbers(kind):
    arena = Scripted(kind(0), capacity=512)

    extent = arena.allocate(kind(100))

    assert [type(value) for value in (extent.offset, extent.size, extent.asked)] == [int, int, int]
    assert (
        arena.ledger.digest()
        == Ledger(
            [
                Opened(0, "arena", 512, "B"),
                Claimed(0, 0, "arena", 100, Contiguous(512, 512)),
                Granted(0, 0, 0, 512),
                Used(0, 0, 100),
            ]
        ).digest()
    )


def test_a_number_that_lies_about_itself_is_taken_at_its_value():
    arena = Scripted(0, LiesAboutItself(0))
    arena.allocate(512)

    assert fault_of(arena).law == "overlap"


def test_held_and_gaps_are_in_order_of_address_whatever_the_order_of_grants():
    arena = Scripted(1536, 0)
    second, first = arena.allocate(512), arena.allocate(512)

    assert arena.held() == (first, second)
    assert arena.gaps() == ((512, 1024), (2048, 2048))


# -- claims that make no sense -------------------------------------------------------------------


NO_SIZE = [0, -1, -512, 1.0, 0.5, float("nan"), True, False, np.True_, np.float64(512), None, "512", [512]]


@pytest.mark.parametrize(
    "size", [*NO_SIZE, EqualToEverything(), Unspeakable()], ids=lambda size: type(size).__name__
)
@pytest.mark.parametrize("verb", ["allocate", "queue"])
def test_a_size_that_is_no_positive_whole_number_is_refused_and_nothing_recorded(verb, size):
    arena = FirstFit(4096)
    arena.clock.advance_to(1500)

    with pytest.raises(AllocatorFault) as fault:
        getattr(arena, verb)(size)

    assert str(fault.value).startswith("The arena was asked for ")
    assert str(fault.value).endswith("bytes at 1.500 µs. Give a whole number of bytes, 1 or more.")
    assert (fault.value.law, len(arena.ledger)) == ("size", 1)
    assert arena.allocate(512).claim == 0  # no serial was lost


@pytest.mark.parametrize("owner", [None, 7, b"chat"])
def test_an_owner_that_is_no_text_is_refused_since_its_ledger_could_not_be_read_again(owner):
    arena = FirstFit(4096)

    with pytest.raises(AllocatorFault, match="an owner is a name, as text") as fault:
        arena.allocate(512, owner)

    assert (fault.value.law, len(arena.ledger)) == ("owner", 1)


def test_a_claim_over_capacity_is_refused_without_asking_place():
    arena = Scripted()

    with pytest.raises(OutOfMemory, match=r"more than the whole arena.*ask for less\. Claim 0 waits") as full:
        arena.allocate(4097)

    assert (full.value.claim, full.value.size, full.value.free, full.value.largest) == (0, 4608, 4096, 4096)
    assert arena.ledger[-1] == Refused(0, 0, 4096, 4096)


def test_a_claim_larger_than_any_column_can_hold_still_fits_in_its_ledger():
    arena = FirstFit(4096)
    with pytest.raises(OutOfMemory):
        arena.allocate(10**30)

    assert arena.ledger.columns(Claimed)["size"].tolist() == [10**30]


# -- refusals ------------------------------------------------------------------------------------


def full_arena(*held: int, capacity: int = 4096) -> tuple[FirstFit, list[Extent]]:
    arena = FirstFit(capacity)
    return arena, [arena.allocate(size) for size in held]


def test_a_refusal_tells_too_little_in_all():
    arena, _ = full_arena(3072)
    arena.clock.advance_to(2000)

    with pytest.raises(OutOfMemory) as full:
        arena.allocate(1500, "chat")

    assert str(full.value) == (
        "1.50 KiB were refused at 2.000 µs (#4): 1 KiB of 4 KiB are free, the longest stretch is 1 KiB. Too little "
        "is free in all: wait until something is freed, or ask for less. Claim 1 waits until it is retried or "
        "withdrawn."
    )
    assert list(arena.ledger)[3:] == [
        Claimed(2000, 1, "arena", 1500, Contiguous(1536, 512), "chat"),
        Refused(2000, 1, 1024, 1024),
    ]


def test_a_refusal_tells_enough_in_all_but_not_in_one_stretch():
    arena, held = full_arena(1024, 1024, 2048)
    arena.free(held[0])
    arena.free(held[2])

    with pytest.raises(
        OutOfMemory, match=r"longest stretch is 2 KiB\. Enough is free in all, but not in one"
    ):
        arena.allocate(3072)


def test_a_refusal_tells_a_stretch_that_is_long_enough_only_before_aligning():
    class OnMiB(Scripted):
        def alignment_of(self, size: int) -> int:
            return MiB

    arena = OnMiB(0, None, capacity=2 * MiB)
    arena.allocate(512)

    with pytest.raises(
        OutOfMemory, match="long is free, but too little of it from a multiple of 1,048,576 on"
    ):
        arena.allocate(2 * MiB - 512)


def test_a_refusal_of_what_would_fit_says_that_place_refused_it():
    with pytest.raises(OutOfMemory, match="`place` refused although it could have been placed"):
        Scripted(None).allocate(512)


# -- waiting: retry, queue, withdraw -------------------------------------------------------------


def test_a_refused_claim_waits_and_can_be_retried_under_its_own_serial():
    arena, (first,) = full_arena(4096)
    with pytest.raises(OutOfMemory) as full:
        arena.allocate(700, "chat")
    arena.free(first)
    before = len(arena.ledger)

    extent = arena.allocate(1, "ignored", claim=full.value.claim)

    assert extent == Extent(1, 0, 1024, 700, "chat")
    assert list(arena.ledger)[before:] == [Granted(0, 1, 0, 1024), Used(0, 1, 700)]


def test_a_retry_in_vain_is_one_more_refusal_of_the_same_claim():
    arena, _ = full_arena(4096)
    for _ in range(2):
        with pytest.raises(OutOfMemory):
            arena.allocate(512, claim=1 if len(arena.ledger) > 3 else None)

    assert [type(fact) for fact in arena.ledger][3:] == [Claimed, Refused, Refused]


def test_a_queued_claim_waits_without_asking_place_and_is_granted_by_a_retry():
    arena = Scripted(512)

    claim = arena.queue(np.int64(100), "later")

    assert list(arena.ledger)[1:] == [Claimed(0, 0, "arena", 100, Contiguous(512, 512), "later")]
    assert arena.allocate(100, claim=claim) == Extent(0, 512, 512, 100, "later")


def test_a_withdrawn_claim_waits_no_more():
    arena = Scripted(None)
    with pytest.raises(OutOfMemory) as full:
        arena.allocate(512)

    arena.withdraw(full.value.claim)

    assert arena.ledger[-1] == Withdrawn(0, 0)
    with pytest.raises(AllocatorFault, match=r"#1 0 ns claimed · #2 0 ns refused · #3 0 ns withdrawn"):
        arena.withdraw(full.value.claim)


@pytest.mark.parametrize("claim", [0, 1, -1, 2.0, "2", True, None.__class__, EqualToEverything(), [2]])
@pytest.mark.parametrize("verb", ["allocate", "withdraw"])
def test_only_a_claim_that_waits_is_retried_or_withdrawn(verb, claim):
    arena = Scripted(0, None, None)
    arena.allocate(512)  # claim 0 is granted
    arena.clock.advance_to(1500)
    for _ in range(2):
        with pytest.raises(OutOfMemory):
            arena.allocate(512)
    arena.withdraw(1)
    before = len(arena.ledger)

    with pytest.raises(AllocatorFault) as fault:
        arena.withdraw(claim) if verb == "withdraw" else arena.allocate(512, claim=claim)

    assert "does not wait at 1.500 µs: it was granted, withdrawn or never made." in str(fault.value)
    assert "Retry and withdraw take the `claim` of an OutOfMemory. Story of claim" in str(fault.value)
    assert (fault.value.law, len(arena.ledger)) == ("waiting", before)
    arena.withdraw(2)  # and the one that waits still does


def test_a_claim_nobody_made_has_no_story():
    with pytest.raises(AllocatorFault, match="Story of claim 7: never seen here"):
        Scripted().withdraw(7)


# -- freeing -------------------------------------------------------------------------------------


def test_free_records_first_and_then_gives_the_bytes_to_reclaim():
    arena = Scripted(512)
    extent = arena.allocate(1000)
    arena.clock.advance_to(9)

    arena.free(extent)

    assert arena.ledger[-1] == Freed(9, 0)
    assert (arena.told, arena.free_bytes, arena.held()) == ([(512, 1024)], 4096, ())


def not_held(arena: Allocator, extent: object) -> AllocatorFault:
    before, free, told = len(arena.ledger), arena.free_bytes, arena.held()
    with pytest.raises(AllocatorFault) as fault:
        arena.free(extent)
    assert fault.value.law == "not-held"
    assert (len(arena.ledger), arena.free_bytes, arena.held()) == (before, free, told)
    return fault.value


def test_an_extent_is_freed_once_and_the_second_time_tells_since_when_it_is_free():
    arena = FirstFit(4096)
    extent = arena.allocate(512, "chat")
    arena.clock.advance_to(1500)
    arena.free(extent)

    assert str(not_held(arena, extent)) == (
        "free was given 512 bytes at 0 of claim 0 at 1.500 µs, which nobody holds: free each extent once, in the "
        "arena that granted it. Story of claim 0: #1 0 ns claimed · #2 0 ns granted · #3 1.500 µs freed."
    )


def test_an_extent_freed_twice_does_not_free_who_got_its_bytes_since():
    arena = FirstFit(4096)
    extent = arena.allocate(512)
    arena.free(extent)
    arena.allocate(512)

    assert not_held(arena, extent).numbers == {"claim": 0, "offset": 0}


def test_an_extent_of_another_arena_is_not_freed_even_if_its_numbers_are_the_same():
    arena, other = FirstFit(4096), FirstFit(4096)
    arena.allocate(512)

    not_held(arena, other.allocate(512))
    not_held(arena, other.allocate(1024))


@pytest.mark.parametrize(
    "changes",
    [{"offset": 512}, {"offset": 0.0}, {"offset": [0]}, {"offset": None}, {"claim": 5}, {"size": 9}],
)
def test_an_extent_made_by_hand_is_not_freed(changes):
    arena = FirstFit(4096)

    not_held(arena, arena.allocate(512)._replace(**changes))


@pytest.mark.parametrize(
    "thing", [None, 0, (0, 512), EqualToEverything(), Unspeakable()], ids=lambda thing: type(thing).__name__
)
def test_what_is_no_extent_is_not_freed(thing):
    arena = FirstFit(4096)
    arena.allocate(512)

    said = str(not_held(arena, thing))

    assert said.startswith("free was given ")
    assert said.endswith("at 0 ns; give it the Extent that allocate returned.")


def test_what_cannot_even_be_asked_for_its_class_is_no_size_no_extent_and_no_offset():
    class Hidden:
        __class__ = property(lambda self: 1 / 0)

    class Answers(Scripted):
        def place(self, size: int) -> object:
            return Hidden()

    arena = Answers()

    not_held(arena, Hidden())
    assert fault_of(arena, Hidden()).law == "size"
    assert fault_of(arena).law == "type"


# -- answers of a learner's hooks ----------------------------------------------------------------

WRONG = {
    # answer: (law, what is said of it, what was expected)
    "beyond the end": (4096, "bounds", "answered 4,096", "an offset from 0 to 3,584"),
    "over the end": (3585, "bounds", "answered 3,585", "an offset from 0 to 3,584"),
    "negative": (-512, "bounds", "answered -512", "an offset from 0 to 3,584"),
    "misaligned": (100, "alignment", "answered 100", "a multiple of 512"),
    "a fraction": (0.5, "type", "answered a float, 0.5", "a whole number or None"),
    "a whole float": (0.0, "type", "answered a float, 0.0", "a whole number or None"),
    "a NumPy float": (np.float32(0), "type", "answered a float32, ", "a whole number or None"),
    "False": (False, "type", "answered a bool, False", "a whole number or None"),
    "text": ("0", "type", "answered a str, '0'", "a whole number or None"),
    "an extent": (Extent(0, 0, 512, 512), "type", "answered a Extent", "a whole number or None"),
    "equal to everything": (
        EqualToEverything(),
        "type",
        "answered a EqualToEverything, <equal to everything>",
        "a whole number or None",
    ),
    "an object that raises": (
        Unspeakable(),
        "type",
        "answered a Unspeakable, an object whose repr raises RuntimeError",
        "a whole number or None",
    ),
}


@pytest.mark.parametrize(("answer", "law", "got", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer_of_place_is_told_with_numbers_time_and_story_and_grants_nothing(
    answer, law, got, expected
):
    arena = Scripted(answer, 0)

    fault = fault_of(arena, 500)

    said = str(fault)
    assert said.startswith(f"Scripted.place(512) {got}")
    assert f" at 1.500 µs; expected {expected}. Nothing was granted: mend `place`; the ledger up to" in said
    assert said.endswith("is kept. Story of claim 0: #1 1.500 µs claimed.")
    assert (fault.law, fault.numbers["claim"], fault.numbers["size"]) == (law, 0, 512)
    assert fault.numbers["expected"] == expected
    assert f"answered {fault.numbers['got']}".startswith(got)
    assert list(arena.ledger)[1:] == [Claimed(1500, 0, "arena", 500, Contiguous(512, 512), "chat")]
    assert (arena.held(), arena.free_bytes) == ((), 4096)
    assert arena.allocate(0, claim=0).offset == 0  # the claim still waits


def test_the_last_offset_that_fits_is_right():
    assert Scripted(3584).allocate(512).offset == 3584


@pytest.mark.parametrize(
    ("offset", "size"), [(1024, 512), (1536, 512), (512, 1024), (1536, 1024), (0, 4096), (1024, 1024)]
)
def test_bytes_that_somebody_holds_are_told_with_the_holder_and_since_when(offset, size):
    arena = Scripted(1024, offset)
    arena.clock.advance_to(300)
    arena.allocate(1024, "first")

    fault = fault_of(arena, size)

    assert (fault.law, fault.numbers["offset"], fault.numbers["other"]) == ("overlap", offset, 0)
    assert f"answered {offset:,} at 1.500 µs; expected bytes nobody holds; " in str(fault)
    assert "claim 0 holds [1,024, 2,048) since #2 at 300 ns" in str(fault)
    assert list(arena.ledger)[3:] == [Claimed(1500, 1, "arena", size, Contiguous(size, 512), "chat")]
    assert len(arena.held()) == 1


def test_the_grant_of_a_holder_is_found_however_often_its_use_was_told():
    arena = Scripted(1024, 1024)
    arena.allocate(1000)
    for units in range(9):
        arena.ledger.append(Used(300, 0, units))

    assert "claim 0 holds [1,024, 2,048) since #2 at 0 ns" in str(fault_of(arena))


def test_bytes_beside_what_is_held_are_no_overlap():
    arena = Scripted(1024, 512, 1536)
    for _ in range(3):
        arena.allocate(512)

    assert [extent.offset for extent in arena.held()] == [512, 1024, 1536]


def test_each_claim_may_have_an_alignment_of_its_own():
    class OnTwoKiB(Scripted):
        def alignment_of(self, size: int) -> int:
            return 2048 if size >= 1024 else 512

    arena = OnTwoKiB(512, 1024)
    arena.allocate(512)

    assert fault_of(arena, 1024).numbers["expected"] == "a multiple of 2,048"
    assert [fact.shape.align for fact in arena.ledger.of(Claimed)] == [512, 2048]


@pytest.mark.parametrize(
    "error", [ValueError("no hole"), OutOfMemory("x", claim=0, size=1, free=1, largest=1)]
)
def test_place_that_raises_is_a_fault_of_place_with_the_cause_behind_it(error):
    arena = Scripted(error)

    fault = fault_of(arena, 500)

    assert str(fault).startswith(f"Scripted.place(512) raised {type(error).__name__}: {error!r} in line ")
    assert "at 1.500 µs. Mend `place`; the ledger up to here is kept. Story of claim 0: #1" in str(fault)
    assert (fault.law, fault.numbers["hook"], fault.numbers["error"]) == (
        "raised",
        "place",
        type(error).__name__,
    )
    assert fault.__cause__ is error
    assert [type(fact) for fact in arena.ledger] == [Opened, Claimed]


def test_the_line_that_is_named_is_the_authors_own_not_that_of_a_library_it_called():
    class Calls(Scripted):
        def place(self, size: int) -> int:
            return self.helper()

        def helper(self) -> int:
            return json.loads("{")  # the line that must be named

    line = Calls.helper.__code__.co_firstlineno + 1

    assert f" in line {line} at" in str(fault_of(Calls()))


def test_place_with_another_signature_is_told_without_a_line():
    class NoSize(Scripted):
        def place(self) -> int:
            return 0

    assert "positional argument but 2 were given') at 1.500 µs. Mend" in str(fault_of(NoSize()))


def test_reclaim_that_raises_is_a_fault_and_the_bytes_are_free():
    arena = Scripted(0, reclaims=KeyError(0))
    extent = arena.allocate(1000)

    with pytest.raises(AllocatorFault) as fault:
        arena.free(extent)

    assert str(fault.value).startswith("Scripted.reclaim(0, 1,024) raised KeyError: KeyError(0) in line ")
    assert (fault.value.law, fault.value.numbers["hook"]) == ("raised", "reclaim")
    assert (arena.ledger[-1], arena.free_bytes) == (Freed(0, 0), 4096)


def test_what_is_no_fault_but_a_stop_passes_through():
    class Stopped(Scripted):
        def place(self, size: int) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stopped().allocate(512)


@pytest.mark.parametrize("kind", [Bump, FirstFit, BestFit])
def test_a_zero_sized_neighbour_of_nothing_is_never_left_behind(kind):
    arena = kind(1024)
    arena.free(arena.allocate(1024))

    assert arena.allocate(1024).offset == 0
