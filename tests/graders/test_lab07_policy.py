"""07.policy: what only this exercise has; its traces are long, so it has its own file beside its sheet."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.asked import AskedPolicy
from autograder.channel import AnswerFault, InProcess
from autograder.checks.lab07 import gpu, policy, policy_marks
from autograder.checks.lab07.policy_marks import law, over_reacted
from autograder.checks.played import Outcome
from autograder.course import Course
from autograder.judge import Sitting
from autograder.references.lab07_policy import Mine
from autograder.verdict import Commitments
from gpulab.report.audit import check
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.request import Request, Trace

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

SHEET = next(sheet for sheet in loaded("sheet_lab07_policy").SHEETS)


@pytest.fixture(autouse=True)
def one_baseline(monkeypatch):
    """Naive and reference are run once a course, not once an answer."""
    real, known = policy.baseline, {}

    def remembered(loads, rules, kept=None):
        key = len(loads[0].trace), loads[0].trace[0].prompt_tokens, loads[0].shift_ns
        if key not in known:
            known[key] = real(loads, rules)
        return known[key]

    monkeypatch.setattr(policy, "baseline", remembered)


@pytest.fixture(autouse=True)
def shorter(monkeypatch):
    """Three simulated minutes instead of five, but for a soak."""
    real, minutes = gpu.loads, gpu.MINUTES if os.environ.get("GPULAB_SOAK") == "1" else 3
    monkeypatch.setattr(gpu, "loads", lambda draw, rules, minutes=minutes: real(draw, rules, minutes))


@pytest.fixture
def direct(monkeypatch):
    """Policies are run where they are: that asking through the channel changes nothing, tests/laws/test_mirror.py shows."""

    def asked(load, rules, asker):
        own = asker._answerer._make(rules=rules)
        run = gpu.run(load, own, rules)
        outcome = Outcome(ledger=run.ledger)
        law(outcome, run)
        return run, outcome, own.reserves

    monkeypatch.setattr(policy, "asked", asked)
    monkeypatch.setattr(policy, "PRACTICE", 0)


def scored(name, number=0):
    return graded(SHEET, SHEET.wrong[name].hands_in, course_of(number), Commitments("ann"))[0]


def test_right_gets_full_marks_within_sixty_thousand_questions():
    course = course_of(0)
    score, asked = graded(SHEET, SHEET.right, course, SHEET.said(course, "ann"))
    assert (score.points, score.tag, score.feedback) == (14.0, "", None)
    assert asked <= 60_000


@pytest.mark.soak
@pytest.mark.parametrize("name", SHEET.wrong)
def test_each_misconception_gets_its_share_and_its_tag(name, scale, direct):
    wrong = SHEET.wrong[name]
    for number in range(scale(1)):
        score = scored(name, number)
        assert score.tag == wrong.tag
        assert wrong.lowest <= score.build_share <= wrong.highest
        assert wrong.question in score.feedback.question


def test_whoever_decides_too_often_is_stopped_and_told(monkeypatch):
    monkeypatch.setattr(policy_marks, "MOST_ASKS", 30)
    score, asked = graded(SHEET, SHEET.right, course_of(0), Commitments("ann"))
    assert (score.tag, score.build_share) == ("asks-too-often", 0.0)
    assert asked < 300
    assert "How often do you wake" in score.feedback.question


def test_the_stub_hears_that_it_is_not_solved():
    score, _ = graded(SHEET, SHEET.stub, course_of(0), Commitments("ann"))
    assert (score.points, score.tag) == (0.0, "not-solved")


@pytest.mark.parametrize("constant", SHEET.constants)
def test_a_constant_answer_keeps_no_promise_or_breaks_a_law(constant, direct):
    score, _ = graded(SHEET, constant, course_of(0), Commitments("ann"))
    assert score.build_share <= 0.25


@pytest.mark.soak
def test_what_gpulab_ships_earns_at_most_half(direct, scale):
    """Laws broken or less than half of the way, on the first of the three traces; in a soak on all of them."""
    for shipped in (*loaded("sheet_lab07_policy").SHIPPED, *SHEET.shortcuts):
        rules = course_of(0).rules["07.policy"]
        loads = gpu.loads(course_of(0).graded("07.policy", 0), rules)[: scale(1)]
        runs = [gpu.run(load, shipped(rules), rules) for load in loads]
        outcomes = [Outcome() for _ in runs]
        for outcome, run in zip(outcomes, runs, strict=True):
            law(outcome, run)
        naive, best = policy.baseline(loads, rules)
        lawful = all(outcome.lawful for outcome in outcomes)
        assert not lawful or policy_marks.way_of(runs, naive, best) < 0.66, shipped


def test_over_the_socket_a_wrong_build_gets_the_same_score(kernel):
    here = scored("over-budget")
    sitting = Sitting(course_of(0), "ann")
    try:
        notebook = kernel(sitting.path)
        notebook.run(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom sheets import *")
        notebook.run("from autograder.learner import *\nlearner('ann')")
        notebook.run("sheet = loaded('sheet_lab07_policy').SHEETS[0]")
        sitting.open("07.policy")
        assert (
            notebook.run("check('07.policy', sheet.wrong['over-budget'].hands_in)")
            == "07.policy: received.\n"
        )
        there = sitting.close()
    finally:
        sitting.end()
    assert (there.text, there.build_share, there.tag) == (here.text, here.build_share, here.tag)


def test_nothing_of_a_graded_input_stands_in_the_feedback(direct, monkeypatch):
    monkeypatch.setattr(policy, "PRACTICE", 1)
    secret, said = SHEET.secret_numbers(course_of(0)), scored("shortest-first").text
    assert not {int(word) for word in said.replace(",", "").split() if word.isdigit()} & secret


ODD = (None, True, 10**1200, 1.5, "x", [[]], {"a": 1}, {"admit": None}, {"admit": [None, [], True]})
ODD += (
    {"prefill": [[1, 2]]},
    {"prefill": {"1": 2}},
    {"prefill": {None: 2}},
    {"preempt": [[0]]},
    {"preempt": [0]},
)
ODD += (
    {"admit": [10**1200]},
    {"wake": True},
    {"wake": -1},
    {"reject": [10**9]},
    {1: 2},
    {"prefill": {1.5: 2}},
)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_whatever_is_answered_in_the_middle_of_right_answers_the_judge_goes_on(odd):
    class Odd(Mine):
        seen = 0

        def decide(self, view):
            self.seen += 1
            return odd if self.seen == 5 else super().decide(view)

    whole = gpu.loads(Course.self_study().public("07.policy", 0), RULES, 1)[0]
    load = replace(whole, trace=Trace(whole.trace.requests[:20]))
    asker = InProcess(Odd)
    try:
        run, outcome, _ = policy_marks.asked(load, RULES, asker)
    finally:
        asker.close()
    assert run is not None or outcome.tag == "unsendable"
    assert outcome.tag in ("", "unsendable", "over-limits", "serves-nobody")
    assert outcome.lawful == (not outcome.tag)


def test_traits_that_are_none_are_refused_by_name():
    for name, value in (
        ("mixes", 1),
        ("mixes", None),
        ("reserves", "all"),
        ("reserves", 5),
        ("mixes", "yes"),
    ):
        asker = InProcess(type("Odd", (Mine,), {name: value}))
        asker.new({"rules": RULES}, "view")
        with pytest.raises(AnswerFault, match="mixes is True or False"):
            AskedPolicy(asker, 0, {})
        asker.close()


RULES = {"pause_ns": 31_000_000, "chat_first_ns": 1_000_000_000, "code_first_ns": 2_000_000_000}


def test_a_run_is_read_as_the_promises_say():
    """Each reading against its definition, by another way."""
    load = gpu.loads(Course.self_study().public("07.policy", 1), RULES, 2)[2]
    run = gpu.run(load, Mine(RULES), RULES)
    check(run.ledger)
    assert not run.fault
    assert sorted(run.fates) == [request.id for request in load.trace]
    long = [
        f
        for f in run.ledger
        if type(f).__name__ == "Stepped" and f.time_ns - f.start_ns > f.steps * RULES["pause_ns"]
    ]
    assert run.pauses == [f.time_ns for f in long]
    for name, fate in run.fates.items():
        assert fate.tenant == load.trace[name].tenant
        if fate.tenant == "chat" and fate.tokens:
            late = fate.first_ns - fate.arrived_ns > RULES["chat_first_ns"]
            inside = any(fate.first_ns < f.time_ns <= fate.ended_ns for f in long)
            assert fate.lost == ("late" if late else "pause" if inside or fate.streaming_out else "")


class Swaps(Chunked):
    """The one document is put out once, its KV kept, and comes back a second later."""

    out_ns = 0

    def decide(self, view):
        decodes = [job.id for job in view.running if job.decoding]
        if decodes and not self.out_ns:
            self.out_ns = view.now_ns
            return {"preempt": [[decodes[0], "swap"]], "wake": view.now_ns + 10**9}
        if self.out_ns and view.now_ns < self.out_ns + 10**9:
            return {"wake": self.out_ns + 10**9}
        return super().decide(view)


def test_a_document_that_comes_back_with_its_kv_makes_tokens_and_does_not_stand_still():
    trace = Trace([Request(0, 0, 1000, 4000, 4096, "batch")])
    run = gpu.run(gpu.Load(trace, (), "A", 10**11, 10**11), Swaps(), RULES)
    begin_ns, until_ns, _ = run.idle_ns
    assert run.fault is None and len(run.evictions) == 1
    assert 10**9 <= until_ns - begin_ns < 2 * 10**9 < run.ledger.end_ns


def test_each_promise_is_broken_by_what_breaks_it():
    """One request, one fate: read off a made-up ledger's numbers."""
    load = gpu.Load(Trace([]), (), "A", 10**11, 10**11)

    def lost(tenant, first_ns, ended_ns, pauses=(), **others):
        fate = gpu.Fate(tenant, 0, 10, 0, first_ns=first_ns, ended_ns=ended_ns, **{"tokens": 11, **others})
        return gpu._lost(fate, list(pauses), RULES, load)

    second = 10**9
    assert lost("chat", second, 2 * second) == lost("code", second, second + 10 * gpu.TPOT_NS) == ""
    assert lost("chat", second + 1, 2 * second) == lost("code", 2 * second + 1, 3 * second) == "late"
    assert lost("code", second, second + 10 * gpu.TPOT_NS + 1) == "slow"
    assert (
        lost("chat", second, 2 * second, [second + 5])
        == lost("chat", 5, second, streaming_out=True)
        == "pause"
    )
    assert lost("chat", second, 2 * second, [second, 2 * second + 1]) == lost("code", 5, 9, [6]) == ""
    assert lost("batch", second, load.half_ns) == "" and lost("batch", second, load.half_ns + 1) == "late"
    assert lost("chat", -1, second, tokens=0) == "refused"


