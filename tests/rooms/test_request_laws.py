"""One broken ledger a law of requests; each goes red when that rule is taken out of ``request_laws``."""

import pytest

from gpulab.report.audit import audit
from gpulab.report.request_laws import REQUEST_LAWS
from gpulab.telemetry.events import (
    Answered,
    Arrived,
    Claimed,
    Closed,
    Dropped,
    Extrapolated,
    Finished,
    Freed,
    Granted,
    Grew,
    Opened,
    Preempted,
    Prefilled,
    Restored,
    Reused,
    Stepped,
    Withdrawn,
)
from gpulab.telemetry.shape import Units

OPEN = Opened(0, "kv", 20, "token")


def came(request, time_ns=0, prompt=3, output=3):
    return Arrived(time_ns, request, f"r{request}", "chat", prompt, output)


def wants(claim, owner, time_ns=0, size=6):
    return Claimed(time_ns, claim, "kv", size, Units(size), owner)


def served(request, claim=None, time_ns=0):
    claim = request if claim is None else claim
    return [came(request, time_ns), wants(claim, f"r{request}", time_ns), Granted(time_ns, claim, -1, 6)]


def prompts(start_ns, end_ns):
    return Stepped(end_ns, "kv", start_ns, 1, 0, 0, (end_ns - start_ns) * 1000, 0, 0)


def decodes(start_ns, steps, jobs, kv, step_ns=2):
    return Stepped(start_ns + steps * step_ns, "kv", start_ns, steps, jobs, kv, step_ns * 1000, 0, 0)


FIRST = [OPEN, *served(0), prompts(0, 4), Prefilled(4, 0, 3)]  # one job, ready, with 3 tokens held and 1 made
SOUND = [
    *FIRST,
    *(came(1, 4), Dropped(4, 1, "rejected"), came(2, 4), wants(2, "r2", 4), Granted(4, 2, -1, 6)),
    *(Reused(4, 2, 1), Stepped(7, "kv", 4, 1, 1, 3, 3000, 0, 1), Prefilled(7, 2, 2), Grew(7, 2, 1)),
    *(Preempted(7, 0, 4), Freed(7, 0), decodes(7, 1, 1, 3), Preempted(9, 2, 0), Freed(9, 2)),
    *(
        wants(3, "r0", 9),
        Granted(9, 3, -1, 6),
        Restored(9, 0, 4),
        decodes(9, 1, 1, 4),
        Finished(11, 0, 3, 7),
        Freed(11, 3),
    ),
    *(Answered(12, 0), wants(4, "r2", 12), Granted(12, 4, -1, 6), prompts(12, 14), Prefilled(14, 2, 5)),
    *(Finished(14, 2, 3, 0), Freed(14, 4), Closed(15)),
]

