"""Controls as their kernel sees them: each move changes what is shown; without ipywidgets the still twin stays."""

import json
import sys
from html import escape
from xml.etree import ElementTree

import pytest

from autograder import learner as lab
from autograder.desk import Desk
from gpulab.memory.arena import BestFit, FirstFit
from gpulab.memory.operations import run_operations
from gpulab.report.compared import compare
from gpulab.report.control import WIDGET_MIME
from gpulab.report.form import number_in
from gpulab.report.instant import Scene, at
from gpulab.report.widgets import form, playground, scrub
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Opened, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Units

FACTS = [
    Opened(1_000, "arena", 8, "B"),
    Claimed(2_000, 0, "arena", 3, Contiguous(3, 1), "chat"),
    Granted(2_000, 0, 0, 3),
    Claimed(2_000, 1, "arena", 6, Contiguous(6, 1), "<b>"),
    Refused(2_000, 1, 5, 5),
    Freed(4_123, 0),
    Closed(5_000),
]


@pytest.fixture
def no_ipywidgets(monkeypatch):
    """A Python in which ipywidgets is not installed."""
    monkeypatch.setitem(sys.modules, "ipywidgets", None)


def shown(scrubber):
    """Where every control stands: event, number, clock, time place; and the words."""
    places = (scrubber.event.value, scrubber.go_to.value, scrubber.clock.value, scrubber.time.value)
    return places, scrubber.words.value


# -- scrubber ---------------------------------------------------------------------------------------


def test_whatever_is_moved_the_others_and_the_pictures_follow():
    scrubber, scene = scrub(Ledger(FACTS)), Scene(Ledger(FACTS))
    assert shown(scrubber)[0] == (6, 6, 6, 1000)  # it starts at the end
    moves = [
        (lambda: setattr(scrubber.event, "value", 4), 4, 250),
        (scrubber.on.click, 5, 781),
        (lambda: setattr(scrubber.time, "value", 0), 0, 0),
        (scrubber.back.click, 0, 0),
        (lambda: setattr(scrubber.go_to, "value", 5), 5, 781),
        (lambda: setattr(scrubber.clock, "value", 6), 6, 1000),
    ]
    for move, event, place in moves:
        move()
        expected = scene.at(event=event)
        places, words = shown(scrubber)
        assert places == (event, event, event, place)
        assert scrubber.instant.time_ns == expected.time_ns
        assert f"Event #{event} of #0 to #6. {expected.account}" in words
        assert f'aria-label="{escape(expected.said)}"' in scrubber.picture.value
        assert expected.facts._repr_html_() in scrubber.facts.value
    assert expected.picture.svg() in scrubber.picture.value


def test_between_two_events_the_time_stays_where_it_was_put():
    scrubber = scrub(Ledger(FACTS))
    scrubber.time.value = 500  # 4 ns a place
    assert (scrubber.instant.event, scrubber.instant.time_ns, scrubber.time.value) == (4, 3_000, 500)


def test_playing_at_the_end_begins_again_and_can_be_stopped():
    scrubber = scrub(Ledger(FACTS))
    assert scrubber.running.description == "Play"
    scrubber.running.value = True
    assert (scrubber.instant.event, scrubber.clock.playing, scrubber.running.description) == (0, True, "Stop")
    scrubber.clock.value = 3
    scrubber.running.value = False
    assert (scrubber.instant.event, scrubber.clock.playing, scrubber.running.description) == (
        3,
        False,
        "Play",
    )
    scrubber.running.value = True
    assert scrubber.instant.event == 3
    scrubber.clock.playing = False  # the clock stops by itself at the last event
    assert (scrubber.running.value, scrubber.running.description) == (False, "Play")


def test_a_level_is_chosen_where_there_are_several():
    ledger = Ledger([Opened(0, "gpu0", 4, "blocks"), Opened(0, "gpu1", 8, "blocks"), Closed(3)])
    scrubber = scrub(ledger)
    scrubber.event.value = 1
    scrubber.level.value = "gpu0→extent"
    assert scrubber.event.value == 1
    assert "gpu0→extent: used 0 blocks" in scrubber.words.value
    one = scrub(Ledger(FACTS), "arena→extent")
    assert one.level not in one.widget.children[2].children


@pytest.mark.parametrize("ledger", [Ledger(), Ledger(FACTS[:1])], ids=["empty", "one fact"])
def test_a_ledger_in_which_nothing_can_be_moved_is_its_still_picture(ledger):
    scrubber = scrub(ledger)
    data, _ = scrubber._repr_mimebundle_()
    assert scrubber.widget is None
    assert data["text/plain"].startswith(at(ledger).said)
    assert "<svg" in data["image/svg+xml"]


