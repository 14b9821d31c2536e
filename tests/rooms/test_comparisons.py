"""gpulab/report/comparisons.py: latency, goodput and the bars of the waiting gauge."""

from dataclasses import dataclass
from random import Random

import pytest

from gpulab.report.charts import goodput, latency, waiting_bars
from gpulab.report.curves import _PARTS, _RUNS
from gpulab.report.drawing import TERMS
from gpulab.units import MS
from tests.accessibility import contrast
from tests.pictures import rows, stored, subtitle, texts


@dataclass
class Part:
    request: int
    tenant: str
    start_ns: int
    end_ns: int
    alone_ns: int
    slowed_ns: int
    behind_ns: int
    blocked_ns: int
    outside_ns: int


def part(request, *ns, tenant="chat"):
    return Part(request, tenant, request, request + sum(ns), *ns)


def test_a_curve_goes_through_every_value_and_the_promise_is_a_line():
    picture = latency({"fcfs": [4 * MS, 1 * MS, 2 * MS, 3 * MS], "sjf": [2 * MS]}, 3 * MS)

    curve = [(row["x"], row["y"]) for row in stored(picture) if row.get("run") == "fcfs"]
    assert curve == [(1, 0), (1, 25), (2, 50), (3, 75), (4, 100)]
    assert {"x": 3} in stored(picture)
    assert "dashed: promised, 3.000 ms" in subtitle(picture)
    assert picture.description == (
        "fcfs: median 2.000 ms, 99 % 4.000 ms, largest 4.000 ms, 75.0 % within the promise. "
        "sjf: median 2.000 ms, 99 % 2.000 ms, largest 2.000 ms, 100.0 % within the promise."
    )


def test_percentiles_are_by_nearest_rank():
    picture = latency({"run": range(1, 101)})

    assert picture.table().records() == [
        {
            **{"run": "run", "values": "100", "median": "50 ns", "90 %": "90 ns", "99 %": "99 ns"},
            **{"largest": "100 ns", "within the promise": "-"},
        }
    ]


def test_a_long_curve_keeps_its_ends_and_is_never_above_or_left_of_the_exact_one():
    random = Random("1/latency")
    values = sorted(random.randrange(1, 10**9) for _ in range(100_000))
    drawn = stored(latency({"run": values}))

    assert len(drawn) == 401
    assert (drawn[0]["x"], drawn[-1]["x"], drawn[-1]["y"]) == (values[0] / 10**6, values[-1] / 10**6, 100)
    assert all(
        round(100 * sum(v <= row["x"] * 10**6 for v in values) / 100_000) == round(row["y"])
        for row in drawn[1::50]
    )


def test_runs_are_told_apart_by_dash_and_shape_too():
    curves = latency({"a": [1, 2], "b": [2, 3]}).svg()
    points = goodput({"a": [(1, 1), (2, 1)], "b": [(1, 1), (2, 2)]})

    assert curves.count("stroke-dasharray") >= 2
    assert {layer["mark"]["type"] for layer in points.spec["layer"]} == {"line", "point"}
    assert points.spec["layer"][-1]["encoding"]["shape"]["scale"]["range"] == ["circle", "square"]


def test_goodput_is_drawn_against_rate_and_told_in_words_and_in_a_table():
    picture = goodput({"fcfs": [(4, 3), (1, 1)]}, "first token within 200 ms")

    assert [(row["x"], row["y"]) for row in stored(picture) if row.get("run")][:2] == [(1, 1), (4, 3)]
    assert "promised: first token within 200 ms" in subtitle(picture)
    assert picture.description == "fcfs: at best 3 requests/s at a rate of 4."
    assert picture.table().records()[1] == {
        **{"run": "fcfs", "rate (requests/s)": "4", "goodput (requests/s)": "3", "share": "75.0 %"},
    }


