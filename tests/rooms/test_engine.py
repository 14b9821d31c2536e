"""The engine: what a step costs, what a policy may say, and what it hears when it says something else."""

from dataclasses import replace
from fractions import Fraction

import pytest

from gpulab.errors import PolicyFault, SpecFault, TraceFault
from gpulab.report.audit import check
from gpulab.report.metrics import Slo, summarize
from gpulab.report.waiting import Waiting
from gpulab.serving import cost
from gpulab.serving.engine import Engine
from gpulab.serving.fleet import Fleet, Router
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.policy import Policy
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.events import (
    Closed,
    Dropped,
    Extrapolated,
    Finished,
    Grew,
    Preempted,
    Prefilled,
    Restored,
    Reused,
    Stepped,
)

# A board on which sums can be done by head: a step takes 1 ms, a token 1 us more, nothing else.
PLAIN = cost.StepCost(
    *("plain", "board", 1_000_000_000, 0, 1_000_000, 0, 0, 0),
    *(100, 4, 1024, 10_000, 10_000, "made up"),
)


def served(policy, *requests, board=PLAIN, **limits):
    return Engine(board, policy, **limits).run(Trace(requests))


def test_one_request_alone_takes_its_chunk_and_a_step_a_token():
    ledger = served(Chunked(), Request(0, 500, 10, 3))
    assert [(f.start_ns, f.time_ns, f.steps, f.jobs, f.kv_tokens) for f in ledger.of(Stepped)] == [
        (500, 500 + 1_010_000, 1, 0, 0),
        (500 + 1_010_000, 500 + 1_010_000 + 2 * 1_001_000, 2, 1, 10),
    ]
    end = 500 + 1_010_000 + 2 * 1_001_000
    assert ledger.of(Finished) == [Finished(end, 0, 3, end - 500)]
    assert [f.units for f in ledger.of(Grew)] == []  # 12 tokens with KV: three blocks of 4, granted at once


def test_a_chunk_shares_its_step_with_decodes_or_stands_alone():
    requests = (Request(0, 0, 4, 9), Request(1, 2_500_000, 4, 2))
    mixed = served(Chunked(), *requests).of(Stepped)
    alone = served(PrefillFirst(), *requests).of(Stepped)
    assert [(f.steps, f.jobs) for f in mixed][:4] == [(1, 0), (2, 1), (1, 1), (1, 2)]
    assert [(f.steps, f.jobs) for f in alone][:4] == [(1, 0), (2, 1), (1, 0), (1, 2)]


def test_the_hosts_time_is_part_of_every_step():
    board = replace(PLAIN, host_ns=200_000)
    with_host = served(Chunked(), Request(0, 0, 10, 3), board=board).of(Finished)[0]
    without = served(Chunked(), Request(0, 0, 10, 3)).of(Finished)[0]
    assert with_host.time_ns - without.time_ns == 3 * 200_000
    assert with_host.alone_ns == without.alone_ns


def test_when_blocks_run_out_the_newest_is_put_out_and_computes_again_what_it_had():
    board = replace(PLAIN, kv_blocks=8)
    ledger = served(Chunked(), Request(0, 0, 8, 16), Request(1, 0, 8, 16), board=board)
    out = ledger.of(Preempted)
    assert [f.request for f in out] == [1]
    again = [f.tokens for f in ledger.of(Prefilled) if f.request == 1 and f.time_ns > out[0].time_ns]
    assert sum(again) > 8
    assert sorted(f.request for f in ledger.of(Finished)) == [0, 1]


def test_whoever_reserves_is_never_put_out():
    board = replace(PLAIN, kv_blocks=8)
    ledger = served(Reserving(), Request(0, 0, 8, 16), Request(1, 0, 8, 16), board=board)
    assert ledger.of(Preempted) == []
    assert ledger.of(Grew) == []


def test_a_request_that_the_whole_pool_cannot_hold_is_turned_away_at_the_door():
    ledger = served(Chunked(), Request(0, 7, 500, 3), Request(1, 9, 5, 2))
    assert ledger.of(Dropped) == [Dropped(7, 0, "rejected")]
    assert [f.request for f in ledger.of(Finished)] == [1]


