"""What a learner calls: it notes what was typed as it will be judged, and says at once what it cannot take."""

import numpy as np
import pytest

from autograder import learner as lab
from autograder.answerer import Unsendable
from autograder.checks import exercises
from autograder.course import Course
from autograder.desk import Desk
from autograder.judge import Sitting
from autograder.references.lab02 import MyAllocator
from gpulab.telemetry.ledger import Ledger


@pytest.fixture(autouse=True)
def desk(monkeypatch, tmp_path):
    """A desk with nothing on it, in a folder without a course card, away from any judge."""
    fresh = Desk()
    monkeypatch.setattr(lab, "_desk", fresh)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPULAB_JUDGE", raising=False)
    return fresh


@pytest.fixture
def said(capsys):
    """A function that gives what was printed since it was last called."""
    return lambda: capsys.readouterr().out


# -- who --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", "   ", None, "\n"])
def test_without_a_name_one_is_offered_and_tasks_are_drawn_all_the_same(empty, said, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "grace")
    lab.learner(empty)
    assert 'name = "grace"' in said()
    for name in ("02.predict-oom", "02.strand", "02.first-fit"):
        assert lab.puzzle(name) == exercises()[name].puzzle(Course.self_study(), "")


@pytest.mark.parametrize("name", ["Zo\u0065\u0308", "  sam ", "x" * 300, "a\ud800", 7, "李雷"])
def test_the_task_shown_is_the_one_that_is_graded_whatever_the_name(name, desk, kernel, said):
    lab.learner(name)
    assert said().startswith("Hello ")
    course = Course.self_study()
    strand = exercises()["02.strand"]
    lab.answer("02.strand", reserved_mib=1, stranded_mib=2, cap_mib=3)
    sitting = Sitting(course, "ann")
    try:
        sitting.open("02.strand")
        notebook = kernel(sitting.path)
        notebook.run(f"from autograder.learner import *\nlearner({name!r})\ncheck('02.strand')")
        score = sitting.close()
    finally:
        sitting.end()
    assert lab.puzzle("02.strand") == strand.puzzle(course, score.typed_name)
    assert score.typed_name == desk.name


def test_an_unknown_exercise_is_named_with_those_there_are():
    for call in (
        lab.puzzle,
        lab.hint,
        lab.check,
        lab.variant,
        lab.watch,
        lab.show_message,
        lab.blocks,
        lab.rules,
    ):
        with pytest.raises(
            ValueError, match=r"no exercise '02\.frist-fit'; there are: .*02\.predict-oom, 02\.first"
        ):
            call("02.frist-fit")


# -- predict, watch, reconcile ----------------------------------------------------------------------


def test_a_prediction_is_locked_and_watching_waits_for_it(said):
    assert lab.watch("02.first-fit") == Ledger()
    assert "predict first" in said()
    lab.predict("02.first-fit", refusals=6)
    lab.predict("02.first-fit", refusals=7)
    assert said().splitlines() == [
        "02.first-fit: committed: refusals=6.",
        "02.first-fit: already committed, and it stays: refusals=6.",
    ]
    assert len(lab.watch("02.first-fit")) > 40


@pytest.mark.parametrize(
    ("guesses", "words"),
    [
        ({"largest_a": None, "largest_b": None}, "Still open: largest_a, largest_b."),
        ({"largest_a": 5}, "Still open: largest_b."),
        ({"largest_a": 5, "largest_b": "many"}, "largest_b is 'many'; write a number"),
        ({"largest_a": 5, "largest_b": True}, "largest_b is True; write a number"),
        ({"largest_a": 5, "largest_b": 10**30}, "largest_b: it is too large"),
        ({"largest_a": 5, "largest_b": {1}}, "a set cannot be sent"),
        ({"largest": 5}, "largest was given"),
        ({}, "nothing was given"),
    ],
)
def test_a_prediction_that_would_not_count_is_not_called_committed(guesses, words, said, desk):
    lab.predict("02.predict-oom", **guesses)
    told = said()
    assert words in told
    assert ": committed" not in told
    assert desk.predicted == {}


def test_numpy_numbers_and_halves_are_predictions_too(desk):
    lab.predict("02.predict-oom", largest_a=np.int64(5), largest_b=np.float64(2.5))
    assert desk.predicted["02.predict-oom"] == {"largest_a": 5, "largest_b": 2.5}


@pytest.mark.parametrize(
    ("events", "noted"),
    [
        ([13], [13]),
        (13, [13]),
        ((1, 2), [1, 2]),
        (np.int64(4), [4]),
        ([np.int32(4)], [4]),
        (range(2), [0, 1]),
    ],
)
def test_events_may_be_one_number_or_several(events, noted, desk, said):
    lab.reconcile("02.predict-oom", cause="fragmented", events=events)
    assert desk.reconciled["02.predict-oom"] == {"cause": "fragmented", "events": noted}
    assert f"#{noted[-1]}" in said()


