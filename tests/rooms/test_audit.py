"""One broken ledger a law; each goes red when that rule is taken out of ``laws``."""

import pytest

from gpulab.errors import BrokenLaw
from gpulab.report.audit import audit, check
from gpulab.report.laws import LAWS
from gpulab.report.request_laws import REQUEST_LAWS
from gpulab.report.work_laws import WORK_LAWS
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Freed,
    Granted,
    Grew,
    Joined,
    Opened,
    Refused,
    Returned,
    TimedOut,
    Used,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Slots, Units

OPEN = Opened(0, "arena", 4096, "B")
CORES = Opened(0, "cores", 8, "core")
POOL = Opened(0, "pool", 0, "B", inside="arena")


def claimed(claim, size=1024, shape=None, resource="arena", time_ns=1):
    return Claimed(time_ns, claim, resource, size, shape or Contiguous(size, 512), f"owner {claim}")


def held(claim, start, size=1024, **more):
    return [claimed(claim, size, **more), Granted(1, claim, start, size)]


SOUND = [
    *(OPEN, POOL, claimed(1), Granted(1, 1, 0, 1024), Used(2, 1, 1000)),
    *(
        claimed(2, 4096),
        Refused(3, 2, 3072, 3072),
        Withdrawn(4, 2),
        claimed(3, 4096, time_ns=4),
        TimedOut(5, 3),
    ),
    *(claimed(4, 512, resource="pool", time_ns=5), Granted(6, 4, 512, 512), Freed(7, 4), Freed(8, 1)),
    *(claimed(5, 4096, time_ns=8), Granted(8, 5, 0, 4096), Closed(9)),
]
SOUND[5] = claimed(2, 4096, time_ns=3)

