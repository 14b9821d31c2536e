"""What only 04.fair has: its runs hold their traps, other right code is as good, and the fault is told on a small run."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest

from autograder.channel import InProcess
from autograder.checks import exercises
from autograder.checks.lab04 import fair_words as words
from autograder.checks.lab04.fair_cases import (
    KINDS,
    NAMES,
    TRAPS,
    by_rule,
    first_come,
    graded_case,
    small_case,
)
from autograder.checks.lab04.fair_play import play, share_of_lead
from autograder.checks.lab04.fair_rule import THOUGHTS, TOLD_AS, Rule
from autograder.checks.lab04.fair_server import Case, Sent, Server
from autograder.checks.lab04.fair_watch import evidence
from autograder.checks.played import Outcome
from autograder.course import Course
from autograder.references.lab04_fair import MyFairness
from autograder.verdict import Commitments
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Granted

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

EXERCISE = exercises()["04.fair"]
RULES = {"input_percent": 50, "output_percent": 200}
SHEET = loaded("sheet_lab04_fair").FAIR


def run_of(case, cls, rules=RULES):
    asker = InProcess(cls)
    try:
        return play(case, rules, asker)
    finally:
        asker.close()


class Always:
    """Hears nothing and answers with what it was given, or the first in line."""

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, **settings):
        return self

    def arrived(self, client):
        return None

    def served(self, client, input, output):
        return None

    def pick(self, waiting_clients):
        return self.answer


TWO = Case({"a": 1, "b": 2}, 3, 1, (50, 200), (Sent(0, "a", 2, 1), Sent(0, "a", 2, 2), Sent(1, "b", 4, 1)), 6)


def test_the_rule_counts_tokens_by_their_worth_over_the_share():
    rule = Rule({"a": 1, "b": 2}, 0, (50, 200))
    rule.served("a", 2, 1)
    rule.served("b", 2, 1)
    assert (rule.scale, rule.counter) == (2, {"a": 600, "b": 300})


@pytest.mark.parametrize(
    ("thought", "before", "after"),
    [
        ("", 0, 700),
        ("", 900, 900),
        ("", 2_000, 2_000),
        ("no-lift", 0, 0),
        ("no-credit", 0, 1_000),
        ("no-credit", 2_000, 2_000),
        ("forgets-debt", 2_000, 700),
        ("starts-anew", 0, 1_000),
        ("starts-anew", 2_000, 1_000),
        ("to-highest", 0, 700),
    ],
)
def test_who_comes_back_is_lifted_to_the_lowest_of_those_who_wait_less_the_credit(thought, before, after):
    rule = Rule({"a": 1, "b": 1, "c": 1}, 3, (100, 100), thought)
    rule.arrived("b")
    rule.counter = {"a": before, "b": 1_000, "c": 0}  # c does not wait
    rule.arrived("a")
    rule.arrived("a")
    assert rule.counter == {"a": after, "b": 1_000, "c": 0}


def test_a_server_says_what_happens_in_its_order_and_its_ledger_is_sound():
    server = first_come(TWO)
    assert server.log == [
        ["arrived", ["a"]],
        ["arrived", ["a"]],
        ["served", ["a", 2, 0]],
        ["served", ["a", 0, 1]],
        ["arrived", ["b"]],
        ["served", ["a", 2, 0]],
        ["served", ["a", 0, 1]],
        ["served", ["a", 0, 1]],
        ["served", ["b", 4, 0]],
        ["served", ["b", 0, 1]],
    ]
    assert [(turn.step, turn.waiting, turn.client, turn.heard) for turn in server.turns] == [
        (0, ("a",), "a", 2),
        (1, ("a", "b"), "a", 5),
        (3, ("b",), "b", 8),
    ]
    check(server.ledger)


def test_the_limit_is_one_batch_for_the_smallest_share():
    assert TWO.limit == 200 * 2 * 2  # one seat of two tokens at 200 %, in halves of a hundredth
    assert TWO.said(TWO.limit) == "4.0"


@pytest.mark.parametrize(
    ("answer", "tag"), [(None, "idle"), ("b", "not-waiting"), ("x", "type"), (1, "type"), (["a"], "type")]
)
def test_an_answer_that_is_nobody_who_waits_breaks_a_law(answer, tag):
    outcome = run_of(TWO, Always(answer))
    assert (outcome.tag, outcome.lawful, outcome.expected) == (tag, False, "one of a")
    check(outcome.ledger)


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_each_kind_of_run_holds_its_trap_and_first_come_breaks_the_law(number):
    for case in (
        graded_case(course_of(0).graded("04.fair", number), RULES, number),
        small_case(course_of(0).public("04.fair/small", number), RULES, number),
    ):
        assert by_rule(case).lead == 0 < case.limit < first_come(case).lead
        assert all(by_rule(case, thought).lead > case.limit for thought in TRAPS[KINDS[number]])
        assert max(sent.step for sent in case.requests) < case.steps
        check(by_rule(case).ledger)


def test_a_run_is_told_in_packets_far_below_the_limit_and_with_every_seat_filled():
    case = graded_case(course_of(0).graded("04.fair", 0), RULES, 0)
    server = by_rule(case)
    heard = [turn.heard for turn in server.turns]
    assert max(later - earlier for earlier, later in zip([0, *heard], heard, strict=False)) < 400
    served = sum(told[2] for verb, told in server.log if verb == "served")
    assert served > 0.9 * case.seats * case.steps


@pytest.fixture(scope="module")
def runs():
    """A graded run of each kind."""
    return [
        graded_case(course_of(1).graded("04.fair", number), RULES, number) for number in range(len(KINDS))
    ]


@pytest.mark.parametrize("thought", THOUGHTS)
def test_what_was_thought_is_read_off_whom_the_learner_named(runs, thought):
    found = set()
    for case in runs:
        if by_rule(case, thought).lead > case.limit:
            found.add(run_of(case, Thinks(case, thought)).tag)
    assert found == {TOLD_AS.get(thought, thought)}


class Thinks:
    """One of the judge's own misconceptions, at the other end of the channel."""

    def __init__(self, case, thought):
        self.case, self.thought = case, thought

    def __call__(self, **settings):
        self.rule = self.case.rule(self.thought)
        self.arrived, self.served = self.rule.arrived, self.rule.served
        return self

    def pick(self, waiting_clients):
        client = self.rule.least(waiting_clients)
        self.rule.took(client)
        return client


