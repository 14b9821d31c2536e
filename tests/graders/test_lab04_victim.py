"""What only 04.victim has: what a victim frees and costs, its laws in the smallest shortages, other right answers."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab04.victim import graded_case
from autograder.checks.lab04.victim_cases import Asked, Load
from autograder.checks.lab04.victim_pinch import fell_for_it
from autograder.checks.lab04.victim_play import play_load
from autograder.checks.lab04.victim_pool import Pool, shortages
from autograder.checks.lab04.victim_rules import MISREAD, Job, Shortage, oldest_first, rule
from autograder.references.lab04_victim import victim
from autograder.verdict import Commitments
from gpulab.report.audit import check
from gpulab.telemetry.events import Freed

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

EXERCISE = exercises()["04.victim"]
SHEET = loaded("sheet_lab04_victim").VICTIM
COURSE = course_of(0)


def load(*rows, blocks=20, grace=16, link=(100,)):
    """Requests of (prefix, its blocks, prompt tokens, output tokens), all at once; a token 1,000 ns, a block moved 100."""
    requests = [
        Asked(n, "chat", 0, prefix, many, prompt, output, False)
        for n, (prefix, many, prompt, output) in enumerate(rows)
    ]
    return Load(tuple(requests), blocks, grace, 1_000, 50, 500, 100, link)


def shortage(task, *made, free=0, link=100):
    """All of ``task`` run, with so many tokens made."""
    jobs = [Job(asked, n, n) for asked, n in zip(task.requests, made, strict=True)]
    return Shortage.of(task, jobs, free, link)


THREE = load(("a", 4, 32, 64), ("a", 4, 0, 64), ("b", 2, 48, 64))


def test_a_beginning_comes_free_only_with_the_last_that_holds_it():
    now = shortage(THREE, 16, 16, 0)
    first, second, third = now.running
    assert [now.frees(job) for job in now.running] == [3, 1, 3 + 2]
    assert [now.shares(job) for job in now.running] == [True, True, False]
    later = now.without(first)
    assert (later.frees(second), later.free, later.need) == (1 + 4, 3, -1)
    assert later.without(second).holders == Counter({"b": 1})
    assert third.own_blocks == 3


def test_what_is_lost_costs_its_tokens_or_its_transfers_and_a_busy_link_makes_those_dear():
    now = shortage(THREE, 16, 16, 0)
    first, _, third = now.running
    assert now.costs(first) == {"recompute": 50 + 48_000, "swap": 2 * 500 + 6 * 100}
    assert now.costs(third) == {"recompute": 50 + (48 + 32) * 1_000, "swap": 2 * 500 + 10 * 100}
    assert shortage(THREE, 16, 16, 0, link=400).costs(first)["swap"] == 4 * 1_600
    copied = load(("a", 4, 32, 64))
    kept = Asked(0, "code", 0, "a", 4, 32, 64, True)
    half = Shortage.of(copied, [Job(kept)], 0, 100)
    assert half.costs(half.running[0])["swap"] == 500 + (2 * 6 - 2) * 100


def test_the_rule_takes_the_cheapest_that_is_enough_alone_and_else_the_one_that_frees_most():
    assert rule(shortage(THREE, 16, 16, 0, free=2)) == (1, "swap")  # one is lacking
    assert rule(shortage(THREE, 16, 16, 0)) == (0, "swap")  # three: the second frees one, and needs one less
    wide = load(*[("a", 4, 16, 64)] * 6)
    assert rule(shortage(wide, *[16] * 5, 48, free=0)) == (5, "swap")
    assert shortage(wide, *[16] * 5, 48, free=0).price(rule) > 2_000


def played(task, function):
    asker = InProcess(lambda **_: type("Object", (), {"victim": staticmethod(function)}))
    try:
        return play_load(task, asker)
    finally:
        asker.close()


FULL = load(("a", 4, 64, 160), ("b", 2, 64, 160), ("a", 4, 0, 160), blocks=18)


@pytest.mark.parametrize(
    ("answer", "tag"),
    [
        (lambda view: [view.running[0].id, "swap"], None),
        (lambda view: (view.running[0].id, "recompute"), None),
        (lambda view: [9, "swap"], "not-running"),
        (lambda view: [10**1200, "swap"], "not-running"),
        (lambda view: [0, "drop"], "type"),
        (lambda view: [True, "swap"], "type"),
        (lambda view: [0], "type"),
        (lambda view: 0, "type"),
        (lambda view: {"victim": 0}, "type"),
    ],
)
def test_an_answer_is_a_job_that_runs_and_a_mode(answer, tag):
    outcome = played(FULL, answer)
    assert outcome.lawful == (tag is None)
    if tag:
        assert outcome.tag == tag


def test_who_frees_nothing_is_no_victim_and_who_was_just_out_has_its_grace():
    first = played(
        load(("a", 4, 96, 96), ("a", 4, 0, 96), ("b", 1, 64, 96), blocks=16), lambda view: [1, "swap"]
    )
    assert (first.tag, first.numbers["frees"]) == ("frees-nothing", 0)
    again = load(("a", 1, 16, 320), ("b", 1, 16, 320), ("c", 1, 16, 320), blocks=24, grace=80)
    out = played(again, lambda view: [min(j.id for j in view.running), "recompute"])
    assert (out.tag, out.lawful) == ("ping-pong", False)
    assert out.numbers["since"] < 80


def test_each_shortage_is_priced_where_the_learner_stands():
    task = graded_case(COURSE.graded(EXERCISE.id, 0), COURSE.rules[EXERCISE.id]["grace_tokens"])
    assert played(task, victim).way == 1.0

    def oldest(view):
        return loaded("sheet_lab04_victim").by(lambda view, job: job.id, "recompute")(view)

    assert played(task, oldest).way == 0.0


def test_shortages_stay_as_they_were_when_the_pool_goes_on():
    task = EXERCISE.puzzle(COURSE, "ann").load
    found = shortages(task)
    paid = []

    def noted(pool):
        paid.append(pool.shortage.price(rule))
        return rule(pool.shortage)

    Pool(task).play(noted)
    assert [now.price(rule) for now in found] == paid


def test_what_is_watched_is_sound_and_the_evidence_gives_blocks_back():
    task = EXERCISE.puzzle(COURSE, "ann")
    ledger = EXERCISE.watched(task)
    check(ledger)
    check(EXERCISE.reference(COURSE, task))
    cause, shows = EXERCISE.key(COURSE, "ann")
    assert cause in EXERCISE.causes
    assert all(type(ledger[serial]) is Freed for serial in shows)


def test_whose_eviction_costs_most_and_which_letter_is_cheaper_differ_from_learner_to_learner():
    causes, letters = Counter(), Counter()
    for n in range(40):
        causes[EXERCISE.key(COURSE, f"learner {n}")[0]] += 1
        task = EXERCISE.puzzle(COURSE, f"learner {n}")
        assert {task.a, task.b} == {oldest_first(task.shortage)[0], rule(task.shortage)[0]}
        letters["a" if rule(task.shortage)[0] == task.a else "b"] += 1
    assert set(causes) == set(EXERCISE.causes)
    assert max(causes.values()) <= 28
    assert min(letters.values()) >= 10


def test_graded_loads_have_ten_shortages_and_jobs_that_free_nothing():
    grace = COURSE.rules[EXERCISE.id]["grace_tokens"]
    traps = 0
    for n in range(12):
        found = shortages(graded_case(COURSE.graded(EXERCISE.id, n), grace))
        assert len(found) >= 10
        traps += any(not now.frees(job) for now in found for job in now.running)
    assert traps >= 4


def test_a_graded_load_begins_with_a_shortage_that_one_block_too_many_makes_twice_as_dear():
    grace = COURSE.rules[EXERCISE.id]["grace_tokens"]
    in_full = MISREAD["needs-too-much"]
    for n in range(4):
        task = graded_case(COURSE.graded(EXERCISE.id, n), grace)
        first, second, *_ = shortages(task)
        ids = {job.asked.id for job in first.running}
        assert ids == set(range(task.pinched))
        assert not ids & {job.asked.id for job in second.running}
        assert first.frees(first.job(rule(first)[0])) == first.need - 1
        assert 2 * first.price(rule) <= first.price(in_full)
        assert fell_for_it(first, in_full(first))
        assert not fell_for_it(first, rule(first))
        assert not fell_for_it(second, in_full(second))


def looks_at_pairs(view):
    """Two that together are cheaper than one are put out one after the other."""

    def frees(job, gone=()):
        rest = [o for o in view.running if o is not job and o not in gone]
        return job.own_blocks + job.prefix_blocks * all(o.prefix != job.prefix for o in rest)

    def price(job):
        return min(job.recompute_ns, job.swap_ns)

    freeing = [job for job in view.running if frees(job)]
    may = [job for job in freeing if not job.evictions or job.since_tokens >= view.grace_tokens] or freeing
    sets = [(price(job), [job]) for job in may if frees(job) + 1 >= view.need_blocks]
    for one in may:
        sets += [
            (price(one) + price(two), [one, two])
            for two in may
            if two is not one and frees(one) + frees(two, [one]) + 2 >= view.need_blocks
        ]
    job = min(sets, key=lambda found: found[0])[1][0] if sets else max(may, key=frees)
    return job.id, "swap" if job.swap_ns < job.recompute_ns else "recompute"


def keeps_a_best(view):
    """One loop, one best so far."""
    holders = Counter(job.prefix for job in view.running)
    best = None
    for grace in (view.grace_tokens, 0):
        for job in view.running:
            gain = job.own_blocks + (job.prefix_blocks if holders[job.prefix] == 1 else 0)
            if not gain or (job.evictions and job.since_tokens < grace):
                continue
            mode, ns = min((("recompute", job.recompute_ns), ("swap", job.swap_ns)), key=lambda pair: pair[1])
            place = (0, ns) if gain >= view.need_blocks - 1 else (1, -gain, ns)
            if best is None or place < best[0]:
                best = place, [job.id, mode]
        if best:
            return best[1]
    return [view.running[0].id, "recompute"]


@pytest.mark.parametrize("right", [looks_at_pairs, keeps_a_best])
def test_another_right_answer_gets_full_marks_too(right, scale):
    shares = [graded(SHEET, right, course_of(n), Commitments())[0].build_share for n in range(scale(4))]
    assert set(shares) == {1.0}