BROKEN = {
    "time running back": ("time", [OPEN, claimed(1, time_ns=5), claimed(2, time_ns=4)], 2),
    "opened twice": ("opened", [OPEN, OPEN], 1),
    "opened inside nothing": ("opened", [Opened(0, "pool", 5, "B", inside="arena")], 0),
    "no capacity": ("opened", [Opened(0, "arena", 0, "B")], 0),
    "claim on a resource that is not open": ("opened", [claimed(1)], 0),
    "serial used twice": ("claimed", [OPEN, claimed(1), claimed(1)], 2),
    "claim of nothing": ("claimed", [OPEN, claimed(1, 0, Contiguous(512))], 1),
    "claim of something in a shape of nothing": ("claimed", [OPEN, claimed(1, 1, Contiguous(0))], 1),
    "grant of a claim nobody made": ("claimed", [OPEN, Granted(1, 7, 0, 512)], 1),
    "granted twice": ("waiting", [OPEN, *held(1, 0), Granted(2, 1, 2048, 1024)], 3),
    "refused while held": ("waiting", [OPEN, *held(1, 0), Refused(2, 1, 3072, 3072)], 3),
    "withdrawn while held": ("waiting", [OPEN, *held(1, 0), Withdrawn(2, 1)], 3),
    "timed out after withdrawal": ("waiting", [OPEN, claimed(1), Withdrawn(2, 1), TimedOut(3, 1)], 3),
    "freed twice": ("held", [OPEN, *held(1, 0), Freed(2, 1), Freed(3, 1)], 4),
    "used while waiting": ("held", [OPEN, claimed(1), Used(2, 1, 5)], 2),
    "granted too little": ("size", [OPEN, claimed(1), Granted(1, 1, 0, 512)], 2),
    "granted nothing of a divisible claim": (
        "size",
        [OPEN, claimed(1, 9, Units(9, divisible=True)), Granted(1, 1, -1, 0)],
        2,
    ),
    "misaligned": ("place", [OPEN, claimed(1), Granted(1, 1, 256, 1024)], 2),
    "not one of its slots": ("place", [OPEN, claimed(1, 2, Slots(2, (0, 4))), Granted(1, 1, 2, 2)], 2),
    "past the end": ("bounds", [OPEN, claimed(1), Granted(1, 1, 3584, 1024)], 2),
    "before the start": ("bounds", [OPEN, claimed(1), Granted(1, 1, -512, 1024)], 2),
    "in no segment": ("bounds", [OPEN, POOL, *held(1, 0), *held(2, 2048, resource="pool")], 5),
    "over the end of its segment": ("bounds", [OPEN, POOL, *held(1, 0), *held(2, 512, resource="pool")], 5),
    "overlapping the one below": ("overlap", [OPEN, *held(1, 0), *held(2, 512)], 4),
    "overlapping the one above": ("overlap", [OPEN, *held(1, 1024), *held(2, 512)], 4),
    "covering a smaller one": ("overlap", [OPEN, *held(1, 512, 512), *held(2, 0, 2048)], 4),
    "at the same place": ("overlap", [OPEN, *held(1, 0), *held(2, 0)], 4),
    "more units than there are": (
        "capacity",
        [OPEN, *held(1, -1, 4000, shape=Units(4000)), *held(2, -1, 97, shape=Units(97))],
        4,
    ),
    "more than the segments hold": (
        "capacity",
        [OPEN, POOL, *held(1, 0), *held(2, -1, 1025, shape=Units(1025), resource="pool")],
        5,
    ),
    "more used than granted": ("used", [OPEN, *held(1, 0), Used(2, 1, 1025)], 3),
    "less than nothing used": ("used", [OPEN, *held(1, 0), Used(2, 1, -1)], 3),
    "free units that do not add up": (
        "conservation",
        [OPEN, *held(1, 0), claimed(2), Refused(2, 2, 3000, 9)],
        4,
    ),
    "a stretch longer than all that is free": (
        "conservation",
        [OPEN, claimed(2), Refused(2, 2, 4096, 4097)],
        2,
    ),
    "nothing of a grant returned": (
        "returned",
        [OPEN, *held(1, -1, shape=Units(1024)), Returned(2, 1, 0)],
        3,
    ),
    "a stretch shorter than nothing": ("conservation", [OPEN, claimed(2), Refused(2, 2, 4096, -1)], 2),
    "all of a grant returned as a part of it": (
        "returned",
        [OPEN, *held(1, -1, shape=Units(1024)), Returned(2, 1, 1024)],
        3,
    ),
    "part of a grant with an address returned": ("returned", [OPEN, *held(1, 0), Returned(2, 1, 512)], 3),
    "returned while waiting": ("held", [OPEN, claimed(1), Returned(2, 1, 5)], 2),
    "more used than is left": (
        "used",
        [OPEN, *held(1, -1, shape=Units(1024)), Returned(2, 1, 24), Used(2, 1, 1001)],
        4,
    ),
    "a grant with an address that grows": ("grew", [OPEN, *held(1, 0), Grew(2, 1, 512)], 3),
    "a grant that grows by nothing": ("grew", [OPEN, *held(1, -1, shape=Units(1024)), Grew(2, 1, 0)], 3),
    "a grant that grows beyond what there is": (
        "capacity",
        [OPEN, *held(1, -1, shape=Units(1024)), Grew(2, 1, 3073)],
        3,
    ),
    "growing while waiting": ("held", [OPEN, claimed(1), Grew(2, 1, 5)], 2),
    "joined to a claim nobody made": ("joined", [OPEN, claimed(1), Joined(1, 1, 7)], 2),
    "joined to one that is held": (
        "joined",
        [OPEN, CORES, *held(1, 0), claimed(2, 1, resource="cores"), Joined(1, 2, 1)],
        5,
    ),
    "joined on one resource": ("joined", [OPEN, claimed(1), claimed(2), Joined(1, 2, 1)], 3),
    "granted without what it is joined to": (
        "joined",
        [
            OPEN,
            CORES,
            claimed(1),
            claimed(2, 1, resource="cores"),
            Joined(1, 2, 1),
            Granted(1, 2, 0, 1),
            Closed(2),
        ],
        6,
    ),
    "a segment freed under its grants": (
        "inside",
        [OPEN, POOL, *held(1, 0), *held(2, 0, 512, resource="pool"), Freed(2, 1)],
        6,
    ),
}