class LiftsWhenItSees(MyFairness):
    """Does not look at arrivals: who is in line now and was not before has come back. Exact, other ties."""

    def __init__(self, shares, credit, rules):
        super().__init__(shares, credit, rules)
        self.counter = dict.fromkeys(shares, Fraction(0))
        self.before = set()

    def arrived(self, client):
        self.waits[client] += 1

    def served(self, client, input, output):
        service = input * self.rules["input_percent"] + output * self.rules["output_percent"]
        self.counter[client] += Fraction(service, 100 * self.shares[client])

    def pick(self, waiting_clients):
        stayed = [self.counter[name] for name in waiting_clients if name in self.before]
        for name in waiting_clients if stayed else ():
            if name not in self.before:
                self.counter[name] = max(self.counter[name], min(stayed) - self.credit)
        client = min(reversed(sorted(waiting_clients)), key=self.counter.get)
        self.waits[client] -= 1
        self.before = {name for name, waits in self.waits.items() if waits}
        return client


class KeepsService:
    """Service as it was, and an offset for the lifts; a list of who waits."""

    def __init__(self, shares, credit, rules):
        self.shares, self.credit, self.rules = shares, credit, rules
        self.service, self.offset, self.line = dict.fromkeys(shares, 0), dict.fromkeys(shares, 0.0), []

    def level(self, client):
        return self.offset[client] + self.service[client] / self.shares[client] / 100

    def arrived(self, client):
        if self.line and client not in self.line:
            lowest = min(self.level(other) for other in self.line) - self.credit
            self.offset[client] += max(0.0, lowest - self.level(client))
        self.line.append(client)

    def served(self, client, input, output):
        self.service[client] += input * self.rules["input_percent"] + output * self.rules["output_percent"]

    def pick(self, waiting_clients):
        client = sorted(waiting_clients, key=self.level)[0]
        self.line.remove(client)
        return client


@pytest.mark.soak
@pytest.mark.parametrize("cls", [LiftsWhenItSees, KeepsService])
def test_right_code_of_another_style_gets_full_marks(cls, scale):
    for number in range(scale(2)):
        score = graded(SHEET, cls, course_of(number), Commitments())[0]
        assert (score.build_share, score.tag) == (1.0, "")


