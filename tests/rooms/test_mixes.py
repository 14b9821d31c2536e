"""The drawn mix: the same requests everywhere, and shaped as stated."""

import decimal
import hashlib
import math
import statistics
from itertools import pairwise

from gpulab.mixes import chat_mix, exponential_lengths

MIX = chat_mix()


def test_the_committed_seed_draws_the_same_4000_requests_on_every_machine():
    numbers = [(r.arrival_ns, r.prompt_tokens, r.output_tokens) for r in MIX]
    assert numbers[:2] == [(0, 44, 399), (2_676_888_414, 49, 19)]
    digest = hashlib.sha256(repr(numbers).encode()).hexdigest()
    assert digest == "55bace473a666b438bf47561db293ea7f0aa11b36de28b09232db99ff8f5dbbb"


def test_a_callers_decimal_context_changes_nothing():
    with decimal.localcontext(decimal.Context(prec=4, rounding=decimal.ROUND_UP)):
        assert chat_mix(50) == MIX[:50]
        assert decimal.getcontext().prec == 4


def test_lengths_are_log_normal_about_their_medians_and_none_is_too_long():
    for tokens, mean in (
        ([r.prompt_tokens for r in MIX], 143),
        ([r.output_tokens for r in MIX], 320),
    ):
        logs = [math.log(count) for count in tokens]
        assert abs(statistics.median(logs) - (math.log(mean) - 0.5)) < 0.06
        assert 0.93 < statistics.stdev(logs) < 1.02  # a little below 1: the longest were drawn again
        assert min(tokens) >= 1
    assert 2_000 < max(r.prompt_tokens + r.output_tokens for r in MIX) <= 2_048


def test_two_requests_a_second_arrive_at_random():
    gaps = [b.arrival_ns - a.arrival_ns for a, b in pairwise(MIX)]
    assert min(gaps) >= 0
    assert abs(statistics.mean(gaps) / 500e6 - 1) < 0.05
    assert abs(statistics.stdev(gaps) / 500e6 - 1) < 0.05


def test_another_seed_draws_other_requests_and_a_limit_is_kept():
    assert chat_mix(20, "other") != MIX[:20]
    assert max(r.prompt_tokens + r.output_tokens for r in chat_mix(200, max_tokens=100)) <= 100


def test_exponential_lengths_are_the_middles_of_equally_likely_parts():
    assert exponential_lengths(1_000, 2) == [288, 1_386]  # -1000 ln 3/4, -1000 ln 1/4
    assert exponential_lengths(1, 4) == [1, 1, 1, 2]
    many = exponential_lengths(1_000, 2_000)
    assert many == sorted(many)
    assert abs(statistics.mean(many) / 1_000 - 1) < 0.001
    assert abs(statistics.pstdev(many) / 1_000 - 1) < 0.005
