"""Random loads through the engine: nobody is lost or doubled, no block leaks, and leaping changes nothing."""

from dataclasses import replace
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from gpulab.report.audit import check
from gpulab.serving import cost
from gpulab.serving.engine import Engine
from gpulab.serving.fleet import Fleet, LeastKV, LeastOutstanding, PowerOfTwo, PrefixAware, RoundRobin
from gpulab.serving.policies.choosing import put_out
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.deadline import EarliestDeadline
from gpulab.serving.policies.fair import VirtualTokens
from gpulab.serving.policies.feedback import Feedback
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.policies.priority import Priority
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.policies.shortest import ShortestRemaining
from gpulab.serving.policy import Policy
from gpulab.serving.request import Request, Trace
from gpulab.serving.traces import read_trace
from gpulab.telemetry.events import Arrived, Dropped, Finished, Freed, Granted, Stepped

BOARD = cost.load("llama2-7b-a100")


class Swapping(Policy):
    """Puts out the oldest, some by swap for no need, and wakes every 50 ms for no reason."""

    def decide(self, view):
        said = Chunked().decide(view)
        if view.need_blocks:
            said = {"preempt": put_out(view, view.running)}
        elif len(view.running) > 3 and view.now_ns % 3 == 0:
            job = next((job for job in view.running if job.decoding), None)
            if job is not None and job.evictions < 2:
                prefill = {name: tokens for name, tokens in said["prefill"].items() if name != job.id}
                said = {**said, "preempt": [[job.id, "swap"]], "prefill": prefill}
        return {**said, "wake": view.now_ns + 50_000_000}


def let_in(view, order, gone=()):
    """Chunks of who runs, then of ``order`` as far as blocks, seats and budget go; by the public contract alone."""
    budget = view.token_budget - sum(job.decoding for job in view.running if job.id not in gone)
    free, seats = view.free_blocks - view.next_blocks, view.max_jobs - len(view.running)
    admit, prefill = [], {}
    for job in view.running:
        if job.id not in gone and job.left and not job.ready_ns and budget > 0:
            prefill[job.id] = min(job.left, budget)
            budget -= prefill[job.id]
    for job in order:
        need = view.blocks_to_admit(job)
        if gone or job.ready_ns or need > free or seats < 1 or budget < 1:
            break
        admit.append(job.id)
        free, seats = free - need, seats - 1
        left = min(job.target - job.computed, budget)
        if left:
            prefill[job.id] = left
            budget -= left
    return {"admit": admit, "prefill": prefill}


def out(view, worst_first, way):
    """The first of ``worst_first``, as many as the next step lacks blocks for; a swap's blocks come later."""
    found, lacking = [], view.need_blocks
    for job in worst_first:
        if lacking > 0 and not job.ready_ns:
            found.append([job.id, way if lacking > job.blocks else "recompute"])
            lacking -= job.blocks
    return {"preempt": found, **let_in(view, (), [name for name, _ in found])}


class SoonestDeadline(Policy):
    """Preemptive EDF: whoever runs with a later deadline makes room for who waits with a sooner one."""

    def decide(self, view):
        def due(job):
            return job.deadline_ns or 1 << 60, job.arrival_ns, job.id

        if view.need_blocks:
            return out(view, sorted(view.running, key=due, reverse=True), "recompute")
        waiting = sorted((job for job in view.waiting if not job.ready_ns), key=due)
        last = max(
            (job for job in view.running if not job.ready_ns and job.evictions < 3), key=due, default=None
        )
        full = waiting and (
            len(view.running) == view.max_jobs or view.blocks_to_admit(waiting[0]) > view.free_blocks
        )
        if full and last is not None and due(last)[0] > due(waiting[0])[0]:
            way = "swap" if last.decoding and last.id % 2 else "recompute"
            rest = let_in(view, (), [last.id])
            return {"preempt": [[last.id, way]], "wake": view.now_ns + 1, **rest}
        return let_in(view, waiting)


