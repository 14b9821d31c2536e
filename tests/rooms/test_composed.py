"""Pictures put together: each part looks as it does alone."""

from xml.etree import ElementTree

import pytest

from gpulab.report.account import Terms
from gpulab.report.charts import account_bar, memory_map, use_over_time
from gpulab.report.composed import narrower_bar, together, with_line
from gpulab.report.table import Table
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous

TWIN = Table("none", ("a",), ())


def held(claim, owner, start, size, time_ns):
    made = Claimed(time_ns, claim, "arena", size, Contiguous(size, 1), owner)
    return made, Granted(time_ns, claim, start, size)


LEDGER = Ledger(
    [
        Opened(0, "arena", 100, "B"),
        *held(0, "wide", 0, 50, 1),
        *held(1, "narrow", 50, 40, 2),
        Claimed(3, 2, "arena", 90, Contiguous(90, 1), "late"),
        Refused(3, 2, 10, 10),
        Freed(4, 1),
        *held(3, "low", 90, 5, 5),
        *(Closed(6) for _ in range(8)),
    ]
)


@pytest.fixture(scope="module")
def parts():
    """A map, two panels over time, a bar."""
    terms = Terms(100, 50, 0, 0, 0, 50)
    return [memory_map(LEDGER).spec, use_over_time(LEDGER).spec, account_bar(terms).spec]


def words(spec):
    """All text that is drawn."""
    drawn = ElementTree.fromstring(together([spec], title="", description="", table=TWIN).svg())
    return [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_each_part_keeps_its_rows_its_legend_and_its_colours(parts):
    whole = together(parts, title="All", description="Three.", table=TWIN)
    text = "".join(ElementTree.fromstring(whole.svg()).itertext())
    for words_of_a_part in ("wide #2", "waiting", "used 50.0 %", "spare 50.0 %"):
        assert words_of_a_part in text
    assert whole.spec["resolve"]["scale"]["color"] == "independent"
    assert (whole.title, whole.description, whole.table()) == ("All", "Three.", TWIN)
    assert whole.svg() == together(parts, title="All", description="Three.", table=TWIN).svg()


def test_a_line_stands_in_every_panel_on_the_axis_that_is_there(parts):
    map_, use = (with_line(part, 4) for part in parts[:2])
    lines = [map_["layer"][-1], *(panel["layer"][-1] for panel in use["vconcat"])]
    assert [line["data"]["values"] for line in lines] == [[{"x": 4}]] * 3
    assert [line["encoding"]["x"]["scale"]["domain"] for line in lines] == [[0, 18]] * 3
    assert "layer" in parts[0]
    assert parts[0]["layer"][-1] != lines[0]  # what was given is as it was


def test_a_smaller_bar_keeps_its_shares_in_a_legend_of_two_columns_and_no_name_inside(parts):
    bar = narrower_bar(parts[2], 280)
    assert (bar["width"], bar["height"]) == (280, 46)
    assert bar["layer"][0]["encoding"]["color"]["legend"]["columns"] == 2
    assert {"used 50.0 %", "spare 50.0 %"} <= set(words(bar))
    assert not {"used", "spare"} & set(words(bar))
    assert {"used", "spare"} <= set(words(parts[2]))  # what was given is as it was
