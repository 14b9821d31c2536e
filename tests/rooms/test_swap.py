"""Sweeps, the swap test and the capacity: the same demand on other rules, seeds and rates."""

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context

import pytest

from gpulab.errors import PolicyFault
from gpulab.report.audit import check
from gpulab.report.intervals import interval
from gpulab.report.metrics import Slo, summarize
from gpulab.report.scores import Measured, score
from gpulab.report.starved import Starved, starved
from gpulab.serving.capacity import capacity
from gpulab.serving.cost import StepCost, load
from gpulab.serving.demand import guessed, paced, promised, resampled
from gpulab.serving.named import REFERENCES, ROUTERS, by_promise, policy_named, router_named
from gpulab.serving.policies.rank import RankPolicy
from gpulab.serving.policy import Policy
from gpulab.serving.prefixes import Prefixes
from gpulab.serving.request import Request, Trace
from gpulab.serving.service import Service, merged
from gpulab.serving.swap import swap_test
from gpulab.serving.sweep import Point, Sweep
from gpulab.serving.traces import read_trace
from gpulab.telemetry.events import Granted, Opened, Preempted
from gpulab.units import MS, SECOND

# A step takes 1 ms, a token 1 us more, nothing else; 100 blocks of 4 tokens.
PLAIN = StepCost(
    *("plain", "board", 1_000_000_000, 0, 1_000_000, 0, 0, 0),
    *(100, 4, 1024, 10_000, 10_000, "made up"),
)
SLO = Slo(ttft_ns=SECOND, tpot_ns=50 * MS)
A100 = replace(load("llama2-7b-a100"), window_tokens=0)


@pytest.fixture(scope="module")
def chat():
    """The first requests of a recorded hour, with promises and guesses."""
    return promised(guessed(Trace(read_trace("azure-conv-2023").requests[:150]), 40), {"": SECOND})


# -- by name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFERENCES)
def test_each_reference_serves_a_recorded_trace_and_two_replicas_are_one_sound_ledger(chat, name):
    tight = replace(A100, kv_blocks=1_200)  # some are put out, and wait
    ran = Service(tight, name, replicas=2, token_budget=512).run(paced(chat, 3))
    together = merged(ran.ledgers)
    assert ran.fault is None
    check(together)
    found, summary = score(ran.ledgers, SLO), summarize(together, SLO)
    assert (found.requests, found.finished, found.kept) == (150, summary.finished, summary.kept)
    assert (found.ttft, found.tpot, found.latency) == (summary.ttft, summary.tpot, summary.latency)
    assert (found.window_ns, found.rejected) == (
        summary.window_ns,
        sum(times.outcome == "rejected" for times in summary.requests),
    )