@pytest.mark.parametrize(
    ("cause", "events", "words"),
    [
        (None, [], "not reconciled yet. Causes: used, stranded"),
        ("bad luck", [], "'bad luck' is not on the list"),
        (["used"], [], "is not on the list"),
        ("used", "17", "write the numbers of the events"),
        ("used", [True], "write the numbers of the events"),
        ("used", [1.5], "write the numbers of the events"),
        ("used", list(range(200)), "too large"),
        ("used", [object()], "cannot be sent"),
    ],
)
def test_what_cannot_be_reconciled_is_said_and_not_noted(cause, events, words, said, desk):
    lab.reconcile("02.predict-oom", cause=cause, events=events)
    assert words in said()
    assert desk.reconciled == {}


# -- answer -----------------------------------------------------------------------------------------


def test_the_last_answer_counts_and_none_is_no_answer(said, desk):
    lab.answer("02.strand", reserved_mib=None, stranded_mib=None, cap_mib=None)
    assert said() == "02.strand: not answered yet.\n"
    lab.answer("02.strand", reserved_mib=np.int64(5), cap_mib=20)
    assert said().splitlines() == [
        "02.strand: noted: reserved_mib=5, cap_mib=20.",
        "Still open: stranded_mib.",
    ]
    lab.answer("02.strand", reserved_mib=7, stranded_mib=None, cap_mib=20)
    assert desk.answered["02.strand"] == {"reserved_mib": 7, "cap_mib": 20}


@pytest.mark.parametrize("odd", [{1}, object(), float("nan"), "x" * 300, 10**30, [[[[[[1]]]]]]])
def test_an_answer_that_cannot_be_judged_is_refused_and_the_earlier_one_stays(odd, said, desk):
    lab.answer("02.strand", cap_mib=20)
    said()
    lab.answer("02.strand", cap_mib=odd)
    assert said().startswith("02.strand: not noted: ")
    assert desk.answered["02.strand"] == {"cap_mib": 20}


def test_checking_answers_tells_their_form_and_never_their_worth():
    lab.learner("sam")
    exercise = exercises()["02.predict-oom"]
    key = exercise.key(lab.puzzle("02.predict-oom", "graded"))
    shown = []
    for wrong in (0, 1):
        lab.answer(
            "02.predict-oom",
            largest_a=key.largest_a + wrong,
            largest_b=key.largest_b,
            blocks_it=key.blocks_it,
        )
        shown.append(lab.check("02.predict-oom").text)
    assert shown == ["02.predict-oom: Complete; it is graded when you hand in."] * 2
    lab.answer("02.predict-oom", largest_a="1")
    text = lab.check("02.predict-oom").text
    assert (
        text
        == "02.predict-oom: largest_a: '1' is not a whole number; largest_b: not answered yet; blocks_it: not answered yet."
    )
    assert not lab.check("02.predict-oom").passed


# -- check ------------------------------------------------------------------------------------------


def test_the_reference_passes_and_shows_no_picture():
    shown = lab.check("02.first-fit", MyAllocator)
    assert shown.passed
    assert "passed on the public inputs" in shown.text
    data, metadata = shown._repr_mimebundle_()
    assert list(data) == ["text/plain"]
    assert metadata == {"gpulab": {"exercise": "02.first-fit", "points": 4.2, "max": pytest.approx(4.2)}}


def test_a_fault_is_shown_as_text_and_as_a_picture_of_a_small_trace():
    class Low(MyAllocator):
        def place(self, size):
            return 0

    shown = lab.check("02.first-fit", Low)
    assert not shown.passed
    assert shown.score.tag == "overlap"
    data, _ = shown._repr_mimebundle_()
    assert "No byte is held by two claims." in data["text/plain"]
    assert "<svg" in data["text/html"]


def test_an_unsolved_class_is_told_so_politely():
    class Unsolved(MyAllocator):
        def place(self, size):
            raise NotImplementedError("yours to write")

    shown = lab.check("02.first-fit", Unsolved)
    assert shown.text.startswith("02.first-fit: not solved yet.")
    assert list(shown._repr_mimebundle_()[0]) == ["text/plain"]


@pytest.mark.parametrize("handed", [None, 7, "MyAllocator", MyAllocator(512)])
def test_what_is_no_class_is_asked_for_again(handed, said):
    shown = lab.check("02.first-fit", handed)
    assert "hand in your class, without brackets" in said()
    assert shown.text.startswith("02.first-fit: not solved yet.")


def test_under_grading_check_returns_and_prints_no_verdict(said, monkeypatch):
    sitting = Sitting(Course.of("c", b"s"), "ann")
    monkeypatch.setenv("GPULAB_JUDGE", sitting.path)
    try:
        sitting.open("02.first-fit")
        assert lab.check("02.first-fit", MyAllocator) is None
        assert sitting.close().build_share == 1.0
        assert lab.check("02.first-fit", MyAllocator) is None
    finally:
        sitting.end()
    assert said() == "02.first-fit: received.\n02.first-fit: not open now; nothing was changed.\n"
    with pytest.raises(OSError, match="No such file"):
        lab.check("02.first-fit", MyAllocator)


