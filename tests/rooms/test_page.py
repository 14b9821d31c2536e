"""gpulab/report/page.py and `gpulab report`: one page for any ledger, and a sentence for what is none."""

import json

import pytest
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.report import sections
from gpulab.report.page import page
from gpulab.telemetry.events import (
    Attached,
    Claimed,
    Closed,
    Ended,
    Freed,
    Granted,
    Launched,
    Occupied,
    Opened,
    Refused,
    Started,
    Used,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous
from tests.accessibility import broken_rules
from tests.fakes.serving import Lottery

EVIL = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\x00"

RUN = [
    Attached(0, "gpu & co", "sim", 4, 10**12, "simulated: <b>spec</b>", "asked"),
    Opened(0, "arena", 8, "B"),
    *(Claimed(10, 0, "arena", 6, Contiguous(6), EVIL), Granted(10, 0, 0, 6), Used(10, 0, 5)),
    *(Claimed(20, 1, "arena", 4, Contiguous(4), "b"), Refused(20, 1, 2, 2)),
    *(
        Launched(20, 0, "main", "saxpy", 8, 100),
        Started(25, 0),
        Occupied(25, 4, 8),
        Ended(45, 0),
        Occupied(45, 0, 0),
    ),
    *(Freed(50, 0), Granted(50, 1, 0, 4), Closed(100)),
]


def report(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


@pytest.fixture(scope="module")
def made():
    return page(Ledger(RUN), "run.jsonl")


def test_the_page_has_the_audit_the_account_the_pictures_and_their_tables(made):
    assert (made.pictures, made.violations) == (8, 0)
    assert "Sound: all 15 facts keep every law." in made.html
    assert "In B × ns: used 400 (50.0 %), stranded 40 (5.0 %), fragmented 0 (0.0 %)" in made.html
    for title in (
        "Memory map of arena",
        "Use of arena",
        "Queue of arena",
        "Claims on arena",
        "Work on streams",
    ):
        assert f'<figure aria-label="{title}' in made.html
        assert f"<summary>The same as a table: {title}" in made.html
    assert Ledger(RUN).digest() in made.html
    assert "Its times are simulated: &lt;b&gt;spec&lt;/b&gt;." in made.html


def test_the_page_says_who_lost_most_and_who_is_charged(made):
    assert "The largest causes of loss, arena→extent" in made.html
    assert "Of the capacity, by owner, arena→extent: all owners" in made.html


def test_a_ledger_of_requests_has_its_numbers_and_both_gauges():
    found = page(Lottery("1/page", 40).run(), "served")

    assert found.violations == 0
    for title in ("Distribution of latency", "Where the time went", "Requests over time"):
        assert f'<figure aria-label="{title}' in found.html
    assert "until the first token" in found.html
    assert "Of the capacity, by tenant, kv→extent: all tenants" in found.html
    assert broken_rules(found.html) == []


def test_the_page_keeps_the_rules_of_accessibility_and_asks_for_nothing(made):
    assert broken_rules(made.html) == []


def test_names_are_text_and_never_run(made):
    assert "<script" not in made.html
    assert "<img" not in made.html
    assert "&lt;script&gt;" in made.html
    assert broken_rules(page(Ledger(RUN), EVIL).html) == []


def test_the_checker_sees_each_broken_rule():
    bad = (
        "<html><body><h2>a</h2><svg></svg><figure><table><tr><th>x</th></tr></table></figure><script>1</script>"
        '<p id="a" onclick="x"></p><p id="a"></p><img src="http://x/"><div class="wide"></div>'
        '<svg role="img" aria-label="n"><text fill="#999999">low</text></svg><style>p { color: #aaaaaa }</style></body>'
    )
    assert broken_rules(bad) == [
        *("html-has-lang", "heading-order: h2 after h0", "svg-img-alt", "a figure without a name"),
        *(
            "th-has-data-cells",
            "a table without caption or headers",
            "a figure without a caption",
            "a script",
        ),
        *("runs onclick", "duplicate-id: a", "asks for http://x/", "scrollable-region-focusable"),
        *("color-contrast: #999999", "color-contrast: #aaaaaa"),
        *("title is missing", "main is missing", "h1 is missing", "page-has-heading-one"),
    ]


def test_equal_ledgers_give_equal_pages(made):
    assert page(Ledger(RUN), "run.jsonl").html == made.html


def test_a_broken_ledger_is_told_with_its_story_and_still_drawn():
    twice = Ledger([*RUN[:5], *RUN[3:5], Closed(100)])
    found = page(twice, "twice")

    assert found.violations == 1
    assert "Broken: 1 facts break a law, the first is #5." in found.html
    assert "There is no account of this level: #5" in found.html
    assert found.pictures == 4
    assert broken_rules(found.html) == []


def test_a_ledger_in_which_nothing_happened_is_a_page_that_says_so(tmp_path):
    Ledger().to_jsonl(tmp_path / "empty.jsonl")
    shown = report(tmp_path / "empty.jsonl", "-o", tmp_path / "empty.html")

    assert shown.exit_code == 0, shown.output
    text = (tmp_path / "empty.html").read_text(encoding="utf-8")
    assert "This ledger holds no fact: nothing happened" in text
    assert broken_rules(text) == []


@pytest.mark.parametrize(
    "facts",
    [
        [Closed(5)],
        [Opened(10**12, "arena", 8, "B")],
        RUN[:7],
        [*RUN[:-1], Attached(99, "two", "sim", 2, 1, "simulated", "asked"), Opened(99, "two", 4, "blocks")],
        [Opened(0, "a", 10**400, "B"), Claimed(0, 0, "a", 1, Contiguous(1), "x"), Closed(9)],
        [Freed(0, 3), Granted(1, 9, 0, 5), Ended(2, 2)],
    ],
    ids=["closed", "one", "cut", "two devices", "huge", "about nothing"],
)
def test_any_facts_are_a_page(facts):
    assert broken_rules(page(Ledger(facts), "facts").html) == []


def test_what_is_too_much_for_a_page_is_named(monkeypatch):
    monkeypatch.setattr(sections, "MOST_DRAWN", 1)
    html = page(Ledger([Opened(0, name, 1, "B") for name in ("first", "second")]), "two").html

    assert "2 levels; not drawn: second→extent." in html
    assert "2 resources, the others are not drawn" in html
    assert "Memory map of second" not in html


def test_the_command_writes_one_file_and_says_what_is_in_it(tmp_path):
    Ledger(RUN).to_jsonl(tmp_path / "run.jsonl")
    shown = report(tmp_path / "run.jsonl", "-o", tmp_path / "report.html")

    assert shown.exit_code == 0, shown.output
    assert "15 facts, 8 pictures" in shown.output
    assert "every law is kept" in shown.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run.jsonl"]


HEADER = '{"gpulab":"ledger","version":1}\n'
GOOD = '["Opened",0,"arena",8,"B",""]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is no file"),
        ("", "is empty"),
        ("a,b\n1,2\n", "line 1, column 1: 'a,b' is no fact of a ledger"),
        ("\x89PNG\r\n", "line 1"),
        ('{"gpulab":"ledger","version":2}\n', "the first line must be"),
        (HEADER + '["Closed",NaN]\n', "NaN is no number"),
        (HEADER + '["Closed",-Infinity]\n', "-Infinity is no number"),
        (HEADER + GOOD + '["Clos', "--skip-broken"),
        (HEADER + GOOD.replace("0", "5", 1) + '["Closed",4]\n', "Facts are written in the order"),
        (HEADER + "[" * 100_000 + "\n", "nested too deeply"),
        (HEADER + '["Closed",' + "9" * 5000 + "]\n", "line 2"),
        (HEADER + "7\n", "line 2"),
        (HEADER + f'["Closed",{10**400}]\n', "too large"),
    ],
    ids=[
        "missing",
        "empty",
        "csv",
        "png",
        "version",
        "nan",
        "infinity",
        "cut",
        "back",
        "deep",
        "long",
        "number",
        "huge",
    ],
)
def test_what_is_no_ledger_is_a_sentence_and_leaves_the_old_page(tmp_path, text, said):
    ledger, out = tmp_path / "run.jsonl", tmp_path / "report.html"
    out.write_text("old")
    if text is not None:
        ledger.write_text(text, encoding="utf-8")
    shown = report(ledger, "-o", out)

    assert shown.exit_code == 1
    assert said in " ".join(shown.output.split())
    assert "Traceback" not in shown.output
    assert out.read_text() == "old"


