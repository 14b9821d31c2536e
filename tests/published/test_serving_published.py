"""F6, F7 and F8: the engine under the reference policies, beside Orca, Sarathi-Serve, DistServe and VTC."""

from fractions import Fraction

import pytest

from gpulab.cli.published_serving import (
    DECODES,
    PROMPT,
    batching,
    beside_prompts,
    fair_service,
    gaps,
    mix_served,
    overload,
    service,
    stall_free,
    step_cost,
)
from gpulab.memory.reservation import PLANS
from gpulab.report.audit import check
from gpulab.serving.cost import opt_13b
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.events import Finished


@pytest.fixture(scope="module")
def fairness():
    return {row.what: row for row in fair_service()}


def test_filling_seats_at_once_is_faster_by_the_harmonic_number_of_the_seats():
    rows = list(batching())
    assert [row.got for row in rows] == [2.67, 3.98] and all(row.holds for row in rows)
    for row, seats in zip(rows, (8, 32), strict=True):
        assert row.expected == pytest.approx(
            float(sum(Fraction(1, n) for n in range(1, seats + 1))), abs=0.005
        )


def test_equal_answers_gain_nothing_from_it():
    trace = Trace(Request(name, 0, 1, 50, 50) for name in range(80))
    ledgers = [
        Engine(step_cost(constant_ps=10**10), policy, max_jobs=8).run(trace)
        for policy in (RequestLevel(), Reserving())
    ]
    assert [ledger.end_ns for ledger in ledgers] == [10 * 50 * 10**7] * 2
    for ledger in ledgers:
        check(ledger)


def published(prompt, chunk=0, kv=0, jobs=0):
    """DistServe's formula in ms: a prompt or the first tokens of one, and a step of decodes, each with its constant."""
    decode = 23.48 + 5.93e-4 * kv + 0.0607 * jobs if jobs else 0
    return (22.05 if prompt else 0) + 0.14051 * (prompt or chunk) + 8.08e-6 * (prompt or chunk) ** 2 + decode


@pytest.mark.parametrize("tokens", [128, 512, 2_048])
def test_our_form_has_distserves_prefill(tokens):
    assert opt_13b().step_ps(tokens, 0, tokens * tokens) / 1e9 == pytest.approx(published(tokens), rel=0.003)


@pytest.mark.parametrize("jobs", [1, 8, 32])
def test_our_form_has_distserves_decode_within_4_percent(jobs):
    assert opt_13b().step_ps(jobs, 500 * jobs) / 1e9 == pytest.approx(
        published(0, kv=500 * jobs, jobs=jobs), rel=0.04
    )


def test_the_gaps_are_the_sums_of_the_formula():
    rows = list(stall_free())
    assert [row.got for row in rows] == [36.2, 380.3, 109.4, 123.1, 72.0, 80.3] and all(
        row.holds for row in rows
    )
    beside = {"kv": 500 * DECODES, "jobs": DECODES}
    decode, whole = published(0, **beside), published(PROMPT, **beside)
    sums = [decode, whole]
    for chunk in (512, 256):
        first = published(0, chunk, **beside)
        sums += [first, first + 8.08e-6 * (PROMPT**2 - (PROMPT - chunk) ** 2 - chunk**2)]
    assert [row.expected for row in rows] == pytest.approx(sums, abs=0.06)


def test_all_gaps_beside_chunks_are_shorter_than_the_one_beside_a_whole_prompt():
    whole = beside_prompts(PrefillFirst(), DECODES * 500)
    chunks = [beside_prompts(Chunked(), DECODES + chunk) for chunk in (512, 256)]
    for ledger in (whole, *chunks):
        check(ledger)
    for ledger in chunks:
        assert max(gaps(ledger)) * 3 < max(gaps(whole))


def test_first_come_first_served_favours_who_sends_more_by_a_third_of_all_service(fairness):
    gap = fairness["gap after 360 s, first come first served"]
    assert (gap.got, fairness["service a second"].got) == (154_118, 1_286)
    assert fairness["% of all service that is"].got == 33.3
    assert all(row.holds for row in fairness.values())


def test_virtual_tokens_keep_the_gap_within_the_papers_bound_and_serve_as_much(fairness):
    (largest,) = [row for what, row in fairness.items() if what.startswith("largest gap, VTC")]
    assert largest.got == 6_364 and largest.expected + largest.tolerance == 40_000
    assert not type(largest)(**{**{n: getattr(largest, n) for n in largest.__slots__}, "got": 40_001}).holds
    assert fairness["service under VTC, % of first come"].got == 100.0


def test_the_bound_is_broken_by_first_come_first_served():
    ledger = overload(Chunked())
    check(ledger)
    assert service(ledger)[1] > 40_000


@pytest.mark.parametrize("plan", PLANS)
def test_the_served_mix_is_served_whole(plan):
    ledger = mix_served(plan)
    check(ledger)
    assert len(ledger.of(Finished)) == 500
