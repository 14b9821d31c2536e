"""A sitting: one conversation an exercise, while its cell runs; a score, never a verdict to the other side."""

import json
import os
import socket
import stat
import subprocess
import threading

import pytest

from autograder.checks.played import Outcome, capped
from autograder.course import Course
from autograder.judge import (
    Exercise,
    Sitting,
    answered_form,
    as_points,
    build_points,
    committed,
    reconciliation,
    share_of_way,
)
from autograder.verdict import Commitments, Feedback, Score, tidy_name, unfit

LEARNER = "from autograder.learner import *\nfrom autograder.references.lab02 import MyAllocator\n"


@pytest.fixture
def sitting():
    made = Sitting(Course.of("c", b"s"), "ann")
    yield made
    made.end()


def spoken(sitting, hello) -> bytes:
    """What the judge answers to a raw first packet."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(sitting.path)
        connection.send(hello if isinstance(hello, bytes) else json.dumps(hello).encode())
        return connection.recv(1000)


# -- one conversation -------------------------------------------------------------------------------


def test_one_conversation_while_the_cell_runs_gives_the_score(sitting, kernel):
    notebook = kernel(sitting.path)
    assert "not open now" in notebook.run(LEARNER + "check('02.first-fit', MyAllocator)")  # an early cell
    sitting.open("02.first-fit")
    shown = notebook.run("check('02.first-fit', MyAllocator)")
    again = notebook.run("check('02.first-fit', MyAllocator)")
    score = sitting.close()
    late = notebook.run("check('02.first-fit', MyAllocator)")
    assert (score.build_share, score.points, score.tag) == (1.0, 4.2, "")
    assert shown == "02.first-fit: received.\n"
    assert [again, late] == ["02.first-fit: not open now; nothing was changed.\n"] * 2


def test_a_cell_that_never_asks_scores_nothing_and_the_next_exercise_does_not_inherit(sitting, kernel):
    notebook = kernel(sitting.path)
    sitting.open("02.first-fit")
    notebook.run(LEARNER + "check('02.first-fit', MyAllocator)")
    assert sitting.close().build_share == 1.0
    sitting.open("02.strand")
    never = sitting.close()
    assert (never.exercise, never.points, never.max_points, never.tag) == (
        "02.strand",
        0.0,
        3.0,
        "never-asked",
    )
    assert "never asked the judge" in never.text
    assert spoken(sitting, ["02.strand", {}]) == b"not open"  # too late


def test_another_exercise_than_the_open_one_is_not_taken(sitting):
    sitting.open("02.strand")
    assert spoken(sitting, ["02.predict-oom", {}]) == b"not open"
    assert spoken(sitting, ["02.strand", {}]) == b"received"
    assert spoken(sitting, ["02.strand", {}]) == b"not open"
    assert sitting.close().tag == "not-answered"


def test_an_exercise_is_judged_once_even_if_its_cell_stands_there_twice(sitting):
    sitting.open("02.strand")
    assert spoken(sitting, ["02.strand", {"answered": {"cap_mib": 20}}]) == b"received"
    first = sitting.close()
    sitting.open("02.strand")
    assert spoken(sitting, ["02.strand", {}]) == b"not open"
    assert first.points == 0.75
    assert sitting.close().tag == "never-asked"


@pytest.mark.parametrize(
    "hello",
    [
        b"",
        b"\xff",
        b"[" * 50_000,
        b"[]",
        b"7",
        b'{"a": 1, "b": 2}',
        b'"ab"',
        b'[["02.strand"], {}]',
        b'["02.strand"]',
        b"[1, 2, 3]",
        b"x" * 100_000,
    ],
)
def test_a_first_packet_that_is_none_is_dropped_and_changes_nothing(sitting, hello):
    sitting.open("02.strand")
    assert spoken(sitting, hello) in (b"", b"not open")
    assert spoken(sitting, ["02.strand", {}]) == b"received"


def test_a_connection_that_says_nothing_does_not_keep_the_next_one_out(sitting):
    sitting.open("02.strand")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(sitting.path)
        assert spoken(sitting, ["02.strand", {}]) == b"received"


def test_once_a_process_is_expected_nobody_else_is_listened_to(sitting):
    sitting.open("02.strand")
    with subprocess.Popen(["sleep", "10"]) as stranger:
        sitting.expect(stranger.pid)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            spoken(sitting, ["02.strand", {}])
        stranger.kill()
    sitting.expect(os.getpid())
    assert spoken(sitting, ["02.strand", {}]) == b"received"


def test_close_waits_for_the_conversation_that_is_under_way(sitting, monkeypatch):
    asked, may_end = threading.Event(), threading.Event()

    class Slow(Exercise):
        id, points = "02.strand", 3.0

        def puzzle(self, course, learner, variant=None, size=""):
            return None

        def grade(self, course, said, asker):
            asked.set()
            may_end.wait(10)
            return Score(self.id, 3.0, 3.0)

        def visible(self, course, said, asker):
            return None

    monkeypatch.setattr("autograder.checks.exercises", lambda: {"02.strand": Slow()})
    sitting.open("02.strand")
    caller = threading.Thread(target=spoken, args=(sitting, ["02.strand", {}]))
    caller.start()
    asked.wait(10)
    closed: list = []
    closer = threading.Thread(target=lambda: closed.append(sitting.close()))
    closer.start()
    closer.join(0.1)
    assert closed == []
    may_end.set()
    closer.join()
    caller.join()
    assert closed[0].points == 3.0


def test_a_failure_of_the_judge_is_raised_by_close_and_told_to_nobody(sitting, monkeypatch):
    def breaks(self, course, said, asker):
        raise ArithmeticError("ours")

    monkeypatch.setattr("autograder.checks.lab02.strand.Strand.grade", breaks)
    sitting.open("02.strand")
    assert spoken(sitting, ["02.strand", {}]) == b"received"
    with pytest.raises(ArithmeticError, match="ours"):
        sitting.close()
    monkeypatch.undo()
    sitting.open("02.predict-oom")
    assert spoken(sitting, ["02.predict-oom", {}]) == b"received"
    assert sitting.close().tag == "not-answered"


def test_a_notebook_that_dies_in_the_middle_gets_a_name_and_the_judge_lives_on(sitting, kernel):
    notebook = kernel(sitting.path)
    sitting.open("02.first-fit")
    dies = (
        "import os\n"
        "class Dies(MyAllocator):\n    def place(self, size):\n        os._exit(1)\n"
        "check('02.first-fit', Dies)"
    )
    assert notebook.run(LEARNER + dies) == ""
    score = sitting.close()
    assert (score.tag, score.points) == ("gone", 0.0)
    sitting.open("02.strand")
    assert spoken(sitting, ["02.strand", {}]) == b"received"


def test_nobody_else_can_reach_the_socket_and_nothing_is_left_of_it(sitting):
    folder = os.path.dirname(sitting.path)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    sitting.end()
    assert not os.path.exists(folder)
    assert not sitting._thread.is_alive()
    sitting.end()  # twice is fine


# -- nothing comes back -----------------------------------------------------------------------------

RECORDS = """
import socket
heard = []
class Recorded(socket.socket):
    def recv_into(self, buffer, *rest):
        size = super().recv_into(buffer, *rest)
        heard.append(bytes(buffer[:size]).decode())
        return size
