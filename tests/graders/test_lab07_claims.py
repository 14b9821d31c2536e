"""07.claims and 07.memo: which runs are judged, what each claim must look at, and how a memo is filled in."""

import sys
from pathlib import Path

import pytest

from autograder import learner, memo
from autograder.checks import exercises
from autograder.checks.lab07.case import TENANTS
from autograder.checks.lab07.claim_runs import LOST_POINTS, NEXT_POINTS, TIGHT_BLOCKS
from autograder.checks.lab07.claims import CLAIMS
from autograder.course import Course
from autograder.desk import Desk
from autograder.verdict import Commitments
from gpulab.report.audit import check as audited
from gpulab.report.scores import kept_of

sys.path.insert(0, str(Path(__file__).parent))
from remembered import PUZZLE, drawn_once
from sheet_lab07_claims import END_NS, both, claim, halves, requests, stated

CLAIMED = exercises()["07.claims"]
SELF = Course.self_study()


@pytest.fixture(scope="module")
def runs():
    return drawn_once("self", "ann", None)


@pytest.fixture
def desk(monkeypatch):
    """A notebook of ann's, in self-study."""
    made = Desk("ann")
    monkeypatch.setattr(learner, "_desk", made)
    monkeypatch.setattr(Course, "at_hand", classmethod(lambda cls: SELF))
    return made


def score(claims, course=SELF, name="ann"):
    return CLAIMED.grade(course, Commitments(name, answered=claims), None)


def test_in_the_runs_of_every_learner_one_tenant_loses_and_no_other():
    losers = []
    for number in range(12):
        runs = drawn_once("self", f"learner {number}", None)
        rest = [points for tenant, points in runs.lost_points.items() if tenant != runs.loser]
        assert runs.lost_points[runs.loser] >= LOST_POINTS and max(rest) <= NEXT_POINTS
        assert runs.loser == runs.tight and runs.shares["run"][runs.tight] == TIGHT_BLOCKS
        losers.append(runs.loser)
    assert set(losers) == {"chat", "batch"} and max(map(losers.count, losers)) <= 9


def test_both_runs_are_lawful_and_equal_each_time(runs):
    again = PUZZLE(CLAIMED, SELF, "ann")
    for name in ("run", "other"):
        ledger = runs.tables[name].ledger
        audited(ledger)
        assert ledger.digest() == again.tables[name].ledger.digest()
        rows = runs.tables[name].rows("requests")
        found = {
            tenant: (
                sum(row["kept"] for row in rows if row["tenant"] == tenant),
                sum(row["tenant"] == tenant for row in rows),
            )
            for tenant in TENANTS
        }
        assert found == kept_of([ledger], runs.case.promises)
    assert runs.run == CLAIMED.watched(runs) and runs.other == CLAIMED.watched(runs, "other")
    assert "shift_ns = 90_000_000_000" in runs.text() and '"other": the same requests' in runs.text()


def test_claims_of_the_same_facts_in_other_units_hold_too(runs):
    claims = stated(runs)
    for name, unit, size in (
        ("wait", "ms", 1e6),
        ("wait", "ns", 1),
        ("other", "%", 0.01),
        ("host", "s", 1e9),
    ):
        sentence, query, *_ = claims[name]
        other = claim(runs, sentence, query, unit, size)
        assert score(claims | {name: other}).points == 8.0
    near = [*claims["wait"][:2], claims["wait"][2] * 1.009, "s"]
    assert score(claims | {"wait": near}).points == 8.0
    far = [*claims["wait"][:2], claims["wait"][2] * 1.011, "s"]
    assert score(claims | {"wait": far}).tag == "wrong-value"


def test_each_claim_counts_a_fifth_and_its_line_says_what_came_out(runs):
    claims = stated(runs)
    found = score({name: claims[name] for name in ("room", "host")})
    assert (found.points, found.tag) == (3.2, "incomplete")
    assert len(found.notes) == 5
    assert found.notes[0].startswith("room: you wrote") and found.notes[0].endswith("; holds")
    assert found.notes[1] == "wait: nothing that can be recomputed"


