"""Queries over the columns of ledgers: what each verb makes, and what is said of a query that is none."""

from fractions import Fraction

import pytest

from gpulab.report.account import Account
from gpulab.report.columns import Tables
from gpulab.report.metrics import Slo, summarize
from gpulab.report.query import VERBS, Found, evaluate, parsed
from gpulab.report.waiting import Waiting
from gpulab.serving.cost import StepCost
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.request import Request, Trace

BOARD = StepCost(
    *("plain", "board", 1_000_000_000, 0, 1_000_000, 0, 0, 200_000),
    *(30, 4, 1024, 10_000, 10_000, "made up"),
)
TRACE = Trace(
    Request(n, n * 3_000_000, 10 + n % 7, 5 + n % 3, tenant=("chat", "code")[n % 2]) for n in range(24)
)
SLO = {"chat": Slo(ttft_ns=2_000_000), "code": Slo(tpot_ns=1_300_000)}


@pytest.fixture(scope="module")
def runs():
    ledgers = (Engine(BOARD, policy, max_jobs=4).run(TRACE) for policy in (Chunked(), PrefillFirst()))
    return dict(zip(("run", "other"), (Tables(ledger, SLO) for ledger in ledgers), strict=True))


def asked(runs, *steps):
    return evaluate(list(steps), runs)


def test_there_are_twelve_verbs():
    assert len(VERBS) == 12


def test_numbers_of_requests_are_those_of_the_summary_and_of_the_gauge(runs):
    ledger = runs["run"].ledger
    summary, waiting = summarize(ledger, SLO), Waiting(ledger)
    rows = ["rows", "requests"]
    assert asked(runs, rows, ["count"]) == Found(Fraction(24), "requests", 24)
    assert asked(runs, rows, ["share", "kept", "is", 1]).value == Fraction(summary.kept, 24)
    assert asked(runs, rows, ["sum", "behind_ns"]).value == waiting.total().behind_ns
    p99 = asked(runs, rows, ["where", "tenant", "is", "code"], ["percentile", "ttft_ns", 90])
    mine = sorted(times.ttft_ns for times in summary.of("code"))
    assert p99 == Found(Fraction(mine[10]), "ns", 12)
    mean = asked(runs, rows, ["where", "outcome", "is not", "rejected"], ["mean", "output_tokens"])
    assert mean == Found(Fraction(sum(r.output_tokens for r in TRACE), 24), "tokens", 24)
    most, least = asked(runs, rows, ["most", "latency_ns"]), asked(runs, rows, ["least", "latency_ns"])
    assert most.value == max(t.latency_ns for t in summary.requests) > least.value


def test_the_first_gauge_is_a_row_a_stretch_of_time(runs):
    terms = Account(runs["run"].ledger)()
    rows = ["rows", "account", "run"]
    share = asked(runs, rows, ["sum", "used"], ["per"], rows, ["sum", "capacity"])
    assert (share.value, share.unit) == (Fraction(terms.used, terms.capacity), "share")
    assert asked(runs, rows, ["sum", "lasts_ns"]).value == runs["run"].ledger.end_ns


def test_facts_are_rows_of_their_kind(runs):
    steps = asked(runs, ["rows", "Stepped"], ["where", "jobs", ">=", 1], ["sum", "steps"])
    assert steps.unit == "steps" and steps.value > 24
    assert asked(runs, ["rows", "Stepped"], ["most", "host_ns"]) == Found(
        Fraction(200_000), "ns", len(runs["run"].rows("Stepped"))
    )


def test_between_takes_rows_of_a_time_and_leaves_its_end_out(runs):
    early = asked(runs, ["rows", "requests"], ["between", 3_000_000, 9_000_000], ["count"])
    assert early == Found(Fraction(2), "requests", 2)


def test_two_runs_are_compared_and_the_fewest_rows_count(runs):
    chat = ["where", "tenant", "is", "chat"]
    found = asked(
        runs,
        *(["rows", "requests", "run"], chat, ["mean", "ttft_ns"]),
        ["minus"],
        *(["rows", "requests", "other"], ["mean", "ttft_ns"]),
    )
    means = [
        Fraction(sum(row["ttft_ns"] for row in rows), len(rows))
        for rows in (
            [row for row in runs["run"].rows("requests") if row["tenant"] == "chat"],
            runs["other"].rows("requests"),
        )
    ]
    assert found == Found(means[0] - means[1], "ns", 12)


