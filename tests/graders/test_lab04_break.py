"""04.break: somebody starves, aging helps at a price, and every other workload is told why it shows nothing."""

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab04.break_order import of_rate, of_workload
from autograder.checks.lab04.starve import Envelope
from autograder.course import Course
from autograder.references.lab04_break import starving
from autograder.verdict import Commitments

BREAK = exercises()["04.break"]
COURSE = Course.of("course 0", b"secret 0")
ENVELOPE = Envelope(prompt_us=500, token_ms=20, least_ms=400, most_ms=2_000)  # 20 output tokens are the least
RIGHT = starving(ENVELOPE)


def short(*arrivals_ms, output=20):
    return [[arrival_ms, 0, output] for arrival_ms in arrivals_ms]


ALIKE = short(*range(0, 30_000, 500))
BURST = [[0, 0, 50], *short(*[0] * 50, 22_000)]  # everybody waits for everybody, and then nobody for long
TOGETHER = [
    [0, 2, 20],
    *short(*range(0, 6_000, 400), 9_000),
]  # each short one comes in the instant the last one ends
CROWD = [[0, 0, 60], *short(*range(0, 20_000, 410))]


@pytest.mark.parametrize(
    ("requests", "tag"),
    [
        (RIGHT, ""),
        (CROWD, "overload"),
        (short(0), "overload"),
        (ALIKE, "all-alike"),
        ([[0, 0, 60], *short(*range(0, 20_000, 450))], "nobody-starves"),
        (BURST, "victim-under-both"),
        (TOGETHER, "tie-luck"),
        ([*RIGHT, *RIGHT], "too-long"),
        ([*RIGHT, [90_000, 0, 101]], "outside"),
        ([*RIGHT, [90_000, 799, 0]], "outside"),
        ([*RIGHT, [90_000, 0, 20.0]], "wrong-form"),
        ([*RIGHT, [90_000, 0, True]], "wrong-form"),
        ([*RIGHT, [-1, 0, 20]], "wrong-form"),
        ([*RIGHT, [10**12, 0, 20]], "wrong-form"),
        ([*RIGHT, [90_000, 20]], "wrong-form"),
        ([*RIGHT, {"arrival_ms": 90_000}], "wrong-form"),
        ([], "wrong-form"),
        ("starve", "wrong-form"),
        (None, "wrong-form"),
    ],
)
def test_a_workload_that_shows_nothing_says_why(requests, tag):
    assert of_workload(ENVELOPE, requests).tag == tag


@pytest.mark.parametrize(
    ("rate", "tag"),
    [
        (16, ""),
        (0, "rate-too-low"),
        (9, "rate-too-low"),
        (60, "age-everything"),
        (1_000, "age-everything"),
        (1_001, "wrong-rate"),
        (-1, "wrong-rate"),
        (16.0, "wrong-rate"),
        (True, "wrong-rate"),
        (None, "wrong-rate"),
        ([16], "wrong-rate"),
    ],
)
def test_a_rate_helps_at_a_price_or_says_why_not(rate, tag):
    assert of_rate(ENVELOPE, RIGHT, rate).tag == tag


def test_the_server_runs_the_shortest_rest_and_takes_turns_only_when_one_comes_or_ends():
    requests = [[0, 0, 60], [100, 0, 20], [500, 0, 35], [600, 0, 20]]
    assert [end // 1_000 for end in ENVELOPE.served(requests).ends] == [2_700, 500, 1_600, 1_000]
    assert [end // 1_000 for end in ENVELOPE.first_come(requests).ends] == [1_200, 1_600, 2_300, 2_700]
    aged = ENVELOPE.served(requests, 1_000)
    assert [end // 1_000 for end in aged.ends] == [1_600, 500, 2_300, 2_700]
    assert aged.waits == [400 / 1_200, 0.0, 1_100 / 700, 4.25]
    assert aged.longest == (4.25, 3)
    assert aged.mean_ms == (1_600 + 400 + 1_800 + 2_100) / 4


def test_what_the_plan_tried_comes_out_of_this_server():
    """One job of 100, then 58 of 40 every 42: 12.0 times; with k 0.1 4.0 times at 1.10 of the mean, with 0.2 2.4 at 1.15."""
    tried = Envelope(0, 1, 1, 100)
    requests = [[0, 0, 100], *([42 * n, 0, 40] for n in range(58))]
    plain = tried.served(requests)
    assert round(plain.longest[0], 1) == 12.0
    found = {rate: tried.served(requests, rate) for rate in (10, 20)}
    assert {rate: round(of.longest[0], 1) for rate, of in found.items()} == {10: 4.0, 20: 2.4}
    assert {rate: round(of.mean_ms / plain.mean_ms, 2) for rate, of in found.items()} == {10: 1.10, 20: 1.15}


class Writes:
    """Hands in a workload and a rate."""

    def __init__(self, workload, rate):
        self._workload, self._rate = workload, rate

    def workload(self):
        if self._workload is NotImplementedError:
            raise NotImplementedError
        return self._workload

    def age_rate(self):
        if self._rate is NotImplementedError:
            raise NotImplementedError
        return self._rate


def score_of(workload, rate, learner="ann"):
    asker = InProcess(lambda **_: Writes(workload, rate))
    try:
        return BREAK.grade(COURSE, Commitments(learner), asker)
    finally:
        asker.close()


@pytest.mark.parametrize(
    ("workload", "rate", "share", "tag"),
    [
        (RIGHT, 16, 1.0, ""),
        (TOGETHER, 16, 0.5, "tie-luck"),
        (RIGHT, 60, 0.6, "age-everything"),
        (RIGHT, NotImplementedError, 0.6, "not-solved"),
        (ALIKE, 16, 0.0, "all-alike"),
        (NotImplementedError, NotImplementedError, 0.0, "not-solved"),
        ({1}, 16, 0.0, "unsendable"),
    ],
)
def test_the_workload_is_worth_sixty_percent_and_the_rate_forty(monkeypatch, workload, rate, share, tag):
    monkeypatch.setattr(type(BREAK), "puzzle", lambda *_, **__: ENVELOPE)
    score = score_of(workload, rate)
    assert (score.points, score.tag) == (round(BREAK.points * share, 2), tag)
    assert score.feedback is None or score.feedback.question.endswith("?")


def test_a_class_that_cannot_be_made_is_told_so_once():
    asker = InProcess(lambda **_: 1 / 0)
    score = BREAK.grade(COURSE, Commitments("ann"), asker)
    asker.close()
    assert (score.points, score.tag) == (0.0, "raised")


@pytest.mark.parametrize("times", [2.8, 3.4, 3.8])
def test_a_workload_made_for_the_envelope_works_for_every_learner(times):
    for number in range(20):
        envelope = BREAK.puzzle(COURSE, f"learner {number}")
        requests = starving(envelope, times)
        assert of_workload(envelope, requests).tag == ""
        assert of_rate(envelope, requests, 16).tag == ""


def test_a_workload_cannot_be_handed_on():
    envelopes = [BREAK.puzzle(COURSE, f"learner {number}") for number in range(20)]
    requests = starving(envelopes[0])
    works = [envelope for envelope in envelopes if of_workload(envelope, requests).tag in ("", "tie-luck")]
    assert len(works) <= 2


def test_feedback_says_who_waits_how_long_on_the_learners_own_workload():
    envelope = BREAK.puzzle(COURSE, "ann")
    said = score_of(starving(envelope), 9).feedback
    assert said.event == "your age_rate"
    assert said.got.startswith("request 0 waits ")
    assert str(envelope.least_ms) in envelope.text().replace(",", "")