def test_a_sound_ledger_breaks_no_law():
    assert audit(Ledger(SOUND)) == []
    check(Ledger(SOUND))


@pytest.mark.parametrize(("law", "facts", "event"), BROKEN.values(), ids=BROKEN)
def test_a_ledger_that_breaks_one_law_is_told_that_law_and_that_fact_alone(law, facts, event, monkeypatch):
    monkeypatch.setattr(
        "gpulab.report.audit._unaccounted", lambda facts: []
    )  # the gauges know some laws, too
    assert [(violation.law, violation.event) for violation in audit(facts)] == [(law, event)]


@pytest.mark.parametrize(
    "facts",
    [
        held(1, -1, 4096),
        held(1, 4, 2, shape=Slots(2, (0, 4))),
        held(1, -1, 2, shape=Slots(2, (0, 4))),
        [claimed(1, 9, Units(9, divisible=True)), Granted(1, 1, -1, 5)],
        [claimed(1), Granted(1, 1, 0, 2048)],
        [claimed(1), Refused(1, 1, 4096, 0)],
    ],
    ids=["no address", "a slot", "no slot", "a part", "more", "no stretch"],
)
def test_what_a_shape_allows_breaks_no_law(facts):
    assert audit([OPEN, *facts]) == []


def test_what_was_returned_can_be_granted_again():
    units = {"shape": Units(3000)}
    facts = [OPEN, *held(1, -1, 3000, **units), Returned(2, 1, 2000), *held(2, -1, 3000, **units)]
    facts[-2:] = [claimed(2, 3000, time_ns=2, **units), Granted(2, 2, -1, 3000)]
    assert audit(facts) == []


def test_every_law_has_a_ledger_that_breaks_it():
    # those of work and of requests have files of their own, the identity a test below
    assert {law for law, _, _ in BROKEN.values()} == set(LAWS) - set(WORK_LAWS) - set(REQUEST_LAWS) - {
        "identity"
    }


def test_a_wrong_grant_is_told_once_and_not_again_with_its_use_and_its_end():
    facts = [OPEN, *held(1, 0), *held(2, 512), Used(2, 2, 9), Freed(3, 2), Freed(3, 1), *held(3, 0)[:0]]

    assert [violation.event for violation in audit(facts)] == [4]


def test_several_violations_come_in_the_order_of_their_events():
    facts = [OPEN, Freed(1, 9), *held(1, 0), Used(2, 1, 5000), Used(3, 1, 5000)]

    assert [(found.law, found.event) for found in audit(facts)] == [("claimed", 1), ("used", 4), ("used", 5)]


def test_the_message_gives_the_numbers_since_when_and_the_story_of_both_claims():
    facts = [OPEN, *held(1, 0), *held(2, 512)]

    with pytest.raises(BrokenLaw) as broken:
        check(facts)

    message = str(broken.value)
    assert "got [512, 1,536), but claim 1 of 'owner 1' holds [0, 1,024) since #2" in message
    assert "no unit is granted twice" in message
    assert [line.split()[0] for line in message.splitlines()[1:]] == ["#1", "#2", "#3", "#4"]
    assert (broken.value.law, broken.value.numbers) == ("overlap", {"event": 4})


def test_a_segment_with_an_address_of_its_own_may_lie_beyond_the_capacity():
    far = 1 << 40
    facts = [OPEN, POOL, *held(1, far, 2048, shape=Units(2048)), *held(2, far + 512, 512, resource="pool")]

    assert audit(facts) == []


def test_what_was_freed_may_be_granted_again_and_a_refused_claim_may_still_be_granted():
    facts = [
        OPEN,
        *held(1, 0, 4096),
        claimed(2, 4096),
        Refused(2, 2, 0, 0),
        Freed(3, 1),
        Granted(3, 2, 0, 4096),
    ]

    assert audit(facts) == []