def test_what_is_watched_shows_who_got_most_in_a_few_grants_to_it():
    course, causes = Course.self_study(), set()
    for number in range(8):
        case = EXERCISE.puzzle(course, f"learner {number}")
        ledger = EXERCISE.watched(case)
        check(ledger)
        cause, shows = EXERCISE.key(course, f"learner {number}")
        assert (cause, shows) == evidence(case)
        owners = {fact.claim: fact.owner.split()[0] for fact in ledger.of(Claimed)}
        granted = dict(zip(ledger.serials(Granted), ledger.of(Granted), strict=True))
        assert {owners[granted[serial].claim] for serial in shows} == {cause}
        assert f"{cause}: share {case.shares[cause]}" in case.text()
        causes.add(cause)
    assert len(causes) >= 4


def test_feedback_names_the_counters_of_a_small_public_run():
    said = graded(SHEET, SHEET.wrong["no-shares"].hands_in, course_of(0), Commitments())[0].feedback
    assert said.where.startswith("A practice case")
    assert "pick([" in said.event
    assert "the lowest of" in said.expected
    assert "one batch is worth" in said.got
    assert said.picture is not None


@pytest.mark.parametrize("tag", words.RULES)
def test_what_no_practice_run_shows_is_told_without_a_name_or_a_number(tag):
    numbers = {"step": 7, "waiting": ["chat"], "client": "chat", "other": "code"}
    outcome = Outcome(lawful=False, tag=tag, event=3, expected="chat", got="code", numbers=numbers)
    said = words.feedback(outcome, "")
    assert (said.where, said.event) == ("", "in a graded case, which is not shown")
    assert (said.expected, said.got, said.picture) == ("the rule's answer", "another", None)
    assert said.question.endswith("?")
    assert not any(name in said.rule + said.question for name in (*NAMES, "{", "}"))


def test_a_run_without_some_requests_still_makes_sense():
    case = small_case(course_of(0).public("04.fair/small", 1), RULES, 1)
    fewer = Case(case.shares, case.credit, case.seats, case.weights, case.requests[::3], case.steps)
    outcome = run_of(fewer, MyFairness)
    assert (outcome.tag, outcome.way, outcome.lawful) == ("", 1.0, True)
    assert run_of(Case({"a": 1}, 0, 1, (50, 200), (), 3), MyFairness).lawful


class Hesitates(MyFairness):
    """Goes on with the client it named last, as long as that is at most ``hold`` above the lowest."""

    hold, last = 0, None

    def pick(self, waiting_clients):
        lowest = min(map(self.counter.get, waiting_clients))
        if self.last in waiting_clients and self.counter[self.last] <= lowest + self.hold:
            waiting_clients = [self.last]
        self.last = super().pick(waiting_clients)
        return self.last


def test_a_lawful_lead_is_paid_by_how_far_it_goes(runs):
    ways = []
    for part in (0.2, 0.6, 0.9):
        outcomes = []
        for case in runs:
            Hesitates.hold = part * case.limit / case.rule().scale / 100
            outcomes.append(run_of(case, Hesitates))
        assert {outcome.tag for outcome in outcomes} == {"" if part < 0.25 else "uneven"}
        ways.append(sum(outcome.way for outcome in outcomes) / len(outcomes))
        share, note = share_of_lead(outcomes)
        assert note.startswith("Build: all laws kept")
        assert 0.30 <= share <= 1.0
    assert ways[0] == 1.0 > ways[1] > ways[2] > 0.0


class TiresLate(MyFairness):
    """Wrong only in a long run, so that no small one shows it."""

    picks = 0

    def pick(self, waiting_clients):
        self.picks += 1
        if self.picks > 80:
            raise RuntimeError("tired")
        return super().pick(waiting_clients)


def test_looking_for_a_small_run_that_shows_the_fault_stays_within_what_may_be_asked():
    score, asked = graded(SHEET, TiresLate, course_of(0), Commitments())
    assert (score.tag, score.feedback.where) == ("raised", "")
    assert 4_000 < asked <= 5_000


def test_the_server_keeps_the_queue_so_that_no_request_is_lost():
    case = graded_case(course_of(0).graded("04.fair", 2), RULES, 2)
    server = Server(case).run(lambda waiting: waiting[-1])
    granted = [fact.claim for fact in server.ledger.of(Granted)]
    assert len(granted) == len(set(granted)) == len(server.turns)
    for client in case.shares:
        mine = [claim for claim in granted if case.requests[claim].client == client]
        assert mine == sorted(mine)