def test_the_top_bands_need_the_shift_to_be_seen(monkeypatch):
    """As good as the reference on all three traces, and yet: behind after A, put out after B, or as if slow always."""
    loads = gpu.loads(Course.self_study().public("07.policy", 0), RULES, 1)
    naive, best = policy.baseline(loads, RULES)
    outcomes = [Outcome() for _ in loads]
    monkeypatch.setattr(policy_marks, "way_of", lambda *_: 1.0)

    def found(runs):
        return policy_marks.share(outcomes, runs, naive, best, RULES["pause_ns"])

    assert found(best)[0] == 1.0
    first, second, third = best
    behind = replace(first, fates={name: replace(fate, lost="late") for name, fate in first.fates.items()})
    assert found([behind, second, third])[0] == 0.70
    assert "falls behind after shift A" in found([behind, second, third])[1]
    put_out = replace(second, evictions=[second.load.shift_ns] * 11)
    assert found([first, put_out, third])[0] == 0.70
    assert "puts out more" in found([first, put_out, third])[1]
    slow = replace(
        second, mixed=[RULES["pause_ns"] * 69 // 100] * second.early + second.mixed[second.early :]
    )
    assert found([first, slow, third])[0] == 0.70
    assert "as short as after it" in found([first, slow, third])[1]
    paused = {
        name: replace(fate, lost="pause") if fate.tenant == "chat" else fate
        for name, fate in third.fates.items()
    }
    assert found([first, second, replace(third, fates=paused)])[0] == 0.70
    assert "longer than the pause" in found([first, second, replace(third, fates=paused)])[1]


def test_shift_b_comes_early_in_one_trace_and_late_in_the_other_whichever_it_is():
    moments = []
    for number in range(6):
        first, *slower = gpu.loads(course_of(number).graded("07.policy", 0), RULES, 1)
        assert first.shift_ns == first.half_ns == 30 * 10**9
        moments.append([load.shift_ns / load.half_ns / 2 for load in slower])
        assert [[at for at, _ in load.host] for load in slower] == [[load.shift_ns] for load in slower]
    assert all(0.25 <= min(pair) <= 0.35 and 0.65 <= max(pair) <= 0.75 for pair in moments)
    assert len({pair[0] < pair[1] for pair in moments}) == 2
    assert len({at for pair in moments for at in pair}) > 6


def test_evictions_are_compared_by_the_minute():
    load = gpu.Load(Trace([]), (), "B", 10**11, 2 * 10**11)  # a quarter of the run, then three
    run = gpu.Run(load, None, None, evictions=[0] * 20 + [10**11] * 76)
    assert not over_reacted(run)
    run.evictions.append(10**11)
    assert over_reacted(run)


def test_requests_carry_no_promise_and_what_comes_has_no_rhythm():
    for load in gpu.loads(course_of(0).graded("07.policy", 0), RULES):
        assert not any(request.first_token_ns for request in load.trace)
        assert bool(load.host) == (load.shift != "A")
        assert all(host_ns == RULES["pause_ns"] - gpu.LEFT_NS for _, host_ns in load.host)


def test_who_loses_by_the_shift_differs_between_learners():
    exercise, course = policy.PolicyExercise(), course_of(0)
    losers = [exercise.puzzle(course, f"learner {n}").key()[0] for n in range(8)]
    assert len(set(losers)) > 1


def test_laws_name_the_first_break():
    load = gpu.loads(Course.self_study().public("07.policy", 0), RULES, 2)[0]
    run, outcome = gpu.run(load, Mine(RULES), RULES), Outcome()
    law(outcome, run)
    assert (outcome.tag, outcome.lawful) == ("", True)
    shift = load.shift_ns
    run.evictions = [shift - 1] * 10 + [shift] * 21
    assert not over_reacted(run)
    run.evictions.append(shift)
    assert over_reacted(run)


def test_the_message_shown_is_one_that_a_policy_answers():
    exercise, course = policy.PolicyExercise(), Course.self_study()
    questions, make = exercise.example(course)
    asker = InProcess(make)
    replies = [json.loads(asker._exchange(json.dumps(question))) for question in questions]
    asker.close()
    assert replies == [[1, "ok", None], [2, "ok", [True, "prompt"]], [3, "ok", [{"admit": [0]}, [[0, 512]]]]]


def test_a_policy_is_tried_on_practice_traces_and_a_fault_is_told():
    task = policy.Task(gpu.loads(Course.self_study().public("07.policy", 0), RULES, 1)[0], RULES)
    lines = task.try_policy(SHEET.wrong["over-budget"].hands_in).splitlines()
    assert [line.split()[0] for line in lines] == ["trace", "A", "ended", "B", "ended", "both", "ended"]
    assert task.text().startswith("One GPU, 1,600 KV blocks, 64 seats; 1 minutes: ")
