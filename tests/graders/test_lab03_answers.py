"""03.prefix-trace and 03.block-size: the published trace, no constant over forty learners, what is told."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.checks import exercises
from autograder.checks.lab03 import block_size, prefix_trace
from autograder.verdict import Commitments
from gpulab.memory.free_queue import FreeQueue
from gpulab.report.audit import check

sys.path.insert(0, str(Path(__file__).parent))
from sheets import answered, course_of, loaded

TRACE, SIZE = (exercises()[f"03.{name}"] for name in ("prefix-trace", "block-size"))
SHEETS = {name: loaded(f"sheet_lab03_{name}").SHEETS[0] for name in ("prefix_trace", "block_size")}


@pytest.mark.parametrize("name", SHEETS)
def test_no_constant_earns_more_than_a_quarter_over_forty_learners(name):
    sheet, course = SHEETS[name], course_of(0)
    exercise = exercises()[sheet.exercise]
    puzzles = [exercise.puzzle(course, f"learner {n}") for n in range(40)]
    for fields in sheet.constants:
        shares = [exercise.practise(course, puzzle, fields).build_share for puzzle in puzzles]
        assert sum(shares) / 40 <= 0.25


@pytest.mark.parametrize("name", SHEETS)
def test_the_right_answers_of_twenty_learners_are_full_marks(name):
    sheet = SHEETS[name]
    for n in range(20):
        learner = f"learner {n}"
        said = Commitments(learner)
        assert answered(sheet, sheet.right(course_of(1), learner), course_of(1), said).build_share == 1.0


def test_every_drawn_trace_has_a_hit_that_is_held_and_one_that_is_free():
    for n in range(20):
        trace = TRACE.puzzle(course_of(0), f"learner {n}")
        found = prefix_trace.right(trace)
        hits = found.third_gets[: found.hits]
        assert 0 < sum(block in found.free_queue for block in hits) < len(hits)
        check(TRACE.watched(trace))


def test_a_trace_and_a_choice_are_told_in_words():
    trace = prefix_trace.Trace(10, 15, 2, (10, 4), "A", (13, 6))
    assert "B comes with the first 10 tokens of A and 4 of its own." in trace.text()
    choice = SIZE.puzzle(course_of(0), "ann")
    assert f"{choice.entry_euro} euros for each block-table entry" in choice.text()


def test_the_prefix_is_found_as_vllm_documents_it():
    pool = FreeQueue(10, block_tokens=4)
    trace = prefix_trace.Trace(10, 15, 2, (10, 4), "A", (12, 0))
    cache = prefix_trace.running(trace, pool)
    cache.finish("A")
    cache.finish("B")
    assert pool.order() == [7, 8, 9, 4, 3, 2, 6, 5, 1, 0]


def test_the_two_shares_of_a_block_size_by_hand():
    requests = (block_size.Served(100, 40), block_size.Served(60, 0))
    assert block_size.stranded_permille(requests, 64) == pytest.approx(1000 * 32 / 192)
    assert block_size.hit_loss_permille(requests, 16) == pytest.approx(1000 * 8 / 40)
    assert block_size.stranded_permille(requests, 1) == block_size.hit_loss_permille(requests, 1) == 0


def test_figures_count_only_with_a_sensible_size_and_may_have_decimals():
    puzzle = SIZE.puzzle(course_of(0), "ann")
    block = block_size.best(puzzle)
    right = {"stranded_permille": block_size.stranded_permille(puzzle.requests, block)}
    right["hit_loss_permille"] = block_size.hit_loss_permille(puzzle.requests, block)
    assert SIZE.practise(course_of(0), puzzle, {"block": block, **right}).build_share == 1.0
    assert SIZE.practise(course_of(0), puzzle, {"block": 1, **right}).build_share == 0.0
    assert SIZE.practise(course_of(0), puzzle, {"block": 3, **right}).build_share == 0.0
    assert SIZE.practise(course_of(0), puzzle, {"block": True, **right}).build_share == 0.0


def test_the_form_is_looked_at_before_handing_in():
    said = Commitments("ann", answered={"hits": 2, "free_queue": 7})
    assert (
        TRACE.visible(course_of(0), said, None).notes[0]
        == "free_queue: 7 is not a list of whole numbers; third_gets: not answered yet."
    )


@pytest.mark.parametrize("learner", ["ann", "bob", "cho", "dee"])
def test_a_size_is_judged_on_fresh_requests_and_neither_end_is_near_the_cheapest(learner):
    puzzle = SIZE.puzzle(course_of(0), learner)
    block = block_size.best(puzzle)
    for end in (block_size.SIZES[0], block_size.SIZES[-1]):
        assert puzzle.price(end, puzzle.fresh) > (1 + block_size.FAR) * puzzle.price(block, puzzle.fresh)

    assert SIZE.practise(course_of(0), puzzle, {"block": block}).build_share == 0.5
    short = replace(puzzle, fresh=(block_size.Served(1, 1),) * 9)  # here blocks of one token strand nothing
    assert SIZE.practise(course_of(0), short, {"block": block}).build_share == 0.0


def test_a_figure_of_mean_length_that_is_also_near_a_tenth_of_the_right_one_is_told_as_the_former():
    course, sheet = course_of(110), SHEETS["block_size"]
    typed = sheet.wrong["mean-length"].hands_in(course, "p110")
    assert answered(sheet, typed, course, Commitments("p110")).tag == "mean-length"
