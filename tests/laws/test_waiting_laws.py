"""The second gauge against a slow reference that knows only the words of ``report/waiting``.

The reference stands at every nanosecond, reads the ledger from its start, and says for each request which of the five
parts this nanosecond is. It shares no code with the gauge, and both must agree for every request.
"""

from collections import Counter
from dataclasses import astuple
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.report.account import Account
from gpulab.report.audit import audit
from gpulab.report.metrics import summarize
from gpulab.report.waiting import PARTS, Waiting
from gpulab.telemetry.events import (
    Answered,
    Arrived,
    Claimed,
    Dropped,
    Finished,
    Freed,
    Granted,
    Grew,
    Preempted,
    Prefilled,
    Reused,
    Stepped,
    TimedOut,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from tests.fakes.serving import Lottery

TWICE = settings(max_examples=2 * settings.default.max_examples)
SEED, REQUESTS = st.integers(0, 2**32), st.integers(0, 7)


# -- the reference -------------------------------------------------------------------------------


def worked_ns(ledger) -> set[int]:
    """Every nanosecond in which a step ran and did not wait for its host."""
    found = set()
    for stretch in ledger.of(Stepped):
        before = stretch.start_ns
        for step in range(1, stretch.steps + 1):
            picoseconds = sum(stretch.base_ps + stretch.slope_ps * k for k in range(step))
            end = stretch.start_ns + picoseconds // 1000
            found |= set(range(before + stretch.host_ns, end))
            before = end
    return found


def states_at(ledger, time_ns: int) -> dict[int, object]:
    """What each request is at ``time_ns``, after all that happened then: a word, or the claim with which it waits."""
    owner_of, states, claims = {}, {}, {}
    for fact in ledger:
        if fact.time_ns > time_ns:
            break
        match fact:
            case Arrived():
                owner_of[fact.owner] = fact.request
                states[fact.request] = "outside"
            case Claimed():
                claims[fact.claim] = fact
                if states[owner_of[fact.owner]] == "outside":
                    states[owner_of[fact.owner]] = fact.claim
            case Granted() | TimedOut() | Withdrawn():
                request = owner_of[claims[fact.claim].owner]
                if states[request] == fact.claim:
                    states[request] = "served" if isinstance(fact, Granted) else "outside"
            case Preempted():
                states[fact.request] = "outside"
            case Finished():
                states[fact.request] = "finished"
            case Dropped() | Answered():
                states[fact.request] = "over"
    return states


def in_reach_at(ledger, time_ns: int) -> set[int]:
    """The waiting claims that the free units reach, by the words of the architecture, section 2."""
    free, sizes, waits = ledger[0].capacity, {}, {}
    for fact in ledger:
        if fact.time_ns > time_ns:
            break
        match fact:
            case Claimed():
                waits[fact.claim] = fact.shape.size
            case Granted():
                del waits[fact.claim]
                sizes[fact.claim] = fact.size
            case Grew():
                sizes[fact.claim] += fact.units
            case TimedOut() | Withdrawn():
                del waits[fact.claim]
            case Freed():
                del sizes[fact.claim]
    free -= sum(sizes.values())
    reached = set()
    for claim, size in sorted(waits.items(), key=lambda item: (item[1], item[0])):
        if size <= free:
            free -= size
            reached.add(claim)
    return reached


def slowly(ledger) -> dict[int, Counter]:
    """Nanoseconds of each part, request by request; *slowed* with what is alone still in it."""
    found = {fact.request: Counter() for fact in ledger.of(Arrived)}
    worked = worked_ns(ledger)
    answered = {fact.request for fact in ledger.of(Answered)}
    for time_ns in range(ledger.start_ns, ledger.end_ns):
        reached = in_reach_at(ledger, time_ns)
        for request, state in states_at(ledger, time_ns).items():
            if state == "over" or (state == "finished" and request not in answered):
                continue
            if type(state) is int:
                part = "blocked" if state in reached else "behind"
            else:
                part = "slowed" if state == "served" and time_ns in worked else "outside"
            found[request][part] += 1
    for fact in ledger.of(Finished):
        found[fact.request]["alone"] = fact.alone_ns
        found[fact.request]["slowed"] -= fact.alone_ns
    return found


# -- the laws ------------------------------------------------------------------------------------


@pytest.mark.soak
@given(seed=SEED, requests=REQUESTS)
@TWICE
def test_the_five_parts_are_the_references_to_the_nanosecond(seed, requests):
    ledger = Lottery(seed, requests).run()

    waiting, slow = Waiting(ledger), slowly(ledger)

    assert [waited.request for waited in waiting.requests] == list(slow)
    for waited in waiting.requests:
        parts = {part: getattr(waited, f"{part}_ns") for part in PARTS}
        assert parts == {part: slow[waited.request][part] for part in PARTS}
        assert sum(parts.values()) == waited.latency_ns
        assert min(parts.values()) >= 0


@pytest.mark.soak
@given(seed=SEED, requests=REQUESTS)
@TWICE
def test_who_was_ahead_is_who_held_units_while_a_request_was_behind(seed, requests):
    ledger = Lottery(seed, requests).run()
    waiting = Waiting(ledger)
    held, units = {}, {}  # (request, owner) -> ns, unit * ns
    for time_ns in range(ledger.start_ns, ledger.end_ns):
        reached, holders, claims = in_reach_at(ledger, time_ns), Counter(), {}
        for fact in ledger:
            if fact.time_ns > time_ns:
                break
            match fact:
                case Claimed():
                    claims[fact.claim] = fact.owner
                case Granted():
                    holders[claims[fact.claim]] = fact.size
                case Grew():
                    holders[claims[fact.claim]] += fact.units
                case Freed():
                    del holders[claims[fact.claim]]
        for request, state in states_at(ledger, time_ns).items():
            if type(state) is int and state not in reached:
                for owner, size in holders.items():
                    held[request, owner] = held.get((request, owner), 0) + 1
                    units[request, owner] = units.get((request, owner), 0) + size

    found = {(w.request, row.owner): row for w in waiting.requests for row in waiting.behind(w.request)}
    assert {key: row.held_ns for key, row in found.items()} == held
    assert {key: row.unit_ns for key, row in found.items()} == units


@pytest.mark.soak
@given(seed=SEED, requests=REQUESTS)
@TWICE
def test_what_the_lot_decided_breaks_no_law_and_its_tokens_are_those_of_a_count_one_by_one(seed, requests):
    ledger = Lottery(seed, requests).run()
    assert audit(ledger) == []

    tokens, gaps = one_by_one(ledger)
    summary = summarize(ledger)

    assert {row.request: row.output_tokens for row in summary.requests} == {
        r: len(t) for r, t in tokens.items()
    }
    arrived = {fact.request: fact.time_ns for fact in ledger.of(Arrived)}
    firsts = {request: times[0] - arrived[request] for request, times in tokens.items() if times}
    assert {row.request: row.ttft_ns for row in summary.requests if row.ttft_ns is not None} == firsts
    assert summary.gaps.counts == dict(sorted(gaps.items()))


def one_by_one(ledger):
    """When each request made each token, and how often each gap between two of them occurred."""
    tokens, kv, prompt, served, by_owner, claims = {}, {}, {}, set(), {}, {}
    for fact in ledger:
        match fact:
            case Arrived():
                tokens[fact.request], kv[fact.request] = [], 0
                prompt[fact.request], by_owner[fact.owner] = fact.prompt_tokens, fact.request
            case Claimed():
                claims[fact.claim] = by_owner[fact.owner]
            case Granted():
                served.add(claims[fact.claim])
            case Stepped():
                ready = [r for r in served if tokens[r] and kv[r] == prompt[r] + len(tokens[r]) - 1]
                for step in range(1, fact.steps + 1 if fact.jobs else 1):
                    for request in ready:
                        tokens[request].append(fact.end_of(step))
                        kv[request] += 1
            case Prefilled():
                kv[fact.request] += fact.tokens
                if kv[fact.request] == prompt[fact.request] + len(tokens[fact.request]):
                    tokens[fact.request].append(fact.time_ns)
            case Preempted():
                served.remove(fact.request)
                kv[fact.request] = fact.kept_tokens
            case Finished() | Dropped():
                served.discard(fact.request)
            case Reused():
                kv[fact.request] += fact.tokens
    gaps = Counter(b - a for times in tokens.values() for a, b in pairwise(times))
    return tokens, gaps


@pytest.mark.soak
@given(seed=SEED, requests=REQUESTS, cuts=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@TWICE
def test_what_owners_and_tenants_are_charged_with_is_the_account_without_its_spare(seed, requests, cuts):
    ledger = Lottery(seed, requests).run()
    account = Account(ledger)
    length = account.end_ns - account.start_ns + 1
    start, end = sorted(account.start_ns + cut % length for cut in cuts)

    for groups in (account.by_owner(start, end), account.by_tenant(start, end)):
        sums = [sum(column) for column in zip(*map(astuple, groups.values()), strict=True)] or [0] * 6
        total = account(start, end)
        assert sums[1:5] == list(astuple(total))[1:5]
        assert (sums[0], sums[5]) == (total.capacity - total.spare, 0)
    lost = {"stranded": 0, "fragmented": 0, "unscheduled": 0}
    for cause in account.causes(10**6, start, end):
        lost[cause.term] += cause.unit_ns
        assert ledger[cause.events[0]].claim == cause.claim or cause.term == "fragmented"
    assert lost == {term: getattr(account(start, end), term) for term in lost}


@pytest.mark.soak
@given(seed=SEED, share=st.integers(0, 100))
@TWICE
def test_a_ledger_that_is_cut_off_anywhere_is_read_to_there(seed, share):
    whole = Lottery(seed, 5).run()
    cut = Ledger(whole[: len(whole) * share // 100])

    assert audit(cut) == []
    waiting, summary = Waiting(cut), summarize(cut)

    assert [row.request for row in summary.requests] == [waited.request for waited in waiting.requests]
    for waited in waiting.requests:
        assert sum(getattr(waited, f"{part}_ns") for part in PARTS) == waited.latency_ns
        assert waited.outcome != "open" or waited.end_ns == cut.end_ns


def test_the_drawn_ledgers_hold_every_part_and_every_ending():
    """The laws above say nothing about a part that no drawn ledger has."""
    runs = [Waiting(Lottery(seed, 6).run()) for seed in range(40)]

    held = {part: sum(getattr(run.total(), f"{part}_ns") > 0 for run in runs) for part in PARTS}
    endings = Counter(waited.outcome for run in runs for waited in run.requests)
    assert min(held.values()) >= 10, held
    assert endings.keys() >= {"finished", "rejected", "timed out", "aborted"}, endings
    assert min(endings.values()) >= 2, endings