def test_every_control_has_a_name_and_markup_is_text():
    scrubber = scrub(Ledger(FACTS))
    row = scrubber.widget.children[2].children
    named = [scrubber.event, scrubber.time, *(one for one in row if one is not scrubber.clock)]
    assert [one.description for one in named] == [
        "Event",
        "Time",
        "Previous event",
        "Next event",
        "Play",
        "Event #",
    ]
    assert "<b>" not in scrubber.picture.value + scrubber.facts.value


# -- what a notebook stores -------------------------------------------------------------------------


def test_a_notebook_stores_picture_and_words_equal_in_each_run_and_a_widget_beside_them():
    first, second = (scrub(Ledger(FACTS)) for _ in range(2))
    first.event.value = 2  # what is stored is how it began
    (one, metadata), (other, _) = first._repr_mimebundle_(), second._repr_mimebundle_()
    assert sorted(one) == [WIDGET_MIME, "image/svg+xml", "text/plain"]
    assert one.pop(WIDGET_MIME)["model_id"] == first.widget.model_id
    other.pop(WIDGET_MIME)
    assert one == other
    assert one["text/plain"].endswith("The same without a widget: at(ledger, event=6)")
    assert metadata == {"image/svg+xml": {"alt": at(Ledger(FACTS)).account}}
    json.dumps(one)


def test_without_ipywidgets_each_control_is_its_still_twin_and_names_the_plain_function(no_ipywidgets):
    scrubber, ground = scrub(Ledger(FACTS)), playground(first_fit, size=(1, 8))
    fields = form(["a"], lambda values: f"predict(a={values['a']})")
    for control in (scrubber, ground, fields):
        assert control.widget is None
        assert WIDGET_MIME not in control._repr_mimebundle_()[0]
    assert "at(ledger, event=6)" in scrubber._repr_mimebundle_()[0]["text/plain"]
    assert "compare(run, dict(size=1), dict(size=8))" in ground._repr_mimebundle_()[0]["text/plain"]
    assert fields._repr_mimebundle_()[0]["text/plain"].endswith("\npredict(a=None)")
    assert "<svg" in ground._repr_mimebundle_()[0]["image/svg+xml"]
    fields.lock({"a": 3})
    assert fields.line == "predict(a=3)"
    assert scrubber._repr_mimebundle_()[0]["application/vnd.vegalite.v5+json"]


# -- playground -------------------------------------------------------------------------------------


def first_fit(size, rule="first"):
    """One free hole of 4 and one of 8 units of 512 B; then a claim of ``size`` units."""
    if size == 7:
        raise ValueError("seven <i>is</i> enough")
    if size == 6:
        return ["no ledger"]
    arena = (FirstFit if rule == "first" else BestFit)(16 * 512)
    steps = [["alloc", "a", 4 * 512], ["alloc", "b", 4 * 512], ["free", "a"], ["alloc", "c", size * 512]]
    return run_operations(arena, steps)


def pictures(html):
    """The drawings in ``html``, by their names."""
    return [
        ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>").get("aria-label")
        for part in html.split("<svg")[1:]
    ]


def test_a_move_runs_again_and_the_last_run_stays_beside_it():
    ground = playground(first_fit, size=(1, 8), rule=["first", "best"])
    assert pictures(ground.pictures.value) == ["size=1, rule='first'"]
    ground.controls["size"].value = 5
    assert pictures(ground.pictures.value) == ["size=1, rule='first'", "size=5, rule='first'"]
    ground.controls["rule"].value = "best"
    assert pictures(ground.pictures.value) == ["size=5, rule='first'", "size=5, rule='best'"]
    assert ground.runs == [
        ({"size": 5, "rule": "first"}, first_fit(5)),
        ({"size": 5, "rule": "best"}, first_fit(5, "best")),
    ]


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (7, "run(size=7) stopped: ValueError: seven &lt;i&gt;"),
        (6, "run(size=6) stopped: TypeError: run(size=6) gave list"),
    ],
)
def test_a_run_that_stops_is_said_and_the_pictures_stay(size, said):
    ground = playground(first_fit, size=(1, 8))
    ground.controls["size"].value = 2
    before = ground.pictures.value
    ground.controls["size"].value = size
    assert said in ground.trouble.value
    assert (ground.pictures.value, ground.runs[-1][0]) == (before, {"size": 2})
    ground.controls["size"].value = 3
    assert ground.trouble.value == ""
    assert pictures(ground.pictures.value) == ["size=2", "size=3"]


def test_sliders_start_at_their_first_value_and_floats_have_no_tails():
    asked = []
    ground = playground(
        lambda **values: asked.append(values) or Ledger(), load=(0.1, 0.9, 0.1), part=(0, 1.0), n=[3]
    )
    ground.controls["load"].value = 0.1 + 0.2
    assert asked == [{"load": 0.1, "part": 0, "n": 3}, {"load": 0.3, "part": 0.0, "n": 3}]