@pytest.mark.parametrize("policy", [Chunked, Reserving])
def test_a_request_longer_than_the_models_window_is_turned_away_at_the_door(policy):
    board = replace(PLAIN, window_tokens=50)
    requests = Request(0, 3, 45, 5), Request(1, 5, 46, 5), Request(2, 5, 10, 5, 40), Request(3, 6, 10, 5, 41)
    ledger = served(policy(), *requests, board=board)
    assert ledger.of(Dropped) == [Dropped(5, 1, "rejected"), Dropped(6, 3, "rejected")]
    assert sorted(f.request for f in ledger.of(Finished)) == [0, 2]
    check(ledger)


def test_steps_beyond_what_was_measured_are_facts_and_are_counted_from_the_ledger():
    """12 tokens in the first step of 11; from the third decode on more than 13 cached tokens are read."""
    board = replace(PLAIN, most_tokens=11, most_cached_tokens=13)
    engines = [Engine(board, Chunked(), leap=leap) for leap in (True, False)]
    fast, slow = (engine.run(Trace([Request(0, 0, 12, 6)])) for engine in engines)
    assert fast.digest() == slow.digest()
    ends = [fact.time_ns for fact in fast.of(Stepped)]
    assert fast.of(Extrapolated) == [
        Extrapolated(ends[0], "kv", 1, 12, 0),
        Extrapolated(ends[1], "kv", 3, 1, 16),
    ]
    found = summarize(fast)
    assert (found.steps, found.extrapolated) == (6, 4)
    assert "4 of 6 steps were larger than what was measured" in str(found)
    check(fast)
    within = served(
        Chunked(), Request(0, 0, 12, 6), board=replace(board, most_tokens=12, most_cached_tokens=16)
    )
    assert (within.of(Extrapolated), summarize(within).extrapolated) == ([], 0)


@pytest.mark.parametrize(("window_tokens", "longest"), [(0, 401), (50, 50), (401, 401), (500, 401)])
def test_the_longest_request_is_the_windows_or_the_pools(window_tokens, longest):
    assert replace(PLAIN, window_tokens=window_tokens).longest_tokens == longest


@pytest.mark.parametrize(("window_tokens", "blocks"), [(50, 13), (0, 100), (500, 100)])
def test_whoever_reserves_keeps_the_window_for_an_answer_of_unsaid_length_and_learns_nothing(
    window_tokens, blocks
):
    """49 tokens of KV are 13 blocks of 4; without a window a request may fill the pool."""
    seen = {}

    class Looking(Policy):
        reserves = "most"

        def decide(self, view):
            seen.update({job.id: view.blocks_to_admit(job) for job in view.waiting})
            return Reserving().decide(view)

    requests = Request(0, 0, 10, 1), Request(1, 0, 10, 30), Request(2, 0, 20, 7), Request(3, 0, 10, 9, 11)
    ledger = served(Looking(), *requests, board=replace(PLAIN, window_tokens=window_tokens))
    assert seen == {0: blocks, 1: blocks, 2: blocks, 3: 5}
    assert ledger.of(Grew) == []
    assert sorted(f.request for f in ledger.of(Finished)) == [0, 1, 2, 3]
    check(ledger)


@pytest.mark.parametrize("policy", [Chunked, PrefillFirst, Reserving, RequestLevel])
def test_a_request_that_just_fits_into_the_whole_pool_is_served_by_every_way_to_reserve(policy):
    """400 tokens of KV: the last of 401 tokens is made and never kept. One more is turned away."""
    requests = Request(0, 0, 398, 3), Request(1, 0, 398, 4), Request(2, 0, 5, 2)
    ledger = served(policy(), *requests)
    assert sorted(f.request for f in ledger.of(Finished)) == [0, 2]
    assert [f.request for f in ledger.of(Dropped)] == [1]
    check(ledger)


def test_clients_give_up_without_a_token_and_hang_up_at_any_time():
    ledger = served(
        Chunked(),
        Request(0, 0, 5, 100),
        Request(1, 0, 5, 100, patience_ns=1_000),
        Request(2, 0, 5, 100, aborted_ns=30_000_000),
        max_jobs=2,
    )
    assert [(f.request, f.reason) for f in ledger.of(Dropped)] == [(2, "aborted")]
    assert ledger.of(Dropped)[0].time_ns >= 30_000_000
    held_back = served(Chunked(), Request(0, 0, 5, 9), Request(1, 0, 5, 9, patience_ns=1_000), max_jobs=1)
    assert [(f.request, f.reason) for f in held_back.of(Dropped)] == [(1, "timed out")]


