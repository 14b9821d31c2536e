"""The bank of 01.sort: every template says what it claims, and every learner gets a balanced dozen."""

import re
from collections import Counter
from random import Random

import pytest

from autograder.checks import exercises
from autograder.checks.lab01.situations import QUESTIONS, Case, Situation, holds, names_in
from autograder.checks.lab01.sort import BANK, drawn
from autograder.course import Course
from autograder.verdict import Commitments

SORT, OPEN = exercises()["01.sort"], Course.self_study()
LESSONS = re.compile(
    r"alloc|schedul|batch|cach|rout(e|ing)|placement|admi(t|ss)|scal|fragment|queue|preempt|fair", re.I
)
CASES = [(each, case) for each in BANK for case in each.cases]


@pytest.mark.parametrize(("situation", "case"), CASES, ids=lambda x: getattr(x, "name", None) or x.holds)
def test_each_case_can_be_drawn_and_its_text_shows_every_number_that_decides(situation, case):
    for number in range(4):
        item = situation.drawn(Random(f"{number}"), case.accepted[0])
        assert item.case == case
        assert all(question in QUESTIONS for question in case.accepted)
        for name in names_in(case.holds):
            assert f"{{{name}" in situation.text
            shown = {int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\d|\d", item.text)}
            assert item.numbers[name] in shown
        assert not LESSONS.search(item.text)
        assert 2 <= len(re.findall(r"[.?](?:\s|$)", item.text)) <= 3


def test_the_bank_has_at_least_thirty_six_situations_and_six_for_each_question():
    assert len({each.name for each in BANK}) == len(BANK) >= 36
    ways = Counter(question for _, case in CASES for question in case.accepted)
    assert min(ways[question] for question in QUESTIONS) >= 6


def test_half_of_the_situations_change_sides_when_their_numbers_do():
    assert sum(len({case.question for case in each.cases}) > 1 for each in BANK) * 2 >= len(BANK)


def test_a_predicate_is_compared_in_chains_joined_by_and():
    numbers = {"free": 3, "small": 3, "all": 9}
    assert holds("small <= free < all", numbers)
    assert not holds("small < free", numbers)
    assert holds("small <= free and 8 < all", numbers)
    assert not holds("small <= free and 9 < all", numbers)


def test_numbers_that_make_no_sense_belong_to_no_case():
    situation = Situation("s", "{a}", {"a": (1, 2, 1)}, (Case("q1", "a < 9", "because"),), given=("1 < a",))
    assert situation.case_of({"a": 1}) is None
    assert situation.case_of({"a": 2}).accepted == ("q1",)
    with pytest.raises(ValueError, match="no numbers found"):
        situation.drawn(Random("0"), "q2")


@pytest.mark.parametrize("number", range(20))
def test_every_learner_gets_each_question_once_or_twice_and_no_situation_twice(number):
    sheet = drawn(Random(f"{number}"))
    asked = Counter(item.key for item in sheet.items)
    assert set(asked) == set(QUESTIONS)
    assert max(asked.values()) == 2
    assert (asked["q7"], asked["q8"]) == (2, 2)
    assert len({item.situation.name for item in sheet.items}) == 12
    assert len(sheet.numbered) == 3
    for name in (f"s{n + 1} [and a number]" for n in sheet.numbered):
        assert name in sheet.text()


def test_the_share_takes_off_what_eight_questions_give_by_chance():
    sheet = SORT.puzzle(OPEN, "ann")
    key = sheet.key()
    plain = [f"s{n + 1}" for n in range(12) if n not in sheet.numbered]
    for wrong, share in ((0, 1.0), (1, 9.5 / 10.5), (4, 6.5 / 10.5)):
        given = key | {name: ["q0"] for name in plain[:wrong]}
        assert SORT.practise(OPEN, sheet, given).build_share == pytest.approx(share)


def test_a_question_without_its_number_is_worth_half_an_item():
    sheet = SORT.puzzle(OPEN, "ann")
    name = f"s{min(sheet.numbered) + 1}"
    for given in (sheet.key()[name][:1], [sheet.key()[name][0], -1], [sheet.key()[name][0], True]):
        score = SORT.practise(OPEN, sheet, sheet.key() | {name: given})
        assert score.build_share == pytest.approx(10 / 10.5)
        assert score.tag == "wrong-number"


def test_either_question_of_a_pair_is_taken():
    (pair,) = [each for each in BANK if each.name == "everybody may grow"]
    item = pair.drawn(Random("0"), "q4")
    assert item.case.accepted == ("q4", "q1")
    sheets = (drawn(Random(f"{n}")) for n in range(200))
    sheet = next(sheet for sheet in sheets if item.situation in [each.situation for each in sheet.items])
    place = [item.situation.name for item in sheet.items].index("everybody may grow")
    key = sheet.key()
    assert (
        SORT.practise(OPEN, sheet, key | {f"s{place + 1}": ["q1", *key[f"s{place + 1}"][1:]]}).build_share
        == 1.0
    )


def test_each_wrong_answer_is_told_why():
    sheet = SORT.puzzle(OPEN, "ann")
    score = SORT.practise(OPEN, sheet, {})
    assert score.tag == "not-answered"
    some = {f"s{n + 1}": ["q0"] for n in range(3)}
    notes = SORT.practise(OPEN, sheet, sheet.key() | some).notes
    assert [note.split()[0] for note in notes[1:]] == ["s1", "s2", "s3"]
    assert all(sheet.items[n].case.why in notes[n + 1] for n in range(3))


def test_the_learners_own_check_says_form_only():
    name = "s1"
    sheet = SORT.puzzle(OPEN, "ann")
    right, form = sheet.key(), {n: ["q8", *v[1:]] for n, v in sheet.key().items()}
    said = [SORT.visible(OPEN, Commitments("ann", answered=given), None).text for given in (right, form)]
    assert said[0] == said[1]
    for odd in (None, "q1", [], ["q9"], [["q1"]], ["q1", 2, 3]):
        text = SORT.visible(OPEN, Commitments("ann", answered=right | {name: odd}), None).text
        assert f"{name}: " in text


def test_a_tiny_practice_has_four_situations_and_the_same_rule():
    sheet = SORT.puzzle(OPEN, "", 3, "tiny")
    assert len(sheet.items) == 4
    assert SORT.practise(OPEN, sheet, sheet.key()).build_share == 1.0
