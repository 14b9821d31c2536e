"""One instant of a ledger: the same in words, in numbers, in a table and in a picture; never a traceback."""

from xml.etree import ElementTree

import pytest

from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool
from gpulab.report.account import Account, Terms
from gpulab.report.audit import check
from gpulab.report.instant import Scene, at
from gpulab.telemetry.events import Claimed, Closed, Ended, Freed, Granted, Launched, Opened, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units
from gpulab.units import GiB
from tests.devices import WAIT, filled, sim

EVIL = "<script>alert(1)</script>"
SMALL = Ledger(
    [
        Opened(1_000, "arena", 8, "B"),
        Claimed(2_000, 0, "arena", 3, Contiguous(3, 1), "chat"),
        Granted(2_000, 0, 0, 3),
        Claimed(2_000, 1, "arena", 6, Contiguous(6, 1), EVIL),
        Refused(2_000, 1, 5, 5),
        Freed(4_000, 0),
        Closed(5_000),
    ]
)


def incident():
    """Four operations of httomo issue 667 and the claim that fails: a pool in a device, three levels."""
    steps = [["alloc", "a", GiB], ["alloc", "t", 4 * GiB], ["free", "t"], ["alloc", "b", GiB], ["free", "a"]]
    return run_operations(CuPyPool(8 * GiB), [*steps, ["alloc", "c", GiB], ["alloc", "d", 5 * GiB]])


def lines(picture):
    """Where the line of the instant stands in each panel of the drawn picture, in px."""
    drawn = ElementTree.fromstring(picture.svg()).iter("{http://www.w3.org/2000/svg}line")
    return [line.get("transform") for line in drawn if line.get("stroke-width") == "2"]


def panels(picture):
    """The title of each part of the picture."""
    return [part["title"]["text"] for part in picture.spec["vconcat"]]


def test_an_instant_says_what_happened_who_held_what_and_where_the_capacity_is():
    shown = at(SMALL, event=4)

    assert (shown.event, shown.time_ns) == (4, 2_000)
    assert shown.said == f"#4, 2.000 µs: Refused, claim 1 of {EVIL}, 5 B free, longest stretch 5 B."
    assert shown.terms == Terms(8, 3, 0, 0, 0, 5) == Account(SMALL).at(2_000)
    assert shown.account == (
        "arena→extent: used 3 B (37.5 %), stranded 0 B (0.0 %), fragmented 0 B (0.0 %), "
        "unscheduled 0 B (0.0 %), spare 5 B (62.5 %)."
    )
    assert [row[0] for row in shown.table().rows] == ["#1", "#2", "#3", "→ #4", "#5", "#6"]
    assert panels(shown.picture) == [
        "Account of arena→extent after #4",
        "Memory map of arena",
        "Use of arena over time",
    ]
    assert len(lines(shown.picture)) == 3  # the map, held, waiting


def test_the_account_names_the_last_event_of_its_instant_when_another_one_is_shown():
    assert [panels(at(SMALL, event=event).picture)[0] for event in (1, 3, 4, 5)] == [
        "Account of arena→extent after #4, the last event at this time",
        "Account of arena→extent after #4, the last event at this time",
        "Account of arena→extent after #4",
        "Account of arena→extent after #5",
    ]


def test_text_picture_and_svg_stand_in_one_output_and_markup_in_names_is_only_text():
    data, metadata = at(SMALL, event=4)._repr_mimebundle_()

    assert sorted(data) == ["application/vnd.vegalite.v5+json", "image/svg+xml", "text/plain"]
    assert data["text/plain"].splitlines()[0].startswith("#4, 2.000 µs: Refused")
    assert "→ #4" in data["text/plain"]
    assert "<script>" not in data["image/svg+xml"]
    assert metadata["image/svg+xml"]["alt"].startswith("arena→extent: used 3 B")
    assert at(SMALL, event=4)._repr_mimebundle_() == (data, metadata)
    assert sorted(at(SMALL)._repr_mimebundle_(include=["image/svg+xml"])[0]) == ["image/svg+xml"]


def test_the_line_moves_in_all_panels_at_once():
    scene = Scene(SMALL)
    first, later = lines(scene.at(event=1).picture), lines(scene.at(event=5).picture)

    assert len(set(first)) == len(set(later)) == 1
    assert first != later
    assert lines(at(SMALL, event=5).picture) == later


def test_a_time_is_the_last_event_that_had_happened_and_the_end_is_the_default():
    scene = Scene(SMALL)

    assert [scene.at(time_ns=t).event for t in (1_000, 1_999, 2_000, 3_999, 5_000)] == [0, 0, 4, 4, 6]
    assert scene.at(time_ns=3_999).time_ns == 3_999
    assert scene.at().said == scene.at(event=6).said


