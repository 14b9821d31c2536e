"""04.chunk: what only this exercise has: promises that a chunk of no constant length keeps, and its parts."""

import sys
from pathlib import Path
from random import Random

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises, played, texts
from autograder.checks.lab04 import chunk_play
from autograder.checks.lab04.chunk import graded_load, small_load
from autograder.checks.lab04.chunk_cases import BLOCK, drawn
from autograder.checks.lab04.chunk_run import (
    Prompt,
    Seen,
    filled,
    fitting,
    long_steps,
    promises,
    rule,
    run,
    when_idle,
    whole,
)
from autograder.verdict import Commitments
from gpulab.report import audit
from gpulab.telemetry.events import Stepped

sys.path.insert(0, str(Path(__file__).parent))
from sheet_lab04_chunk import CHUNK, MyChunks, in_order
from sheets import course_of, graded


def loads(count):
    return [graded_load(Random(f"chunk/{n}"), n) for n in range(count)]


def way(load, choose):
    got, best, least = (promises(load, run(load, c)).share for c in (choose, rule(load), whole))
    return min(max((got - least) / (best - least), 0), 1)


def test_the_rule_keeps_both_promises_for_nine_in_ten_and_whole_prompts_for_few(scale):
    for load in loads(scale(24)):
        assert promises(load, run(load, rule(load))).share >= 0.9
        assert promises(load, run(load, whole)).share <= 0.3


def of(tokens):
    """A constant number of tokens, first come first."""
    return lambda seen: filled(fitting(seen), tokens)


@pytest.mark.parametrize("number", range(2))
def test_no_constant_number_of_tokens_comes_half_of_the_way(number):
    """Nor does one with the decodes among them, as shipped servers count."""
    course = course_of(number)
    played = [graded_load(course.graded("04.chunk", n), n) for n in range(12)]
    ends = [[promises(load, run(load, c)).share for c in (whole, rule(load))] for load in played]
    for tokens in (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512):
        got = [promises(load, run(load, of(tokens))).share for load in played]
        ways = [
            min(max((a - least) / (best - least), 0), 1) for a, (least, best) in zip(got, ends, strict=True)
        ]
        assert sum(ways) / len(ways) < 0.5


def test_prompts_only_when_nobody_decodes_come_not_half_of_the_way():
    ways = [way(load, when_idle) for load in loads(6)]
    assert sum(ways) / len(ways) < 0.22


