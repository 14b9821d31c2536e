"""Six ledgers computed by hand: one for each loss, one for waiting, one with all of it."""

from dataclasses import astuple
from pathlib import Path

import pytest

from gpulab.report.account import Account
from gpulab.report.audit import audit
from gpulab.report.charges import Cause
from gpulab.report.waiting import Behind, Waiting
from tests.six_ledgers import FRAGMENTED, MIXED, SIX, STRANDED, UNSCHEDULED, WAITING, drawn

DESIGN = Path(__file__).parents[2] / "gpulab" / "DESIGN.md"


@pytest.mark.parametrize("name", SIX)
def test_the_account_is_what_was_computed_by_hand(name):
    ledger, terms = SIX[name]

    assert astuple(Account(ledger)())[1:] == terms
    assert audit(ledger) == []


@pytest.mark.parametrize("name", SIX)
def test_the_design_page_draws_the_ledger_as_it_is(name):
    ledger, terms = SIX[name]
    words = zip(("used", "stranded", "fragmented", "unscheduled", "spare"), terms, strict=True)

    page = DESIGN.read_text(encoding="utf-8")
    assert drawn(ledger) in page
    assert ", ".join(f"{term} {units}" for term, units in words) in page


def test_the_waiting_of_two_requests_is_what_was_computed_by_hand():
    first, second = Waiting(WAITING).requests

    assert astuple(first) == (0, "a", "chat", 0, 10, 9, 1, 0, 0, 0, "finished")
    # outside: 1 before its claim, 1 of its host's, 2 until it was answered
    assert astuple(second) == (1, "b", "code", 1, 19, 2, 1, 8, 3, 1 + 1 + 2, "finished")
    assert Waiting(WAITING).behind(1) == [Behind("a", "chat", 8, 3 * 8)]


def test_the_largest_causes_are_named_with_the_facts_behind_them():
    assert Account(MIXED).causes() == [
        Cause("fragmented", 4 * 5, "c", 2, 2, 7, (2, 5, 6)),  # between the grants of a and of b
        Cause("stranded", 1 * 12, "a", 0, 0, 12, (1, 2, 3)),
        Cause("unscheduled", 4 * 2, "c", 2, 7, 9, (6,)),
        Cause("unscheduled", 1 * 2, "d", 3, 4, 6, (7,)),
    ]
    assert Account(MIXED).causes(1) == Account(MIXED).causes()[:1]
    assert Account(STRANDED).causes() == [Cause("stranded", 14, "a", 0, 0, 8, (1, 2, 3, 4))]
    assert Account(FRAGMENTED).causes() == [Cause("fragmented", 12, "c", 2, 2, 6, (2, 4, 5))]
    assert Account(UNSCHEDULED).causes() == [Cause("unscheduled", 10, "b", 1, 2, 7, (3,))]


def test_causes_of_a_window_are_those_of_its_part_of_each_loss():
    assert Account(MIXED).causes(9, 5, 8) == [
        Cause("fragmented", 4 * 2, "c", 2, 5, 7, (2, 5, 6)),
        Cause("unscheduled", 4 * 1, "c", 2, 7, 8, (6,)),
        Cause("stranded", 1 * 3, "a", 0, 5, 8, (1, 2, 3)),
        Cause("unscheduled", 1 * 1, "d", 3, 5, 6, (7,)),
    ]


def test_each_owner_is_charged_with_its_own():
    found = {owner: astuple(terms)[1:] for owner, terms in Account(MIXED).by_owner().items()}

    assert found == {
        "a": (2 * 12, 12, 0, 0, 0),
        "b": (2 * 7, 0, 0, 0, 0),
        "c": (4 * 3, 0, 4 * 5, 4 * 2, 0),
        "d": (1 * 6, 0, 0, 1 * 2, 0),
    }
    assert list(Account(WAITING).by_tenant()) == ["chat", "code"]
    assert Account(WAITING).by_tenant(0, 12)["code"].unscheduled == 2 * 2
