"""07.break: what counts as a workload that breaks a rule, and each way to miss it."""

from functools import cache
from types import SimpleNamespace

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab07.break_it import REQUESTS, VICTIMS
from autograder.course import Course
from autograder.references.lab07_break import Breaks
from autograder.verdict import Commitments

BREAK, COURSE = exercises()["07.break"], Course.self_study()


def envelope_of(name):
    return BREAK.puzzle(COURSE, name)


@cache
def right(name):
    """The reference with the numbers that ``name`` reads off."""
    envelope = envelope_of(name)
    chat, batch = (envelope.prompts[t][n] for t, n in (("chat", 0), ("batch", 1)))
    made = Breaks((chat, envelope.outputs["chat"][0]), (batch, envelope.outputs["batch"][1]), 0)
    played = {rule: envelope.try_workload(made.workload(), rule) for rule in VICTIMS}
    made.first = min(played.values(), key=lambda found: found[0])[1][0]
    return made


def graded(hands_in, name="ann", check=False):
    asker = InProcess(lambda **_: hands_in)
    try:
        return (BREAK.visible if check else BREAK.grade)(COURSE, Commitments(name), asker)
    finally:
        asker.close()


def changed(name="ann", **answers):
    """The reference but for ``answers``."""
    made = right(name)
    methods = {method: getattr(made, method) for method in ("workload", "own", "because")}
    return SimpleNamespace(
        **methods | {method: lambda value=value: value for method, value in answers.items()}
    )


@pytest.mark.parametrize("name", [f"learner {n}" for n in range(8)])
def test_the_reference_gets_full_marks_on_every_envelope_and_its_check_says_so(name):
    for check in (False, True):
        score = graded(right(name), name, check)
        assert (score.points, score.tag, score.feedback) == (4.0, "", None)


def test_a_workload_made_for_one_learner_is_outside_the_envelopes_of_most_others():
    handed = right("ann")
    tags = [graded(handed, f"learner {n}").tag for n in range(20)]
    assert tags.count("outside") >= 15


def rows():
    return right("ann").workload()


def wrong(rows=None, **others):
    return lambda: changed(**({"workload": rows()} if rows else {}), **others)


def infeasible():
    envelope = envelope_of("ann")
    return [[n, "code", envelope.prompts["code"][1], envelope.outputs["code"][0]] for n in range(200)]


def light():
    return rows()[:3]


def one_by_one():
    """A document each time the one before is nearly done: whole prompts leave the decodes no step."""
    envelope = envelope_of("ann")
    chat = [envelope.prompts["chat"][0], envelope.outputs["chat"][1]]
    document = [envelope.prompts["batch"][1], envelope.outputs["batch"][0]]
    gap = document[0] * 140 // 1000
    chats = [[160 * n, "chat", *chat] for n in range(100)]
    return sorted([*chats, *([300 + gap * k, "batch", *document] for k in range(15_000 // gap))])


MUTANTS = {
    "infeasible": (wrong(infeasible), "infeasible", 0, 0),
    "outside": (wrong(lambda: [[0, "chat", 7438, 40]]), "outside", 0, 0),
    "late": (wrong(lambda: [*rows()[:5], [20_001, *rows()[0][1:]]]), "outside", 0, 0),
    "too-many": (wrong(lambda: rows()[:1] * (REQUESTS + 1)), "too-many", 0, 0),
    "nothing": (wrong(list), "wrong-form", 0, 0),
    "backwards": (wrong(lambda: rows()[::-1]), "wrong-form", 0, 0),
    "no-tenant": (wrong(lambda: [[0, "search", 100, 10]]), "wrong-form", 0, 0),
    "no-victim": (wrong(light), "no-victim", 0, 0),
    "one-victim": (wrong(one_by_one), "one-victim", 0.0, 0.5),
    "own-falls": (lambda: changed(own="reserving"), "own-falls", 0.5, 0.7),
    "own-unknown": (lambda: changed(own="mine"), "own-falls", 0.5, 0.7),
    "event-after": (lambda: changed(because=rows().index(rows()[-1])), "not-the-first", 0.8, 0.8),
    "because-nothing": (lambda: changed(because=None), "not-the-first", 0.8, 0.8),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_misconception_gets_its_share_its_tag_and_a_question(name):
    make, tag, lowest, highest = MUTANTS[name]
    score = graded(make())
    assert score.tag == tag
    assert lowest <= score.build_share <= highest + 1e-9
    assert score.feedback.question.endswith("?")
    assert score.text == graded(make(), check=True).text


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", {"a": 1}, [[]], [[0, "chat", True, 1]], 10**400])
def test_whatever_is_answered_gets_a_tag_and_no_exception(value):
    for method in ("workload", "own", "because") if value in (None, 10**400) else ("workload",):
        score = graded(changed(**{method: value}))
        assert score.tag
        assert score.build_share < 0.85


def test_one_token_outside_the_envelope_is_outside():
    envelope = envelope_of("ann")
    for tenant in envelope.prompts:
        (least, most), (short, long) = envelope.prompts[tenant], envelope.outputs[tenant]
        for prompt, output in ((least - 1, short), (most + 1, short), (least, short - 1), (least, long + 1)):
            assert graded(changed(workload=[[0, tenant, prompt, output]])).tag == "outside"
        assert (
            graded(changed(workload=[[0, tenant, least, short], [20_000, tenant, most, long]])).tag
            == "no-victim"
        )


def test_a_request_that_no_pool_holds_is_told_with_its_row():
    envelope = envelope_of("ann")
    small = type(envelope)(100, envelope.prompts, envelope.outputs)
    from autograder.checks.lab07.break_it import verdict

    assert verdict(small, rows(), "priority", 0)[:2] == (0.0, "over-pool")


def test_untouched_earns_nothing_and_hears_that_it_is_not_solved():
    class Stub:
        def workload(self):
            raise NotImplementedError

        own = because = workload

    score = graded(Stub())
    assert (score.points, score.tag) == (0.0, "not-solved")


def test_whatever_an_envelope_allows_is_let_in_by_every_rule():
    """The longest request of each tenant, alone: none is longer than the model's window or the pool."""
    for number in range(30):
        envelope = envelope_of(f"learner {number}")
        for tenant, (_, most) in envelope.prompts.items():
            rows = [[0, tenant, most, envelope.outputs[tenant][1]]]
            assert envelope.try_workload(rows, "chunked") == (1.0, [])