class Says(Policy):
    """Answers with what it was given, one answer a time, then as Chunked does."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def decide(self, view):
        if not self.answers:
            return Chunked().decide(view)
        said = self.answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


@pytest.mark.parametrize(
    ("answer", "law", "told"),
    [
        (7, "answer", "a dictionary is needed"),
        ({"let in": [0]}, "answer", "the keys are admit"),
        ({"admit": "0"}, "answer", "a list of request ids"),
        ({"admit": [0.5]}, "answer", "0.5 where a whole number"),
        ({"admit": [True]}, "answer", "True where a whole number"),
        ({"admit": [9]}, "admit", "request 9, which is not here"),
        ({"admit": [0, 0]}, "twice", "names request 0 twice"),
        ({"preempt": [[0, "recompute"]]}, "preempt", "request 0, which is waiting"),
        ({"preempt": [[0, "drop"]]}, "answer", "is needed"),
        ({"prefill": {0: 4}}, "prefill", "request 0, which is waiting"),
        ({"admit": [0], "prefill": {0: 0}}, "prefill", "wants 0 tokens of request 0, which has 10 left"),
        ({"admit": [0], "prefill": {0: 11}}, "prefill", "wants 11 tokens"),
        ({"admit": [0, 1], "prefill": {0: 10, 1: 10}}, "budget", "would compute 20 tokens; the budget is 16"),
        ({"wake": 0}, "wake", "which is not after now"),
        (ValueError("oh"), "raised", "decide raised ValueError: oh"),
        ({}, "starvation", "request 0 is waiting"),
        ({"admit": [0, 1]}, "starvation", "request 0 is prefilling"),
    ],
)
def test_what_a_policy_cannot_say_is_told_with_its_numbers_and_the_run_so_far_is_kept(answer, law, told):
    engine = Engine(PLAIN, Says(answer, {}, {}), token_budget=16)
    with pytest.raises(PolicyFault, match=r"At .* ns") as fault:
        engine.run(Trace([Request(0, 0, 10, 2), Request(1, 0, 10, 2)]))
    assert fault.value.law == law
    assert told in str(fault.value)
    assert len(engine.ledger) >= 3


def test_a_policy_that_admits_more_than_there_is_hears_how_much_there_is():
    both = Request(0, 0, 20, 1), Request(1, 0, 100, 1)
    with pytest.raises(PolicyFault, match="needs 25 blocks and a seat; 20 blocks are free and 1 of 128"):
        served(Says({"admit": [0, 1]}), *both, board=replace(PLAIN, kv_blocks=25))


def test_an_answer_that_leaves_the_next_step_without_blocks_is_refused():
    class Stubborn(Policy):
        def decide(self, view):
            return {} if view.need_blocks else Chunked().decide(view)

    with pytest.raises(PolicyFault, match=r"lacks \d+ blocks"):
        served(Stubborn(), Request(0, 0, 8, 16), Request(1, 0, 8, 16), board=replace(PLAIN, kv_blocks=8))


class Asleep(Policy):
    """Serves nobody and wakes for ever."""

    def decide(self, view):
        return {"wake": view.now_ns + 1}


class Restless(Policy):
    """Lets the first in and puts it out again before its step: by turns, for ever."""

    def decide(self, view):
        if view.running:
            return {"preempt": [[job.id, "recompute"] for job in view.running], "wake": view.now_ns + 1}
        return {**Chunked().decide(view), "prefill": {}, "wake": view.now_ns + 1}


class Throwing(Policy):
    """Throws a job's work away after each chunk."""

    def decide(self, view):
        begun = [job.id for job in view.running if job.computed]
        if begun:
            return {"preempt": [[name, "recompute"] for name in begun], "wake": view.now_ns + 1}
        return {"admit": [view.waiting[0].id], "prefill": {view.waiting[0].id: 1}} if view.waiting else {}


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Asleep(), r"request 4 is waiting, .* ns after it arrived, the policy woke [\d,]+ times in a row"),
        (Restless(), r"preempt names request 4, which was put out 1,000 times"),
        (Throwing(), r"preempt names request 4, which was put out 1,000 times"),
    ],
)
def test_a_policy_that_goes_on_for_ever_and_gets_nowhere_is_stopped(policy, told):
    engine = Engine(PLAIN, policy)
    with pytest.raises(PolicyFault, match=told) as fault:
        engine.run(Trace([Request(4, 7, 10, 2)]))
    assert (fault.value.law, fault.value.numbers["request"]) == ("starvation", 4)
    assert len(engine.ledger) >= 3