BROKEN = {
    "arrived twice": ("request", [OPEN, came(0), came(0)], 2),
    "two requests of one owner": ("request", [OPEN, came(0), Arrived(0, 1, "r0", "code", 1, 1)], 2),
    "computed before it was granted": ("request", [OPEN, came(0), wants(0, "r0"), Prefilled(4, 0, 3)], 3),
    "preempted while it waits": ("request", [OPEN, came(0), wants(0, "r0"), Preempted(4, 0, 0)], 3),
    "finished by nobody": (
        "request",
        [OPEN, Stepped(1, "kv", 0, 1, 0, 0, 1000, 0, 0), Finished(1, 7, 1, 1)],
        2,
    ),
    "finished twice": (
        "request",
        [*FIRST, decodes(4, 2, 1, 3), Finished(8, 0, 3, 1), Finished(8, 0, 3, 1)],
        8,
    ),
    "dropped after it finished": (
        "request",
        [*FIRST, decodes(4, 2, 1, 3), Finished(8, 0, 3, 1), Dropped(8, 0, "aborted")],
        8,
    ),
    "answered before it finished": ("request", [*FIRST, Answered(4, 0)], 6),
    "never ended": ("ended", [OPEN, came(0), Closed(9)], 2),
    "a stretch that begins before the last was over": ("steps", [*FIRST, prompts(3, 5)], 6),
    "a stretch that ends at another time": ("steps", [OPEN, Stepped(5, "kv", 0, 2, 0, 0, 2000, 100, 0)], 1),
    "a stretch of no steps": ("steps", [OPEN, Stepped(0, "kv", 0, 0, 0, 0, 2000, 0, 0)], 1),
    "fewer jobs than none": ("steps", [OPEN, Stepped(2, "kv", 0, 1, -1, 0, 2000, 0, 0)], 1),
    "fewer tokens read than none": ("steps", [OPEN, Stepped(2, "kv", 0, 1, 0, -1, 2000, 0, 0)], 1),
    "steps that get faster": ("steps", [OPEN, Stepped(2, "kv", 0, 1, 0, 0, 2000, -1, 0)], 1),
    "a host that takes less than no time": ("steps", [OPEN, Stepped(2, "kv", 0, 1, 0, 0, 2000, 0, -1)], 1),
    "more steps extrapolated than there were": ("steps", [*FIRST, Extrapolated(4, "kv", 2, 3, 0)], 6),
    "no step extrapolated": ("steps", [*FIRST, Extrapolated(4, "kv", 0, 3, 0)], 6),
    "extrapolated twice": (
        "steps",
        [*FIRST, Extrapolated(4, "kv", 1, 3, 0), Extrapolated(4, "kv", 1, 3, 0)],
        7,
    ),
    "extrapolated after its end": ("steps", [*FIRST, Extrapolated(5, "kv", 1, 3, 0)], 6),
    "extrapolated where no stretch ended": ("steps", [OPEN, Extrapolated(0, "kv", 1, 3, 0)], 1),
    "nothing of a prompt": ("tokens", [OPEN, *served(0), prompts(0, 4), Prefilled(4, 0, 0)], 5),
    "less than nothing kept": ("tokens", [*FIRST, Preempted(4, 0, -1)], 6),
    "more steps than any job has tokens": (
        "steps",
        [OPEN, Stepped(10**12, "kv", 0, 10**12, 0, 0, 1000, 0, 0)],
        1,
    ),
    "a host slower than the step": ("steps", [OPEN, Stepped(2, "kv", 0, 1, 0, 0, 2000, 0, 3)], 1),
    "more jobs in a step than are ready": ("batch", [*FIRST, decodes(4, 1, 2, 3)], 6),
    "tokens read that nobody holds": ("batch", [*FIRST, decodes(4, 1, 1, 4)], 6),
    "more of a prompt than there is": ("tokens", [OPEN, *served(0), prompts(0, 4), Prefilled(4, 0, 4)], 5),
    "a prompt computed that was reused": (
        "tokens",
        [OPEN, *served(0), Reused(0, 0, 1), Prefilled(4, 0, 3)],
        5,
    ),
    "all of a prompt reused": ("tokens", [OPEN, *served(0), Reused(0, 0, 3)], 4),
    "a prompt of a job that is ready": ("tokens", [*FIRST, Prefilled(5, 0, 1)], 6),
    "another number restored than was kept": (
        "tokens",
        [*FIRST, Preempted(4, 0, 3), Freed(4, 0), wants(1, "r0", 4), Granted(4, 1, -1, 6), Restored(5, 0, 2)],
        10,
    ),
    "computed while its KV is elsewhere": (
        "tokens",
        [
            *FIRST,
            Preempted(4, 0, 3),
            Freed(4, 0),
            wants(1, "r0", 4),
            Granted(4, 1, -1, 6),
            Prefilled(5, 0, 1),
        ],
        10,
    ),
    "tokens made before the KV is back": (
        "batch",
        [
            *FIRST,
            Preempted(4, 0, 3),
            Freed(4, 0),
            wants(1, "r0", 4),
            Granted(4, 1, -1, 6),
            decodes(4, 1, 1, 3),
        ],
        10,
    ),
    "more kept than there was": ("tokens", [*FIRST, Preempted(4, 0, 4)], 6),
    "another number of tokens made": ("tokens", [*FIRST, decodes(4, 1, 1, 3), Finished(6, 0, 3, 1)], 7),
    "more tokens than it may make": ("tokens", [*FIRST, decodes(4, 3, 1, 3), Finished(10, 0, 4, 1)], 7),
    "tokens made by one who holds nothing": ("holding", [*FIRST, Freed(4, 0), decodes(4, 1, 1, 3)], 7),
    "a prompt computed by one who holds nothing": (
        "holding",
        [OPEN, *served(0), Freed(3, 0), prompts(0, 4), Prefilled(4, 0, 3)],
        6,
    ),
    "faster than alone": ("slowed", [*FIRST, decodes(4, 2, 1, 3), Finished(8, 0, 3, 9)], 7),
    "less than nothing alone": ("slowed", [*FIRST, decodes(4, 2, 1, 3), Finished(8, 0, 3, -1)], 7),
}