class Quanta(Policy):
    """MLFQ: each level has a quantum of time, measured by waking; whoever used it up sinks and makes room."""

    def __init__(self):
        self.level, self.since = {}, {}

    def decide(self, view):
        def line(job):
            return self.level.get(job.id, 0), job.arrival_ns, job.id

        for job in view.running:
            began = self.since.setdefault(job.id, view.now_ns)
            if view.now_ns - began >= self._quantum(job.id):
                self.level[job.id] = self.level.get(job.id, 0) + 1
                self.since[job.id] = view.now_ns
        for job in view.waiting:
            self.since.pop(job.id, None)
        ends = [self.since[job.id] + self._quantum(job.id) for job in view.running]
        said = {"wake": max(view.now_ns + 1, min(ends))} if ends else {}
        waiting = sorted((job for job in view.waiting if not job.ready_ns), key=line)
        lowest = sorted((job for job in view.running if not job.ready_ns), key=line, reverse=True)
        if view.need_blocks:
            return {**out(view, lowest, "swap"), **said}
        if waiting and lowest and line(waiting[0])[0] < line(lowest[0])[0]:
            way = "swap" if lowest[0].decoding else "recompute"
            rest = let_in(view, (), [lowest[0].id])
            return {"preempt": [[lowest[0].id, way]], **rest, "wake": view.now_ns + 1}
        return {**let_in(view, waiting), **said}

    def _quantum(self, name):
        return 30_000_000 << min(self.level.get(name, 0), 8)


class Aging(Policy):
    """Shortest prompt first, but whoever has waited 300 ms goes before all; it wakes when that is so."""

    def decide(self, view):
        def line(job):
            old = view.now_ns - job.arrival_ns >= 300_000_000
            return not old, 0 if old else job.prompt_tokens, job.arrival_ns, job.id

        if view.need_blocks:
            return out(view, sorted(view.running, key=line, reverse=True), "swap")
        ages = [job.arrival_ns + 300_000_000 for job in view.waiting]
        wake = min((at for at in ages if at > view.now_ns), default=None)
        waiting = sorted((job for job in view.waiting if not job.ready_ns), key=line)
        return {**let_in(view, waiting), "wake": wake}


POLICIES = {
    "chunked": Chunked,
    "prefill first": PrefillFirst,
    "reserving": Reserving,
    "request level": RequestLevel,
    "shortest": ShortestRemaining,
    "priority": lambda: Priority(("b", "a")),
    "deadline": lambda: EarliestDeadline(BOARD),
    "fair": VirtualTokens,
    "feedback": lambda: Feedback(quantum_tokens=8, aging_ns=200_000_000),
    "swapping": Swapping,
    "preemptive EDF": SoonestDeadline,
    "quanta": Quanta,
    "aging": Aging,
}


def prefixes(draw, prompt):
    """Ids of the full blocks: equal beginnings of one of two templates, then blocks of its own."""
    template, common = draw(st.integers(0, 1)), draw(st.integers(0, 8))
    own = draw(st.integers(0, 1_000))
    full = prompt // BOARD.block_tokens
    return tuple(100 * template + n if n < common else 10_000 + 100 * own + n for n in range(full))


