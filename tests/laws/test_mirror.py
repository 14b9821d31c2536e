"""What a policy sees in the learner's process is what the engine shows, and asking it there changes nothing."""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder import asked as asking
from autograder.answerer import PACKET_BYTES
from autograder.asked import AskedPolicy
from autograder.channel import AnswerFault, InProcess
from gpulab.errors import PolicyFault
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policy import JobView, Policy
from gpulab.serving.request import Request, Trace

sys.path.insert(0, str(Path(__file__).parent))
from test_serving import BOARD, CROWDED, POLICIES, loads

JOB = [name for name, item in vars(JobView).items() if isinstance(item, property)]
VIEW = ("now_ns", "decoding", "free_blocks", "next_blocks", "need_blocks")
VIEW += ("token_budget", "max_jobs", "block_tokens")


def seen(view):
    """All that ``view`` shows."""
    lines = [
        [[getattr(job, name) for name in JOB] + [repr(job)] for job in line]
        for line in (view.waiting, view.running)
    ]
    return (
        [getattr(view, name) for name in VIEW],
        lines,
        [view.blocks_to_admit(job) for job in view.waiting],
        [len(view.waiting), len(view.running), [view.running[n].id for n in range(len(view.running))]],
    )


class Both(Policy):
    """Notes what the engine shows before ``policy`` is asked."""

    def __init__(self, policy, shown):
        self.policy, self.shown = policy, shown
        self.mixes, self.reserves = policy.mixes, policy.reserves

    def decide(self, view):
        self.shown.append(seen(view))
        return self.policy.decide(view)


class Juggler(Policy):
    """Puts out and lets in again in the same answer, which moves a job to the end of those that run."""

    def decide(self, view):
        said = Chunked().decide(view)
        job = next((j for j in view.running if j.evictions < 3 and not j.ready_ns), None)
        if view.need_blocks or job is None or view.now_ns % 2:
            return said
        prefill = {
            name: tokens for name, tokens in said["prefill"].items() if name in {j.id for j in view.running}
        }
        prefill.pop(job.id, None)
        left = view.token_budget - view.decoding - sum(prefill.values())
        if left < 1:
            return said
        again = {job.id: min(left, job.prompt_tokens + job.generated)}
        return {"preempt": [[job.id, "recompute"]], "admit": [job.id], "prefill": {**prefill, **again}}


class Whim(Policy):
    """Does anything that is allowed, as a draw from what it sees says: in parts, with and without need.

    It puts out by swap alone: one block more is held than the copy knows by a job that is computed again up to its last
    token and stops at a block's end.
    """

    def decide(self, view):
        draw = random.Random(f"{view.now_ns} {len(view.waiting)} {len(view.running)}")
        here = [job for job in view.running if not job.ready_ns]
        if view.need_blocks:
            out, freed = [], 0
            for job in sorted(here, key=lambda job: draw.random()):
                if freed < view.need_blocks and job.blocks:
                    out, freed = [*out, job], freed + job.blocks
            return {"preempt": [[job.id, "swap"] for job in out]}
        out = [job for job in here if job.evictions < 6 and draw.random() < 0.15]
        here = [job for job in here if job not in out and job.left]
        line = [job for job in view.waiting if not job.ready_ns]
        gone = [job for job in line if draw.random() < 0.05]
        left, free = view.token_budget - view.decoding, view.free_blocks - view.next_blocks
        seats, said = view.max_jobs - len(view.running), {"admit": [], "prefill": {}}
        for job in here:
            if left > 0 and draw.random() < 0.7:
                said["prefill"][job.id] = draw.randint(1, min(job.left, left))
                left -= said["prefill"][job.id]
        for job in line:
            need = view.blocks_to_admit(job)
            if job not in gone and seats and need <= free and draw.random() < 0.8:
                said["admit"].append(job.id)
                free, seats = free - need, seats - 1
        said["preempt"] = [[job.id, "swap"] for job in out]
        said["reject"] = [job.id for job in gone]
        return {**said, "wake": view.now_ns + draw.randint(1, 20_000_000)}


POLICIES = {**POLICIES, "juggler": Juggler}


def asked(load, name):
    """The ledger of a run whose policy is asked through the channel; each view as shown and as mirrored."""
    trace, board, limits = load
    shown, mirrored = [], []
    asker = InProcess(lambda: Both(POLICIES[name](), mirrored))
    asker.new({}, "view")
    try:
        return Engine(board, Both(AskedPolicy(asker, 0, {}), shown), **limits).run(trace), shown, mirrored
    finally:
        asker.close()


@given(loads((0, 1, 900_000, 40_000_000)))
def test_whoever_is_put_out_and_let_in_by_one_answer_is_told_anew(load):
    same(load, "juggler")


@given(st.one_of(CROWDED, loads((0, 1, 900_000, 40_000_000))))
def test_whatever_a_policy_does_the_mirror_shows_what_the_engine_shows(load):
    """Up to the fault that ends it, if it serves nobody for too long."""
    trace, board, limits = load
    shown, mirrored = [], []
    asker = InProcess(lambda: Both(Whim(), mirrored))
    asker.new({}, "view")
    try:
        Engine(board, Both(AskedPolicy(asker, 0, {}, most=200), shown), **limits).run(trace)
    except PolicyFault as fault:
        assert fault.law in ("starvation", "blocks") or fault.__cause__.tag == "asks-too-often"
    finally:
        asker.close()
    assert mirrored == shown[: len(mirrored)] and len(shown) - len(mirrored) <= 1