def test_the_tenant_that_keeps_least_and_loses_nothing_is_no_loser():
    """Code keeps the fewest promises, under either rule."""
    for number in range(4):
        runs = drawn_once("self", f"learner {number}", None)
        kept = runs.kept("run")
        if min(kept, key=kept.get) == "code":
            break
    query = both(["share", "kept", "is", 1], tenant="code")
    wrong = stated(runs) | {"loser": ["Code loses.", query, 1.0, "points"]}
    found = score(wrong, name=f"learner {number}")
    assert found.tag == "worst-not-loser" and "code keeps the fewest" in found.feedback.question


@pytest.mark.parametrize(
    ("name", "query", "tag", "words"),
    [
        ("room", requests("run", ["mean", "latency_ns"]), "wrong-gauge", "account"),
        ("room", [["rows", "account"], ["sum", "lasts_ns"]], "wrong-gauge", "account"),
        ("wait", requests("run", ["mean", "latency_ns"]), "wrong-gauge", "second gauge"),
        ("loser", both(["share", "kept", "is", 1]), "best-tenant", "everybody, not one tenant"),
        ("other", requests("run", ["mean", "latency_ns"]), "wrong-gauge", "joined by minus or per"),
        (
            "other",
            [*requests("run", ["mean", "latency_ns"]), ["minus"], *requests("other", ["most", "latency_ns"])],
            "wrong-gauge",
            "the same question",
        ),
        (
            "other",
            [*requests("run", ["mean", "latency_ns"]), ["minus"], *requests("run", ["mean", "latency_ns"])],
            "wrong-gauge",
            "joined by minus or per",
        ),
        (
            "loser",
            requests("run", ["mean", "output_tokens"], tenant="LOSER"),
            "wrong-gauge",
            "promises kept or time",
        ),
        ("loser", requests("run", ["count"], tenant="LOSER"), "wrong-gauge", "promises kept or time"),
        ("other", both(["count"]), "no-difference", "A comparison says what differs"),
        ("host", halves("requests", ["mean", "latency_ns"], 90 * 10**9), "wrong-gauge", "host_ns"),
        ("host", halves("requests", ["mean", "outside_ns"], 60 * 10**9), "window", "one half against"),
        ("room", [["rows", "account"], ["sum", "idle"]], "no-query", "can answer"),
        ("room", [["sum", "idle"]], "no-query", "can answer"),
    ],
)
def test_a_claim_that_looks_elsewhere_is_told_where_to_look(name, query, tag, words, runs):
    query = [[runs.loser if item == "LOSER" else item for item in step] for step in query]
    found = score(stated(runs) | {name: ["A sentence.", query, 1.0, "s"]})
    assert (found.tag, found.build_share) == (tag, 0.8)
    assert words in found.feedback.rule + found.feedback.question
    assert found.feedback.question.endswith("?")


def sides(later, earlier, make):
    return [*later, make, ["minus"], *earlier, make]


SHIFT = 90 * 10**9


@pytest.mark.parametrize(
    ("name", "sentence", "query", "written"),
    [
        ("host", "Dearer.", sides(requests("run", ["where", "arrived_ns", ">=", SHIFT]),
            requests("run", ["where", "arrived_ns", "<", SHIFT]), ["mean", "outside_ns"]), ("seconds", 1e9)),
        ("host", "Dearer.", sides([["rows", "Stepped"], ["where", "start_ns", ">=", SHIFT]],
            [["rows", "Stepped"], ["where", "start_ns", "<", SHIFT]], ["sum", "host_ns"]), ("s", 1e9)),
        ("wait", "Code spends 92 % of its time so.", [*requests("run", ["mean", "slowed_ns"], tenant="code"),
            ["per"], *requests("run", ["mean", "latency_ns"], tenant="code")], ("percent", 0.01)),
        ("loser", "It loses.", both(["mean", "kept"], tenant="LOSER"), ("percentage points", 0.01)),
        ("loser", "LOSER loses requests.", both(["sum", "kept"], tenant="LOSER"), ("requests", 1)),
        ("loser", "LOSER loses, and chat, code and batch do not.", both(["share", "kept", "is", 0], tenant="LOSER"), ("pp", 0.01)),
    ],
)  # fmt: skip
def test_a_right_claim_in_another_style_holds(name, sentence, query, written, runs):
    loser = runs.loser
    query = [[loser if item == "LOSER" else item for item in step] for step in query]
    claims = stated(runs) | {name: claim(runs, sentence.replace("LOSER", loser), query, *written)}
    assert score(claims).points == 8.0


