"""gpulab/report/timelines.py, account_picture.py, activity.py: lanes, queue and account over time."""

import json
from random import Random
from xml.etree import ElementTree

import pytest

from gpulab.report.account import Account
from gpulab.report.charts import account_over_time, lanes, memory_map, queue_over_time, use_over_time
from gpulab.telemetry.events import (
    Arrived,
    Attached,
    Claimed,
    Closed,
    Ended,
    Finished,
    Freed,
    Granted,
    Launched,
    Occupied,
    Opened,
    Preempted,
    Sent,
    Started,
    Used,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units
from tests.pictures import rows, stored, subtitle, texts

EVIL = "<script>alert(1)</script> & \"x\" 'y' \\ \x00 \ud800"

WORK = [
    Attached(0, "gpu", "sim", 4, 10**12, "simulated", "asked"),
    Launched(0, 0, "main", "saxpy", 8, 100),
    Sent(0, 1, "side", "in", 4096, "pinned"),
    Started(100, 0),
    Started(100, 1),
    Occupied(100, 4, 8),
    Ended(400, 1),
    Launched(450, 2, "main", "copy", 2, 100),
    Ended(500, 0),
    Occupied(500, 0, 0),
    Started(600, 2),
    Occupied(600, 2, 2),
    Closed(1000),
]

QUEUE = [
    Opened(0, "kv", 10, "blocks"),
    *(Claimed(0, 0, "kv", 8, Units(8), "a"), Granted(0, 0, -1, 8)),
    Claimed(100, 1, "kv", 5, Units(5), "b"),
    Claimed(200, 2, "kv", 5, Units(5), "c"),
    Freed(400, 0),
    Granted(400, 1, -1, 5),
    Used(400, 1, 3),
    Granted(400, 2, -1, 5),
    Freed(900, 1),
    Closed(1000),
]


def bars(picture):
    return [(row["lane"], row["key"], row["x"], row["x2"]) for row in rows(picture) if "lane" in row]


def test_each_stream_is_a_lane_and_copies_have_one_each_way():
    assert bars(lanes(Ledger(WORK))) == [
        ("stream main", "kernel", 100, 500),
        ("stream side", "copy in", 100, 400),
        ("copies in", "copy in", 100, 400),
        ("stream main", "kernel", 600, 1000),
    ]


def test_a_claim_waits_until_its_grant_and_runs_until_its_end():
    picture = lanes(Ledger(QUEUE), "request")

    assert bars(picture) == [
        ("a #1", "running", 0, 400),
        ("b #3", "waiting", 100, 400),
        ("b #3", "running", 400, 900),
        ("c #4", "waiting", 200, 400),
        ("c #4", "running", 400, 1000),
    ]
    assert picture.description == (
        "3 lanes with 5 parts (2 waiting, 3 running). First: a #1, holds 8 blocks, from 0 ns."
    )
    assert picture.table().records()[1] == {
        **{"lane": "b #3", "part": "waiting", "what": "waits for 5 blocks"},
        **{"from": "#3 at 100 ns", "until": "#6 at 400 ns"},
    }


def test_each_request_is_a_lane_that_waits_and_runs_also_twice():
    facts = [
        Opened(0, "kv", 10, "blocks"),
        Arrived(5, 7, "r7", "chat", 3, 2),
        Claimed(10, 0, "kv", 4, Units(4), "r7"),
        *(Granted(20, 0, -1, 4), Preempted(30, 7, 0), Freed(30, 0)),
        *(Claimed(40, 1, "kv", 4, Units(4), "r7"), Granted(50, 1, -1, 4)),
        Freed(60, 9),
        *(Finished(70, 7, 2, 5), Freed(70, 1), Closed(100)),
    ]

    assert bars(lanes(Ledger(facts), "request")) == [
        ("r7", "waiting", 10, 20),
        ("r7", "running", 20, 30),
        ("r7", "waiting", 40, 50),
        ("r7", "running", 50, 70),
    ]
    assert [lane for lane, *_ in bars(lanes(Ledger(facts), "request", "kv"))] == [
        "r7 #2",
        "r7 #2",
        "r7 #6",
        "r7 #6",
    ]


def test_parts_of_another_kind_have_another_height_so_colour_is_never_alone():
    picture = lanes(Ledger(QUEUE), "request")
    heights = {row["key"]: round(row["y2"] - row["y"], 2) for row in rows(picture) if "lane" in row}

    assert heights == {"waiting": 0.3, "running": 0.8}
    assert "height: waiting, running, from thin to thick" in subtitle(picture)
    assert {"a #1", "b #3", "c #4"} <= set(texts(picture))


def test_busy_multiprocessors_are_steps_against_those_there_are():
    picture = lanes(Ledger(WORK), "sm")

    busy = [(row["x"], row["y"]) for row in rows(picture) if set(row) == {"x", "y"} and row["y"] <= 4]
    assert {(0, 0), (100, 4), (500, 0), (600, 2), (1000, 2)} <= set(busy)
    assert "4 in all" in texts(picture)
    assert picture.description == "3 changes. Most busy: 4 of 4 at event #5, 100 ns."


def test_the_queue_counts_who_waits_and_who_holds():
    picture = queue_over_time(Ledger(QUEUE), time="ns")

    assert picture.description == (
        "Most waiting: 2 at event #4, 200 ns. Most running: 2 at event #8, 400 ns. "
        "At the end: 0 waiting, 1 running."
    )
    assert [tuple(row.values()) for row in picture.table().records()] == [
        ("#2", "0 ns", "0", "1"),
        ("#3", "100 ns", "1", "1"),
        ("#4", "200 ns", "2", "1"),
        ("#5", "400 ns", "2", "0"),
        ("#6", "400 ns", "1", "1"),
        ("#8", "400 ns", "0", "2"),
        ("#9", "900 ns", "0", "1"),
    ]
    assert {"waiting", "running", "held", "used", "capacity 10 blocks"} <= set(texts(picture))


def test_the_account_over_time_is_exact_at_each_step_and_fills_the_capacity():
    picture = account_over_time(Account(Ledger(QUEUE)))

    edges = {
        row["x"]: [row[t] for t in ("used", "stranded", "fragmented", "unscheduled", "spare")]
        for row in stored(picture)
        if "spare" in row
    }
    assert edges == {
        0: [8, 8, 8, 8, 10],
        100: [8, 8, 8, 8, 10],
        200: [8, 8, 8, 8, 10],
        400: [8, 10, 10, 10, 10],
        900: [5, 5, 5, 5, 10],
        1000: [5, 5, 5, 5, 10],
    }
    assert picture.description == (
        "Most stranded: 20.0 % at 400 ns. At the end: used 50.0 %, stranded 0.0 %, fragmented 0.0 %, "
        "unscheduled 0.0 %, spare 50.0 %."
    )
    assert picture.table().records()[3] == {
        **{"time": "400 ns", "capacity": "10 blocks", "used": "8 blocks", "stranded": "2 blocks"},
        **{"fragmented": "0 blocks", "unscheduled": "0 blocks", "spare": "0 blocks"},
    }


def busy(claims, seed="1/pictures"):
    """Claims that come, wait in order, strand and go, on streams that run kernels meanwhile."""
    random, time_ns, held, queue, free = Random(seed), 0, [], [], 100
    facts = [Attached(0, "gpu", "sim", 8, 10**12, "simulated", "asked"), Opened(0, "kv", 100, "blocks")]
    for claim in range(claims):
        time_ns += random.randrange(1, 2_000)
        size = random.randrange(1, 30)
        facts += [
            Claimed(time_ns, claim, "kv", size, Units(size), f"user {claim % 9}"),
            Launched(time_ns, claim, f"s{claim % 3}", "step", size, 1),
        ]
        facts += [Started(time_ns, claim), Occupied(time_ns, size % 9, size % 9), Ended(time_ns + 1, claim)]
        time_ns += 1
        queue.append((claim, size))
        while queue and (free >= queue[0][1] or len(queue) > claim % 7):
            if free < queue[0][1]:
                over, back = held.pop(random.randrange(len(held)))
                facts.append(Freed(time_ns, over))
                free += back
                continue
            first, wants = queue.pop(0)
            facts += [Granted(time_ns, first, -1, wants), Used(time_ns, first, wants - wants // 4)]
            held.append((first, wants))
            free -= wants
    return Ledger([*facts, Closed(time_ns + 1)])


@pytest.fixture
def big(scale):
    return busy(scale(2_500))


def all_of(ledger):
    return [
        *(lanes(ledger), lanes(ledger, "sm"), lanes(ledger, "request")),
        *(queue_over_time(ledger), use_over_time(ledger), account_over_time(Account(ledger))),
    ]


def test_everything_about_a_big_ledger_is_drawn_small_and_says_how(big):
    pictures = all_of(big)
    output = sum(len(json.dumps(picture._repr_mimebundle_())) for picture in pictures)

    assert len(big) > 18_000
    assert output < 1_000_000
    for picture in pictures:
        assert 0 < len(rows(picture)) <= 5_000, picture.title
    for picture in pictures[:4] + pictures[5:]:
        assert "changes" in subtitle(picture) or "too many to draw one by one" in subtitle(picture)


def test_a_reduced_account_keeps_its_areas_exact_and_shows_the_highest_of_each_loss(big):
    account = Account(big)
    picture = account_over_time(account)
    slices = [row for row in stored(picture) if "used" in row][:-1]  # the last one ends the steps
    spans = [row for row in stored(picture) if "low" in row]
    peaks = max(terms.stranded for _, terms in account.steps())
    highest = max(row["y"] for row in rows(picture) if set(row) == {"x", "y"})
    gaps = min(terms.used + terms.stranded for _, terms in account.steps())
    whole = account()

    assert len(slices) == len(spans) == 140
    mean = sum(row["used"] for row in slices) / len(slices)
    assert mean == pytest.approx(whole.used / (account.end_ns - account.start_ns), rel=1e-4)
    assert highest == max(peaks, *(terms.unscheduled for _, terms in account.steps()))
    assert min(row["low"] for row in spans) == gaps


def test_reduced_lanes_are_blank_only_where_nothing_ran(big):
    boxes = [row for row in rows(lanes(big, "request")) if "tenths" in row]

    assert {row["tenths"] for row in boxes} <= set(range(1, 11))
    empty = Ledger(
        [
            Opened(0, "kv", 1, "blocks"),
            *(
                fact
                for n in range(1200)
                for fact in (
                    Claimed(10 * n, n, "kv", 1, Units(1), "a"),
                    Granted(10 * n, n, -1, 1),
                    Freed(10 * n + 1, n),
                )
            ),
            Closed(24_000),
        ]
    )
    gap = [row for row in rows(lanes(empty, "request")) if "tenths" in row and row["x2"] > 12.001]
    assert gap == []


def test_what_came_and_went_at_once_is_in_its_box():
    at_once = [
        fact
        for n in range(1100)
        for fact in (Claimed(10 * n, n, "kv", 1, Units(1), "a"), Granted(10 * n, n, -1, 1), Freed(10 * n, n))
    ]
    boxes = rows(lanes(Ledger([Opened(0, "kv", 1, "blocks"), *at_once, Closed(11_000)]), "request"))

    assert max(row["x2"] for row in boxes if "tenths" in row) == 11
    assert {row["tenths"] for row in boxes if "tenths" in row} == {1}


def test_a_loss_of_a_nanosecond_is_at_its_full_height_in_a_reduced_account():
    facts = [Opened(0, "kv", 10, "blocks"), Claimed(0, 0, "kv", 10, Units(10)), Granted(0, 0, -1, 10)]
    for n in range(1, 1000):
        facts.append(Used(10 * n, 0, 9 + n % 2))
    facts += [Used(10_003, 0, 2), Used(10_004, 0, 9), Closed(20_000)]
    picture = account_over_time(Account(Ledger(facts)))

    assert max(row["y"] for row in rows(picture) if set(row) == {"x", "y"}) == 8


def test_a_window_shows_its_part_and_one_without_anything_says_so():
    late = lanes(Ledger(WORK), t0=550, t1=1000)

    assert bars(late) == [("stream main", "kernel", 600, 1000)]
    assert lanes(Ledger(WORK), t0=5_000, t1=6_000).description != ""
    assert "Nothing ran" in lanes(Ledger(WORK), t0=10, t1=50).description
    assert "Nothing is known" in account_over_time(Account(Ledger([*QUEUE[:1]])), t0=-9, t1=-5).description
    with pytest.raises(ValueError, match="t1 is not before t0"):
        account_over_time(Account(Ledger(QUEUE)), t0=5, t1=4)
    with pytest.raises(ValueError, match="by='gpu'"):
        lanes(Ledger(WORK), "gpu")


CUT = QUEUE[:4]
LATE = [Opened(10**15, "kv", 10, "blocks"), Claimed(10**15 + 5, 0, "kv", 1, Units(1)), Closed(10**15 + 9)]
TWO = [
    *WORK[:-1],
    Attached(700, "other", "sim", 2, 10**12, "simulated", "asked"),
    *(Opened(700, name, 8, "B") for name in ("one", "two")),
]


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [Closed(5)],
        QUEUE[:1],
        CUT,
        LATE,
        TWO,
        [Freed(0, 3), Ended(1, 2), Started(1, 7), Occupied(2, 9, 9)],
    ],
    ids=["empty", "closed", "one", "cut", "late", "two devices", "about nothing"],
)
def test_a_ledger_with_something_missing_is_a_picture_or_a_sentence(facts):
    ledger = Ledger(facts)
    pictures = [lanes(ledger, by) for by in ("stream", "sm", "request")] + [queue_over_time(ledger)]
    if any(type(fact) is Opened for fact in facts):
        pictures.append(account_over_time(Account(ledger)))

    for picture in pictures:
        assert picture.svg().startswith("<svg")
        assert picture.description


def test_names_with_markup_are_text_everywhere():
    facts = [
        Opened(0, "kv", 8, "blocks"),
        Claimed(0, 0, "kv", 1, Units(1), EVIL),
        Granted(0, 0, -1, 1),
        Launched(0, 0, EVIL, EVIL, 1, 1),
        Started(0, 0),
        Closed(9),
    ]
    for picture in (lanes(Ledger(facts)), lanes(Ledger(facts), "request")):
        assert "<script" not in picture.svg()
        assert any("<script>" in text for text in texts(picture))


def test_equal_ledgers_give_equal_pictures_byte_by_byte():
    first, second = (
        [json.dumps(picture._repr_mimebundle_()) for picture in all_of(busy(60))] for _ in range(2)
    )
    assert first == second


def test_every_text_is_legible_and_every_picture_fits_a_notebook():
    for picture in [*all_of(busy(60)), lanes(Ledger(WORK)), lanes(Ledger(QUEUE), "request")]:
        root = ElementTree.fromstring(picture.svg())
        sizes = [node.get("font-size") for node in root.iter() if node.tag.endswith("text")]

        assert min(float(size.removesuffix("px")) for size in sizes) >= 11
        assert int(root.get("width")) <= 800, picture.title


def test_a_picture_may_be_narrow():
    wide, narrow = (memory_map(Ledger(SMALL), width=width) for width in (560, 300))

    assert (wide.spec["width"], narrow.spec["width"]) == (560, 300)
    account = account_over_time(Account(busy(300)), width=300)
    assert max(len(line) for line in account.spec["title"]["subtitle"]) <= 60


SMALL = [
    Opened(0, "arena", 8, "B"),
    Claimed(0, 0, "arena", 4, Contiguous(4), "a"),
    Granted(0, 0, 0, 4),
    Closed(9),
]
