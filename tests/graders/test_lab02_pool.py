"""02.pool: its programs hold their traps, its two rules are what they say, and each wrong answer has a name."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises, played
from autograder.checks.lab02.pool_cases import graded_case, small_case, times
from autograder.checks.lab02.pool_play import play_case
from autograder.checks.lab02.pool_run import DevicePool, Program, StepPool, Tensor, stepped
from autograder.course import Course
from autograder.references.lab02 import MyPool
from autograder.verdict import Commitments
from gpulab.memory.pool import Pool
from gpulab.report.audit import check
from gpulab.report.host_time import host_time
from gpulab.telemetry.events import Claimed, Granted, Refused
from gpulab.units import US, KiB, MiB

sys.path.insert(0, str(Path(__file__).parent))
from sheet_lab02_pool import POOL, FreesAtOnce, PowerOfTwo
from sheets import course_of, graded

EXERCISE = exercises()["02.pool"]
RULES = {"stranded_percent": 20}


def on(ledger, resource):
    return {fact.claim for fact in ledger.of(Claimed) if fact.resource == resource}


def stranded(ledger):
    """The share of the pool's granted bytes that nobody asked for."""
    asked = {fact.claim: fact.size for fact in ledger.of(Claimed) if fact.resource == "pool"}
    granted = {fact.claim: fact.size for fact in ledger.of(Granted) if fact.claim in asked}
    return 1 - sum(asked[claim] for claim in granted) / sum(granted.values())


@pytest.mark.parametrize("number", range(4))
def test_on_a_graded_program_the_reference_trims_refuses_nothing_and_takes_half_the_time(number):
    course = course_of(number)
    program, naive_ns, best_ns = graded_case(course.graded("02.pool", number), RULES)
    best = program.run(StepPool, RULES)

    refused = [fact.claim for fact in best.of(Refused)]
    assert refused
    assert set(refused) <= on(best, "device")
    assert (naive_ns, best_ns) == times(program, RULES)
    assert 2 * best_ns <= naive_ns
    assert stranded(best) < 0.15
    assert stranded(program.run(PowerOfTwo, RULES)) > 0.25
    check(best)


def test_the_reference_handed_out_writes_the_ledger_of_the_judge_s_own():
    for number in range(6):
        program = small_case(Course.self_study().public("reference", number), RULES)
        assert program.run(MyPool, RULES) == program.run(StepPool, RULES)


def test_four_sizes_a_doubling():
    sizes = [1, 512, 513, 4096, 4097, 1 * MiB, 1 * MiB + 512, 1040 * KiB, 1537 * KiB]
    assert [stepped(size) for size in sizes] == [
        *(512, 512, 1024, 4096, 5120),
        *(1 * MiB, 1280 * KiB, 1280 * KiB, 1792 * KiB),
    ]


TWO = Program(
    capacity=8 * MiB,
    cache_bytes=4 * MiB,
    step_ticks=10,
    tensors=(
        Tensor("a", 1 * MiB, 0, 0, 1, 100 * US),
        Tensor("b", 1 * MiB, 0, 1, 9, 100 * US),
        Tensor("c", 1 * MiB, 1, 2, 9, 100 * US),
    ),
)


def test_the_naive_plan_waits_at_each_free_and_the_time_is_named_to_the_nanosecond():
    # a: 75 us of growth, 5 of launch; its free waits 95, costs 50; b and c: 75 and 5 each; the end waits for c.
    naive = host_time(TWO.run(DevicePool), free_ns=50 * US)
    assert (naive.hits_ns, naive.growths_ns, naive.frees_ns, naive.waits_ns) == (0, 225_000, 50_000, 95_000)
    assert naive.whole_ns == 75_000 + 5_000 + 95_000 + 50_000 + 2 * 80_000 + 95_000

    best = host_time(TWO.run(MyPool, RULES), free_ns=50 * US)
    assert (best.hits_ns, best.growths_ns, best.frees_ns, best.waits_ns) == (1_500, 150_000, 0, 0)


