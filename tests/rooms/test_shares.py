"""KV shares of tenants on one replica, and a host that becomes slower."""

import dataclasses

import pytest

from gpulab.report.audit import check
from gpulab.serving import cost as costs
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.shortest import ShortestRemaining
from gpulab.serving.request import Request, Trace
from gpulab.serving.shares import Shares
from gpulab.telemetry.events import Arrived, Claimed, Finished, Freed, Granted, Stepped
from gpulab.units import MS

COST = dataclasses.replace(costs.load("llama3-8b-a100"), kv_blocks=100)


def crowd(count=40):
    return Trace(
        Request(n, n * MS, 160 + n % 7, 10 + n % 5, most_tokens=20, tenant=("a", "b", "c")[n % 3])
        for n in range(count)
    )


def held(ledger):
    """The most blocks granted at admission that each tenant held at once."""
    tenant, mine, now, most = {}, {}, {}, {}
    for fact in ledger:
        if isinstance(fact, Arrived):
            tenant[fact.owner] = fact.tenant
        elif isinstance(fact, Claimed):
            mine[fact.claim] = tenant[fact.owner]
        elif isinstance(fact, Granted):
            now[fact.claim] = fact.size
        elif isinstance(fact, Freed):
            now.pop(fact.claim, None)
        for name in set(tenant.values()):
            total = sum(blocks for claim, blocks in now.items() if mine[claim] == name)
            most[name] = max(most.get(name, 0), total)
    return most


@pytest.mark.parametrize("policy", [Chunked, ShortestRemaining])
def test_nobody_is_let_in_beyond_the_share_of_its_tenant_and_all_are_served(policy):
    ledger = Engine(COST, Shares(policy(), {"a": 60, "b": 25, "c": 15}), token_budget=512).run(crowd())
    check(ledger)
    assert len(ledger.of(Finished)) == 40
    most = held(ledger)
    assert most["a"] <= 60
    assert most["b"] <= 25
    assert most["c"] <= 15
    assert most["a"] > 25


def test_shares_that_are_no_limit_change_nothing():
    plain = Engine(COST, Chunked()).run(crowd())
    shared = Engine(COST, Shares(Chunked(), dict.fromkeys("abc", 100_000))).run(crowd())
    assert plain.digest() == shared.digest()


@pytest.mark.parametrize("at_ms", [0, 7, 60, 10_000])
def test_from_its_moment_on_a_slower_host_is_in_every_step_and_both_loops_agree(at_ms):
    ledgers = [
        Engine(COST, Chunked(), leap=leap, host_changes=[(at_ms * MS, 3 * MS)]).run(crowd())
        for leap in (True, False)
    ]
    check(ledgers[0])
    assert ledgers[0].digest() == ledgers[1].digest()
    for fact in ledgers[0].of(Stepped):
        assert fact.host_ns == (3 * MS if fact.start_ns >= at_ms * MS else 0)
    if at_ms == 10_000:  # everybody has gone by then
        assert ledgers[0].digest() == Engine(COST, Chunked()).run(crowd()).digest()