def test_a_claim_that_says_or_asks_what_another_one_does_is_found_however_it_is_written(runs):
    claims, loser = stated(runs), runs.loser
    kept = ["share", "kept", "is", 1]
    where = ["where", "tenant", "is", loser]
    here, there = [["rows", "requests"], where, kept], [["rows", "requests", "other"], where, kept]
    turned = {"other": claim(runs, "It gains.", [*there, ["minus"], *here], "points", 0.01)}
    account = ["rows", "account"]
    used = [account, ["sum", "used"]]
    constant = [*used, ["per"], *used, ["minus"], ["rows", "requests"], kept]
    elsewhere = "code" if loser == "chat" else "the support chat"
    outside = ["mean", "outside_ns"]
    late, early = ["between", SHIFT, END_NS], ["between", 0, SHIFT]
    mixed = sides(requests("run", late, tenant="code"), requests("run", early, tenant="chat"), outside)
    for change, tag in (
        (turned, "same-twice"),
        ({"room": claim(runs, "Much is used.", constant, "%", 0.01)}, "no-difference"),
        ({"loser": [f"Most is lost by {elsewhere}.", *claims["loser"][1:]]}, "says-another"),
        ({"host": claim(runs, "Dearer.", mixed, "s", 1e9)}, "window-apart"),
        ({"host": claim(runs, "Dearer.", sides(requests("run", late), requests("other", early), outside), "s", 1e9)},
            "window-apart"),
        ({"wait": ["95 % of them wait less.", *claims["wait"][1:]]}, "mean-for-p99"),
    ):  # fmt: skip
        found = score(claims | change)
        assert (found.tag, found.build_share) == (tag, 0.8)
        assert found.feedback.question.endswith("?")


ODD = (
    *(None, 7, "x", [], [[]], ["s"], ["s", [], 1.0, "s"], ["", [["rows", "requests"], ["count"]], 1, "s"]),
    *(
        ["s", [["rows", "requests"], ["count"]], True, "s"],
        ["s", [["rows", "requests"], ["count"]], "1", "s"],
    ),
    ["s", [["rows", "requests"], ["where", "kept", "<", 10**18], ["percentile", "ttft_ns", 1e-300]], 1, "%"],
    ["s", [["rows", "Claimed"], ["where", "shape", "<", 3], ["sum", "shape"]], 1, "s"],
    ["s", [["rows", "requests"], ["sum", "kept"], ["per"], ["rows", "requests"], ["count"]], 1, "s"],
    ["s", [["rows", []], [[]], [None]], 1e300, "s"],
    [
        "s",
        [["rows", "account"], ["sum", "used"], ["per"], ["rows", "account"], ["sum", "capacity"]],
        1.7e308,
        "min",
    ],
    [
        "s",
        [["rows", "account"], ["sum", "lasts_ns"], ["minus"], ["rows", "account"], ["most", "used"]],
        1.7e308,
        "min",
    ],
    ["s", [["rows", "account"], ["where", "used", ">", 0], ["sum", "lasts_ns"]], -1.7e308, "min"],
    ["{id} {", [["rows", "{why}"], ["count"]], 1, "{x}"],
)


@pytest.mark.parametrize("odd", ODD)
def test_whatever_is_claimed_the_judge_goes_on(odd, runs):
    said = Commitments.read({"learner": "ann", "answered": stated(runs) | {"room": odd}})
    found = CLAIMED.grade(SELF, said, None)
    assert found.build_share == 0.8 and found.tag
    assert found.text and found.html
    assert CLAIMED.visible(SELF, said, None).text