@st.composite
def loads(draw, gaps_ns=(0, 0, 1, 900_000, 40_000_000, 2_000_000_000)):
    requests, at = [], 0
    for number in range(draw(st.integers(1, 14))):
        at += draw(st.sampled_from(gaps_ns))
        prompt, output = draw(st.integers(1, 200)), draw(st.integers(1, 70))
        requests.append(
            Request(
                number,
                at,
                prompt,
                output,
                most_tokens=draw(st.sampled_from((0, output, output + 30))),
                tenant=draw(st.sampled_from("abc")),
                patience_ns=draw(st.sampled_from((0, 0, 0, 30_000_000, 300_000_000))),
                aborted_ns=draw(st.sampled_from((0, 0, 0, 25_000_000, 800_000_000))),
                predicted_tokens=draw(st.sampled_from((0, 5, 40))),
                prefix=prefixes(draw, prompt),
                first_token_ns=draw(st.sampled_from((0, 20_000_000, 500_000_000))),
            )
        )
    blocks = draw(st.sampled_from((12, 20, 40, 400)))
    host_ns = draw(st.sampled_from((0, 3_000_000)))
    limits = {
        "max_jobs": draw(st.sampled_from((2, 5, 64))),
        "token_budget": draw(st.sampled_from((256, 512))),
    }
    return Trace(requests), replace(BOARD, kv_blocks=blocks, host_ns=host_ns), limits


CROWDED = loads((0, 1, 900_000, 40_000_000))
BY_CONTRACT = ("aging", "preemptive EDF", "quanta", "swapping")


@given(CROWDED, st.sampled_from(BY_CONTRACT))
def test_a_policy_of_anybodys_own_has_equal_ledgers_in_both_loops(load, name):
    """It puts out by both ways and wakes by itself; nothing is known of it but what the contract says."""
    twice(load, name)


@given(loads(), st.sampled_from(sorted(POLICIES)))
def test_leaping_changes_nothing_and_every_request_ends_once(load, name):
    twice(load, name)


def twice(load, name):
    trace, board, limits = load
    engines = [Engine(board, POLICIES[name](), **limits, leap=leap) for leap in (True, False)]
    fast, slow = (engine.run(trace) for engine in engines)
    assert fast == slow
    assert fast.digest() == slow.digest()
    check(fast)
    assert engines[0].passes <= engines[1].passes
    ended = sorted([fact.request for kind in (Finished, Dropped) for fact in fast.of(kind)])
    assert ended == [fact.request for fact in fast.of(Arrived)] == list(range(len(trace)))
    assert engines[0].free_blocks == board.kv_blocks
    assert sorted(f.claim for f in fast.of(Granted)) == sorted(f.claim for f in fast.of(Freed))
    # Its own work is more than its time in service by rounding alone: under 1 ns a stretch.
    for job in (view._job for view in engines[0]._roster.views.values()):
        assert job.alone_ps // 1000 <= job.served_ns + len(fast.of(Stepped))


ROUTERS = {
    "round robin": RoundRobin,
    "least outstanding": LeastOutstanding,
    "least KV": LeastKV,
    "prefix aware": lambda: PrefixAware(1),
    "power of two": PowerOfTwo,
}


@given(loads(), st.sampled_from(sorted(POLICIES)), st.sampled_from(sorted(ROUTERS)), st.integers(1, 3))
def test_a_replica_of_a_fleet_does_what_it_would_do_alone(load, name, router, count):
    """To look at it while a router decides changes nothing."""
    trace, board, limits = load
    ledgers = Fleet([Engine(board, POLICIES[name](), **limits) for _ in range(count)], ROUTERS[router]()).run(
        trace
    )
    went = [[fact.request for fact in ledger.of(Arrived)] for ledger in ledgers]
    assert sorted(chain(*went)) == list(range(len(trace)))
    for ledger, ids in zip(ledgers, went, strict=True):
        alone = Engine(board, POLICIES[name](), **limits).run(Trace([trace[n] for n in ids]))
        assert ledger == alone


def test_on_recorded_traffic_leaping_saves_seven_passes_of_eight():
    trace = Trace(read_trace("azure-conv-2023").requests[:3000])
    fleets = [[Engine(BOARD, Chunked(), leap=leap) for _ in range(3)] for leap in (True, False)]
    fast, slow = ([ledger.digest() for ledger in Fleet(fleet, RoundRobin()).run(trace)] for fleet in fleets)
    assert fast == slow
    leaping, one_step = (sum(engine.passes for engine in fleet) for fleet in fleets)
    assert leaping * 8 <= one_step
