"""Lab 01's builds: their cases hold what they promise, the keys are right, the worked solution errs once."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab01 import account, capacity, choice, lawful, overlap
from autograder.checks.lab01.account_read import smallest, swept, terms
from autograder.checks.lab01.case import Case
from autograder.checks.lab01.definition import graded_cases, play, same
from autograder.checks.played import PUBLIC
from autograder.references import lab01 as references
from autograder.verdict import Commitments
from gpulab.report.account import TERMS, Account
from gpulab.report.audit import check as audited
from gpulab.telemetry.events import Claimed, Used

sys.path.insert(0, str(Path(__file__).parent))
from sheet_lab01_account import evidence, looked_at, said, shipped, walked
from sheet_lab01_choice import nobody_fits
from sheet_lab01_lawful import cells, owned, those, union
from sheets import all_sheets, course_of, graded

COURSES = [course_of(n) for n in range(2)]
SHEETS = {sheet.exercise: sheet for sheet in all_sheets()}
NAMES = ("01.overlap", "01.capacity", "01.lawful", "01.choice", "01.account")
by_name = pytest.mark.parametrize("name", NAMES)


def definition(name, course=COURSES[0]):
    found = {d.DEFINITION.exercise: d.DEFINITION for d in (overlap, capacity, lawful, choice)}
    return found.get(name) or account.definition(course.rules["01.account"]["depth_claims"])


def cases(name):
    return [case for course in COURSES for case in graded_cases(definition(name, course), course)]


@by_name
def test_the_key_of_a_graded_case_is_what_the_reference_answers(name):
    asked = definition(name)
    answers = getattr(references, asked.function)
    for case in cases(name):
        assert same(answers(*case.arguments()), asked.right(case))


@by_name
def test_each_graded_case_holds_its_trap(name):
    for course in COURSES:
        asked = definition(name, course)
        tags = list(asked.misread)
        for number, case in enumerate(graded_cases(asked, course)):
            answers = {tag: asked.misread[tag].answers[0](case) for tag in tags}
            trap = answers.pop(tags[number % len(tags)])
            assert not same(trap, asked.right(case))
            assert not any(same(trap, other) for other in answers.values())


@pytest.mark.parametrize("name", NAMES[:4])
def test_two_of_twelve_graded_cases_have_an_empty_answer(name):
    keys = [definition(name).right(case) for case in cases(name)]
    assert [number % 12 for number, key in enumerate(keys) if key in ([], None)] == [3, 9, 3, 9]


@by_name
def test_a_question_fits_into_a_packet_and_cases_differ_between_courses(name):
    drawn = cases(name)
    assert max(len(json.dumps(case.arguments())) for case in drawn) < 60_000
    assert len({case.text() for case in drawn}) == 24


def test_one_case_of_overlap_has_four_hundred_grants():
    assert [len(case.lists["grants"]) for case in cases("01.overlap")].count(400) == 2


def test_the_account_of_a_case_is_the_one_that_is_counted_tick_by_tick():
    slow = walked()
    for case in cases("01.account"):
        assert account._right(case) == slow(*case.arguments())
        audited(account._ledger(case))


def test_with_everybody_looked_at_and_the_smallest_first_the_sweep_is_gpulabs_own_account():
    for case in cases("01.account"):
        theirs = Account(account._ledger(case))(case.numbers["t0"], case.numbers["t1"])
        assert swept(case, terms, queue=smallest) == {name: getattr(theirs, name) for name in TERMS}


def test_unlawful_work_is_the_one_with_a_cell_that_its_owner_does_not_hold():
    slow = those(lambda grants, job: not cells(job) <= union(owned(grants, job)))
    for case in cases("01.lawful"):
        assert lawful.DEFINITION.right(case) == slow(*case.arguments())


@pytest.mark.parametrize("adapter", [shipped, looked_at])
def test_an_adapter_around_the_shipped_account_earns_two_fifths(adapter):
    """Of three terms the shipped account has another rule, whatever ledger it is given."""
    for course in COURSES:
        assert graded(SHEETS["01.account"], adapter, course, Commitments())[0].build_share == 0.4


def test_in_each_case_the_shipped_account_errs_in_each_term_that_free_units_are_split_into():
    for case in cases("01.account"):
        theirs, right = shipped(*case.arguments()), account._right(case)
        assert [name for name in TERMS if theirs[name] != right[name]] == [
            "fragmented",
            "unscheduled",
            "spare",
        ]


def test_an_account_whose_terms_do_not_sum_breaks_a_law():
    def off_by_one(*arguments):
        terms = references.account(*arguments)
        return terms | {"spare": terms["spare"] + 1}

    score = graded(SHEETS["01.account"], off_by_one, COURSES[0], Commitments())[0]
    assert score.build_share == 0
    assert "safety law" in score.notes[-1]


def test_a_prediction_and_a_reconciling_earn_their_share_of_the_account():
    sheet, course = SHEETS["01.account"], COURSES[0]
    whole = said(course, "ann")
    part = [
        Commitments("ann"),
        Commitments("ann", whole.predicted),
        Commitments("ann", whole.predicted, {"cause": whole.reconciled["cause"], "events": [0]}),
        whole,
    ]
    points = [graded(sheet, sheet.right, course, typed)[0].points for typed in part]
    assert points == [2.8, 3.2, 3.6, 4.0]
    odd = Commitments("ann", {"largest": "nothing"})
    assert graded(sheet, sheet.right, course, odd)[0].points == 2.8


@pytest.mark.parametrize("name", ["01.overlap", "01.choice"])
def test_without_anything_to_reconcile_the_build_carries_nine_tenths(name):
    sheet, course = SHEETS[name], COURSES[0]
    points = exercises()[name].points
    assert graded(sheet, sheet.right, course, Commitments("ann"))[0].points == pytest.approx(0.9 * points)


def test_learners_have_different_losses_to_find_and_each_is_shown_by_some_event():
    exercise, found = exercises()["01.account"], set()
    for n in range(6):
        case = exercise.puzzle(COURSES[0], f"somebody {n}")
        ledger = exercise.watched(case)
        cause, shows = evidence(ledger, Account(ledger))
        found.add(cause)
        assert shows
        assert sum(claim["granted"] is not None for claim in case.lists["claims"]) >= 3
        if cause == "stranded":
            idle = {s for s in shows if type(ledger[s]) is Used}
            assert idle
        if cause in ("fragmented", "unscheduled"):
            assert {type(ledger[serial]) for serial in shows} == {Claimed}
    assert found == {"stranded", "fragmented", "unscheduled"}


def test_the_right_instants_with_the_wrong_candidates_earn_seven_tenths():
    for wrong in (nobody_fits, SHEETS["01.choice"].wrong["lists-misfits"].hands_in):
        share = graded(SHEETS["01.choice"], wrong, COURSES[0], Commitments())[0].build_share
        assert 0.7 <= share < 0.85


# -- the worked solution ------------------------------------------------------------------------------


def run(source, case):
    made = {}
    exec(source, made)
    return made["overlaps"](*case.arguments())


def test_the_worked_solution_without_a_plant_is_right_and_with_each_of_six_it_errs_in_one_line():
    right = overlap.worked().splitlines()
    for tag in overlap._PLANTED:
        planted = overlap.worked(tag).splitlines()
        assert sum(a != b for a, b in zip(right, planted, strict=True)) == 1
        assert any(
            run(overlap.worked(tag), case) != run(overlap.worked(), case) for case in cases("01.overlap")
        )
    assert all(same(run(overlap.worked(), c), overlap.DEFINITION.right(c)) for c in cases("01.overlap"))


def test_a_learner_sees_the_same_planted_line_each_time_and_it_shows_on_the_map():
    exercise = exercises()["01.overlap"]
    drawn = [exercise.puzzle(COURSES[0], f"learner {n}") for n in range(12)]
    assert drawn == [exercise.puzzle(COURSES[0], f"learner {n}") for n in range(12)]
    assert len({shown.planted for shown in drawn}) >= 4
    for shown in drawn:
        case = Case({"grants": shown.grants}, {})
        assert run(shown.text(), case) != overlap.DEFINITION.right(case)


def test_whoever_hands_in_the_planted_solution_hears_of_its_line():
    made = {}
    exec(overlap.worked("bytes-only"), made)
    score = graded(SHEETS["01.overlap"], made["overlaps"], COURSES[0], Commitments())[0]
    assert (score.tag, score.feedback.where) == ("bytes-only", PUBLIC)


def test_whoever_raises_sees_the_rows_of_a_public_question_and_never_of_a_graded_one():
    def raises(grants, work):
        return 1 // 0

    said_of = graded(SHEETS["01.lawful"], raises, COURSES[0], Commitments())[0].feedback
    assert said_of.where == PUBLIC
    assert said_of.event.startswith("this question\ngrants:")
    assert not any(said_of.event.endswith(case.text()) for case in cases("01.lawful"))


# -- answers of another form --------------------------------------------------------------------------


@by_name
@pytest.mark.parametrize("answer", [True, [[]], [[1]], [["a", 1]], {"used": True}, "x", 1.5, [[[[1]]]]])
def test_an_answer_of_another_form_is_wrong_and_no_failure_of_the_judge(name, answer):
    sheet = SHEETS[name]
    score = graded(sheet, lambda *_: answer, COURSES[0], Commitments())[0]
    assert score.build_share <= 0.2
    assert score.feedback.question.endswith("?")


@pytest.mark.parametrize(("answer", "equal"), [(1, 1), (True, 0), (1.0, 0)])
def test_true_is_not_one_and_a_float_is_no_whole_number(answer, equal):
    grant = {"id": 1, "owner": "chat", "offset": 0, "size": 512, "start": 0, "end": 9}
    case = Case({"grants": (grant, grant | {"id": 2})}, {})
    asker = InProcess(lambda **_: SimpleNamespace(overlaps=lambda grants: [[answer, 2]]))
    try:
        assert play(overlap.DEFINITION, case, asker).equal == equal
    finally:
        asker.close()


def test_a_practice_case_tells_the_answer_and_a_graded_one_does_not():
    for name in NAMES:
        assert "the rule's answer: " in exercises()[name].puzzle(COURSES[0], "", 3, "tiny").text()
        assert "the rule's answer" not in cases(name)[0].text()


@pytest.mark.parametrize("name", ["01.overlap", "01.lawful", "01.choice"])
def test_an_answer_that_is_no_list_is_told_so_and_no_pair_that_does_not_exist(name):
    asked = definition(name)
    for case in cases(name)[:4]:
        for answer in (None, 3, {"id": 1}):
            event, _ = asked.names(case, answer, asked.right(case))
            assert event.startswith("your answer is no list")


@pytest.mark.parametrize("number", range(6))
def test_what_everybody_is_shown_can_be_counted_and_one_loss_stands_out(number):
    course, learner = COURSES[number % 2], f"learner {number}"
    grants = exercises()["01.overlap"].puzzle(course, learner).grants
    assert 2 <= len(references.overlaps(grants)) <= 7
    run = exercises()["01.choice"].puzzle(course, learner)
    assert 3 <= len(references.choices(*run.arguments())) <= 12
    whole = Account(exercises()["01.account"].watched(exercises()["01.account"].puzzle(course, learner)))()
    most, second = sorted((getattr(whole, name) for name in account.LOSSES), reverse=True)[:2]
    assert most > 1.2 * second


@pytest.mark.parametrize("empty", ["size", "time"])
def test_who_counts_what_holds_nothing_loses_marks(empty):
    """An empty grant inside another one meets it for who looks at the edges alone."""

    def counts(grants):
        widened = {
            "size": lambda g: g | {"size": g["size"] or 1},
            "time": lambda g: g | {"end": max(g["end"], g["start"] + 1)},
        }
        return references.overlaps([widened[empty](g) for g in grants])

    for course in COURSES:
        assert graded(SHEETS["01.overlap"], counts, course, Commitments())[0].build_share < 0.85