# -- help -------------------------------------------------------------------------------------------


def test_hints_come_one_by_one_and_end(said):
    for step in (1, 2, 3):
        lab.hint("02.first-fit")
        assert said().startswith(f"Hint {step} of 3:\n")
    lab.hint("02.first-fit")
    assert "no further hints" in said()


def test_blocks_say_how_far_an_order_is_right(said):
    lab.blocks("02.first-fit")
    assert len(said().splitlines()) == 9
    for order, words in (
        ("bfadge", "That order works."),
        ("b f a d g e", "That order works."),
        ("bfc", "The first 2 of your letters"),
        ("bfad", "The first 4 of your letters"),
        ("x", "The first 0 of your letters"),
    ):
        lab.blocks("02.first-fit", order)
        assert words in said()
    lab.blocks("02.strand")
    assert "no blocks to order" in said()


def test_the_message_shown_is_a_real_one(said):
    lab.show_message("02.first-fit")
    told = said()
    assert 'judge: [3, "place", [4096], [["reclaim", [0, 1048576]]]]' in told
    assert 'you:   [3,"ok",0]' in told
    assert "its values need not be right" in told
    lab.show_message("02.strand")
    assert "The judge sends nothing" in said()
    lab.show_message("02.break")
    assert "the judge makes your class" in said()


def test_a_prediction_that_is_chosen_from_names_takes_one_of_them(said, desk):
    for odd in (3, "lost", ["used"]):
        lab.predict("01.account", largest=odd)
        assert f"largest is {odd!r}; write one of 'used', 'stranded'" in said()
    lab.predict("01.account", largest="spare")
    assert said() == "01.account: committed: largest='spare'.\n"


def test_a_function_hears_its_constants_by_the_names_of_its_arguments(said):
    given = lab.rules("01.account")
    assert said() == f"depth_claims is {given['depth_claims']} claims in this course\n"


def test_the_constants_are_those_of_the_course(said):
    assert lab.rules("02.first-fit") == Course.self_study().rules["02.first-fit"]
    assert 'self.rules["threshold"] is ' in said()
    assert lab.rules("02.strand") == {}


def test_practice_is_fresh_each_time_begins_again_and_tells_all():
    drawn = [lab.variant("02.strand").task for _ in range(lab.PRACTICES + 1)]
    assert len(set(drawn[:-1])) == lab.PRACTICES
    assert drawn[-1] == drawn[0]
    assert lab.variant("02.strand", size="tiny").task.layers == 3
    practice = lab.variant("02.strand")
    assert practice.text.startswith("Practice 3 of 02.strand\n")
    assert practice._repr_mimebundle_() == {"text/plain": practice.text}
    told = practice.check(reserved_mib=1, stranded_mib=1, cap_mib=20)
    assert told.tag == "other-number"
    with pytest.raises(Unsendable):
        practice.check(reserved_mib=object())
    oom = lab.variant("02.predict-oom")
    key = exercises()["02.predict-oom"].key(oom.task.graded)
    assert oom.check(largest_a=key.largest_a, largest_b=key.largest_b, blocks_it=key.blocks_it).tag == ""
    assert len(oom.ledger) > 10
    assert "practice, no points" in told.text and "practice, no points" in told.html


@pytest.mark.parametrize(
    "say, heard",
    [
        (lambda: lab.predict("00.read", x=1), "00.read asks for no prediction."),
        (
            lambda: lab.answer("02.first-fit", x=1),
            "02.first-fit asks for no answers: check() plays what you built.",
        ),
        (
            lambda: lab.variant("02.first-fit").check(x=1),
            "asks for no answers: check() plays what you built.",
        ),
        (lambda: lab.variant("00.read").check(peek_bytes=3), "write p.check(peak_bytes=…, overlap_ns=…"),
        (lambda: lab.variant("00.read").check(peek_bytes=3), "last_copy=…); peek_bytes was given."),
        (lambda: lab.variant("00.read").check(), "nothing was given."),
        (
            lambda: lab.variant("02.first-fit").check(print),
            "asks for no answers: check() plays what you built.",
        ),
        (
            lambda: lab.variant("04.batching").check(print),
            "by name; what you built is played by check('04.batching', …).",
        ),
        (lambda: lab.blocks("02.first-fit", ["b", "f"]), "Write the letters in one string, for example"),
    ],
)
def test_a_call_that_asks_for_something_else_is_told_what_to_write(say, heard, said):
    assert say() is None
    assert heard in said()


def test_a_tiny_practice_case_has_at_most_six_events_and_the_references_run():
    tiny = lab.variant("02.first-fit", size="tiny")
    assert len(tiny.task.claims) == 3
    assert "claim 0" in tiny.text
    assert {fact.claim for fact in tiny.ledger if hasattr(fact, "claim")} == {0, 1, 2, 3}