def test_each_request_is_a_bar_of_five_parts_in_order_of_arrival():
    picture = waiting_bars([part(2, 10, 0, 30, 0, 0), part(1, 20, 5, 0, 5, 10)])

    assert [(row["bar"], row["key"], row["x"], row["x2"]) for row in rows(picture) if "x2" in row] == [
        ("chat 1", "alone", 0, 20),
        ("chat 1", "slowed", 20, 25),
        ("chat 1", "blocked", 25, 30),
        ("chat 1", "outside", 30, 40),
        ("chat 2", "alone", 0, 10),
        ("chat 2", "behind", 10, 40),
    ]
    assert picture.description == (
        "2 requests. Of all their time: alone 37.5 %, slowed 6.3 %, behind 37.5 %, blocked 6.3 %, outside 12.5 %."
    )
    assert {"alone", "behind", "chat 1", "latency (ns)"} <= set(texts(picture))
    assert picture.table().records()[0]["latency"] == "40 ns"


def test_of_many_requests_the_mean_and_the_longest_are_drawn_and_it_says_so():
    picture = waiting_bars([part(n, 1000 * n, 0, 0, 0, 0) for n in range(1000)])

    bars = [row for row in rows(picture) if "x2" in row]
    assert [(row["bar"], row["x2"]) for row in bars[:2]] == [("mean of 1,000", 499.5), ("chat 999", 999)]
    assert len(bars) == 24
    assert "1,000 requests: the mean of all, then the 23 that took longest" in subtitle(picture)


@pytest.mark.parametrize(
    "picture",
    [lambda: latency({}), lambda: latency({"a": []}, 5), lambda: goodput({}), lambda: waiting_bars([])],
    ids=["no run", "no value", "no point", "no request"],
)
def test_nothing_to_compare_is_a_sentence(picture):
    assert picture().svg().startswith("<svg")
    assert picture().description


@pytest.mark.parametrize(
    "picture",
    [
        lambda: latency({"a": [0, 0]}),
        lambda: latency({"a": [5]}, 0),
        lambda: goodput({"a": [(0, 0)]}),
        lambda: goodput({"a": [(5, 0)], "b": []}),
        lambda: waiting_bars([part(0, 0, 0, 0, 0, 0)]),
        lambda: latency({f"<b>{n}</b>": [n] for n in range(6)}),
    ],
    ids=["zeros", "promise 0", "origin", "no good", "no time", "markup"],
)
def test_extreme_values_are_drawn(picture):
    assert "<b>" not in picture().svg()


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: latency({"a": [-1, 5]}), "-1 ns"),
        (lambda: latency({"a": [5, float("nan")]}), "nan ns"),
        (lambda: latency({"a": [5, float("inf")]}), "inf ns"),
        (lambda: latency({str(n): [1] for n in range(7)}), "7 runs"),
        (lambda: goodput({"a": [(float("nan"), 1)]}), "nan"),
        (lambda: goodput({"a": [(1, float("inf"))]}), "inf"),
        (lambda: goodput({"a": [(1, -2)]}), "-2"),
    ],
    ids=["negative", "no number", "endless", "many", "nan", "infinite", "below zero"],
)
def test_what_cannot_be_compared_is_refused_with_the_value(draw, said):
    with pytest.raises(ValueError, match=said):
        draw()


def test_only_the_first_part_has_white_text():
    names = waiting_bars([part(1, 20, 20, 20, 20, 20)]).spec["layer"][1]["encoding"]["color"]

    assert names == {"condition": {"test": "datum.key == 'alone'", "value": "white"}, "value": "black"}


def test_the_text_inside_a_part_stands_out_from_it():
    first = {TERMS["used"][0], _PARTS[0]}
    for ground in {colour for colour, _ in TERMS.values()} | set(_PARTS) | {"#56B4E9", "#E69F00", "#CC79A7"}:
        assert contrast("#ffffff" if ground in first else "#000000", ground) >= 4.5
    assert all(contrast(line, "#ffffff") >= 3 for line in _RUNS)
