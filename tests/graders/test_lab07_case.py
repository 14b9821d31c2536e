"""The case of lab 07: its traffic, its shift, its plans, and what bounds them."""

from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest

from autograder.checks.lab07 import planning
from autograder.checks.lab07.bound import LeastSlack, bound
from autograder.checks.lab07.case import (
    HOST_NS,
    SHIFTS,
    TENANTS,
    Case,
    NaivePolicy,
    attainment,
    drawn,
    naive_plan,
    open_plan,
    play,
    weighted,
)
from autograder.checks.lab07.plan import _missed
from autograder.checks.lab07.planning import CHUNK_TOKENS, Planned, fault_of, longest_blocks
from autograder.references.lab07_staff import StaffPolicy, staff_plan
from gpulab import datasets
from gpulab.report.audit import check
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.traces import read_trace
from gpulab.telemetry.events import Stepped
from gpulab.units import SECOND


def case_of(number, minutes=6):
    return Case.of(Random(f"case {number}"), minutes)


def test_equal_draws_give_equal_traces_and_another_draw_another():
    case = case_of(0, 1)
    trace, events = drawn(Random("a"), case, "both")
    assert (list(trace), events) == (list(drawn(Random("a"), case, "both")[0]), ((30 * SECOND, HOST_NS),))
    assert list(trace) != list(drawn(Random("b"), case, "both")[0])