def test_some_learners_wait_longest_and_others_grow_longest():
    course = course_of(0)
    keys = [EXERCISE.key(course, f"learner {n}") for n in range(12)]
    assert {cause for cause, _ in keys} == {"waits", "growths"}
    for number, (cause, shows) in enumerate(keys):
        ledger = EXERCISE.watched(EXERCISE.puzzle(course, f"learner {number}"))
        assert all(ledger[serial].claim in on(ledger, "device") for serial in shows)
        assert len({type(ledger[serial]).__name__ for serial in shows}) == 1, cause


class Fixed(Pool):
    """Answers what the test says, as long as there is something left."""

    takes, gives, trims = (), (), ()

    def prepare(self):
        self.left = {hook: list(getattr(self, f"{hook}s")) for hook in ("take", "give", "trim")}

    def take(self, size, stream):
        return self.left["take"].pop(0) if self.left["take"] else ["grow", size]

    def give(self, chunk, stream):
        return self.left["give"].pop(0) if self.left["give"] else []

    def trim(self, need):
        return self.left["trim"].pop(0) if self.left["trim"] else []


WRONG = {
    "a growth below the claim": ({"takes": [["grow", 512]]}, "too-small"),
    "a growth off the grid": ({"takes": [["grow", 1 * MiB + 1]]}, "too-small"),
    "a chunk that is not there": ({"takes": [["chunk", 0]]}, "unknown-chunk"),
    "a held chunk": ({"takes": [["grow", MiB], ["grow", MiB], ["chunk", 4 * MiB]]}, "held-twice"),
    "another stream's chunk": ({"takes": [["grow", MiB], ["grow", MiB], ["chunk", 0]]}, "other-stream-race"),
    "nothing": ({"takes": [None]}, "type"),
    "a pair": ({"takes": [["have", 1]]}, "type"),
    "no list": ({"gives": [None]}, "type"),
    "a chunk named twice": ({"gives": [[0, 0]]}, "unknown-chunk"),
    "what went back": ({"gives": [[4 * MiB]]}, "unknown-chunk"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_answer_that_cannot_be_breaks_a_law_and_has_a_name(what):
    answers, tag = WRONG[what]
    asker = InProcess(type("Told", (Fixed,), answers))
    try:
        outcome = play_case(TWO, RULES, asker)
    finally:
        asker.close()
    assert (outcome.tag, outcome.lawful, outcome.way) == (tag, False, 0.0)


def test_feedback_shows_the_first_free_that_need_not_have_gone_to_the_device():
    said = graded(POOL, FreesAtOnce, course_of(0), Commitments("ann"))[0].feedback
    assert said.where == played.PUBLIC
    assert said.picture.svg().startswith("<svg")
    assert said.expected.endswith("in the pool's calls, as the reference takes")


class Tightest(MyPool):
    """Asks the device for what is asked, and takes the tightest free chunk that strands no more than it may."""

    def take(self, size, stream):
        limit = self.rules["stranded_percent"]
        fitting = [
            chunk
            for chunk, waits_for in self.idle.items()
            if 0 <= 100 * (self.sizes[chunk] - size) <= limit * self.sizes[chunk]
            and waits_for in (stream, None)
        ]
        if not fitting:
            return ["grow", size]
        best = min(fitting, key=self.sizes.get)
        self.idle.pop(best)
        return ["chunk", best]


def test_what_reaches_full_marks_by_another_rule_hears_no_word():
    score = graded(POOL, Tightest, course_of(0), Commitments("ann"))[0]
    assert (score.build_share, score.tag, score.feedback) == (1.0, "", None)


def test_who_is_as_quick_as_the_reference_is_never_called_slow():
    for number in range(20):
        program = small_case(Course.self_study().public("reference", number), RULES)
        program = replace(program, tensors=program.tensors[:4])  # cut down, as for feedback
        asker = InProcess(MyPool)
        outcome = play_case(program, RULES, asker)
        asker.close()
        assert (outcome.way, outcome.tag) == (1.0, "")


@pytest.mark.parametrize("number", range(6))
def test_on_everybody_s_own_program_one_kind_of_time_stands_out(number):
    program = EXERCISE.puzzle(course_of(0), f"learner {number}")
    parts = EXERCISE.parts(program)
    most, second = sorted((getattr(parts, f"{kind}_ns") for kind in EXERCISE.causes), reverse=True)[:2]
    assert 5 * most >= 6 * second