def test_nobody_is_woken_while_nobody_is_here():
    class Counting(Policy):
        asked = 0

        def decide(self, view):
            self.asked += 1
            return {**Chunked().decide(view), "wake": view.now_ns + 1_000_000_000}

    policy = Counting()
    served(policy, Request(0, 0, 10, 2), Request(1, 10**15, 10, 2))
    assert policy.asked < 10


class SwapsOnce(Policy):
    """Puts request 0 out by ``way`` after its first token, and lets it in again at once."""

    def __init__(self, way):
        self.way = way

    def decide(self, view):
        first = next(
            (job for job in view.running if job.id == 0 and job.decoding and not job.evictions), None
        )
        if first is not None:
            return {"preempt": [[0, self.way]]}
        return Chunked(spare_permille=0).decide(view)


def test_a_job_makes_no_token_before_its_kv_is_back():
    board = replace(PLAIN, kv_bytes_per_token=25_000_000)  # 1 ms a token
    ledger = served(SwapsOnce("swap"), Request(0, 0, 4, 5), Request(1, 0, 4, 9), board=board)
    back, out = ledger.of(Restored)[0], ledger.of(Preempted)[0]
    assert (back.tokens, out.kept_tokens) == (4, 4)
    meanwhile = [f.jobs for f in ledger.of(Stepped) if out.time_ns < f.time_ns <= back.time_ns]
    assert set(meanwhile) == {1}
    check(ledger)


class EndsOneTokenEarly(Policy):
    """Puts request 0 out after its first token, then computes all that it had but the last token."""

    def decide(self, view):
        for job in (*view.waiting, *view.running):
            if job.id == 0 and job.decoding and not job.evictions:
                return {"preempt": [[0, "recompute"]], "wake": view.now_ns + 1}
            if job.id == 0 and job.evictions and not job.blocks:
                return {"admit": [0], "prefill": {0: job.left or job.target - 1}}
        return Chunked().decide(view)


@pytest.mark.parametrize(
    "prefix", [(), (1, 2)], ids=["by a chunk", "by its prompt, which another one shares"]
)
def test_what_was_put_out_and_lacks_only_its_last_token_decodes_again(prefix):
    """Nothing in a ledger tells a decode from a chunk of one token, so the engine knows no difference either."""
    ledger = served(
        EndsOneTokenEarly(), Request(0, 0, 8, 5, prefix=prefix), Request(1, 0, 8, 9, prefix=prefix)
    )
    out = ledger.of(Preempted)[0].time_ns
    again = [f for f in ledger.of(Reused, Prefilled) if f.time_ns > out and f.request == 0]
    assert [(type(f), f.tokens) for f in again] == [(Reused if prefix else Prefilled, 8)]
    assert sorted((f.request, f.output_tokens) for f in ledger.of(Finished)) == [(0, 5), (1, 9)]
    check(ledger)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens is 0"),
        ({"prompt_tokens": None}, "prompt_tokens is None"),
        ({"output_tokens": -3}, "output_tokens is -3"),
        ({"arrival_ns": 1}, "arrival_ns is 1"),
        ({"id": 0}, "id is 0"),
        ({"most_tokens": 1}, "most_tokens is 1"),
        ({"tenant": None}, "tenant is None"),
        ({"prefix": None}, "prefix is None"),
        ({"prefix": (5, 5)}, r"prefix is \(5, 5\)"),
        ({"prefix": tuple(range(11))}, "prefix is "),
    ],
)
def test_a_broken_request_is_named_and_the_good_ones_are_kept(broken, told):
    good = Request(0, 5, 10, 3)
    with pytest.raises(TraceFault, match=told) as fault:
        Trace([good, replace(Request(1, 6, 10, 3), **broken)])
    assert fault.value.good == [good]


def test_a_board_that_is_none_is_told_with_the_names_there_are(tmp_path):
    with pytest.raises(SpecFault, match="llama2-7b-a100"):
        cost.load("h900")
    file = tmp_path / "mine.toml"
    file.write_text('model = "m"\n', encoding="utf-8")
    with pytest.raises(SpecFault, match="constant_ps is None"):
        cost.load(file)


def test_a_prefix_of_more_blocks_than_the_prompt_fills_is_told_when_it_comes():
    engine = Engine(PLAIN, Chunked())
    with pytest.raises(
        TraceFault, match=r"Request 1, which came at 5 ns, names 3 full blocks .* fill 2 of 4"
    ):
        engine.run(Trace([Request(0, 0, 8, 2, prefix=(1, 2)), Request(1, 5, 11, 2, prefix=(1, 2, 3))]))
    assert len(engine.ledger) >= 3


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_jobs": 0}, "max_jobs is 0"),
        ({"token_budget": "x"}, "token_budget is 'x'"),
        ({"token_budget": True}, "token_budget is True"),
    ],
)
def test_limits_that_are_none_are_told_before_anything_runs(limits, told):
    with pytest.raises(ValueError, match=told):
        Engine(PLAIN, Chunked(), **limits)