def test_what_a_part_looks_at_can_be_read():
    (part,), joins = parsed([["rows", "requests"], ["where", "tenant", "is", "chat"], ["mean", "ttft_ns"]])
    assert (part.table, part.run, joins) == ("requests", "", ())
    assert part.columns == {"tenant", "ttft_ns"}
    assert (part.fixed("tenant"), part.fixed("outcome")) == ("chat", None)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Found(Fraction(1_500_000), "ns", 3), "1.500 ms"),
        (Found(Fraction(1, 8), "share", 3), "12.5 %"),
        (Found(Fraction(1234), "requests", 3), "1,234 requests"),
        (Found(Fraction(10, 3), "tokens", 3), "3.333 tokens"),
    ],
)
def test_a_number_is_said_with_its_unit(found, text):
    assert str(found) == text
    assert repr(found) == f"<{text}, of 3 rows>"


REQUESTS = ["rows", "requests"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("rows", "is no query"),
        ([], "is no query"),
        (7, "is no query"),
        ([["count"]], "step 1: a part begins with rows, not with count"),
        ([REQUESTS], "step 1: after rows comes what makes a number"),
        ([REQUESTS, ["count"], ["minus"]], "step 3: after rows comes"),
        ([REQUESTS, ["count"], ["sum", "kept"]], "count is out of place"),
        ([REQUESTS, ["where", "tenant", "is", "chat"]], "where is out of place"),
        ([REQUESTS, REQUESTS, ["count"]], "step 2: rows begins a part"),
        ([REQUESTS, ["drop"]], "step 2 is ['drop']; a list is needed"),
        ([REQUESTS, [["count"]]], "a list is needed"),
        ([REQUESTS, 5], "a list is needed"),
        ([REQUESTS, ["sum"]], "step 2: write [sum, column]"),
        ([REQUESTS, ["count", 1]], "step 2: write [count]"),
        ([REQUESTS, ["percentile", "ttft_ns", 0]], "percent is 0"),
        ([REQUESTS, ["where", "tenant", "like", "c"], ["count"]], "operator is 'like'"),
        ([REQUESTS, ["where", "tenant", ["is"], "c"], ["count"]], "operator is ['is']"),
        ([REQUESTS, ["where", "tenant", "is", None], ["count"]], "value is None"),
        ([REQUESTS, ["between", 0, 1.5], ["count"]], "to_ns is 1.5"),
        ([["rows", "reqs"], ["count"]], "there is no table 'reqs'"),
        ([["rows", "requests", "mine"], ["count"]], "there is no run 'mine'; there are: run, other"),
        ([REQUESTS, ["sum", "ttft"]], "requests has no column 'ttft'"),
        ([REQUESTS, ["sum", "tenant"]], "tenant of requests has no numbers"),
        ([REQUESTS, ["between", 0, 0], ["sum", "ttft_ns"]], "no row of requests is left"),
        ([REQUESTS, ["count"], ["minus"], REQUESTS, ["sum", "ttft_ns"]], "minus joins requests with ns"),
        ([REQUESTS, ["count"], ["per"], REQUESTS, ["between", 0, 0], ["count"]], "per divides by 0"),
    ],
)
def test_what_is_no_query_is_told_with_its_step(query, words, runs):
    with pytest.raises(ValueError) as told:
        evaluate(query, runs)
    assert words in str(told.value)


def test_text_and_numbers_never_compare(runs):
    """A comparison of another kind keeps no row, and raises nothing."""
    for name in ("is", "is not", "<", ">="):
        assert asked(runs, REQUESTS, ["where", "tenant", name, 3], ["count"]).value == 0
        assert asked(runs, REQUESTS, ["where", "ttft_ns", name, "x"], ["count"]).value == 0
        assert asked(runs, ["rows", "Claimed"], ["where", "shape", name, 3], ["count"]).value == 0
