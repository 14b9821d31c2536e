"""What the shipped policies have in common: room for the decodes' own growth, and prompts that go on while somebody is put out."""

from dataclasses import replace

import pytest

from gpulab.report.audit import check
from gpulab.serving import cost
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.deadline import EarliestDeadline
from gpulab.serving.policies.fair import VirtualTokens
from gpulab.serving.policies.feedback import Feedback
from gpulab.serving.policies.priority import Priority
from gpulab.serving.policies.shortest import ShortestRemaining
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.events import Finished, Granted, Preempted, Prefilled, Stepped

# A step takes 1 ms, a token 1 us more; blocks of 4 tokens.
PLAIN = cost.StepCost(
    *("plain", "board", 1_000_000_000, 0, 1_000_000, 0, 0, 0),
    *(100, 4, 1024, 10_000, 10_000, "made up"),
)
POLICIES = {
    "chunked": Chunked,
    "chunked, nothing kept back": lambda: Chunked(spare_permille=0),
    "deadline": lambda: EarliestDeadline(PLAIN),
    "fair": VirtualTokens,
    "feedback": Feedback,
    "priority": Priority,
    "shortest": ShortestRemaining,
}


def served(policy, *requests, blocks, budget=64):
    ledger = Engine(replace(PLAIN, kv_blocks=blocks), policy, max_jobs=16, token_budget=budget).run(
        Trace(requests)
    )
    check(ledger)
    return ledger


@pytest.mark.parametrize("name", POLICIES)
def test_whoever_is_let_in_leaves_the_blocks_that_the_decodes_take_in_that_very_step(name):
    """Three jobs of two full blocks each take three more; a fourth comes while four of ten are free, and waits."""
    ledger = served(
        POLICIES[name](), *(Request(n, 0, 8, 5) for n in range(3)), Request(3, 1, 8, 2), blocks=10
    )
    granted = {fact.claim: fact.time_ns for fact in ledger.of(Granted)}
    ends = {fact.request: fact.time_ns for fact in ledger.of(Finished)}
    assert len(ends) == 4 and not list(ledger.of(Preempted))
    assert granted[3] == min(ends.values())


def test_blocks_are_kept_back_by_the_thousandth_or_not_at_all():
    """A job of 20 blocks runs; one of 80 fits exactly into the rest, but not beside 1 % that is kept free."""
    load = Request(0, 0, 78, 3), Request(1, 1, 4 * 80, 1)
    begun = {}
    for permille in (0, 10):
        ledger = served(Chunked(spare_permille=permille), *load, blocks=100, budget=1_000)
        begun[permille] = {fact.claim: fact.time_ns for fact in ledger.of(Granted)}[1]
        ends = {fact.request: fact.time_ns for fact in ledger.of(Finished)}
    assert begun[0] < begun[10] == ends[0]


def test_prompts_that_are_under_way_go_on_while_somebody_else_is_put_out():
    """The second job of b makes room; a's prompt of 26 tokens needs five steps beside the decodes, and gets them in a row."""
    ledger = served(
        Priority(("a",)),
        *(Request(0, 0, 4, 30, tenant="b"), Request(1, 0, 4, 30, tenant="b")),
        Request(2, 3_000_000, 26, 2, tenant="a"),
        blocks=12,
        budget=8,
    )
    chunks = [(fact.time_ns, fact.tokens) for fact in ledger.of(Prefilled) if fact.request == 2]
    (out,) = [fact for fact in ledger.of(Preempted) if chunks[0][0] < fact.time_ns < chunks[-1][0]]
    assert out.request == 1
    assert sum(tokens for _, tokens in chunks) == 26
    between = [fact.time_ns for fact in ledger.of(Stepped) if chunks[0][0] <= fact.time_ns <= chunks[-1][0]]
    assert between == [time_ns for time_ns, _ in chunks]