def test_a_policy_that_reserves_neither_way_is_told_before_anything_runs():
    class Odd(Says):
        reserves = "all"

    with pytest.raises(ValueError, match="reserves is 'all'"):
        Engine(PLAIN, Odd())


def test_a_router_is_told_what_a_front_door_knows_and_nothing_of_the_future():
    told = []

    class Noting(Router):
        def route(self, request, replicas):
            told.append(request)
            return 1 // (2 - len(told))

    request = Request(3, 7, 8, 99, most_tokens=200, tenant="a", prefix=(1,), patience_ns=5, aborted_ns=50)
    engines = [Engine(PLAIN, Chunked()) for _ in range(2)]
    with pytest.raises(PolicyFault, match=r"route raised ZeroDivisionError.* request 4 at the door"):
        Fleet(engines, Noting()).run(Trace([request, replace(request, id=4)]))
    assert told[0] == (3, 7, 8, 200, "a", "", (1,), 0, 0)
    with pytest.raises(ValueError, match="one replica or more"):
        Fleet([], Noting())


def test_the_numbers_of_three_requests_are_those_of_a_sum_by_hand():
    """1.030 ms for both prompts, 1.001 for request 0 alone, 1.006 with the third's prompt, 1.001 for that one's last."""
    requests = (
        Request(0, 0, 10, 3, tenant="a"),
        Request(1, 0, 20, 1, tenant="b"),
        Request(2, 2_000_000, 5, 2, tenant="b"),
    )
    ledger = served(Chunked(), *requests)
    ends = [1_030_000, 2_031_000, 3_037_000, 4_038_000]
    assert [fact.time_ns for fact in ledger.of(Stepped)] == ends
    numbers = summarize(ledger, Slo(ttft_ns=1_036_000))
    first, second, third = numbers.requests
    assert (first.ttft_ns, second.ttft_ns, third.ttft_ns) == (1_030_000, 1_030_000, 1_037_000)
    assert (first.tpot_ns, second.tpot_ns, third.tpot_ns) == (1_003_500, None, 1_001_000)
    assert (first.latency_ns, second.latency_ns, third.latency_ns) == (3_037_000, 1_030_000, 2_038_000)
    assert (first.queued_ns, second.queued_ns, third.queued_ns) == (0, 0, 31_000)
    assert (numbers.kept, numbers.attainment, numbers.goodput_per_s) == (2, 2 / 3, 2 * 10**9 / 4_038_000)
    assert (numbers.output_tokens, numbers.tokens_per_s) == (6, 6 * 10**9 / 4_038_000)
    got_a, got_b = 10 + 2 * 3, 25 + 2 * 3  # a prompt token counts once, an output token twice
    assert numbers.jain == Fraction((got_a + got_b) ** 2, 2 * (got_a**2 + got_b**2))
    # The pool of 100 blocks: 3 and 5 are held, then 3, then 3 + 2, then 2.
    held = 8 * 1_030_000 + 3 * 1_001_000 + 5 * 1_006_000 + 2 * 1_001_000
    assert numbers.occupancy == {"kv": held / (100 * 4_038_000)}
    # Alone: its own chunk and steps. Request 2 waited 31 us for the end of a step, with room for it: blocked, not behind.
    waited = Waiting(ledger)
    assert [(w.alone_ns, w.slowed_ns) for w in waited.requests] == [
        (1_010_000 + 2_002_000, 25_000),
        (1_020_000, 10_000),
        (1_005_000 + 1_001_000, 1_000),
    ]
    assert [(w.behind_ns, w.blocked_ns, w.outside_ns) for w in waited.requests] == [
        (0, 0, 0),
        (0, 0, 0),
        (0, 31_000, 0),
    ]


def test_a_run_is_over_when_its_last_request_is_and_not_when_that_one_would_have_given_up():
    gone = Request(0, 0, 4, 100, patience_ns=10**9, aborted_ns=2_000_000)
    ledger = served(Chunked(), gone, Request(1, 0, 4, 1, patience_ns=10**9))
    assert ledger.of(Closed)[0].time_ns == ledger.of(Dropped)[0].time_ns < 10**7