@given(CROWDED, st.sampled_from(sorted(POLICIES)))
def test_it_does_not_matter_into_how_many_packets_news_are_cut(load, name):
    whole, asking.AT_ONCE = asking.AT_ONCE, 1
    try:
        same(load, name)
    finally:
        asking.AT_ONCE = whole


@given(loads(), st.sampled_from(sorted(POLICIES)))
def test_the_mirror_shows_at_each_question_what_the_engine_shows_and_the_ledger_is_the_same(load, name):
    same(load, name)


@given(CROWDED, st.sampled_from(("aging", "preemptive EDF", "quanta", "swapping", "feedback")))
def test_so_it_does_while_a_policy_puts_out_by_both_ways_and_wakes_by_itself(load, name):
    same(load, name)


def same(load, name):
    ledger, shown, mirrored = asked(load, name)
    assert mirrored == shown
    trace, board, limits = load
    assert ledger == Engine(board, POLICIES[name](), **limits).run(trace)


def test_what_does_not_fit_into_one_packet_comes_in_several(monkeypatch):
    """A thousand requests at once: the news come before their question, none longer than a packet."""
    crowd = Trace(
        Request(n, 0, 20 + n % 7, 3, tenant="a tenant with a longer name", prefix=(n,)) for n in range(1000)
    )
    sizes, exchange = [], InProcess._exchange

    def measured(self, question):
        sizes.append(len(question))
        return exchange(self, question)

    monkeypatch.setattr(InProcess, "_exchange", measured)
    same((crowd, replace(BOARD, kv_blocks=400), {"max_jobs": 64, "token_budget": 512}), "chunked")
    assert max(sizes) < PACKET_BYTES
    assert max(sizes) > 10_000


def test_between_events_a_question_is_some_hundred_bytes(monkeypatch):
    sizes, exchange = [], InProcess._exchange

    def measured(self, question):
        sizes.append(len(question))
        return exchange(self, question)

    monkeypatch.setattr(InProcess, "_exchange", measured)
    steady = Trace(Request(n, n * 20_000_000, 100, 200) for n in range(300))
    same((steady, BOARD, {"max_jobs": 256, "token_budget": 512}), "chunked")
    assert sum(sizes) / len(sizes) < 400


LIES = (
    [],
    [{}],
    [{}, None, 1],
    [{}, [[1]]],
    [[], [[1, 2]]],
    [{}, {}],
    [{}, [[None, 2]]],
    [{}, [[[], 2]]],
    5,
    None,
)


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_a_reply_of_another_form_ends_the_run_by_name(lie, monkeypatch):
    """As from a kit that was patched."""
    asker = InProcess(Chunked)
    asker.new({}, "view")
    policy = AskedPolicy(asker, 0, {})
    exchange = asker._exchange

    def lied(question):
        serial = json.loads(exchange(question))[0]
        return json.dumps([serial, "ok", lie])

    monkeypatch.setattr(asker, "_exchange", lied)
    with pytest.raises(PolicyFault) as ended:
        Engine(BOARD, policy).run(Trace([Request(0, 0, 10, 2)]))
    asker.close()
    assert isinstance(ended.value.__cause__, AnswerFault)
    assert ended.value.__cause__.tag in ("out-of-turn", "unsendable")


def test_the_line_of_the_learners_own_code_is_named():
    class Wrong(Policy):
        def decide(self, view):
            return {"admit": [view.waiting[7].id]}

    asker = InProcess(Wrong)
    asker.new({}, "view")
    with pytest.raises(PolicyFault) as ended:
        Engine(BOARD, AskedPolicy(asker, 0, {})).run(Trace([Request(0, 0, 10, 2)]))
    asker.close()
    fault = ended.value.__cause__
    assert (fault.tag, fault.detail["type"], fault.detail["method"]) == ("raised", "IndexError", "decide")
    assert fault.detail["line"] == Wrong.decide.__code__.co_firstlineno + 1


def test_an_object_that_is_no_policy_answers_as_well_and_a_policy_never_learns_how_long_an_answer_will_be():
    seen = []

    class Plain:
        def decide(self, view):
            seen.extend(job._job.request.output_tokens for job in view.waiting)
            return Chunked().decide(view)

    asker = InProcess(Plain)
    asker.new({}, "view")
    trace = Trace(Request(n, n, 10, 5) for n in range(3))
    assert Engine(BOARD, AskedPolicy(asker, 0, {})).run(trace) == Engine(BOARD, Chunked()).run(trace)
    asker.close()
    assert set(seen) == {0}


def test_a_run_that_asks_too_often_is_stopped():
    asker = InProcess(Chunked)
    asker.new({}, "view")
    with pytest.raises(PolicyFault) as ended:
        Engine(BOARD, AskedPolicy(asker, 0, {}, most=3)).run(
            Trace(Request(n, n * 10**9, 10, 5) for n in range(9))
        )
    asker.close()
    assert ended.value.__cause__.tag == "asks-too-often"
