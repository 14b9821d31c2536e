"""04.convoy: F12's numbers from the mix, the runs agree with theory, both gauges of the timeline, no constant."""

import random
import sys
from itertools import accumulate
from pathlib import Path

import pytest

from autograder.checks import exercises
from autograder.checks.lab04 import convoy_cases as cases
from autograder.checks.lab04 import server
from gpulab.cli.published_queue import first_come, shared
from gpulab.mixes import exponential_lengths
from gpulab.report import charts
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.report.waiting import Waiting
from gpulab.serving.request import Request

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, loaded

CONVOY = exercises()["04.convoy"]
PACE = server.Pace(10)
SHEET = loaded("sheet_lab04_convoy").SHEETS[0]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Drawing takes longer than judging."""
    monkeypatch.setattr(charts, "lanes", lambda *_, **__: None)


def test_the_mix_of_f12_has_its_published_means():
    mix = cases.Mix(10, 20, 80, 1)
    assert (round(mix.fifo_ms(), 1), round(mix.ps_ms, 1)) == (59.3, 14.5)


@pytest.mark.parametrize("mix", [cases.Mix(5, 12, 62, 100), cases.Mix(8, 30, 75, 40)])
def test_plain_loops_over_a_drawn_mix_come_within_a_tenth_of_its_theory(mix):
    unit, times, parts = 1000, 20, 360
    long = exponential_lengths(mix.ratio * unit, parts) * times
    lengths = exponential_lengths(unit, (mix.every - 1) * parts) * times + long
    mean_gap = round(unit * mix.mean_ms / mix.short_ms * 100 / mix.load_percent)
    gaps = exponential_lengths(mean_gap, mix.every * parts) * times
    random.Random("convoy/a").shuffle(lengths)
    random.Random("convoy/b").shuffle(gaps)
    jobs = list(zip(accumulate(gaps), lengths, strict=True))
    assert first_come(jobs) * mix.short_ms / unit == pytest.approx(mix.fifo_ms(), rel=0.1)
    assert shared(jobs) * mix.short_ms / unit == pytest.approx(mix.ps_ms, rel=0.1)


def test_both_runs_of_a_timeline_are_equally_busy_and_wait_differently():
    for n in range(8):
        task = CONVOY.puzzle(course_of(0), f"learner {n}")
        runs = CONVOY.watched(task, "a"), CONVOY.watched(task, "b")
        used = [Account(run)().used for run in runs]
        behind = [Waiting(run).total().behind_ns for run in runs]
        assert used[0] == used[1] == sum(task.pace.alone_ns(r) for r in task.requests)
        assert behind[0] != behind[1]


def test_the_convoy_of_three_requests_is_read_from_the_second_gauge():
    requests = tuple(
        Request(n, at, 1, units) for n, at, units in ((1, 0, 9), (2, 10, 1), (3, 80, 2), (4, 500, 3))
    )
    ledger = server.ledger_of(requests, server.first_come(requests, 1, PACE), PACE)
    check(ledger)
    assert cases.convoys(ledger) == {1: {2, 3}, 2: {3}, 3: set(), 4: set()}
    mix = cases.Mix(10, 20, 80, 1)
    small = tuple(Request(r.id, r.arrival_ns * 100_000, 1, r.output_tokens) for r in requests)
    found = cases.key(cases.Convoy(mix, small))
    assert (found.head, found.behind, found.worse_off) == (1, {2, 3}, {1})


def test_no_constant_earns_more_than_a_quarter_over_forty_learners():
    puzzles = [CONVOY.puzzle(course_of(0), f"learner {n}") for n in range(40)]
    for fields in SHEET.constants:
        shares = [CONVOY.practise(course_of(0), puzzle, fields).build_share for puzzle in puzzles]
        assert sum(shares) / 40 <= 0.25


def test_the_order_of_a_list_and_decimals_of_a_mean_do_not_matter():
    course = course_of(2)
    task = CONVOY.puzzle(course, "ann")
    right = SHEET.right(course, "ann")
    turned = right | {name: right[name][::-1] for name in ("behind", "worse_off")}
    turned["fifo_ms"] = round(right["fifo_ms"] * 1.09)
    assert CONVOY.practise(course, task, turned).build_share == 1.0
    assert CONVOY.practise(course, task, turned | {"ps_ms": right["ps_ms"] * 0.89}).build_share == 0.7


def test_whatever_is_typed_is_judged():
    course = course_of(1)
    task = CONVOY.puzzle(course, "ann")
    for odd in (None, "x", -1, 1.5, [], ["a"], [[1]], True, 10**18):
        for name in CONVOY.fields:
            score = CONVOY.practise(course, task, SHEET.right(course, "ann") | {name: odd})
            assert (score.build_share < 1.0, bool(score.tag)) == (True, True)
            assert not set("{}") & set(score.feedback.question)
            assert "None" not in score.feedback.question


def test_a_tiny_practice_task_has_six_requests_and_is_told_in_words():
    task = CONVOY.puzzle(course_of(0), "", 3, "tiny")
    assert len(task.requests) == 6
    assert "Two exponentials mixed" in task.text()
    check(CONVOY.reference(course_of(0), task))
