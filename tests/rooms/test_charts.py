"""Pictures are read here as a reader gets them: their layers' rows, their words, their SVG."""

import hashlib
import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from gpulab.memory.pools import CuPyPool
from gpulab.report.account import Terms
from gpulab.report.charts import account_bar, lanes, memory_map, queue_over_time, use_over_time
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Refused, Used
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units
from gpulab.units import GiB, MiB
from tests.pictures import rows, subtitle, texts
from tests.six_ledgers import MIXED, WAITING

EVIL = "<script>alert(1)</script> & \"x\" 'y'"


def arena(*facts, capacity=8 * GiB):
    return Ledger([Opened(0, "arena", capacity, "B"), *facts])


def granted(claim, start, size, owner="chat", time_ns=1000, *, asked=None):
    made = Claimed(time_ns, claim, "arena", asked or size, Contiguous(size, 512), owner)
    return [made, Granted(time_ns, claim, start, size)]


SIX = [
    *granted(0, 0, GiB, "weights"),
    *granted(1, GiB, 4 * GiB, "temp", 2000),
    Freed(3000, 1),
    *granted(2, GiB, GiB, "chat", 4000, asked=GiB // 2),
    Used(4000, 2, GiB // 2),
    Claimed(5000, 3, "arena", 7 * GiB, Contiguous(7 * GiB, 512), "batch"),
    Refused(5000, 3, 6 * GiB, 6 * GiB),
    Closed(9000),
]


def rectangles(picture):
    return [row for row in rows(picture) if "key" in row]


def test_a_grant_is_one_rectangle_from_its_grant_to_its_end():
    first, second, third = rectangles(memory_map(arena(*SIX), time="ns"))

    assert (first["x"], first["x2"], first["y"], first["y2"]) == (1, 9, 0, 1)
    assert (second["x"], second["x2"], second["y"], second["y2"]) == (2, 3, 1, 5)
    assert (second["owner"], second["event"], second["until"], second["size"]) == (
        *("temp", "#4", "#5 at 3.000 µs", "4 GiB"),
    )
    assert (third["x"], third["until"], third["asked"]) == (4, "the end", "512 MiB")


def test_few_facts_stand_at_their_event_numbers_and_many_at_their_time():
    few = memory_map(arena(*SIX))
    many = memory_map(arena(*SIX[:-1], *(Used(6000, 0, GiB) for _ in range(60))))

    assert [(row["x"], row["x2"]) for row in rectangles(few)] == [(2, 12), (4, 5), (7, 12)]
    assert "event (# in the table)" in texts(few)
    assert "time (µs)" in texts(many)


def test_the_part_that_is_granted_and_not_used_is_drawn_pale_and_named():
    picture = memory_map(arena(*SIX), time="ns")

    assert {"x": 4, "x2": 9, "y": 1.5, "y2": 2} in rows(picture)
    assert "pale: granted, not used" in subtitle(picture)
    assert "pale" not in subtitle(memory_map(arena(*SIX[:5])))


def test_segments_that_are_stacked_above_the_line_are_said_to_be_places_and_not_bytes():
    pool = CuPyPool(4 * MiB)
    first, _, third = (pool.allocate(size * MiB) for size in (1, 1, 2))
    assert "heights" not in subtitle(memory_map(pool.ledger))
    pool.free(first)
    pool.free(third)
    pool.allocate(3 * MiB)  # the device has room for it, the stack only above the second

    assert "heights are places in the stack, not bytes held" in subtitle(memory_map(pool.ledger))


def test_a_refusal_is_a_glyph_with_its_number_and_its_words():
    picture = memory_map(arena(*SIX))

    glyph, label = [row for row in rows(picture) if "refused" in row.get("words", "")]
    assert label == glyph
    assert (glyph["x"], glyph["text"]) == (10, "#10")
    assert glyph["words"] == "#10 refused: batch wants 7 GiB, 6 GiB free, longest stretch 6 GiB"
    assert "▼ a refused claim" in subtitle(picture)


def test_many_refusals_share_glyphs_that_say_how_many():
    again = [Refused(6000 + n, 3, 6 * GiB, 6 * GiB) for n in range(500)]
    picture = memory_map(arena(*SIX[:-1], *again))

    glyphs = [row for row in rows(picture) if "refused" in row.get("words", "")]
    assert len(glyphs) <= 100
    assert sum(int(row["words"].split()[0]) for row in glyphs) == 501


def test_marked_events_are_lines_with_their_numbers():
    picture = memory_map(arena(*SIX), mark=[4, 10])

    assert [row for row in rows(picture) if set(row) == {"x", "text"}][:2] == [
        *({"x": 4, "text": "#4"}, {"x": 10, "text": "#10"}),
    ]
    assert texts(picture).count("#10") == 1
    with pytest.raises(ValueError, match="mark=12: the ledger has the facts #0 to #11"):
        memory_map(arena(*SIX), mark=[12])


def test_up_to_seven_owners_have_a_colour_each_and_more_are_coloured_by_size():
    def of(owners):
        facts = [fact for n in range(owners) for fact in granted(n, n * GiB // 4, (1 + n % 3) * MiB, f"r{n}")]
        return memory_map(arena(*facts))

    assert {row["key"] for row in rectangles(of(7))} == {f"r{n}" for n in range(7)}
    assert {row["key"] for row in rectangles(of(8))} == {"up to 1 MiB", "up to 2 MiB", "up to 3 MiB"}
    assert "size of a grant" in texts(of(8))


def test_a_rectangle_with_room_carries_owner_and_event_so_colour_is_never_alone():
    shown = texts(memory_map(arena(*SIX)))

    assert {"weights #2", "chat #7", "#4"} <= set(shown)


def test_a_pool_is_drawn_as_segments_stacked_with_its_grants_inside_them():
    far = 1 << 40
    ledger = Ledger(
        [
            Opened(0, "device", 8 * GiB, "B"),
            Opened(0, "pool", 0, "B", inside="device"),
            *(Claimed(1, 0, "device", GiB, Units(GiB), "pool"), Granted(1, 0, far, GiB)),
            *(Claimed(2, 1, "device", 4 * GiB, Units(4 * GiB), "pool"), Granted(2, 1, 2 * far, 4 * GiB)),
            *(Claimed(3, 2, "pool", GiB, Contiguous(GiB, 512), "b"), Granted(3, 2, 2 * far + GiB, GiB)),
            Freed(4, 0),
            *(Claimed(5, 3, "device", GiB, Units(GiB), "pool"), Granted(5, 3, 3 * far, GiB)),
            Closed(6),
        ]
    )
    picture = memory_map(ledger, time="ns")

    boxes = [
        (row["event"], row["y"], row["y2"]) for row in rows(picture) if "event" in row and "key" not in row
    ]
    (inside,) = rectangles(picture)
    assert set(boxes) == {("#3", 0, 1), ("#5", 1, 5), ("#10", 0, 1)}
    assert (inside["y"], inside["y2"], inside["address"]) == (2, 3, "2,049 GiB")
    assert {"segment #5: 4 GiB", "segment #10: 1 GiB", "device memory, segments stacked (GiB)"} <= set(
        texts(picture)
    )
    assert "segment #3: 1 GiB" not in texts(picture)


def test_a_window_shows_what_was_held_in_it_and_nothing_else():
    picture = memory_map(arena(*SIX), t0=2500, t1=3500, time="ns")

    assert [(row["owner"], row["x"], row["x2"]) for row in rectangles(picture)] == [
        *(("weights", 2500, 3500), ("temp", 2500, 3000)),
    ]
    with pytest.raises(ValueError, match="t1 is not before t0"):
        memory_map(arena(*SIX), t0=5, t1=4)
    with pytest.raises(ValueError, match="'auto', 'steps' or 'ns'"):
        memory_map(arena(*SIX), time="seconds")


def large(grants=3000):
    facts = []
    for n in range(grants):
        facts += granted(n, n % 50 * 100 * MiB, 100 * MiB, f"request {n}", 1000 * n)
        facts += [Freed(1000 * n + 900, n)]
    return arena(*facts)


def test_a_large_ledger_is_drawn_as_cells_and_the_subtitle_says_so():
    picture = memory_map(large())

    cells = [row for row in rows(picture) if "tenths" in row]
    assert 0 < len(cells) <= 3840
    assert "3,000 grants, too many to draw one by one" in subtitle(picture)
    assert rectangles(picture) == []
    assert len(rectangles(memory_map(large(), t0=0, t1=90_000))) == 91


def test_no_picture_has_more_than_five_thousand_glyphs():
    long = large(3000)
    thousand = [
        fact for n in range(1000) for fact in (*granted(n, n * 8 * MiB, 8 * MiB, "a"), Used(1000, n, 1))
    ]
    refusals = [Refused(2000, 1000, 1, 1) for _ in range(3000)]
    wide = arena(*thousand, Claimed(2000, 1000, "arena", GiB, Contiguous(GiB), "b"), *refusals)

    for picture in (memory_map(long), use_over_time(long), memory_map(wide), use_over_time(wide)):
        assert 0 < len(rows(picture)) <= 5000


def test_use_over_time_keeps_every_peak_and_gap_of_a_long_ledger():
    facts = granted(0, 0, 2 * MiB, time_ns=0)
    for n in range(1, 5000):
        facts += [*granted(n, 2 * MiB, MiB, time_ns=10 * n), Freed(10 * n + 5, n)]
    facts += [*granted(5000, 2 * MiB, 5 * MiB, time_ns=50_001), Freed(50_002, 5000)]
    facts += [Freed(50_003, 0), *granted(5001, 0, 3 * MiB, time_ns=50_004), Closed(60_000)]

    drawn = rows(use_over_time(arena(*facts, capacity=8 * MiB)))
    held = [row["y"] for row in drawn if row.get("series") == "held"]

    assert len(held) <= 561
    assert max(held) == 7
    assert min(held[2:]) == 0
    assert sorted(set(held)) == [0, 2, 3, 7]


def test_use_over_time_tells_held_used_and_waiting_apart():
    picture = use_over_time(arena(*SIX), time="ns")

    last = {row["series"]: row["y"] for row in rows(picture) if "series" in row and row["x"] == 9}
    assert last == {"held": 2, "used": 1.5, "waiting": 7}
    assert picture.table().records()[-1] == {
        **{"event": "#9", "time": "5.000 µs", "held": "2 GiB", "used": "1,536 MiB", "waiting": "7 GiB"},
    }


def test_a_claim_granted_at_once_never_waits():
    waiting = [row["y"] for row in rows(use_over_time(arena(*SIX[:5]))) if row.get("series") == "waiting"]

    assert set(waiting) == {0}


def test_the_bar_of_the_account_gives_the_share_of_each_term():
    picture = account_bar(Terms(1000, 615, 120, 30, 5, 230))

    assert (
        picture.description
        == "used 61.5 %, stranded 12.0 %, fragmented 3.0 %, unscheduled 0.5 %, spare 23.0 %."
    )
    assert [(row["term"], row["x"], row["x2"]) for row in rows(picture)][:2] == [
        ("used", 0, 61.5),
        ("stranded", 61.5, 73.5),
    ]
    assert picture.table().records()[2]["whose loss"] == "allocation, placement"
    assert account_bar(Terms(0, 0, 0, 0, 0, 0)).description.startswith("used 0.0 %")


def test_the_words_say_what_the_map_shows():
    assert memory_map(arena(*SIX)).description == (
        "3 grants, 1 refusal, capacity 8 GiB. Most held: 5 GiB at event #4, 2.000 µs. "
        "At the end: 2 GiB held, 7 GiB waiting. First refusal: event #10, 6 GiB free, longest stretch 6 GiB."
    )


@pytest.mark.parametrize("draw", [memory_map, use_over_time])
@pytest.mark.parametrize(
    "facts",
    {
        "no fact": [],
        "one fact": [Opened(0, "arena", 8, "blocks")],
        "one claim": [Opened(0, "arena", 8, "blocks"), Claimed(0, 0, "arena", 1, Units(1))],
        "no address": [
            Opened(0, "arena", 8, "blocks"),
            Claimed(0, 0, "arena", 1, Units(1)),
            Granted(0, 0, -1, 1),
        ],
        "only closed": [Closed(0)],
        "facts about nothing": [
            Opened(0, "arena", 8, "blocks"),
            Freed(0, 3),
            Granted(1, 7, 0, 5),
            Used(1, 9, 2),
        ],
    }.values(),
)
def test_a_ledger_with_next_to_nothing_in_it_is_a_picture_or_a_sentence(draw, facts):
    picture = draw(Ledger(facts))

    assert picture.svg().startswith("<svg")
    assert picture.description


def test_grants_without_addresses_are_sent_to_the_other_chart():
    facts = [Opened(0, "kv", 8, "blocks"), Claimed(0, 0, "kv", 1, Units(1)), Granted(0, 0, -1, 1)]

    assert (
        memory_map(Ledger(facts)).description
        == "These grants have no addresses: use_over_time shows how many."
    )


def test_an_unknown_resource_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match="no resource 'pool'; it has 'arena'"):
        memory_map(arena(), "pool")


@pytest.mark.parametrize("draw", [memory_map, use_over_time])
def test_an_owner_with_markup_is_text_everywhere(draw):
    picture = draw(arena(*granted(0, 0, GiB, EVIL)), title=EVIL)
    data, _ = picture._repr_mimebundle_()

    assert "<script" not in data["image/svg+xml"]
    assert "<script" not in picture.table()._repr_html_()
    assert ElementTree.fromstring(data["image/svg+xml"]).get("aria-label") == EVIL


def test_a_picture_drawn_twice_is_equal_byte_by_byte_also_in_another_process():
    code = (
        "import hashlib, json, sys; sys.path.insert(0, {path!r}); import test_charts as t; "
        "print(hashlib.sha256(json.dumps(t.memory_map(t.arena(*t.SIX))._repr_mimebundle_()).encode()).hexdigest())"
    ).format(path=__file__.rpartition("/")[0])
    use_over_time(large(50))  # whatever was drawn before leaves no trace
    here = json.dumps(memory_map(arena(*SIX))._repr_mimebundle_())

    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert json.dumps(memory_map(arena(*SIX))._repr_mimebundle_()) == here
    assert hashlib.sha256(here.encode()).hexdigest() == there.strip()


def test_importing_the_charts_loads_no_drawing_library():
    code = "import sys, gpulab.report.charts; print(*{'altair', 'vl_convert', 'numpy', 'jsonschema'} & set(sys.modules))"

    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "\n"
    )


def test_every_text_in_a_picture_is_at_least_eleven_pixels_high():
    for picture in (
        memory_map(arena(*SIX)),
        use_over_time(arena(*SIX)),
        account_bar(Terms(10, 1, 2, 3, 4, 0)),
    ):
        nodes = [node for node in ElementTree.fromstring(picture.svg()).iter() if node.tag.endswith("text")]

        assert min(float(node.get("font-size").removesuffix("px")) for node in nodes) >= 11
        assert int(ElementTree.fromstring(picture.svg()).get("width")) <= 720


def test_grants_of_one_place_at_one_time_show_all_their_edges_and_others_have_none_more():
    opened = Opened(0, "arena", 1_000, "B")
    places = {"one": (0, 300), "two": (200, 300), "inside": (250, 100), "behind": (500, 300)}
    facts = [opened]
    for claim, (owner, (start, size)) in enumerate(places.items()):
        facts += [Claimed(0, claim, "arena", size, Contiguous(size), owner), Granted(0, claim, start, size)]
    facts += [
        Freed(100, 3),
        Claimed(100, 4, "arena", 300, Contiguous(300), "after"),
        Granted(100, 4, 500, 300),
    ]
    svg = memory_map(Ledger([*facts, Closed(200)]), time="ns").svg()
    dashed = [
        path.get("d")
        for path in ElementTree.fromstring(svg).iter(PATH)
        if path.get("stroke-dasharray") == "4,3"
    ]
    assert len(dashed) == 3
    svg = memory_map(Ledger([*facts[:3], *facts[7:], Closed(200)]), time="ns").svg()
    assert "4,3" not in svg


PATH = "{http://www.w3.org/2000/svg}path"


@pytest.mark.parametrize("window", [{"t0": 100, "t1": 200}, {"t0": 100}, {"t1": -1}, {"t0": -9, "t1": -1}])
@pytest.mark.parametrize("draw", [memory_map, use_over_time, queue_over_time])
def test_a_window_outside_the_run_is_a_sentence(draw, window):
    said = draw(MIXED, **window).description, lanes(WAITING, "request", **window).description

    assert said == tuple(
        f"This part of the time is outside the run, which goes from 0 to {end} ns." for end in (12, 20)
    )


def test_a_window_that_reaches_into_the_run_is_drawn():
    assert "4 grants" in memory_map(MIXED, t0=-5, t1=200).description
    with pytest.raises(ValueError, match="t1 is not before t0"):
        memory_map(MIXED, t0=200, t1=100)