@pytest.mark.parametrize("name", ROUTERS)
def test_each_router_has_a_name_and_a_ledger_of_all_replicas_keeps_who_was_where(chat, name):
    ran = Service(A100, replicas=3, router=name).run(chat)
    together = merged(ran.ledgers)
    assert [fact.resource for fact in together.of(Opened)] == ["kv 0", "kv 1", "kv 2"]
    assert sum(len(ledger) for ledger in ran.ledgers) == len(together) + 2  # one end instead of three
    for n, ledger in enumerate(ran.ledgers):
        mine = [(fact.time_ns, fact.claim // 3) for fact in together.of(Granted) if fact.claim % 3 == n]
        assert mine == [(fact.time_ns, fact.claim) for fact in ledger.of(Granted)]
    assert summarize(together).finished == 150


def test_the_tenant_with_the_shortest_promise_comes_first_and_no_promise_last():
    trace = Trace(
        [
            Request(0, 0, 1, 1, tenant="slow", first_token_ns=900),
            Request(1, 0, 1, 1, tenant="none"),
            Request(2, 0, 1, 1, tenant="fast", first_token_ns=100),
            Request(3, 0, 1, 1, tenant="slow", first_token_ns=500),
        ]
    )
    assert by_promise(trace) == ("fast", "slow", "none")
    assert policy_named("priority", PLAIN, trace).order == ("fast", "slow", "none")


def test_names_that_are_none_are_answered_with_those_that_are():
    with pytest.raises(PolicyFault, match="prefill-first"):
        policy_named("fastest", PLAIN, Trace([]))
    with pytest.raises(ValueError, match="least-kv"):
        router_named("nearest")


def test_a_prompt_that_no_step_holds_is_cut_by_the_policies_of_whole_prompts():
    trace = Trace([Request(0, 0, 250, 3), Request(1, 0, 20, 3)])
    for name in ("prefill-first", "reserving", "request-level"):
        ran = Service(PLAIN, name, token_budget=100, max_jobs=4).run(trace)
        assert ran.fault is None, name
        check(ran.ledgers[0])
        assert summarize(ran.ledgers[0]).finished == 2


# -- a policy of one's own ----------------------------------------------------------------------------


class Newest(RankPolicy):
    """The last to come goes first: whoever came early waits while others come."""

    def rank(self, job):
        return -job.arrival_ns


class Endless(Policy):
    def decide(self, view):
        while True:
            pass


class Nobody(Policy):
    def decide(self, view):
        return {}


class Unknown(Policy):
    def decide(self, view):
        return {"admit": [77]}


class Greedy(Policy):
    def decide(self, view):
        jobs = list(view.waiting)[:4]
        return {"admit": [j.id for j in jobs], "prefill": {j.id: j.target for j in jobs}}


class Wrong(Policy):
    def decide(self, view):
        return {"admit": view.waiting[0].no_such_thing}


@pytest.mark.parametrize(
    ("policy", "law", "said"),
    [
        (Endless, "slow", "took more than 0.2 s for one answer, with request 4 first in line"),
        (Nobody, "starvation", "request 4 is waiting"),
        (Unknown, "admit", "request 77, which is not here"),
        (Greedy, "budget", "would compute 120 tokens; the budget is 100"),
        (Wrong, "raised", "AttributeError"),
    ],
)
def test_what_goes_wrong_in_a_policy_is_told_with_request_and_time_and_the_run_so_far_is_kept(
    policy, law, said
):
    trace = Trace(Request(4 + n, 5 * MS, 30, 3) for n in range(5))
    ran = Service(PLAIN, policy, token_budget=100, patience_s=0.2).run(trace)
    assert ran.fault.law == law and said in str(ran.fault) and "At 5,000,000 ns" in str(ran.fault)
    check(ran.ledgers[0])
    assert len(score(ran.ledgers).latency.counts) == 0 and score(ran.ledgers).requests == 5
    if law == "raised":
        assert "test_swap.py, line" in str(ran.fault) and ran.fault.numbers["request"] == 4


def test_a_watched_policy_answers_as_it_does_without_and_may_be_interrupted_by_its_user(chat):
    watched = Service(A100, lambda: policy_named("feedback", A100, chat)).run(chat)
    assert watched.ledgers == Service(A100, "feedback").run(chat).ledgers

    class Stopped(Policy):
        def decide(self, view):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Service(PLAIN, Stopped).run(chat)


def test_who_waits_absurdly_long_while_later_ones_are_served_starves():
    # One seat, always somebody newer: the first two wait until the last has come. A request takes 1.004 s.
    first = [Request(0, 0, 4, 1_000), Request(1, 1, 4, 1_000), Request(2, 2, 4, 1_000)]
    later = [Request(3 + n, n * 900 * MS + 3, 4, 1_000) for n in range(100)]
    trace = Trace([*first, *later])
    board = replace(PLAIN, kv_blocks=1_000)
    ledger = Service(board, Newest, max_jobs=1).run(trace).ledgers[0]
    found = starved(ledger)
    waits = {row.request: row.queued_ns for row in summarize(ledger).requests}
    assert {one.request for one in found} >= {1, 2}
    assert found[0] == Starved(1, "", 1, waits[1], 101)
    assert all(one.waited_ns >= 60 * SECOND and one.overtakers >= 20 for one in found)
    at_once = Trace(replace(request, arrival_ns=0) for request in trace)
    long = Service(board, "chunked", max_jobs=1).run(at_once).ledgers[0]
    assert max(row.queued_ns for row in summarize(long).requests) > 100 * SECOND
    assert starved(long) == []  # a long queue overtakes nobody


class Impatient(Policy):
    """Puts a prompt out after its first chunk, once."""

    def decide(self, view):
        for job in view.running:
            if job.left and not job.evictions:
                return {"preempt": [[job.id, "recompute"]], "wake": view.now_ns + 1}
        admit = {
            job.id: min(job.target, 30)
            for job in view.waiting
            if view.blocks_to_admit(job) <= view.free_blocks
        }
        return {
            "admit": list(admit),
            "prefill": admit or {job.id: min(job.left, 30) for job in view.running if job.left},
        }


def test_the_first_token_of_a_prompt_that_was_put_out_halfway_is_the_one_after_it_was_whole():
    ran = Service(PLAIN, Impatient, max_jobs=1).run(Trace([Request(0, 0, 50, 3)]))
    assert ran.fault is None and len(ran.ledgers[0].of(Preempted)) == 1
    found = score(ran.ledgers)
    assert found.ttft == summarize(ran.ledgers[0]).ttft and list(found.ttft.counts) == [
        3 * 1_030_000 - 10_000 + 1
    ]


def test_prefix_blocks_that_nobody_holds_are_lost_in_the_order_in_which_they_were_let_go():
    prefixes = Prefixes()
    prefixes.publish(1, (10, 11, 12))
    prefixes.publish(2, (20,))
    prefixes.release(1, (10, 11, 12))
    prefixes.release(2, (20,))
    prefixes.forget(2)  # the end of the first prompt, then what stands before it
    assert prefixes.known((10, 11, 12)) == 1 and prefixes.known((20,)) == 1
    prefixes.forget(1)
    assert prefixes.known((10,)) == 0 and prefixes.known((20,)) == 1


# -- sweeps -------------------------------------------------------------------------------------------


def test_a_sweep_has_the_same_results_and_digests_here_in_threads_and_in_any_number_of_processes(chat):
    points = [Point(name, Service(A100, name), chat) for name in ("chunked", "fair", "prefill-first")]
    alone = Sweep().run(points, Measured(SLO))
    with ThreadPoolExecutor(3) as threads:
        assert Sweep(threads).run(points, Measured(SLO)) == alone
    for workers in (1, 2, 4):
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as processes:
            assert Sweep(processes).run(points, Measured(SLO)) == alone
    assert [row["name"] for row in alone] == ["chunked", "fair", "prefill-first"]
    assert len({row["digest"] for row in alone}) == 2  # of one tenant, fair is first come, first served
    assert all(row["fault"] is None and row["requests"] == 150 for row in alone)


def test_a_sweep_that_was_cut_off_goes_on_behind_its_journal(chat, tmp_path):
    journal, told = tmp_path / "runs.jsonl", []
    points = [Point(str(seed), Service(A100), resampled(chat, seed)) for seed in range(3)]
    whole = Sweep(journal=journal).run(points, Measured(SLO))
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0], lines[1][:40]]))  # killed while it wrote
    again = Sweep(journal=journal, tell=lambda done, of: told.append((done, of))).run(points, Measured(SLO))
    assert again == whole and told == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    Sweep(journal=journal, tell=lambda done, of: told.append((done, of))).run(points, Measured(SLO))
    assert told == [(3, 3)]
    Sweep(journal=journal, tell=lambda done, of: told.append((done, of))).run(
        points[:1], Measured(Slo(ttft_ns=1))
    )
    assert told[-2:] == [(0, 1), (1, 1)]  # another promise is another run


