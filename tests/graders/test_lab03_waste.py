"""03.waste: the plans as runs, the requests that show what is lost, and where the judge asks."""

import sys
from pathlib import Path

import pytest

from autograder.checks import exercises
from autograder.checks.lab03.waste_plans import Lengths, Reserving, drawn, questions, reserved
from autograder.references.lab03_blocks import reserve
from autograder.verdict import Commitments
from gpulab.datasets import Request
from gpulab.memory.reservation import PLANS
from gpulab.report.account import Account
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Granted

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

SHEET = loaded("sheet_lab03_waste").SHEETS[0]
EXERCISE = exercises()["03.waste"]


@pytest.mark.parametrize(("plan", "slots"), [("max", 192), ("pow2", 96), ("oracle", 48), ("paged", 32)])
def test_a_request_of_20_and_20_tokens_by_each_plan(plan, slots):
    question = Reserving(plan, Request(0, 20, 20), 5, max_len=100, block=16, unit=24)
    assert reserved(question) == reserve(*question.arguments()) == slots


@pytest.mark.parametrize("plan", PLANS)
def test_a_run_grants_what_the_plan_reserves_and_its_ledger_is_lawful(plan):
    lengths = drawn(course_of(0).public("03.waste", 0), 48, 20)
    ledger = lengths.run(plan)
    check(ledger)
    if plan != "paged":
        grants = [fact.size for fact in ledger.of(Granted)]
        asked = [reserved(q) for q in questions(lengths) if q.plan == plan]
        assert grants == asked


def test_paged_strands_least_and_max_most_of_what_they_grant():
    lengths = drawn(course_of(0).of_learner("03.waste", "ann"), 48, 20)
    shares = []
    for plan in PLANS:
        terms = Account(lengths.run(plan))()
        shares.append(terms.used / (terms.used + terms.stranded))
    assert shares == sorted(shares)
    assert shares[3] > 0.95


def test_the_key_names_the_three_requests_that_strand_most():
    ledger = EXERCISE.watched(EXERCISE.puzzle(course_of(0), "ann"))
    cause, shows = EXERCISE.key(course_of(0), "ann")
    claims = {ledger[serial].claim for serial in shows}
    assert cause == "stranded"
    assert len(claims) == 3
    assert len(claims) < len(ledger.of(Claimed))


def test_paged_is_asked_on_both_sides_of_a_block_boundary_and_at_both_ends():
    lengths = Lengths((Request(0, 30, 40),), 100, 16, 24)
    asked = [q.so_far for q in questions(lengths) if q.plan == "paged"]
    assert asked == [1, 2, 3, 18, 19, 34, 35, 40]


def test_too_few_slots_break_the_law_and_the_cap_counts_lawful_cases():
    score = graded(SHEET, SHEET.wrong["rounds-down"].hands_in, course_of(0), Commitments())[0]
    assert "safety law" in score.notes[-1]
    assert score.build_share <= 0.2


def test_feedback_on_a_plan_draws_it_as_the_rule_card_says():
    said = graded(SHEET, SHEET.wrong["unit-one"].hands_in, course_of(0), Commitments())[0].feedback
    assert "by its rule card" in said.picture.svg()
    assert said.event.startswith("plan max")