def test_a_prompt_asks_for_the_blocks_of_its_own_tokens_and_not_for_the_whole_pool():
    load, asked = small_load(Random("own blocks"), 2), {}
    wanted = {r.id: -(-(r.prompt_tokens + r.output_tokens - 1) // BLOCK) for r in load.requests}

    def noted(seen):
        asked.update({prompt.id: prompt.blocks for prompt in seen.prompts if prompt.blocks})
        return rule(load)(seen)

    run(load, noted)
    assert asked and asked == {name: wanted[name] for name in asked}


def test_in_every_third_load_a_prompt_waits_for_blocks():
    for number, load in enumerate(loads(9)):
        waited = False

        def looking(seen, load=load):
            nonlocal waited
            waited |= len(fitting(seen)) < len(seen.prompts)
            return rule(load)(seen)

        run(load, looking)
        assert waited == (number % 3 == 1)


class Evenly(MyChunks):
    """Another style: what there is room for is split among all prompts, in steps of 4 tokens."""

    def decide(self, view):
        prompts, best, tokens = in_order(view), [], 4
        while True:
            chunks = [(prompt, min(prompt.left, tokens)) for prompt in prompts]
            if self.step_ps(view, chunks) > self.gap_ps or chunks == best:
                break
            best, tokens = chunks, tokens + 4
        best = best or ([(prompts[0], 1)] if not view.decoding else [])
        return {"prefill": {prompt.id: chunk for prompt, chunk in best}}


class InBlocks(MyChunks):
    """Another style: whole blocks, counted down from far too many, a fiftieth of the gap kept back."""

    def decide(self, view):
        budget = sum(prompt.left for prompt in view.prompts) // 16 * 16 + 16
        while True:
            chosen, left = [], budget
            for prompt in in_order(view):
                chosen += [(prompt, min(left, prompt.left))] if left > 0 else []
                left -= prompt.left
            if self.step_ps(view, chosen) * 50 <= self.gap_ps * 49 or not view.decoding:
                return {"prefill": {prompt.id: chunk for prompt, chunk in chosen}}
            budget -= 16


@pytest.mark.parametrize("style", [Evenly, InBlocks])
def test_the_same_budget_written_otherwise_gets_full_marks(style, scale):
    for number in range(scale(3)):
        score = graded(CHUNK, style, course_of(number), Commitments("ann"))[0]
        assert (score.build_share, score.tag) == (1.0, "")


def test_a_jobs_gap_is_broken_by_a_long_step_while_it_decodes_and_by_no_other():
    load = drawn(Random("one"), 0)
    ledger = run(load, rule(load))
    assert long_steps(load, ledger) == []
    assert not promises(load, ledger).stalled
    ledger = run(load, whole)
    longest = max(
        fact.end_of(fact.steps) - fact.end_of(fact.steps - 1) for fact in ledger.of(Stepped) if fact.jobs
    )
    assert longest > load.gap_ns
    assert {0, 1} <= promises(load, ledger).stalled
    last = load.requests[-1].id  # nobody's prompt came after its own
    assert last not in promises(load, ledger).stalled


def test_who_answers_with_single_tokens_for_ever_is_stopped_and_judged():
    load = graded_load(Random("slow"), 0)
    ledger = run(load, lambda seen: {seen.prompts[0].id: 1})
    found = promises(load, ledger)
    assert load.requests[-1].id in found.late
    assert found.share < 0.6
    audit.check(ledger)


SEEN = Seen(0, 2, 900, 10, (Prompt(101, 0, 64, 36, 0), Prompt(102, 0, 0, 160, 10), Prompt(103, 0, 0, 16, 1)))


@pytest.mark.parametrize(
    ("got", "tag"),
    [
        ({"prefill": {"code 101": 37}}, "more-than-left"),
        ({"prefill": {"code 101": -1}}, "more-than-left"),
        ({"prefill": {"code 102": 1, "code 103": 1}}, "no-blocks"),
        ({"prefill": {"code 104": 1}}, "unknown"),
        ({"prefill": {"code 101": True}}, "form"),
        ({"prefill": {"code 101": "1"}}, "form"),
        ({"prefill": ["code 101"]}, "form"),
        ({"admit": ["code 102"]}, "form"),
        ([["code 101", 1]], "form"),
        (7, "form"),
    ],
)
def test_each_law_is_broken_by_an_answer(got, tag):
    with pytest.raises(chunk_play.Broken) as broken:
        chunk_play.lawful(SEEN, got)
    assert broken.value.tag == tag


@pytest.mark.parametrize(
    ("got", "chunks"),
    [
        (None, {}),
        ({}, {}),
        ({"prefill": {"code 101": 0}}, {}),
        ({"prefill": {"code 101": 36, "code 102": 160}}, {101: 36, 102: 160}),
        ({"prefill": {"code 103": 16}}, {103: 16}),
    ],
)
def test_what_is_lawful_is_done_as_it_was_said(got, chunks):
    assert chunk_play.lawful(SEEN, got) == chunks


def test_nothing_at_all_breaks_a_law_only_while_nobody_decodes():
    alone = Seen(0, 0, 0, 10, SEEN.prompts)
    with pytest.raises(chunk_play.Broken, match="stands-still"):
        chunk_play.lawful(alone, {})
    full = Seen(0, 0, 0, 9, SEEN.prompts[1:2])
    assert chunk_play.lawful(full, {}) == {}


def test_each_part_of_the_wait_is_the_largest_for_some_learner():
    exercise, course = exercises()["04.chunk"], course_of(0)
    causes = {}
    for number in range(40):
        learner = f"learner {number}"
        cause, shows = exercise.key(course, learner)
        causes[cause] = causes.get(cause, 0) + 1
        assert 2 <= len(shows) <= 60
    assert set(causes) == {"slowed", "behind", "blocked"}
    assert max(causes.values()) <= 24


def test_small_loads_are_small_and_what_is_watched_is_lawful():
    exercise, course = exercises()["04.chunk"], course_of(0)
    assert all(len(small_load(Random(f"small/{n}"), n).requests) < 20 for n in range(9))
    for name in ("ann", "bo", "cy"):
        audit.check(exercise.watched(exercise.puzzle(course, name)))
        assert "What besides its own work" in exercise.puzzle(course, name).text()
    practice = exercise.puzzle(course, "", 3, "tiny")
    assert len(practice.load.requests) == 4
    assert promises(practice.load, exercise.reference(course, practice)).share == 1


def test_the_feedback_draws_the_requests_of_the_small_load():
    score = graded(CHUNK, CHUNK.wrong["tiny-chunk"].hands_in, course_of(0), Commitments("ann"))[0]
    assert score.feedback.picture is not None
    assert "#" in score.feedback.event


def test_the_message_shown_is_answered_with_an_answer():
    said = texts.message(exercises()["04.chunk"], course_of(0))
    assert 'you:   [2,"ok",{"prefill":{"code 101":1}}]' in said


@pytest.mark.parametrize("name", ["whole-prompt", "fixed-budget", "prompts-when-idle", "blocks-ignored"])
def test_what_is_wrong_on_graded_loads_alone_is_told_without_a_number(name, monkeypatch):
    monkeypatch.setattr(played, "PLAYS", 4)
    wrong, made = CHUNK.wrong[name], iter(range(10_000))

    def make(**given):
        return (wrong.hands_in if next(made) < played.CASES else MyChunks)(**given)

    asker = InProcess(make)
    score = exercises()["04.chunk"].grade(course_of(3), Commitments("ann"), asker)
    asker.close()
    assert (score.tag, score.feedback.where, score.feedback.picture) == (wrong.tag, "", None)
    assert not any(c.isdigit() for c in "".join(score.feedback.lines()))
