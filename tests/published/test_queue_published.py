"""F12: the plain queues are the serving engine's, and their long run is the theory's."""

import random
from itertools import accumulate

import pytest

from gpulab.cli import published_queue
from gpulab.cli.published_queue import UNIT, first_come, least_served, shared, two_lengths
from gpulab.cli.published_serving import step_cost
from gpulab.report.audit import check
from gpulab.report.scores import score
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.request import Request, Trace

TOKEN_NS = 1_000


@pytest.fixture(scope="module")
def jobs():
    """1,000 jobs; times in tokens, ``UNIT`` tokens the mean of the short ones."""
    return two_lengths(1, 100)


def served(policy, jobs, requests):
    """The mean latency in tokens when a step costs a token's time for each token it computes."""
    cost = step_cost(token_ps=TOKEN_NS * 1_000, kv_blocks=10**6)
    trace = Trace(
        Request(n, arrival * TOKEN_NS, *requests(length)) for n, (arrival, length) in enumerate(jobs)
    )
    seats = 1 if policy.__class__ is PrefillFirst else len(jobs)
    ledger = Engine(cost, policy, max_jobs=seats, token_budget=10**6).run(trace)
    check(ledger)
    return score([ledger]).latency.mean / TOKEN_NS


def test_first_come_is_the_engine_with_one_seat_to_the_last_digit(jobs):
    assert served(PrefillFirst(), jobs, lambda length: (length, 1)) == first_come(jobs)


def test_shared_is_the_engine_whose_step_costs_as_much_as_it_has_jobs(jobs):
    """A token is the smallest part that the engine shares: a job of n tokens ends some tokens of others later."""
    found = served(Chunked(), jobs[:400], lambda length: (1, length))
    assert found == pytest.approx(shared(jobs[:400]), rel=0.002)


@pytest.mark.parametrize(
    ("jobs", "means"),
    [
        (
            [(0, 2), (1, 2)],
            (2.5, 3.0, 3.5),
        ),  # least served: the second overtakes at 1, and both end at 4 and 3
        ([(0, 4), (1, 2), (2, 1)], (14 / 3, 5.0, 4.0)),
        ([(0, 2), (0, 2)], (3.0, 4.0, 4.0)),
        ([(0, 2), (5, 1)], (1.5, 1.5, 1.5)),
    ],
)
def test_two_or_three_jobs_can_be_done_by_hand(jobs, means):
    assert (first_come(jobs), shared(jobs), least_served(jobs)) == pytest.approx(means)


def test_the_jobs_are_the_ones_of_the_row():
    jobs = two_lengths(1)
    lengths = [length for _, length in jobs]
    assert len(jobs) == 3_600 and jobs == sorted(jobs)
    assert sum(lengths) / len(jobs) / UNIT == pytest.approx(2.9, rel=0.002)
    assert sum(length**2 for length in lengths) / len(jobs) / UNIT**2 == pytest.approx(81.8, rel=0.01)
    assert sum(lengths) / jobs[-1][0] == pytest.approx(0.8, rel=0.002)


def test_the_three_means_are_these_and_hold():
    rows = list(published_queue.one_server())
    assert [(row.expected, row.got) for row in rows] == [(59.3, 58.27), (14.5, 14.27), (11.5, 11.27)]
    assert all(row.holds for row in rows)


def test_another_order_of_the_same_jobs_ends_as_near_to_the_theory():
    """The mean over two other orders: not the luck of one."""
    arrivals, lengths = zip(*two_lengths(50), strict=True)
    gaps = [after - before for before, after in zip((0, *arrivals), arrivals, strict=False)]
    found = []
    for seed in range(2):
        draws = random.Random(f"other/{seed}")
        again = list(
            zip(accumulate(draws.sample(gaps, len(gaps))), draws.sample(lengths, len(lengths)), strict=True)
        )
        found.append((first_come(again) / UNIT, shared(again) / UNIT))
    means = [sum(column) / 2 for column in zip(*found, strict=True)]
    assert means == [pytest.approx(59.3, rel=0.05), pytest.approx(14.5, rel=0.05)]
