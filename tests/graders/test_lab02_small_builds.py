"""02.best-fit and 02.break: the rule, each misreading, and the shortcuts."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab02 import best_fit, break_it
from autograder.course import Course
from autograder.verdict import Commitments
from gpulab.memory.arena import BestFit, FirstFit

sys.path.insert(0, str(Path(__file__).parent))
from sheet_lab02 import raw_size, reference, worst_fit

BEST_FIT, BREAK = (exercises()[name] for name in ("02.best-fit", "02.break"))
COURSES = [Course.of(f"course {n}", f"secret {n}".encode()) for n in range(2)]
ENVELOPE = break_it.Envelope(2390 * 512, 11 * 512, 1410 * 512)


# -- best fit -----------------------------------------------------------------------------------------


def chosen(choose, course=COURSES[0], visible=False):
    asker = InProcess(lambda **_: SimpleNamespace(choose=choose))
    try:
        judged = BEST_FIT.visible if visible else BEST_FIT.grade
        return judged(course, Commitments(), asker)
    finally:
        asker.close()


def test_a_misreading_of_best_fit_is_shown_on_a_public_question():
    said = chosen(worst_fit).feedback
    assert said.expected != said.got
    assert "a claim of" in said.event
    assert chosen(reference, visible=True).full


def test_a_hole_that_does_not_hold_the_claim_breaks_the_law_of_best_fit():
    assert "safety law" in chosen(raw_size).notes[0]
    assert "safety law" not in chosen(worst_fit).notes[0]


def test_graded_questions_of_best_fit_come_from_the_secret_and_shown_ones_do_not():
    graded = [best_fit._drawn(course.graded(BEST_FIT.id, 0), 8) for course in COURSES]
    assert graded[0] != graded[1]
    shown = [chosen(worst_fit, course).feedback for course in COURSES]
    assert shown[0] == shown[1]


# -- break: lists of operations, in units of 512 B on an arena of 2,390 -------------------------------


def listed(claims, *freed, more=()):
    alloc = [["alloc", name, units * 512] for name, units in claims]
    return [*alloc, *(["free", name] for name in freed), *(["alloc", n, u * 512] for n, u in more)]


LAID = (("h1", 520), ("s1", 11), ("h2", 480), ("s2", 11), ("rest", 1363))
TRACE = listed(LAID, "h1", "h2", more=(("a", 400), ("b", 440), ("c", 100)))
MIRROR = listed(LAID, "h1", "h2", more=(("a", 480), ("b", 520)))


def both(trace, mirror):
    return {
        "trace": break_it.verdict(ENVELOPE, trace, FirstFit, BestFit),
        "mirror": break_it.verdict(ENVELOPE, mirror, BestFit, FirstFit),
    }


def test_the_worked_lists_show_each_rule_poor_where_the_other_is_not():
    assert both(TRACE, MIRROR) == {"trace": "", "mirror": ""}
    assert both(MIRROR, TRACE) == {"trace": "both-refuse", "mirror": "both-refuse"}


@pytest.mark.parametrize(
    ("operations", "tag"),
    [
        (listed(LAID, "h1", "h2", more=(("a", 400), ("b", 440))), "no-difference"),
        (listed(LAID, "h1", "h2", more=(("a", 400), ("b", 440), ("c", 130))), "both-refuse"),
        (listed(LAID, more=(("a", 400),)), "over-capacity"),
        (listed(LAID, "h3"), "frees-unknown"),
        (listed((*LAID, ("h1", 11))), "frees-unknown"),
        (listed([(f"n{n}", 20) for n in range(25)]), "too-long"),
        ([["alloc", "a", 10_000]], "unaligned"),
        (listed([("a", 10)]), "outside"),
        (listed([("a", 1411)]), "outside"),
        ([["alloc", "a", True]], "wrong-form"),
        ([["grow", "a", 512]], "wrong-form"),
        ([], "wrong-form"),
        (None, "wrong-form"),
        ("alloc", "wrong-form"),
    ],
)
def test_a_list_that_shows_nothing_says_why(operations, tag):
    assert break_it.verdict(ENVELOPE, operations, FirstFit, BestFit) == tag


def test_a_difference_that_rests_on_one_byte_of_luck_is_worth_less():
    # The arena is full to the last byte: with every size 512 B larger, both rules refuse what is laid out first.
    tight = listed((*LAID[:4], ("rest", 1368)), "h1", "h2", more=(("a", 400), ("b", 440), ("c", 100)))
    assert break_it.verdict(ENVELOPE, tight, FirstFit, BestFit) == "tie-luck"


class Workloads:
    def __init__(self, trace, mirror):
        self._lists = trace, mirror

    def trace(self):
        return self._lists[0]

    def mirror(self):
        return self._lists[1]


@pytest.mark.parametrize(
    ("trace", "mirror", "share", "tag"),
    [
        (TRACE, MIRROR, 1.0, ""),
        (TRACE, None, 0.5, "wrong-form"),
        (
            listed((*LAID[:4], ("rest", 1368)), "h1", "h2", more=(("a", 400), ("b", 440), ("c", 100))),
            MIRROR,
            0.9,
            "tie-luck",
        ),
        (None, None, 0.0, "wrong-form"),
    ],
)
def test_one_list_is_worth_half_both_nine_tenths_and_firm_ones_all(monkeypatch, trace, mirror, share, tag):
    monkeypatch.setattr(break_it.BreakIt, "puzzle", lambda *_, **__: ENVELOPE)
    asker = InProcess(lambda **_: Workloads(trace, mirror))
    try:
        score = BREAK.grade(COURSES[0], Commitments("ann"), asker)
    finally:
        asker.close()
    assert (score.points, score.tag) == (round(BREAK.points * share, 2), tag)


def test_two_learners_have_two_arenas_so_that_a_list_cannot_be_handed_on():
    arenas = {BREAK.puzzle(COURSES[0], f"learner {n}") for n in range(20)}
    assert len({arena.capacity for arena in arenas}) >= 19
    others = [arena for arena in arenas if break_it.verdict(arena, TRACE, FirstFit, BestFit) == ""]
    assert len(others) <= 2