def test_the_form_alone_is_told_in_the_notebook(runs):
    claims = stated(runs)
    complete = CLAIMED.visible(SELF, Commitments("ann", answered=claims), None)
    assert complete.notes == ("Complete; it is graded when you hand in.",)
    wrong = claims | {"room": ["A sentence.", [["count"]], 1, "s"], "wait": 7}
    said = CLAIMED.visible(SELF, Commitments("ann", answered=wrong), None)
    assert said.notes == (
        "room: step 1: a part begins with rows, not with count; "
        "wait: a claim is a sentence, a query (a list), a value (a number) and a unit.",
    )


def test_findings_are_noted_and_count(desk, capsys, runs):
    claims = stated(runs)
    learner.finding("rooms", "A sentence.", [], 1, "s")
    learner.finding("room")
    for name, (sentence, query, _, unit) in claims.items():
        size = {"%": 100, "points": 100, "s": 1, "ms": 1, "times": 1}[unit]
        exact = runs.ask(query).value  # a fraction is as good as what is typed
        learner.finding(name, sentence, query, exact * size if size == 100 else claims[name][2], unit)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("07.claims: there is no claim 'rooms'; there are: room, wait")
    assert lines[1] == "07.claims: room is not claimed yet."
    assert lines[-1] == "07.claims: noted host. All five are there."
    assert score(desk.said("07.claims").answered).points == 8.0
    assert "Complete" in learner.check("07.claims").text


# -- the memo ------------------------------------------------------------------------------------------


def test_a_memo_is_filled_in_with_what_was_recomputed_and_not_with_what_was_typed(runs):
    claims = stated(runs)
    claims["wait"] = [*claims["wait"][:2], 99.0, "s"]
    slowed = float(runs.ask(claims["wait"][1]).value) / 1e9
    text = memo.filled("Code waits {wait}, {nobody} and {host}.", claims, runs)
    assert text.startswith(f"Code waits {slowed:,.3g} s, {{nobody}} and ") and text.endswith(" ms.")
    assert memo.number("wait", {}, runs) == "" and memo.number("x", claims, runs) == ""
    odd = claims | {"wait": [*claims["wait"][:3], "days"]}
    assert memo.number("wait", odd, runs).endswith("s")  # as the query gives it


def test_a_number_in_a_memo_is_written_as_people_write_it(runs):
    claims = stated(runs)
    for unit in ("ns", "us", "ms", "s", "min"):
        claims["wait"] = [*claims["wait"][:3], unit]
        text = memo.filled("{wait}", claims, runs)
        assert "e" not in text and text.endswith(f" {unit}")
    exact = float(runs.ask(claims["wait"][1]).value)
    claims["wait"] = [*claims["wait"][:3], "ns"]
    assert memo.filled("{wait}", claims, runs) == f"{exact:,.0f} ns"


def test_numbers_that_rest_on_no_claim_are_named(runs):
    lines = memo.looked_over("We keep {loser} of 1,000 in 20 s, and {what}.", stated(runs), runs)
    assert lines[0] == "Claims in it: loser (1 of 5)."
    assert "computed: what; claims are room, wait, loser, other, host" in lines[1]
    assert "Numbers that rest on no claim: 1,000, 20." in lines[2]
    assert memo.looked_over("{loser}", stated(runs), runs)[1] == ""
    assert memo.looked_over(None, {}, runs) == []


def test_looking_over_a_memo_shows_its_reader_the_numbers(desk, capsys, runs):
    for name, (sentence, query, value, unit) in stated(runs).items():
        learner.finding(name, sentence, query, value, unit)
    capsys.readouterr()
    learner.look_over("07.memo", " ".join(["word"] * 299) + " {room}.")
    said = capsys.readouterr().out
    assert "07.memo: 300 words, as asked." in said
    assert "Claims in it: room (1 of 5)." in said
    assert said.rstrip().endswith("%.")
    learner.look_over("07.memo")
    assert capsys.readouterr().out == "07.memo: not written yet.\n"
    assert set(CLAIMS) == set(desk.answered["07.claims"])