@pytest.mark.parametrize("choice", [(3, 1), (1,), [], "ab", (1, 2, 0), (1, "b"), 7, (True, False)])
def test_what_is_no_slider_is_said(choice):
    with pytest.raises(ValueError, match=r"^size=.* is no slider: write \(low, high\)"):
        playground(first_fit, size=choice)


# -- compare ----------------------------------------------------------------------------------------


def test_two_runs_are_compared_in_one_picture_and_one_table():
    picture = compare(first_fit, {"size": 4}, {"size": 8})
    titles = [part["title"]["text"] for part in picture.spec["vconcat"]]
    assert titles == [
        *("size=4: where the capacity went", "size=4: memory map"),
        *("size=8: where the capacity went", "size=8: memory map"),
    ]
    assert picture.table().columns == (
        "run",
        "used",
        "stranded",
        "fragmented",
        "unscheduled",
        "spare",
        "lasts",
        "refusals",
    )
    assert [row[0] for row in picture.table().rows] == ["size=4", "size=8"]
    assert picture.description.startswith("size=4: used ")
    with pytest.raises(ValueError, match="seven"):
        compare(first_fit, {"size": 7}, {"size": 8})
    with pytest.raises(TypeError, match=r"run\(size=6\) gave list; it must return a Ledger"):
        compare(first_fit, {"size": 6}, {"size": 8})


def test_long_runs_share_one_axis_of_time_and_an_empty_one_is_a_sentence():
    def run(facts):
        claims = [Claimed(10 + n, n, "arena", 1, Units(1), "a") for n in range(facts)]
        return Ledger([Opened(10, "arena", 900, "blocks"), *claims, Closed(10 + facts)])

    parts = compare(run, {"facts": 100}, {"facts": 200}).spec["vconcat"]
    domains = [part["layer"][0]["encoding"]["x"]["scale"]["domain"] for part in parts[1::2]]
    assert domains == [[10.0, 210.0], [10.0, 210.0]]
    table = compare(lambda n: Ledger(), {"n": 1}, {"n": 2}).table()
    assert [row[1] for row in table.rows] == ["no account", "no account"]


# -- the form of a prediction -----------------------------------------------------------------------


@pytest.fixture
def desk(monkeypatch):
    """A desk with nothing on it."""
    fresh = Desk()
    monkeypatch.setattr(lab, "_desk", fresh)
    monkeypatch.delenv("GPULAB_JUDGE", raising=False)
    return fresh


def test_the_form_shows_the_line_that_counts_and_commits_nothing(desk):
    made = lab.predict_form("02.predict-oom")
    assert list(made.fields) == ["largest_a", "largest_b"]
    assert made.line == 'predict("02.predict-oom", largest_a=None, largest_b=None)'
    made.fields["largest_a"].value = " 5_000 "
    made.fields["largest_b"].value = "many"
    assert made.line == 'predict("02.predict-oom", largest_a=5000, largest_b=None)'
    assert "Not a number: largest_b." in made.shown.value
    made.fields["largest_b"].value = ""
    assert "Not a number" not in made.shown.value
    assert desk.predicted == {}


def test_the_line_commits_once_and_every_form_then_shows_that_and_is_shut(desk, capsys):
    made = lab.predict_form("02.predict-oom")
    made.fields["largest_a"].value, made.fields["largest_b"].value = "5", "7.5"
    exec(made.line, {"predict": lab.predict})
    made.fields["largest_a"].value = "6"  # a front end that is late changes nothing
    lab.predict("02.predict-oom", largest_a=1, largest_b=1)

    later = lab.predict_form("02.predict-oom")
    for one in (made, later):
        assert one.line == 'predict("02.predict-oom", largest_a=5, largest_b=7.5)'
        assert all(field.disabled for field in one.fields.values())
        assert repr(one).startswith("Committed.")
    assert [field.value for field in later.fields.values()] == ["5", "7.5"]
    assert desk.predicted == {"02.predict-oom": {"largest_a": 5, "largest_b": 7.5}}
    assert "already committed, and it stays: largest_a=5, largest_b=7.5" in capsys.readouterr().out


def test_an_exercise_without_a_prediction_has_no_form(desk, capsys):
    assert lab.predict_form("02.best-fit") is None
    assert capsys.readouterr().out == "02.best-fit asks for no prediction.\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("5_905", 5905),
        ("-0.5", -0.5),
        ("1e3", 1000.0),
        ("", None),
        ("True", None),
        ("'5'", None),
        ("1e999", None),
        ("2 GiB", None),
        ("9" * 5000, None),
        ("(" * 300, None),
        ("[1]", None),
        ("\x00", None),
    ],
)
def test_a_field_takes_numbers_and_nothing_else(text, number):
    assert number_in(text) == number