def test_what_grew_is_held_and_used():
    facts = [
        OPEN,
        *held(1, -1, 1000, shape=Units(1000)),
        Grew(2, 1, 3000),
        Used(3, 1, 4000),
        Refused(3, 2, 96, 96),
    ]
    facts[4:4] = [claimed(2, 97, Units(97), time_ns=2)]
    assert audit(facts) == []


def test_claims_that_are_joined_may_be_granted_one_after_the_other_in_one_instant():
    joined = [claimed(1), claimed(2, 1, resource="cores"), Joined(1, 2, 1)]
    facts = [OPEN, CORES, *joined, Granted(2, 2, 0, 1), Granted(2, 1, 0, 1024), Closed(3)]
    assert audit(facts) == []
    assert audit([OPEN, CORES, *joined, Withdrawn(2, 1), TimedOut(2, 2), Closed(3)]) == []


def test_a_pool_among_several_lies_in_the_segments_of_its_own_name():
    two = [OPEN, POOL, Opened(0, "other", 0, "B", inside="arena")]
    segments = [
        Claimed(1, 1, "arena", 1024, Units(1024), "pool"),
        Granted(1, 1, 0, 1024),
        Claimed(1, 2, "arena", 1024, Units(1024), "other"),
        Granted(1, 2, 1024, 1024),
    ]

    assert (
        audit([*two, *segments, *held(3, 512, 512, resource="pool"), *held(4, 1024, resource="other")]) == []
    )
    (broken,) = audit([*two, *segments, *held(3, 1024, 512, resource="pool")])
    assert (broken.law, broken.event) == ("bounds", 8)
    (broken,) = audit([*two, *segments, *held(3, -1, 1025, shape=Units(1025), resource="pool")])
    assert (broken.law, broken.event) == ("capacity", 8)


def test_what_only_a_gauge_finds_wrong_is_told_too(monkeypatch):
    def no_sum(*_):
        raise BrokenLaw("The terms do not add up.", law="identity")

    monkeypatch.setattr("gpulab.report.audit.Account", no_sum)
    (broken,) = audit(SOUND)

    assert (broken.law, broken.event) == ("identity", len(SOUND) - 1)
    assert "The terms do not add up." in broken.message


def test_forty_thousand_grants_are_audited_with_few_looks_at_each():
    facts = [Opened(0, "arena", 40_000 * 512, "B")]
    for claim in range(40_000):
        facts += held(claim, claim * 7919 % 40_000 * 512, 512)
    facts += [Freed(2, claim) for claim in range(40_000)]

    assert audit(facts) == []


def pages(*facts):
    """A pool in a device that has two pages of it, each 1,024 B, which touch."""
    opened = [Opened(0, "device", 4096, "B"), Opened(0, "pool", 0, "B", "device")]
    shape = Units(1024)
    for page in (0, 1):
        opened += [Claimed(0, page, "device", 1024, shape), Granted(0, page, page * 1024, 1024)]
    return [*opened, *facts]


def across(size=1024, start=512):
    return [claimed(2, size, resource="pool"), Granted(1, 2, start, size)]


def test_a_grant_may_lie_across_pages_that_touch():
    assert audit(pages(*across(), Freed(2, 2), Freed(2, 0), Freed(2, 1))) == []


@pytest.mark.parametrize("page", [0, 1])
def test_a_page_of_which_a_grant_holds_a_part_may_not_go_back(page):
    (broken,) = audit(pages(*across(), Freed(2, page)))
    assert (broken.law, broken.event) == ("inside", 8)


@pytest.mark.parametrize("start", [1536, 2048, 5120])
def test_a_grant_that_runs_out_of_the_last_page_is_out_of_bounds(start):
    (broken,) = audit(pages(*across(1024, start)))
    assert (broken.law, broken.event) == ("bounds", 7)


def test_pages_with_a_gap_between_them_are_no_stretch():
    facts = pages()
    facts[-1] = Granted(0, 1, 1536, 1024)
    (broken,) = audit([*facts, *across()])
    assert broken.law == "bounds"
