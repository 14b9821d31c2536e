from xml.etree import ElementTree

import pytest

from gpulab.report.table import Table, exact_size, table
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Ended,
    Freed,
    Granted,
    Launched,
    Marked,
    Occupied,
    Opened,
    Refused,
    Sent,
    Started,
    TimedOut,
    Used,
    Waited,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units
from gpulab.units import GiB, MiB

EVIL = "<img src=x onerror=alert(1)>&"
LEDGER = Ledger(
    [
        Opened(0, "device", 8 * GiB, "B"),
        Opened(0, "kv", 0, "blocks", inside="device"),
        Claimed(1000, 0, "device", 400, Contiguous(512, 512), "weights"),
        Granted(1000, 0, 1536 * MiB, 512),
        Used(1000, 0, 400),
        Claimed(2000, 1, "kv", 3, Units(3), EVIL),
        Granted(2000, 1, -1, 3),
        Claimed(3000, 2, "device", 9 * GiB, Contiguous(9 * GiB), ""),
        Refused(3000, 2, 8 * GiB - 512, 6 * GiB),
        Withdrawn(4000, 2),
        TimedOut(4000, 5),
        Freed(5000, 0),
        Closed(6000),
    ]
)


def test_each_fact_is_a_row_with_its_number_time_owner_size_and_place():
    rows = table(LEDGER).rows

    assert rows[0] == ("#0", "0 ns", "Opened", "", "device", "capacity 8 GiB", "")
    assert rows[1] == ("#1", "0 ns", "Opened", "", "kv", "", "inside device")
    assert rows[2] == ("#2", "1.000 µs", "Claimed", "0", "weights", "wants 400 B", "device")
    assert rows[3] == ("#3", "1.000 µs", "Granted", "0", "weights", "512 B", "1,536 MiB to 1,610,613,248 B")
    assert rows[4] == ("#4", "1.000 µs", "Used", "0", "weights", "uses 400 B", "")
    assert rows[6] == ("#6", "2.000 µs", "Granted", "1", EVIL, "3 blocks", "any")
    assert rows[8] == ("#8", "3.000 µs", "Refused", "2", "", "8,589,934,080 B free", "longest stretch 6 GiB")
    assert rows[10:] == (
        ("#10", "4.000 µs", "TimedOut", "5", "", "", ""),
        ("#11", "5.000 µs", "Freed", "0", "weights", "", ""),
        ("#12", "6.000 µs", "Closed", "", "", "", ""),
    )


def test_facts_of_work_say_which_work_on_which_stream_and_how_much():
    work = [
        Launched(0, 4, "main", "saxpy", 8, 12 * MiB),
        Sent(1, 5, "main", "in", 400, "pinned"),
        Marked(2, 6, "main"),
        Waited(3, 7, "other", 6),
        Started(4, 4),
        Ended(5, 4),
        Occupied(6, 132, 264),
    ]
    assert [row[2:] for row in table(Ledger(work)).rows] == [
        ("Launched", "", "main", "12 MiB", "work 4: saxpy"),
        ("Sent", "", "main", "400 B", "work 5: copy in"),
        ("Marked", "", "main", "", "work 6"),
        ("Waited", "", "other", "", "work 7"),
        ("Started", "", "", "", "work 4"),
        ("Ended", "", "", "", "work 4"),
        ("Occupied", "", "", "264 blocks", "on 132 multiprocessors"),
    ]


def test_a_long_ledger_is_shown_in_part_and_the_caption_says_which():
    part = table(LEDGER, first=10, limit=2)

    assert part.caption == "Ledger: facts #10 to #11 of 13"
    assert [row[0] for row in part.rows] == ["#10", "#11"]
    assert table(Ledger()).caption == "Ledger: no facts of 0"
    assert table(LEDGER, first=99).rows == ()


def test_the_html_twin_has_a_caption_and_headers_and_never_runs_what_an_owner_is_called():
    html = table(LEDGER)._repr_html_()
    root = ElementTree.fromstring(html)

    assert root.find("caption").text == "Ledger: facts #0 to #12 of 13"
    assert [head.get("scope") for head in root.iter("th")][:8] == ["col"] * 7 + ["row"]
    assert "<img" not in html
    assert EVIL in [cell.text for cell in root.iter("td")]


def test_the_text_twin_is_aligned_with_numbers_to_the_right():
    twin = Table("Two", ("name", "size"), (("a", "1"), ("long", "200")), frozenset({"size"}))

    assert repr(twin) == "Two\nname  size\na        1\nlong   200"


def test_records_are_rows_by_column_name():
    assert Table("One", ("name", "size"), (("a", "1"),)).records() == [{"name": "a", "size": "1"}]


@pytest.mark.parametrize(
    ("size", "unit", "text"),
    [
        (0, "B", "0 B"),
        (512, "B", "512 B"),
        (1536 * MiB, "B", "1,536 MiB"),
        (GiB + 1, "B", "1,073,741,825 B"),
        (2048, "blocks", "2,048 blocks"),
        (-GiB, "B", "-1 GiB"),
    ],
)
def test_a_size_in_a_table_loses_nothing(size, unit, text):
    assert exact_size(size, unit) == text