def test_a_policy_in_a_file_is_what_the_file_says_now(tmp_path, chat):
    file, journal = tmp_path / "mine.py", tmp_path / "runs.jsonl"
    source = "from gpulab.serving.policies.rank import RankPolicy\nclass Mine(RankPolicy):\n    def rank(self, job):\n        return {}\n"
    point = Point("mine", Service(A100, f"{file}:Mine", max_jobs=4), chat)
    digests = []
    for rank in ("job.arrival_ns", "-job.prompt_tokens"):
        file.write_text(source.format(rank))
        digests.append(Sweep(journal=journal).run([point], Measured(SLO))[0]["digest"])
    assert len(set(digests)) == 2 and len(journal.read_text().splitlines()) == 2


def test_an_interval_is_that_of_students_t():
    assert interval([]) is None
    assert interval([7.0]) == (7.0, 0.0)
    mean, half = interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5 and half == pytest.approx(3.182 * 1.2909944 / 2)
    assert interval([0.0, 1.0] * 50)[1] == pytest.approx(1.96 * 0.0502519, rel=1e-5)


# -- the swap test ------------------------------------------------------------------------------------


def test_a_swap_test_says_how_many_points_each_rule_moves_and_whose_affair_it_is(chat):
    own = Service(A100, "request-level")
    found = swap_test(chat, own, Measured(SLO))
    kept = {name: score(Service(A100, name).run(chat).ledgers, SLO).kept for name in REFERENCES}
    assert found.own == Fraction(kept["request-level"], 150)
    assert found.moved == {
        name: Fraction(100 * (kept[name] - kept["request-level"]), 150) for name in REFERENCES
    }
    assert found.verdict == "ours" and found.moved[found.best] >= 5 and found.faults == {}
    assert swap_test(paced(chat, Fraction(1, 2)), Service(A100), Measured(SLO)).verdict == "not ours"
    starving = swap_test(paced(chat, 20), Service(A100), Measured(Slo(ttft_ns=1)))
    assert starving.own == 0 and starving.verdict == "not ours"  # no rule is fast enough: look elsewhere