def test_a_ledger_cut_off_in_the_middle_can_be_reported_up_to_there(tmp_path):
    path = tmp_path / "cut.jsonl"
    path.write_text(HEADER + GOOD + '["Clos')
    shown = report(path, "--skip-broken", "-o", tmp_path / "cut.html")

    assert shown.exit_code == 0, shown.output
    assert "Only the 1 facts before line 3 are told" in (tmp_path / "cut.html").read_text(encoding="utf-8")


def test_the_ledger_is_never_overwritten_and_a_folder_that_is_missing_is_said(tmp_path):
    path = tmp_path / "run.jsonl"
    Ledger(RUN).to_jsonl(path)
    assert "is the ledger itself" in report(path, "-o", path).output
    assert report(path, "-o", tmp_path / "nowhere" / "x.html").exit_code == 1
    assert Ledger.from_jsonl(path) == Ledger(RUN)


def test_half_a_character_in_a_name_is_replaced(tmp_path):
    path, out = tmp_path / "half.jsonl", tmp_path / "half.html"
    Ledger(RUN[1:4]).to_jsonl(path)
    text = path.read_text(encoding="utf-8").replace(json.dumps(EVIL), '"\\ud800"')
    path.write_text(text, encoding="utf-8")
    shown = report(path, "-o", out)

    assert "ud800" in text
    assert shown.exit_code == 0, shown.output
    assert "\ufffd #1" in out.read_text(encoding="utf-8")