@pytest.mark.parametrize(
    ("asked", "event", "words"),
    [
        ({"event": 99}, 6, "There is no #99: the ledger has #0 to #6. #6,"),
        ({"event": -1}, 0, "There is no #-1: the ledger has #0 to #6. #0,"),
        ({"time_ns": 0}, 0, "0 ns is outside the run, 1,000 to 5,000 ns. #0,"),
        ({"time_ns": 10**12}, 6, "1,000,000,000,000 ns is outside the run, 1,000 to 5,000 ns. #6,"),
    ],
)
def test_outside_the_run_the_nearest_instant_is_shown_and_said(asked, event, words):
    shown = at(SMALL, **asked)
    assert shown.event == event
    assert shown.said.startswith(words)
    assert shown.terms == Account(SMALL).at(shown.time_ns)


def test_an_empty_ledger_one_fact_and_one_without_a_resource_are_sentences():
    empty, one, bare = at(Ledger()), at(Ledger([Opened(7, "arena", 8, "B")])), at(Ledger([Closed(4)]))

    assert (empty.event, empty.said) == (None, "The ledger is empty: there is no instant to show.")
    assert (one.event, one.terms) == (0, Terms(8, 0, 0, 0, 0, 8))
    assert (bare.event, bare.terms, bare.account) == (0, None, "")
    assert bare.said == "#0, 4 ns: Closed."
    for shown in (empty, one, bare):
        assert "<svg" in shown.picture.svg()
        assert "text/plain" in shown._repr_mimebundle_()[0]


def test_of_two_devices_the_last_is_shown_unless_a_level_is_named():
    ledger = Ledger(
        [
            *(Opened(5, "gpu0", 4, "blocks"), Opened(9, "gpu1", 8, "blocks")),
            *(Claimed(9, 0, "gpu0", 1, Units(1), "a"), Granted(9, 0, -1, 1), Closed(12)),
        ]
    )

    assert at(ledger).terms == Terms(8, 0, 0, 0, 0, 8)
    assert at(ledger, level="gpu0→extent").terms == Terms(4, 1, 0, 0, 0, 3)
    without_addresses = panels(at(ledger, level="gpu0→extent").picture)
    assert without_addresses == ["Account of gpu0→extent after #4", "Use of gpu0 over time"]
    assert at(ledger, event=0).account == "gpu1→extent is not there yet."
    with pytest.raises(
        ValueError, match="There is no level 'gpu7→extent' in this ledger; there are: gpu0→extent"
    ):
        at(ledger, level="gpu7→extent")


def test_a_pool_is_looked_through_to_its_device_and_each_level_has_its_own_map():
    ledger = incident()
    check(ledger)
    refused = ledger.serials(Refused)[-1]

    shown = at(ledger, event=refused)
    assert shown.terms == Account(ledger, "device→extent").at(shown.time_ns)
    assert shown.terms.fragmented == 5 * GiB
    assert panels(shown.picture)[1:] == ["Memory map of pool", "Use of pool over time"]
    outer = at(ledger, event=refused, level="device→pool")
    assert panels(outer.picture)[1:] == ["Memory map of device", "Use of device over time"]
    assert Scene(ledger).levels == ["device→pool", "pool→extent", "device→extent"]


def test_a_ledger_that_contradicts_itself_is_shown_without_an_account_and_says_why():
    twice = Ledger(
        [
            Opened(0, "arena", 8, "B"),
            *(Claimed(1, 0, "arena", 6, Contiguous(6, 1), "a"), Granted(1, 0, 0, 6)),
            *(Claimed(2, 1, "arena", 6, Contiguous(6, 1), "b"), Granted(2, 1, 0, 6)),
        ]
    )
    shown = at(twice)
    assert shown.terms is None
    assert "arena" in shown.account
    assert panels(shown.picture) == ["Memory map of arena", "Use of arena over time"]


def test_lanes_of_streams_stand_above_the_map_and_the_line_goes_through_them():
    device = sim()
    stream = device.stream("main")
    for _ in range(3):
        stream.launch(WAIT, [], grid=132, ns=5_000)
    device.synchronize()
    shown = at(device.ledger, event=device.ledger.serials(Ended)[1])
    assert panels(shown.picture) == [
        "Account of device→extent after #10, the last event at this time",
        "Work on streams over time",
    ]  # nothing was claimed
    assert len(lines(shown.picture)) == 1
    assert shown.said == "#9, 12.500 µs: Ended, work 1."

    filled(device, stream, [1.0, 2.0])
    both = at(device.ledger)
    assert panels(both.picture)[1:] == [
        "Work on streams over time",
        "Memory map of device",
        "Use of device over time",
    ]
    assert len(set(lines(both.picture))) == 1
    assert len(lines(both.picture)) == 4


def test_a_ledger_of_work_alone_is_its_facts():
    shown = at(Ledger([Launched(3, 0, "main", "add", 4, 64)]))
    assert (shown.event, shown.terms) == (0, None)
    assert shown.said.startswith("#0, 3 ns: Launched")
