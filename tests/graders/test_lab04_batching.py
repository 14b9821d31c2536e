"""04.batching: what only this exercise has: the speed-up, the laws of a batch, and what is watched."""

import sys
from pathlib import Path
from random import Random

import pytest

from autograder.checks import exercises
from autograder.checks.lab04 import batching_play
from autograder.checks.lab04.batching import UNSEEN, Served, graded_crowd, speedup, speedup_tag
from autograder.checks.lab04.batching_play import Asked, Run, batch_wise, crowd, filled, played_out
from autograder.verdict import Commitments
from gpulab.report import audit
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.telemetry.events import Claimed, Finished

sys.path.insert(0, str(Path(__file__).parent))
from sheet_lab04_batching import BATCHING, refill, waits_for_batch
from sheets import course_of, graded


def test_the_speed_up_is_that_of_the_paper_and_of_a_long_run():
    assert [round(speedup(slots), 2) for slots in (1, 8, 32)] == [1.0, 2.72, 4.06]
    for slots, times in ((4, 300), (16, 60)):
        drawn = crowd(Random(f"long/{slots}"), slots, times=times)
        at_once = batching_play.Crowd(slots, tuple((name, 0, tokens) for name, _, tokens in drawn.jobs))
        batches, refilled = (played_out(at_once, rule, Run()).steps for rule in (batch_wise, filled))
        assert batches / refilled == pytest.approx(speedup(slots), rel=0.08)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (3.38, ""),
        (3.7, ""),
        (3.05, ""),
        (16, "speedup-is-B"),
        (2.77, "logarithm"),
        (0.3, "upside-down"),
        (8, "other-speedup"),
        (None, "not-answered"),
        (True, "other-speedup"),
        ("3.4", "other-speedup"),
    ],
)
def test_a_speed_up_is_right_within_a_tenth_and_else_says_what_was_thought(value, tag):
    assert speedup_tag(value, 16) == tag


def points(hands_in, value=None):
    """Points of the build with ``value`` answered, and the score."""
    said = Commitments("ann", answered={} if value is None else {"speedup": value})
    score = graded(BATCHING, hands_in, course_of(1), said)[0]
    return score.points, score


def test_each_wrong_speed_up_is_told_with_a_question_and_costs_a_fifth_of_the_build():
    slots = exercises()["04.batching"].puzzle(course_of(1), "ann").slots
    build = 0.7 * 3.0
    for value in (slots, 1 / speedup(slots), 1000):
        got, score = points(refill, value)
        assert got == pytest.approx(0.8 * build, abs=0.01)
        assert score.tag == speedup_tag(value, slots) != ""
        assert score.feedback.question.endswith("?")
    got, score = points(refill)
    assert (score.tag, score.feedback, score.notes[-1]) == ("", None, "Speed-up: not answered.")
    assert got == pytest.approx(0.8 * build, abs=0.01)
    assert points(refill, speedup(slots))[0] == pytest.approx(build, abs=0.01)
    assert points(waits_for_batch, speedup(slots))[0] == pytest.approx(0.44 * build, abs=0.01)


def test_an_answer_is_worth_nothing_beside_a_broken_law():
    right = speedup(exercises()["04.batching"].puzzle(course_of(1), "ann").slots)
    wrong = BATCHING.wrong["newest-first"].hands_in
    assert points(wrong, right)[0] == points(wrong)[0]


def test_no_constant_speed_up_is_right_for_more_than_half_of_the_slots_asked():
    values = [n / 20 for n in range(20, 120)]
    assert max(sum(not speedup_tag(value, slots) for slots in UNSEEN) for value in values) <= len(UNSEEN) // 2


ASKED = Asked(7, [4, 5, 6], [7, 8, 9], 4, [5])


@pytest.mark.parametrize(
    ("got", "tag"),
    [
        ([4, 6, 7, 8, 9], "one-too-many"),
        ([4, 5, 6, 7], "drops-finished"),
        ([4, 7, 8], "puts-out"),
        ([4, 6, 8, 9], "newest-first"),
        ([4, 6, 8], "newest-first"),
        ([4, 6, 6], "twice"),
        ([4, 6, 3], "not-here"),
        ([4, 6, True], "form"),
        ([4, 6, "7"], "form"),
        ({"4": 6}, "form"),
        (None, "form"),
    ],
)
def test_each_law_is_broken_by_an_answer(got, tag):
    with pytest.raises(batching_play.Broken) as broken:
        batching_play.lawful(ASKED, got)
    assert broken.value.tag == tag