socket.socket = Recorded
"""


def test_a_learners_process_hears_questions_and_received_and_nothing_else(sitting, kernel):
    notebook = kernel(sitting.path)
    wrong = "class Wrong(MyAllocator):\n    def place(self, size):\n        return 512\n"
    sitting.open("02.first-fit")
    notebook.run(RECORDS + LEARNER + wrong + "check('02.first-fit', Wrong)")
    assert sitting.close().points == 0.0
    for exercise in ("02.predict-oom", "02.strand"):
        sitting.open(exercise)
        notebook.run(f"check({exercise!r})")
        sitting.close()
    heard = json.loads(notebook.run("import json; print(json.dumps(heard))"))
    questions = [json.loads(packet) for packet in heard if packet.startswith("[")]
    assert [packet for packet in heard if not packet.startswith("[")] == ["received"] * 3
    assert {(question[1], *(told[0] for told in question[3][:1])) for question in questions} <= {
        ("new",),
        ("place",),
        ("place", "reclaim"),
    }
    assert {key for question in questions if question[1] == "new" for key in question[2][0]} == {
        "capacity",
        "alignment",
        "rules",
    }


def test_printing_patching_and_lying_raise_no_score(sitting, kernel):
    notebook = kernel(sitting.path)
    sitting.open("02.first-fit")
    cheat = """