def test_rates_are_those_of_the_case_and_code_comes_in_bursts():
    case = case_of(0)
    trace, _ = drawn(Random("a"), case, "B")
    for tenant in TENANTS:
        came = [request.arrival_ns for request in trace if request.tenant == tenant]
        wanted = case.rates_per_ks[tenant] * case.end_ns // (1000 * SECOND)
        assert 0.8 * wanted <= len(came) <= 1.2 * wanted
    spread = {}
    for tenant in ("chat", "code"):
        counts = [0] * (case.end_ns // (10 * SECOND) + 1)
        for request in trace:
            counts[request.arrival_ns // (10 * SECOND)] += request.tenant == tenant
        mean = sum(counts) / len(counts)
        spread[tenant] = sum((count - mean) ** 2 for count in counts) / len(counts) / mean
    assert spread["chat"] < 5 < spread["code"]  # 4.0 and 71 in the traces, over an hour


def test_no_request_is_a_row_of_a_public_trace():
    """Arrival, prompt and output together; the gap before it stands for the arrival."""
    rows = set()
    for name in ("azure-conv-2023", "azure-code-2023"):
        public = list(read_trace(datasets.path_of(name)))
        rows |= {(b.arrival_ns - a.arrival_ns, b.prompt_tokens, b.output_tokens) for a, b in pairwise(public)}
        rows |= {(b.arrival_ns, b.prompt_tokens, b.output_tokens) for b in public}
    case = case_of(1)
    for shift in SHIFTS:
        trace = list(drawn(Random("a"), case, shift)[0])
        for a, b in pairwise(trace):
            assert (b.arrival_ns - a.arrival_ns, b.prompt_tokens, b.output_tokens) not in rows
            assert (b.arrival_ns, b.prompt_tokens, b.output_tokens) not in rows


@pytest.mark.parametrize("ours", ["longer prompts", "double bursts"])
def test_shift_a_gives_code_more_to_do_after_half_time_and_shift_b_changes_the_host_alone(ours):
    case = Case(case_of(0).rates_per_ks, ours, "slower host")
    for shift, grows in (("A", True), ("B", False)):
        before = after = 0
        for n in range(6):
            trace, events = drawn(Random(f"{n}"), case, shift)
            assert events == (() if shift == "A" else ((case.shift_ns, HOST_NS),))
            for request in trace:
                if request.tenant == "code":
                    before += request.prompt_tokens * (request.arrival_ns < case.shift_ns)
                    after += request.prompt_tokens * (request.arrival_ns >= case.shift_ns)
        assert (after > 1.5 * before) == grows


def test_the_hosts_part_is_in_each_step_that_begins_after_half_time_and_in_none_before():
    case = case_of(0, 1)
    trace, events = drawn(Random("a"), case, "B")
    for ledger in play(case, naive_plan(case), trace, events, Chunked).ledgers:
        check(ledger)
        for fact in ledger.of(Stepped):
            assert fact.host_ns == (HOST_NS if fact.start_ns >= case.shift_ns else 0)


def test_both_plans_keep_the_laws_and_each_tenant_is_let_in():
    case = case_of(0, 1)
    trace, events = drawn(Random("a"), case, "A")
    for plan in (open_plan(case), naive_plan(case) | {"expect": {}}, staff_plan(case)):
        assert fault_of(plan, case) == ("", "")
        result = play(case, plan, trace, events, token_budget=CHUNK_TOKENS)
        assert result.fault is None
        assert sum(came for _, came in result.kept.values()) == len(trace)
        assert attainment(result)["chat"] > Fraction(1, 2)
    window = 8192 // 16  # clients leave out what is older
    assert [longest_blocks(case, tenant) for tenant in TENANTS] == [window, window, 510]


def test_rules_are_compared_on_the_learners_case_and_none_is_best_on_all_three_traces():
    """Two minutes of practice, every tenant on every GPU; deterministic, so a table of them can be read out."""
    planned = Planned(case_of(0, 6))
    rows = {rule: planned.try_rule(rule) for rule in ("reserving", "chunked", "fair", "priority")}
    assert rows["fair"] == planned.try_rule("fair") != planned.try_rule("fair", practice=1)
    assert all(0 < kept <= 100 for row in rows.values() for kept in row.values())
    best = {shift: max(rows, key=lambda rule: rows[rule][shift]) for shift in SHIFTS}
    assert set(rows["fair"]) == set(SHIFTS)
    assert len(set(best.values())) > 1


def reached(case, trace, events):
    """Weighted attainment of the naive solution, the staff's, the clairvoyant one, and the bound."""
    staff = open_plan(case)
    naive = weighted(play(case, naive_plan(case), trace, events, NaivePolicy))
    best = weighted(play(case, staff, trace, events, lambda: StaffPolicy(case.cost)))
    slack = weighted(play(case, staff, trace, events, lambda: LeastSlack(case, trace)))
    return naive, best, max(best, slack), bound(trace, case)


@pytest.mark.soak
def test_naive_is_below_the_staff_which_no_clairvoyant_falls_behind_and_nobody_passes_the_bound(scale):
    for number in range(scale(5)):
        case = case_of(number, 1)
        trace, events = drawn(Random(f"trace {number}"), case, SHIFTS[number % 3])
        naive, staff, clairvoyant, most = reached(case, trace, events)
        assert naive < staff <= clairvoyant <= most <= 1


def test_what_the_bound_leaves_out_it_leaves_out_for_want_of_time():
    case = case_of(0, 1)
    trace, _ = drawn(Random("a"), case, "A")
    most = bound(trace, case)
    assert bound(trace, case, devices=0) == 0
    assert 0.95 < most <= 1
    crowd = Case({tenant: 20 * rate for tenant, rate in case.rates_per_ks.items()}, case.ours, case.theirs, 1)
    assert bound(drawn(Random("a"), crowd, "A")[0], crowd) < 0.75 * most


def test_a_frozen_policy_falls_behind_one_that_sees_the_host_change():
    case = case_of(3)
    trace, events = drawn(Random("b"), case, "both")
    adapts, frozen = (
        weighted(
            play(case, open_plan(case), trace, events, lambda learns=learns: StaffPolicy(case.cost, learns))
        )
        for learns in (True, False)
    )
    assert adapts > frozen + Fraction(3, 100)


def test_what_a_plan_expects_may_be_anything():
    came = [dict.fromkeys(TENANTS, Fraction(9, 10))] * 3
    right = dict.fromkeys(TENANTS, 90)
    assert _missed(right, came) == []
    for odd in (10**400, -(10**400), float("nan"), "90", True, None, [], 100.5, 84.9, 91.6):
        assert _missed({**right, "chat": odd}, came) == ["chat"]
    for odd in (None, [], "x", 7):
        assert _missed(odd, came) == list(TENANTS)


def test_a_share_that_no_machine_has_is_told_in_a_line():
    case = case_of(0)
    plan = staff_plan(case)
    for blocks, tag in ((2**63, "wrong-form"), (10**1000, "wrong-form"), (2**63 - 1, "over-memory")):
        device = {"serves": {"chat": blocks}, "max_jobs": 1}
        found = fault_of({**plan, "devices": [device]}, case)
        assert found[0] == tag and len(found[1]) < 300


@pytest.mark.soak
def test_what_the_staff_expects_of_its_plan_comes_true_in_every_course(scale):
    """At full length, since what is lost depends on it."""
    for number in range(scale(1)):
        case = case_of(number)
        came = [planning.reached(case, staff_plan(case), Random(f"{number} {s}"), s) for s in SHIFTS]
        assert _missed(staff_plan(case)["expect"], came) == []


ODD_PLANS = (
    *(None, [], {}, "plan", 7, {"devices": []}, {"devices": {}, "router": "round-robin"}),
    *({"router": name} for name in (None, [], {}, "none", 10**400)),
    *(
        {"devices": [device]}
        for device in (None, [], {}, {"serves": {}}, {"serves": ["chat"]}, {"serves": {"x": 1}})
    ),
    *({"devices": [{"serves": {"chat": n}, "max_jobs": 1}]} for n in (True, 0, -1, 1.5, "9", None, 10**400)),
    *(
        {"devices": [{"serves": {"chat": 600}, "max_jobs": n}]}
        for n in (True, 0, -1, 1.5, "9", None, 257, 10**400)
    ),
)


@pytest.mark.parametrize("odd", ODD_PLANS, ids=range(len(ODD_PLANS)))
def test_what_is_no_plan_is_told_so(odd):
    case = case_of(0)
    plan = {**staff_plan(case), **odd} if isinstance(odd, dict) and odd else odd
    tag, why = fault_of(plan, case)
    assert tag == "wrong-form" and 0 < len(why) < 300