@pytest.mark.parametrize("got", [[4, 6, 7, 8], [8, 6, 7, 4], [4, 6], [6, 7, 4]])
def test_the_order_within_a_batch_is_free_and_a_slot_may_stay_empty(got):
    assert batching_play.lawful(ASKED, got) == got


def test_an_empty_batch_beside_a_queue_is_no_answer_once_nobody_runs():
    with pytest.raises(batching_play.Broken, match="stands-still"):
        batching_play.lawful(Asked(7, [5], [7], 4, [5]), [])
    assert batching_play.lawful(Asked(7, [5], [], 4, [5]), []) == []


def with_sets(running, waiting, slots, finished):
    """Another style: the queue is copied and emptied from its head."""
    batch, queue = set(running) - set(finished), list(waiting)
    while queue and len(batch) < slots:
        batch.add(queue.pop(0))
    return sorted(batch, reverse=True)


def with_counts(running, waiting, slots, finished):
    """Another style: the finished are taken out of ``running`` itself."""
    for job in finished:
        running.remove(job)
    for job in waiting:
        if len(running) == slots:
            break
        running.append(job)
    return running


@pytest.mark.parametrize("style", [with_sets, with_counts])
def test_the_same_rule_written_otherwise_gets_all_of_its_part(style, scale):
    for number in range(scale(4)):
        score = graded(BATCHING, style, course_of(number), Commitments("ann"))[0]
        assert (score.build_share, score.tag) == (1.0, "")


def test_every_crowd_has_a_queue_that_runs_dry_and_slots_that_stand_empty_under_the_naive_rule(scale):
    for number in range(scale(12)):
        drawn = graded_crowd(Random(f"crowd/{number}"), number)
        naive, rule = (played_out(drawn, choose, Run()) for choose in (batch_wise, filled))
        assert naive.idle_share > 0.5
        assert rule.idle == 0
        assert any(len(batch) < drawn.slots and asked.step for asked, batch in rule.decisions[:-1])
        assert len(rule.decisions) <= 400


def test_who_waited_and_why_is_drawn_and_shown_by_facts_of_the_run():
    exercise, course = exercises()["04.batching"], course_of(0)
    causes = []
    for number in range(24):
        learner = f"learner {number}"
        puzzle = exercise.puzzle(course, learner)
        ledger = exercise.watched(puzzle)
        cause, shows = exercise.key(course, learner)
        causes.append(cause)
        assert shows
        assert (cause == "blocked") == all(type(ledger[serial]) is Finished for serial in shows)
    assert set(causes) == {"blocked", "behind"}
    assert 6 <= causes.count("blocked") <= 18


def test_a_job_of_the_run_that_is_watched_takes_one_slot_and_no_more():
    served = Served(crowd(Random("a slot is a block"), 4), 5, 16)
    for policy in (RequestLevel(), Reserving()):
        assert {fact.size for fact in served.run(policy).of(Claimed)} == {1}


def test_what_is_watched_and_the_reference_keep_all_laws_and_the_reference_ends_sooner():
    exercise, course = exercises()["04.batching"], course_of(0)
    for name in ("ann", "bo", "cy"):
        puzzle = exercise.puzzle(course, name)
        naive, rule = exercise.watched(puzzle), exercise.reference(course, puzzle)
        audit.check(naive)
        audit.check(rule)
        assert rule.end_ns <= naive.end_ns
        assert f"{puzzle.slots} slots" in puzzle.text()


def test_practice_tells_of_the_speed_up_what_was_thought():
    exercise, course = exercises()["04.batching"], course_of(0)
    puzzle = exercise.puzzle(course, "", 5)
    assert exercise.practise(course, puzzle, {"speedup": puzzle.slots}).tag == "speedup-is-B"
    assert exercise.practise(course, puzzle, {"speedup": speedup(puzzle.slots)}).tag == ""
    assert exercise.practise(course, puzzle, {}).tag == "not-answered"
