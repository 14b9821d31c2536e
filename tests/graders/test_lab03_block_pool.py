"""03.block-pool: what its cases hold, what is watched, and what proves the watermark."""

import sys
from pathlib import Path

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab03.pool_cases import Case, Operation, RulePool, drawn, play, takes_of
from autograder.checks.lab03.pool_play import play_case
from autograder.verdict import Commitments
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Refused

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

SHEET = loaded("sheet_lab03_block_pool").SHEETS[0]
EXERCISE = exercises()["03.block-pool"]
RULES = {"watermark_blocks": 2, "kept_blocks": 2}


def run(case, rules=RULES):
    pool = RulePool(case.n_blocks, rules=rules)
    return pool.ledger, list(play(case, pool))


def test_what_comes_back_goes_to_both_ends_and_a_watermark_is_kept_for_urgent_takes():
    chats = [Operation(0, 4), Operation(1, 2), Operation(0, 0), Operation(2, 3), Operation(1, 3, True)]
    ledger, answers = run(Case(8, tuple(chats)))
    assert [blocks for _, _, blocks in answers] == [
        [0, 1, 2, 3],
        [4, 5],
        [3, 2, 6],  # those behind the first two are taken again first
        [7, 1, 0],  # urgent: down to none
        [6, 0, 1, 7, 5, 4, 2, 3],  # chat 1 had 4 5 7 1 0 and ended first, then chat 2
    ]
    check(ledger)


def test_every_graded_case_holds_takes_that_leave_just_the_watermark_and_one_block_less():
    rules = course_of(0).rules[EXERCISE.id]
    for number in range(12):
        case = drawn(course_of(0).graded(EXERCISE.id, number), rules, 400)
        ledger, answers = run(case, rules)
        left = [free - op.n for op, free, _ in answers if not op.urgent]
        assert left.count(rules["watermark_blocks"]) >= 4
        assert left.count(rules["watermark_blocks"] - 1) >= 4
        assert any(0 <= free - op.n < rules["watermark_blocks"] for op, free, _ in answers if op.urgent)
        assert takes_of(case, rules) == len(answers)
        check(ledger)


def test_the_key_is_what_the_watermark_kept_back_and_the_refusals_for_want_of_blocks_are_not_in_it():
    course = course_of(1)
    cause, shows = EXERCISE.key(course, "ann")
    ledger = EXERCISE.watched(EXERCISE.puzzle(course, "ann"))
    size = {fact.claim: fact.size for fact in ledger.of(Claimed)}
    refused = {serial: ledger[serial] for serial in ledger.serials(Refused)}
    assert cause == "unscheduled"
    assert shows == {n for n, fact in refused.items() if fact.free >= size[fact.claim]}
    assert len(shows) < len(refused)


def test_a_code_that_answers_like_two_misreadings_for_a_while_is_named_by_what_it_does_later():
    tags = {
        name: graded(SHEET, wrong.hands_in, course_of(3), Commitments())[0].tag
        for name, wrong in SHEET.wrong.items()
        if name in ("forward", "forward-to-tail", "all-to-tail", "stack-order", "ends-swapped")
    }
    assert all(name == tag for name, tag in tags.items())


def test_two_misreadings_at_once_are_told_by_what_differs_first():
    sheet, course, told = loaded("sheet_lab03_block_pool"), course_of(0), {}
    for takes in (sheet.WatermarkIgnored, sheet.WatermarkOffByOne):
        both = type("Both", (takes,), {"give": lambda self, blocks: self.order.extend(blocks)})
        for number in range(24):
            case = drawn(course.public(EXERCISE.id + "/small", number), RULES, 12, 12)
            asker = InProcess(both)
            outcome = play_case(case, RULES, asker)
            asker.close()
            refused = outcome.expected.startswith("None"), outcome.got.startswith("None")
            told.setdefault(outcome.tag, set()).add(refused)
    assert told["watermark-ignored"] == {(True, False)}
    assert told["always-refuses"] == {(False, True)}
    assert told["other-order"] == {(False, False)}


def test_feedback_shows_a_small_public_case_with_its_picture():
    said = graded(SHEET, SHEET.wrong["watermark-off-by-one"].hands_in, course_of(0), Commitments())[
        0
    ].feedback
    assert "take(" in said.event
    assert said.got == "None (refused)"
    assert "Blocks in use" in said.picture.svg()


def test_an_exception_in_give_is_told_with_the_line_and_an_object_that_cannot_be_made_earns_nothing():
    class Raises(SHEET.right):
        def give(self, blocks):
            raise ZeroDivisionError("no")

    class Unmade:
        def __init__(self):
            """Takes no settings."""

    raising = graded(SHEET, Raises, course_of(0), Commitments())[0]
    unmade = graded(SHEET, Unmade, course_of(0), Commitments())[0]
    assert (raising.tag, raising.points) == ("raised", 0.0)
    assert "`give` raised ZeroDivisionError" in raising.feedback.got
    assert (unmade.tag, unmade.points) == ("raised", 0.0)
