"""What only 04.deadline has: its server, its laws on the smallest crowds, what a run is worth, other right answers."""

import sys
from collections import Counter, OrderedDict
from pathlib import Path

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab04.deadline import graded_case
from autograder.checks.lab04.deadline_cases import Crowd, Prompt
from autograder.checks.lab04.deadline_play import play_crowd, worths
from autograder.checks.lab04.deadline_server import Server, by_promise, first_come, in_time
from autograder.references.lab04_deadline import decide
from autograder.verdict import Commitments
from gpulab.report.audit import check
from gpulab.report.waiting import Waiting
from gpulab.units import MS

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

EXERCISE = exercises()["04.deadline"]
SHEET = loaded("sheet_lab04_deadline").DEADLINE
COURSE = course_of(0)


def crowd(*rows, notice_ms=50):
    """Requests of (arrival, work, deadline) in ms, whose answers take 500 ms more."""
    prompts = [
        Prompt(n, "chat", at * MS, 100, work * MS, due * MS, 500 * MS)
        for n, (at, work, due) in enumerate(rows)
    ]
    return Crowd(tuple(prompts), notice_ms * MS)


class Scripted:
    """Answers what it was given, one answer after the other, and then nothing."""

    def __init__(self, answers):
        self._answers = iter(answers)

    def __call__(self, **_):
        return self

    def decide(self, view):
        return next(self._answers, {})


def outcome_of(task, make):
    asker = InProcess(make)
    try:
        return play_crowd(task, asker)
    finally:
        asker.close()


def by(function):
    return lambda **_: type("Object", (), {"decide": staticmethod(function)})


TWO = crowd((0, 100, 200), (10, 100, 400))


@pytest.mark.parametrize(
    ("answers", "tag"),
    [
        ([{"admit": [0]}, {}, {"admit": [1]}], ""),
        ([{"admit": (0,)}, {"admit": [1], "reject": []}], ""),
        ([{"admit": [0]}, {"reject": [0]}], "refuses-admitted"),
        ([{"admit": [0]}, {"admit": [0]}], "decided-twice"),
        ([{"admit": [0, 0]}], "decided-twice"),
        ([{"admit": [0], "reject": [0]}], "decided-twice"),
        ([{"reject": [0]}, {"reject": [0]}], "decided-twice"),
        ([{"admit": [1]}], "unknown"),
        ([{"admit": [-1]}], "unknown"),
        ([{"admit": [0]}, {}, {}], "left-waiting"),
        ([{"admit": [0]}, {}, {"reject": [1]}], "rejects-late"),
        ([{"admit": [0]}, {"preempt": [[0, "swap"]]}], "type"),
        ([{"admit": [True]}], "type"),
        ([{"admit": [10**1200]}], "unknown"),
        ([{"admit": 0}], "type"),
        ([None], "type"),
        ([[0]], "type"),
    ],
)
def test_each_law_is_seen_on_two_requests(answers, tag):
    outcome = outcome_of(TWO, Scripted(answers))
    assert (outcome.tag, outcome.lawful) == (tag, tag == "")
    check(list(outcome.ledger)[:-1] if tag else outcome.ledger)


def test_turning_away_at_the_last_moment_of_notice_is_lawful_and_one_later_is_not():
    rows = ((0, 50, 200), (0, 50, 60))
    late = outcome_of(crowd(*rows, notice_ms=49), Scripted([{"admit": [0]}, {"reject": [1]}]))
    just = outcome_of(crowd(*rows, notice_ms=50), Scripted([{"admit": [0]}, {"reject": [1]}]))
    assert (late.tag, just.lawful) == ("rejects-late", True)


def test_a_run_is_worth_its_first_tokens_in_time_and_half_of_those_turned_away():
    task = crowd((0, 100, 200), (1, 100, 150), (2, 100, 320), (3, 100, 310))
    assert worths(task) == (2 / 4, (3 + 1 / 2) / 4)
    server = Server(task)
    server.play(by_promise)
    assert (server.on_time, server.refused) == ({0, 2, 3}, {1})


def test_everybody_is_in_time_in_the_order_of_deadlines_or_not():
    jobs = crowd((0, 100, 300), (0, 100, 100), (0, 100, 200)).prompts
    assert in_time(0, jobs)
    assert not in_time(1, jobs)


