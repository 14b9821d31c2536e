"""gpulab/report/together.py: one selection of time for several pictures, two runs on the same scales."""

import json

import pytest

from gpulab.report.account import Account
from gpulab.report.charts import (
    account_bar,
    account_over_time,
    lanes,
    linked,
    memory_map,
    queue_over_time,
    side_by_side,
    use_over_time,
)
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous


def run(end=100, capacity=8):
    return Ledger(
        [
            Opened(0, "arena", capacity, "B"),
            *(Claimed(10, 0, "arena", 6, Contiguous(6), "a"), Granted(10, 0, 0, 6)),
            *(Claimed(20, 1, "arena", 4, Contiguous(4), "b"), Refused(20, 1, 2, 2)),
            *(Freed(50, 0), Granted(50, 1, 0, 4), Closed(end)),
        ]
    )


def plots(node):
    parts = node.get("vconcat") or node.get("hconcat")
    return [node] if parts is None else [plot for part in parts for plot in plots(part)]


def layers(plot):
    return plot.get("layer", [plot])


@pytest.fixture
def together():
    ledger = run()
    return linked(
        use_over_time(ledger, time="ns"),
        memory_map(ledger, time="ns"),
        lanes(ledger, "request"),
        queue_over_time(ledger, time="ns"),
        account_over_time(Account(ledger)),
    )


def test_the_first_picture_selects_the_time_and_all_others_follow(together):
    first, *others = together.spec["vconcat"]
    selects = [layer["params"] for plot in plots(first) for layer in layers(plot) if "params" in layer]

    assert [
        (param["name"], param["select"]["type"], param["select"]["encodings"]) for (param,) in selects
    ] == [("time", "interval", ["x"])] * 2
    followed = [
        [
            layer["encoding"]["x"]["scale"]
            for layer in layers(plot)
            if "scale" in layer["encoding"].get("x", {})
        ]
        for other in others
        for plot in plots(other)
    ]
    assert len(followed) == 5
    for scales in followed:
        assert all(scale["domainMin"] == {"expr": "time.x ? time.x[0] : 0.0"} for scale in scales)
        assert all(scale["domainMax"] == {"expr": "time.x ? time.x[1] : 100.0"} for scale in scales)
    assert "params" not in json.dumps(others)


def test_what_follows_stays_inside_its_frame_and_refusals_on_top_of_it_are_filtered(together):
    for layer in (
        layer for other in together.spec["vconcat"][1:] for plot in plots(other) for layer in layers(plot)
    ):
        if "field" in layer["encoding"].get("x", {}):
            assert layer["mark"].get("clip") or "filter" in layer["transform"][0]
    assert "inrange(datum.x, time.x)" in json.dumps(together.spec)


def test_the_still_twin_needs_no_selection(together):
    svg = together.svg()

    assert svg.count("Where the capacity went over time") >= 1
    assert "clip" not in svg
    assert "clip-path" not in svg
    assert json.dumps(together._repr_mimebundle_()) == json.dumps(together._repr_mimebundle_())


def test_linked_pictures_keep_their_words_and_tables(together):
    assert "drag over the first picture" in together.description
    assert "Memory map of arena: 2 grants" in together.description
    assert {record["picture"] for record in together.table().records()} == {
        *("Use of arena over time", "Memory map of arena", "Claims on arena over time"),
        *("Queue of arena over time", "Where the capacity went over time, arena→extent"),
    }


def test_pictures_of_another_time_or_of_none_are_refused_with_what_to_do():
    steps, time = memory_map(run()), use_over_time(run(), time="ns")

    with pytest.raises(ValueError, match='Draw each with time="ns" and the same t0 and t1'):
        linked(steps, time)
    with pytest.raises(ValueError, match="no time axis"):
        linked(time, account_bar(Account(run())()))
    with pytest.raises(ValueError, match="1 pictures"):
        linked(time)


def test_two_runs_stand_on_the_same_scales_narrow_ones_beside_each_other():
    left, right = (
        queue_over_time(run(end, capacity), time="ns", width=300) for end, capacity in ((100, 8), (500, 16))
    )
    both = side_by_side(left, right)

    domains = [
        (layer["encoding"]["x"]["scale"]["domain"], layer["encoding"]["y"]["scale"]["domain"])
        for picture in both.spec["hconcat"]
        for layer in layers(plots(picture)[1])
        if "scale" in layer["encoding"].get("x", {}) and "scale" in layer["encoding"]["y"]
    ]
    assert all(domain == ([0, 500], [0, 16]) for domain in domains)
    assert both.svg().startswith("<svg")
    assert left.spec["vconcat"][1]["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 100]


def test_wide_runs_stand_below_each_other():
    both = side_by_side(use_over_time(run()), use_over_time(run()))

    assert len(both.spec["vconcat"]) == 2
    assert both.description.count("capacity 8 B") == 2
