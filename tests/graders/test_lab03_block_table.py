"""What only 03.block-table has: the kernel's source reads the same slots, and the ledgers that are watched."""

import sys
from pathlib import Path

import numpy
import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab03.block_table import small_case
from autograder.checks.lab03.block_table_books import HEAD_DIM, Books, graded_case
from autograder.checks.lab03.block_table_play import play_case
from autograder.references.lab03_block_table import MyTables
from autograder.verdict import Commitments
from gpulab.device.kernels import PAGED_ATTENTION
from gpulab.report.audit import check
from gpulab.telemetry.events import Freed, Refused
from tests.cudacpu.shim import launch

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

EXERCISE = exercises()["03.block-table"]
COURSE = course_of(0)
RULES = COURSE.rules[EXERCISE.id]


def grown(case):
    """The reference's tables and the judge's books after all steps of ``case``."""
    books, tables = Books(case, RULES), MyTables(case.block_tokens, RULES)
    for name, length in case.steps:
        start = books.of(name).length
        tables.grow(name, length, books.grow(name, length))
        books.write(name, start, tables.slots(name, start, length))
        books.give_back(name, tables.drop(name))
    return books, tables


def test_the_kernels_source_reads_through_the_reference_table_what_its_meaning_reads():
    books, tables = grown(small_case(COURSE.public(EXERCISE.id, 0), RULES))
    for name in books.sequences:
        slots, query = tables.reads(name), numpy.ones(HEAD_DIM, numpy.float32)
        operands = *books.operands(query, slots), numpy.empty(HEAD_DIM, numpy.float32)
        meant = [operand.copy() for operand in operands]
        PAGED_ATTENTION.meaning(*meant, **books.shape(slots))
        run = launch(PAGED_ATTENTION, *operands, order="shuffled", **books.shape(slots))
        assert books.attended(name, slots)
        numpy.testing.assert_allclose(run[-1], meant[-1], rtol=0, atol=1e-5)


def test_a_slot_that_nobody_wrote_or_that_went_back_makes_the_kernel_answer_nan_which_is_no_match():
    books, tables = grown(small_case(COURSE.public(EXERCISE.id, 0), RULES))
    slots = tables.reads("A")
    block = next(
        block for block in tables.blocks["A"][: tables.dropped["A"]] if block not in books.of("A").live
    )
    assert not books.attended("A", [*slots, block * books.b])
    assert not books.attended("A", slots[1:])
    assert books.attended("A", slots[::-1])  # a sum has no order


def test_the_graded_lengths_are_those_at_which_tables_go_wrong():
    case = graded_case(COURSE.graded(EXERCISE.id, 0), RULES, 0)
    assert case.steps[:4] == (("A", 1), ("A", 15), ("A", 16), ("A", 17))
    assert {name for name, _ in case.steps} == set("ABC")
    for name in "ABC":
        lengths = [length for seq, length in case.steps if seq == name]
        assert lengths == sorted(set(lengths))
        assert lengths[-1] > RULES["window_tokens"] + 16


@pytest.mark.parametrize("number", range(3))
def test_the_rules_ledger_is_sound_and_gives_blocks_back(number):
    ledger = EXERCISE.reference(COURSE, EXERCISE.puzzle(COURSE, "", number))
    check(ledger)
    assert ledger.of(Freed)


@pytest.mark.parametrize("learner", ["ann", "bob"])
def test_the_tables_that_are_watched_refuse_what_their_unread_slots_would_have_held(learner):
    case = EXERCISE.puzzle(COURSE, learner)
    ledger = EXERCISE.watched(case, window=RULES["window_tokens"])
    check(ledger)
    cause, shows = EXERCISE.key(COURSE, learner)
    assert cause == "stranded"
    assert shows <= set(ledger.serials(Refused))


def test_with_full_blocks_that_nobody_reads_the_books_expect_what_a_block_that_came_back_holds_now():
    """A block may go back and come again to the same sequence: then it stands twice in its table."""
    twice = 0
    for number in range(40):
        case = small_case(COURSE.public(EXERCISE.id + "/twice", number), RULES)
        _, tables = grown(case)
        twice += any(len(set(blocks)) < len(blocks) for blocks in tables.blocks.values())
        asker = InProcess(MyTables)
        outcome = play_case(case, RULES, asker)
        asker.close()
        assert (outcome.tag, outcome.equal) == ("", len(case.steps))
        check(outcome.ledger)
    assert twice


def test_a_table_that_keeps_blocks_is_lawful_and_told_which_sequence_keeps_them():
    sheet = loaded("sheet_lab03_block_table")
    score = graded(sheet.BLOCK_TABLE, sheet.KeepsAll, COURSE, Commitments("ann"))[0]
    assert "all laws kept" in score.notes[-1]
    assert score.feedback.event.startswith("#")
    assert str(RULES["window_tokens"]) in score.feedback.question
    assert score.feedback.picture is not None


def test_what_went_back_is_lost_so_that_who_reads_it_reads_nothing():
    case = graded_case(COURSE.graded(EXERCISE.id, 0), RULES, 0)
    books, tables = grown(case)
    free = [block for blocks in tables.blocks.values() for block in blocks if block in books._free]
    assert free
    for block in free:
        assert numpy.isnan(books.pool[:, block * books.b : (block + 1) * books.b]).all()


def test_a_window_read_twice_is_not_the_window_though_attention_is_the_same():
    class Twice(MyTables):
        def reads(self, seq):
            return 2 * super().reads(seq)

    score = graded(loaded("sheet_lab03_block_table").BLOCK_TABLE, Twice, COURSE, Commitments("ann"))[0]
    assert (score.build_share, score.tag) == (0.0, "other-slot")


def test_tables_that_agree_with_themselves_but_not_with_the_contract_lose_marks():
    """The last place of a block first: what is written is read again, yet no kernel would find it."""

    class Backwards(MyTables):
        def slots(self, *asked):
            b = self.block_tokens
            return [slot // b * b + b - 1 - slot % b for slot in super().slots(*asked)]

    score = graded(loaded("sheet_lab03_block_table").BLOCK_TABLE, Backwards, COURSE, Commitments("ann"))[0]
    assert (score.build_share, score.tag) == (0.30, "other-slot")


def test_a_table_is_read_again_when_another_sequence_has_grown():
    class LastGrown(MyTables):
        def grow(self, seq, length, blocks):
            self.last = seq
            super().grow(seq, length, blocks)

        def reads(self, seq):
            return super().reads(self.last)

    score = graded(loaded("sheet_lab03_block_table").BLOCK_TABLE, LastGrown, COURSE, Commitments("ann"))[0]
    assert (score.build_share, score.tag) == (0.0, "shared-list")