def test_a_sound_ledger_of_requests_breaks_no_law():
    assert audit(SOUND) == []


@pytest.mark.parametrize(("law", "facts", "event"), BROKEN.values(), ids=BROKEN)
def test_a_ledger_that_breaks_one_law_is_told_that_law_and_that_fact_alone(law, facts, event, monkeypatch):
    monkeypatch.setattr(
        "gpulab.report.audit._unaccounted", lambda facts: []
    )  # the gauges know some laws, too
    assert [(violation.law, violation.event) for violation in audit(facts)] == [(law, event)]


def test_every_law_of_requests_has_a_ledger_that_breaks_it():
    assert {law for law, _, _ in BROKEN.values()} == set(REQUEST_LAWS)


def test_a_ledger_that_is_cut_off_has_requests_that_did_not_end_and_breaks_no_law():
    for length in range(len(SOUND)):
        assert audit(SOUND[:length]) == []


def test_of_the_laws_of_requests_the_first_broken_one_is_told_and_the_others_still_hold():
    facts = [*FIRST, decodes(4, 1, 2, 3), Finished(6, 0, 9, 99), Withdrawn(7, 0), Closed(8)]

    assert [(found.law, found.event) for found in audit(facts)] == [("batch", 6), ("waiting", 8)]


def test_the_story_is_that_of_the_request_and_of_its_claim():
    (broken,) = audit([*FIRST, decodes(4, 2, 1, 3), Finished(8, 0, 3, 9)])

    assert [serial for serial, _ in broken.story] == [1, 2, 3, 5, 7]
    assert "9 ns alone, and steps ran for 8 ns while it was served" in broken.message
    (broken,) = audit([*FIRST, decodes(4, 1, 2, 3)])
    assert [serial for serial, _ in broken.story] == [1, 5]
    assert "2 jobs make a token each, 1 are ready" in broken.message


def test_who_makes_no_token_may_hold_nothing():
    not_ready = [*FIRST, *served(1, time_ns=4), Freed(4, 1), decodes(4, 1, 1, 3)]
    elsewhere = [
        *(*FIRST, Opened(4, "kv2", 20, "token"), came(1, 4), Claimed(4, 1, "kv2", 6, Units(6), "r1")),
        *(Granted(4, 1, -1, 6), Stepped(6, "kv2", 4, 1, 0, 0, 2000, 0, 0), Prefilled(6, 1, 3)),
        *(Freed(6, 0), Stepped(8, "kv2", 6, 1, 1, 3, 2000, 0, 0)),
    ]
    no_request = [*FIRST, wants(9, "cache", 4), Granted(4, 9, -1, 6), Freed(4, 9), decodes(4, 1, 1, 3)]

    assert audit(not_ready) == audit(elsewhere) == audit(no_request) == []


def test_jobs_of_two_devices_step_apart():
    facts = [
        *FIRST,
        Opened(4, "kv2", 20, "token"),
        came(1, 4),
        Claimed(4, 1, "kv2", 6, Units(6), "r1"),
        Granted(4, 1, -1, 6),
        Stepped(6, "kv2", 4, 1, 0, 0, 2000, 0, 0),
        Prefilled(6, 1, 3),
        decodes(4, 2, 1, 3),
        Finished(8, 0, 3, 8),
        Stepped(10, "kv2", 6, 2, 1, 3, 2000, 0, 0),
        Finished(10, 1, 3, 6),
        Closed(10),
    ]

    assert audit(facts) == []
