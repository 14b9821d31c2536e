"""The numbers of a run, computed by hand from small ledgers."""

from fractions import Fraction

import pytest

from gpulab.report.account import Account, levels
from gpulab.report.fairness import MOST_TENANTS, Gap, jain
from gpulab.report.metrics import Distribution, Slo, Times, summarize
from gpulab.report.waiting import Waiting
from gpulab.telemetry.events import (
    Answered,
    Arrived,
    Claimed,
    Closed,
    Dropped,
    Finished,
    Freed,
    Granted,
    Opened,
    Preempted,
    Prefilled,
    Restored,
    Reused,
    Stepped,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units
from gpulab.units import SECOND


def came(time_ns, request, tenant, prompt, output):
    return Arrived(time_ns, request, f"r{request}", tenant, prompt, output)


def got(time_ns, request, units, claim=None):
    claim = request if claim is None else claim
    shape = Units(units)
    return [Claimed(time_ns, claim, "kv", units, shape, f"r{request}"), Granted(time_ns, claim, -1, units)]


def step(start_ns, end_ns, jobs=0, kv=0, *, steps=1):
    return Stepped(end_ns, "kv", start_ns, steps, jobs, kv, (end_ns - start_ns) * 1000 // steps, 0, 0)


# r0: prompt 4 (1 reused), computed by 10; tokens at 10, 20, 30, 55. r1: prompt 2 by 40; tokens at 40, 55.
# r2 is turned away, r3 never served. 3 and 5 of 10 blocks are held.
RUN = [
    Opened(0, "kv", 10, "block"),
    *(came(0, 0, "chat", 4, 9), *got(0, 0, 3), Reused(0, 0, 1), step(0, 10), Prefilled(10, 0, 3)),
    *(came(15, 1, "code", 2, 2), step(10, 30, 1, 4, steps=2), *got(30, 1, 2)),
    *(came(31, 2, "code", 9, 9), Dropped(31, 2, "rejected")),
    *(step(30, 40), Prefilled(40, 1, 2), step(40, 55, 2, 6 + 2)),
    *(Finished(55, 0, 4, 40), Freed(55, 0), Finished(55, 1, 2, 20), Freed(55, 1), Answered(60, 1)),
    *(came(70, 3, "chat", 1, 1), Closed(100)),
]


def test_the_times_of_each_request_are_those_of_its_facts():
    assert summarize(Ledger(RUN)).requests == (
        Times(0, "chat", "finished", 0, 4, 0, 10, Fraction(45, 3), 55, Fraction(55, 40)),
        Times(1, "code", "finished", 15, 2, 15, 25, Fraction(15, 1), 45, Fraction(45, 20)),
        Times(2, "code", "rejected", 31, 0, None, None, None, 0, None),
        Times(3, "chat", "open", 70, 0, None, None, None, 30, None),
    )


def test_the_distributions_are_those_of_the_requests_and_of_all_gaps_between_tokens():
    summary = summarize(Ledger(RUN))

    assert summary.ttft.counts == {10: 1, 25: 1}
    assert summary.tpot.counts == {Fraction(15): 2}
    assert summary.gaps.counts == {10: 2, 15: 1, 25: 1}  # 10-20-30-55 and 40-55
    assert summary.latency.counts == {45: 1, 55: 1}  # of those that finished
    assert summary.queued.counts == {0: 1, 15: 1}
    assert summary.slowdown.counts == {Fraction(55, 40): 1, Fraction(45, 20): 1}
    assert summary.jobs.counts == {0: 20, 1: 20, 2: 15}


def test_rates_are_over_the_time_from_the_first_arrival_to_the_end_of_the_ledger():
    summary = summarize(Ledger(RUN))

    assert (summary.window_ns, summary.finished, summary.output_tokens) == (100, 2, 6)
    assert summary.throughput_per_s == 2 * SECOND / 100
    assert summary.tokens_per_s == 6 * SECOND / 100
    assert summary.of("code") == summary.requests[1:3]
    assert (summary.kept, summary.goodput_per_s, summary.attainment) == (None, None, None)


PROMISES = {
    "both first tokens": (Slo(ttft_ns=25), 2),
    "one first token": (Slo(ttft_ns=24), 1),
    "no token after the first": (Slo(tpot_ns=14), 0),
    "each token after the first": (Slo(tpot_ns=15), 2),
    "latency": (Slo(latency_ns=45), 1),
    "first token and latency, which no request keeps both": (Slo(ttft_ns=20, latency_ns=50), 0),
    "nothing, which those that did not finish do not keep": (Slo(), 2),
    "by tenant; one that is promised nothing finishes": ({"chat": Slo(ttft_ns=9)}, 1),
}


@pytest.mark.parametrize(("slo", "kept"), PROMISES.values(), ids=PROMISES)
def test_goodput_counts_the_finished_requests_that_kept_all_that_was_promised(slo, kept):
    summary = summarize(Ledger(RUN), slo)

    assert (summary.kept, summary.attainment) == (kept, kept / 4)
    assert summary.goodput_per_s == kept * SECOND / 100


def test_a_request_of_one_token_has_no_time_between_tokens_and_keeps_any():
    facts = [
        Opened(0, "kv", 10, "block"),
        came(0, 0, "chat", 1, 1),
        *got(0, 0, 1),
        step(0, 7),
        Prefilled(7, 0, 1),
    ]
    summary = summarize(Ledger([*facts, Finished(7, 0, 1, 7), Freed(7, 0)]), Slo(tpot_ns=1))

    assert (summary.requests[0].tpot_ns, summary.tpot.count, summary.kept) == (None, 0, 1)


def test_hit_rate_is_of_the_tokens_that_jobs_needed_and_occupancy_of_units_held():
    summary = summarize(Ledger(RUN))

    assert summary.hit_rate == Fraction(1, 6)
    assert summary.occupancy == {"kv": (3 * 55 + 2 * 25) / 1000}


def test_fairness_is_over_prompt_tokens_and_twice_the_output_tokens():
    # chat: 3 computed + 2 * 4 = 11, code: 2 + 2 * 2 = 6
    assert summarize(Ledger(RUN)).jain == Fraction(17**2, 2 * (11**2 + 6**2)) == jain([11, 6])


def test_a_gap_over_a_preemption_is_one_gap():
    facts = [
        Opened(0, "kv", 10, "block"),
        came(0, 0, "chat", 2, 9),
        *got(0, 0, 3),
        step(0, 5),
        Prefilled(5, 0, 2),
    ]
    facts += [step(5, 8, 1, 2), Preempted(8, 0, 0), Freed(8, 0), *got(20, 0, 5, claim=1)]
    facts += [step(20, 26), Prefilled(26, 0, 4), step(26, 29, 1, 4), Finished(29, 0, 4, 9), Freed(29, 1)]
    kept = [
        *facts[:7],
        Preempted(8, 0, 3),
        *facts[8:11],
        Restored(20, 0, 3),
        step(20, 26, 1, 3),
        Finished(26, 0, 3, 9),
        Freed(26, 1),
    ]

    assert summarize(Ledger(facts)).gaps.counts == {3: 2, 18: 1}
    assert summarize(Ledger(facts)).requests[0].output_tokens == 4
    assert summarize(Ledger(kept)).gaps.counts == {3: 1, 18: 1}  # what was kept need not be computed again


def test_tokens_of_jobs_that_are_not_done_count_as_tokens_and_not_as_requests():
    cut = RUN[: next(place for place, fact in enumerate(RUN) if type(fact) is Finished)]
    summary = summarize(Ledger(cut), Slo())

    assert (summary.output_tokens, summary.finished, summary.kept) == (6, 0, 0)
    assert [times.outcome for times in summary.requests] == ["open", "open", "rejected"]


def test_two_devices_have_an_occupancy_each_and_their_jobs_step_apart():
    other = [Opened(0, "kv2", 4, "block"), came(0, 7, "chat", 2, 2), Claimed(0, 7, "kv2", 2, Units(2), "r7")]
    other += [Granted(0, 7, -1, 2), Stepped(8, "kv2", 0, 1, 0, 0, 8000, 0, 0), Prefilled(8, 7, 2)]
    rest = [Stepped(98, "kv2", 90, 1, 1, 2, 8000, 0, 0), Finished(98, 7, 2, 9)]
    facts = sorted([*RUN[:-1], *other, *rest, RUN[-1]], key=lambda fact: fact.time_ns)

    summary = summarize(Ledger(facts))

    assert summary.occupancy == {"kv": (3 * 55 + 2 * 25) / 1000, "kv2": 0.5}
    assert summary.gaps.counts == {10: 2, 15: 1, 25: 1, 90: 1}
    assert summary.ttft.counts == {8: 1, 10: 1, 25: 1}


# -- percentiles ---------------------------------------------------------------------------------


RANKS = {(1, 10), (10, 10), (10.1, 20), (50, 50), (90, 90), (99, 100), (99.9, 100), (100, 100)}


@pytest.mark.parametrize(("p", "value"), sorted(RANKS))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(p, value):
    assert Distribution.of(range(10, 101, 10)).percentile(p) == value


def test_percentiles_count_how_often_a_value_occurred():
    some = Distribution({5: 98, 7: 1, 900: 1, 3: 0})

    assert [some.percentile(p) for p in (50, 98, 99, 100)] == [5, 5, 7, 900]
    assert (some.count, some.counts) == (100, {5: 98, 7: 1, 900: 1})
    assert some.mean == (5 * 98 + 907) / 100
    assert repr(some) == "<Distribution: 100 values, p50 5, p90 5, p99 7>"
    assert some == Distribution({900: 1, 5: 98, 7: 1})


@pytest.mark.parametrize("p", [0, -1, 100.5, 101])
def test_there_is_no_percentile_of_nothing_and_none_above_all(p):
    with pytest.raises(ValueError, match="-th percentile; ask for one above 0 and up to 100"):
        Distribution.of([1]).percentile(p)


def test_a_distribution_of_nothing_says_so():
    none = Distribution.of([None, None])

    assert (none.percentile(50), none.mean, none.count) == (None, None, 0)
    assert repr(none) == "<Distribution: no values>"


# -- fairness ------------------------------------------------------------------------------------


def test_jains_index_is_one_when_all_got_the_same_and_one_nth_when_one_got_it_all():
    assert [jain([3, 3, 3]), jain([9, 0, 0]), jain([1, 2])] == [1, Fraction(1, 3), Fraction(9, 10)]
    assert [jain([]), jain([0, 0])] == [None, None]


def test_the_gap_grows_only_while_both_wait():
    gap = Gap({"a", "b"})
    steps = [((0, 0), "ab"), ((7, 2), "ab"), ((7, 9), "b"), ((90, 9), "ab"), ((95, 9), "ab"), ((95, 17), "")]
    seen = []
    for (a, b), waiting in steps:
        gap.note({"a": a, "b": b}, set(waiting))
        seen.append(gap.largest)

    assert seen == [0, 5, 7, 7, 7, 8]  # 5 ahead, then 7 back within it; anew from 81 ahead: 5 more, 8 less


def test_the_gap_of_one_tenant_or_of_very_many_is_not_kept():
    assert Gap({"a"}).largest is None
    assert Gap({str(n) for n in range(MOST_TENANTS + 1)}).largest is None
    assert Gap({str(n) for n in range(MOST_TENANTS)}).largest == 0


def test_the_service_gap_of_a_run_is_what_one_was_served_while_both_had_requests_waiting():
    facts = [Opened(0, "kv", 10, "block"), came(0, 0, "chat", 4, 9), *got(0, 0, 9)]
    for request, tenant in ((1, "chat"), (2, "code")):
        facts += [came(1, request, tenant, 1, 1), Claimed(1, request, "kv", 8, Units(8), f"r{request}")]
    facts += [step(0, 5), Prefilled(5, 0, 4), step(5, 8, 1, 4, steps=3), Closed(9)]

    assert summarize(Ledger(facts)).service_gap == 4 + 2 + 3 * 2


# -- no requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts", [[], [Closed(4)], [Opened(0, "kv", 5, "block"), *got(1, 0, 2), Closed(4)]], ids=len
)
def test_a_ledger_without_requests_has_no_times_and_says_so(facts):
    summary = summarize(Ledger(facts), Slo(ttft_ns=1))

    assert str(summary) == "No request arrived in this ledger: there are no times to summarize."
    assert (summary.requests, summary.window_ns, summary.ttft.count, summary.gaps.count) == ((), 0, 0, 0)
    assert (summary.goodput_per_s, summary.attainment, summary.jain, summary.service_gap) == (None,) * 4
    assert summary.occupancy == ({"kv": 2 * 3 / 20} if len(facts) > 1 else {})


def test_a_summary_reads_as_a_few_lines():
    assert str(summarize(Ledger(RUN))).splitlines()[:2] == [
        "4 requests, 2 finished in 100 ns",
        "ttft: <Distribution: 2 values, p50 10, p90 25, p99 25>",
    ]


def test_a_summary_with_gauges_that_its_caller_has_is_the_same():
    ledger = Ledger(RUN)
    accounts = {level: Account(ledger, level)() for level in levels(ledger)}

    assert summarize(ledger, Slo(), waiting=Waiting(ledger), accounts=accounts) == summarize(ledger, Slo())