import autograder.judge as judge, autograder.checks.lab02.first_fit as first_fit, autograder.verdict as verdict
judge.build_points = first_fit.build_points = lambda *a: 6.0
verdict.Score.points = 6.0
first_fit.BANDS = ((0.0, 1.0),)
class Lies(MyAllocator):
    def place(self, size):
        print(6.0)
        return None
print(check('02.first-fit', Lies), 6.0)
"""
    assert "6.0" in notebook.run(LEARNER + cheat)
    assert sitting.close().points == 0.0


# -- what was typed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        10**19,
        10**400,
        float("nan"),
        float("inf"),
        "x" * 201,
        {"a": 1},
        [[[[[1]]]]],
        list(range(101)),
        ["ok", {"a": 1}],
    ],
)
def test_a_value_that_is_no_answer_counts_as_not_given(value):
    assert unfit(value)
    said = Commitments.read({"answered": {"a": value, "b": 5, "c": None}})
    assert said.answered == {"b": 5}


def test_commitments_of_any_other_form_are_empty():
    for value in (None, 3, "text", [], {"learner": 7, "predicted": [1], "answered": "x", "reconciled": None}):
        assert Commitments.read(value) == Commitments()
    fine = {
        "learner": "ann",
        "predicted": {"a": 1.5},
        "reconciled": {"events": [1, [2]]},
        "answered": {"b": "c"},
    }
    assert Commitments.read(fine) == Commitments("ann", {"a": 1.5}, {"events": [1, [2]]}, {"b": "c"})


@pytest.mark.parametrize(
    ("typed", "drawn_for"),
    [
        ("", ""),
        ("  Ada  ", "Ada"),
        (None, ""),
        (7, ""),
        ("Zo\u0065\u0308", "Zo\u00eb"),
        ("a\ud800b", "a?b"),
        ("a\nb\x00", "a?b?"),
        ("x" * 200, "x" * 80),
        ("李雷", "李雷"),
    ],
)
def test_a_name_is_tidied_the_same_way_wherever_it_is_read(typed, drawn_for):
    assert tidy_name(typed) == drawn_for
    assert tidy_name(drawn_for) == drawn_for
    assert Commitments.read({"learner": typed}).learner == drawn_for
    Course.self_study().of_learner("02.strand", drawn_for)


def test_huge_numbers_and_half_characters_in_answers_are_judged_and_break_nothing(sitting):
    answered = {"reserved_mib": 2**62, "stranded_mib": -(2**62), "cap_mib": 2**62}
    hostile = {
        "learner": "\ud800",
        "answered": {**answered, "largest_a": 2**63 - 1, "largest_b": "\ud800", "blocks_it": ["\x00"]},
        "reconciled": {"cause": ["fragmented"], "events": [[[[1]]], 10**19, True]},
        "predicted": {"largest_a": True, "largest_b": 2.0, "refusals": "6"},
    }
    for exercise in ("02.predict-oom", "02.strand"):
        sitting.open(exercise)
        assert spoken(sitting, [exercise, hostile]) == b"received"
        score = sitting.close()
        (score.text + score.html).encode()
        assert score.points < 1.0


# -- marks ------------------------------------------------------------------------------------------


def test_points_are_shares_to_a_hundredth_and_never_outside():
    assert build_points(6.0, True, 1.0, 1.0) == 6.0
    assert build_points(6.0, True, 0.5, 0.3) == round(0.6 + 0.6 + 1.26, 2)
    assert build_points(6.0, False, 0.0, 1.0) == 4.2
    assert [as_points(share, 3.0) for share in (-1.0, 0.333, 2.0)] == [0.0, 1.0, 3.0]
    cuts = ((0.0, 0.3), (0.5, 0.5), (1.0, 1.0))
    assert [share_of_way(share, cuts) for share in (0.0, 0.49, 0.5, 0.999, 1.0)] == [0.3, 0.3, 0.5, 0.5, 1.0]


def test_a_prediction_counts_when_every_number_is_there_whatever_it_says():
    assert committed(Commitments("", {"a": 1, "b": 2.5}), ("a", "b")) == (True, "Prediction: committed.")
    for predicted in ({"a": 1}, {"a": 1, "b": "2"}, {"a": 1, "b": True}, {}):
        assert not committed(Commitments("", predicted), ("a", "b"))[0]


@pytest.mark.parametrize(
    ("cause", "events", "share"),
    [
        ("fragmented", [3, 5], 1.0),
        ("fragmented", [3], 1.0),
        ("fragmented", [3, 4], 0.5),
        ("fragmented", [], 0.5),
        ("spare", [5], 0.5),
        ("spare", [4], 0.0),
        (None, None, 0.0),
        ("fragmented", 3, 0.5),
        ("fragmented", ["3", True], 0.5),
    ],
)
def test_reconciling_is_half_the_cause_and_half_the_events(cause, events, share):
    said = Commitments("", {}, {"cause": cause, "events": events})
    assert reconciliation(said, "fragmented", {3, 5})[0] == share


def test_what_was_left_open_is_not_called_wrong():
    assert reconciliation(Commitments({}, {}, {}), "fragmented", {3}) == (0.0, "Reconciled: not yet.")
    open_build = [Outcome(lawful=False, tag="not-solved")] * 2
    assert capped(open_build) == (0.0, "Build: not solved yet.")
    assert "a safety law was broken; 0%" in capped([*open_build, Outcome(lawful=False, tag="overlap")])[1]


def test_the_form_of_answers_is_told_and_nothing_of_their_worth():
    class Two(Exercise):
        id, points, fields = "90.two", 2.0, ("count", "who")

        def puzzle(self, course, learner, variant=None, size=""):
            return None

        grade = visible = puzzle

    kinds = {"count": int, "who": str}
    told = [
        answered_form(Two(), Commitments("", {}, {}, answered), kinds)
        for answered in ({}, {"count": "3", "who": "a"}, {"count": True, "who": 7}, {"count": 3, "who": "a"})
    ]
    assert [score.notes[0] for score in told] == [
        "count: not answered yet; who: not answered yet.",
        "count: '3' is not a whole number.",
        "count: True is not a whole number; who: 7 is not a name.",
        "Complete; it is graded when you hand in.",
    ]
    assert [score.points for score in told] == [0.0] * 4
    for missing in (Two().watched, lambda _: Two().practise(None, None, {})):
        with pytest.raises(NotImplementedError, match=r"90\.two"):
            missing(None)


class Drawn:
    def svg(self):
        return "<svg>drawn</svg>"


def test_feedback_is_escaped_and_its_picture_stands_inside_with_its_caption():
    evil = "<script>alert(1)</script>"
    said = Feedback(*(f"{part} {evil}" for part in ("rule", "event", "expected", "got", "question")))
    plain = Score("90.x", 1.0, 2.0, "tag", (evil,), said)
    assert "<script>" not in plain.html
    assert plain.html.count("&lt;script&gt;") == 6
    assert plain.text.count(evil) == 6
    assert "<figure>" not in plain.html
    drawn = Score("90.x", 2.0, 2.0, "", (), Feedback("r", "e", "x", "g", "q", Drawn(), "where & what"))
    assert "<figure><svg>drawn</svg><figcaption>where &amp; what</figcaption></figure>" in drawn.html
    assert (drawn.full, plain.full) == (True, False)
    assert drawn._repr_mimebundle_() == {"text/plain": drawn.text, "text/html": drawn.html}
    assert drawn.text.splitlines()[-1] == "where & what"