def test_turning_away_for_nothing_makes_a_case_count_as_naive_and_all_of_it_as_unlawful():
    task = crowd((0, 100, 200), (150, 100, 400), (300, 100, 900))
    one = outcome_of(task, Scripted([{"admit": [0]}, {"reject": [1]}, {"admit": [2]}]))
    none = outcome_of(task, by(lambda view: {"reject": [job.id for job in view.waiting]}))
    assert (one.tag, one.way, one.lawful) == ("turned-away", 0.0, True)
    assert (none.tag, none.lawful) == ("turned-away", False)


def test_where_more_promises_are_broken_than_requests_turned_away_nobody_was_told():
    """Three are in time, and the fourth, which cannot be, is served last or told at once."""
    task = crowd((0, 100, 200), (1, 100, 150), (2, 100, 320), (3, 100, 310))
    silent = outcome_of(task, by(loaded("sheet_lab04_deadline").late_last))
    told = outcome_of(task, by(decide))
    assert (silent.tag, silent.way, silent.lawful) == ("never-refuses", 0.0, True)
    assert (told.tag, told.way) == ("", 1.0)


def test_first_come_first_served_waits_behind_others_and_nothing_is_blocked():
    server = Server(EXERCISE.puzzle(COURSE, "ann"))
    server.play(first_come)
    check(server.ledger)
    total = Waiting(server.ledger).total()
    assert total.behind_ns > 0
    assert (total.blocked_ns, total.slowed_ns, total.outside_ns) == (0, 0, 0)


def test_graded_crowds_leave_the_naive_rule_a_tenth_behind_and_hold_at_least_four_that_are_too_much():
    notice_ns = COURSE.rules[EXERCISE.id]["notice_ns"]
    tasks = [graded_case(COURSE.graded(EXERCISE.id, n), notice_ns, n) for n in range(12)]
    assert all(best - naive >= 0.1 for naive, best in map(worths, tasks))
    loads = [sum(p.prompt_ns for p in task.prompts) / task.prompts[-1].arrival_ns for task in tasks]
    assert sum(load > 1 for load in loads) >= 4


def test_what_the_late_ones_were_behind_differs_from_learner_to_learner():
    causes = Counter(EXERCISE.key(COURSE, f"learner {n}")[0] for n in range(40))
    assert set(causes) == set(EXERCISE.causes)
    assert max(causes.values()) <= 26


def drops_the_longest(view):
    """Moore and Hodgson: as long as somebody is too late, the longest before it goes, if it may still be told."""
    order, refused = sorted(view.waiting, key=lambda job: (job.deadline_ns, job.id)), []
    while True:
        free, before = view.free_ns, []
        for job in order:
            free += job.prompt_ns
            before.append(job)
            if free > job.deadline_ns:
                break
        else:
            break
        told = [job for job in before if view.now_ns - job.arrival_ns <= view.notice_ns]
        if not told:
            break
        longest = max(told, key=lambda job: job.prompt_ns)
        order.remove(longest)
        refused.append(longest.id)
    admit = (order[0].id,) if order and not view.running else ()
    return OrderedDict(reject=tuple(refused), admit=admit)


def looks_at_slack(view):
    """Each job's slack after all that is due before it; whoever came now and leaves one below 0 is turned away."""
    line, refused = [job for job in view.waiting if job.arrival_ns != view.now_ns], []
    for new in (job for job in view.waiting if job.arrival_ns == view.now_ns):
        both = [*line, new]
        slack = [
            job.deadline_ns
            - view.free_ns
            - sum(o.prompt_ns for o in both if (o.deadline_ns, o.id) <= (job.deadline_ns, job.id))
            for job in both
        ]
        if min(slack) < 0:
            refused.append(new.id)
        else:
            line = both
    if view.running:
        return {"reject": refused}
    return {
        "admit": sorted((j.id for j in line), key=lambda n: next(j.deadline_ns for j in line if j.id == n))[
            :1
        ],
        "reject": refused,
    }


@pytest.mark.parametrize("right", [drops_the_longest, looks_at_slack])
def test_another_right_answer_gets_full_marks_too(right, scale):
    shares = [graded(SHEET, right, course_of(n), Commitments())[0].build_share for n in range(scale(4))]
    assert set(shares) == {1.0}


def test_the_reference_is_the_rule():
    task = graded_case(COURSE.graded(EXERCISE.id, 3), COURSE.rules[EXERCISE.id]["notice_ns"], 3)
    outcome = outcome_of(task, by(decide))
    server = Server(task)
    server.play(by_promise)
    assert (outcome.way, outcome.tag) == (1.0, "")
    assert list(outcome.ledger) == list(server.ledger)