class Quits(RankPolicy):
    """Serves until the hundredth request comes."""

    def rank(self, job):
        return job.arrival_ns if job.id < 100 else job.nothing


def test_a_rule_that_ends_early_counts_with_what_it_kept_of_all_requests(chat):
    found = swap_test(chat, Service(A100, Quits), Measured(SLO), rules=("chunked",))
    kept = score(Service(A100, Quits).run(chat).ledgers, SLO).kept
    assert 60 < kept < 100 and found.own == Fraction(kept, 150)
    assert found.verdict == "ours" and "AttributeError" in found.faults["own"]


@pytest.mark.parametrize(("more", "verdict"), [(1, "not ours"), (2, "between"), (4, "between"), (5, "ours")])
def test_the_verdict_turns_at_one_point_and_at_five(more, verdict):
    def measure(ran):
        return {"requests": 100, "kept": 50 + (more if ran.ledgers[0].digest() == other else 0)}

    trace = Trace([Request(0, 0, 8, 3), Request(1, 0, 8, 3)])
    other = Service(PLAIN, "request-level").run(trace).ledgers[0].digest()
    assert other != Service(PLAIN).run(trace).ledgers[0].digest()
    found = swap_test(trace, Service(PLAIN), measure, rules=("chunked", "request-level"))
    assert (found.verdict, found.best, found.moved["chunked"]) == (verdict, "request-level", 0)


def test_without_a_promise_there_is_nothing_to_swap_for(chat):
    with pytest.raises(ValueError, match="promise"):
        swap_test(chat, Service(A100), Measured(None))
    with pytest.raises(PolicyFault, match="Nothing was run"):
        swap_test(chat, Service(A100, "nothing.py:Here"), Measured(SLO))


# -- capacity -----------------------------------------------------------------------------------------


def test_the_capacity_is_the_highest_rate_that_is_enough_to_within_the_precision():
    # Alone a request takes 100 steps of 1 ms, and one comes each 290 ms: 2.9 times the rate leaves no queue.
    trace = Trace(Request(n, n * 290 * MS, 10, 100) for n in range(200))
    one_seat = Service(replace(PLAIN, token_ps=0), "chunked", max_jobs=1)
    slo = Slo(ttft_ns=5 * MS)
    found = capacity(trace, one_seat, Measured(slo), share=Fraction(1), precision=Fraction(1, 100))
    assert [one.factor for one in found.tried[:3]] == [1, 2, 4]
    assert found.best.enough and not found.over.enough
    assert found.over.factor - found.best.factor <= found.best.factor / 100
    assert found.best.factor <= Fraction(292, 100) and found.over.factor > Fraction(290, 100)
    assert found.best.per_s == found.best.factor * Fraction(100, 29)
    for one in found.tried:
        ran = one_seat.run(paced(trace, one.factor))
        assert one.result["kept"] == score(ran.ledgers, slo).kept
        assert one.enough == (one.share == 1)


def test_where_nothing_is_enough_or_everything_the_capacity_says_so():
    trace = Trace(Request(n, n * SECOND, 10, 2) for n in range(5))
    never = capacity(trace, Service(PLAIN), Measured(Slo(ttft_ns=1)))
    assert never.best is None and never.over.factor == Fraction(1, 1024) and len(never.tried) == 11
    always = capacity(trace, Service(PLAIN), Measured(Slo(ttft_ns=SECOND)))
    assert always.over is None and always.best.factor == 1024
    assert json.dumps([one.result for one in always.tried])
