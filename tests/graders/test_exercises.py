"""The same demands on every exercise that has a sheet: full marks, none, each misconception, no way round."""

import importlib
import inspect
import json
import pkgutil
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpulab
from autograder.answerer import Answerer
from autograder.channel import AnswerFault, InProcess
from autograder.checks import exercises, played, texts
from autograder.course import Course
from autograder.judge import Sitting
from autograder.verdict import Commitments
from gpulab.report import charts

sys.path.insert(0, str(Path(__file__).parent))
from remembered import draw_once
from sheets import all_sheets, course_of, graded, score_of

OWN = {"07.policy"}  # a grading takes seconds: the same demands, and its own, are in test_lab07_policy.py
SHEETS = {sheet.exercise: sheet for sheet in all_sheets() if sheet.exercise not in OWN}
BUILDS = [name for name, sheet in SHEETS.items() if sheet.builds]
WRONG = [(name, wrong) for name, sheet in SHEETS.items() for wrong in sheet.wrong]
CONSTANTS = [(name, n) for name, sheet in SHEETS.items() for n in range(len(sheet.constants))]
HEAVY = {"07.plan", "07.claims"}  # half a second and more a draw: fewer of them, but for a soak
LONG = {"02.first-fit"}  # has its own file: its traces are long


@pytest.fixture
def only_marks(monkeypatch):
    """No pictures, and what all answers of a course share is drawn once: either takes longer than judging."""
    draw_once(monkeypatch.setattr)
    for picture in ("memory_map", "lanes"):
        monkeypatch.setattr(charts, picture, lambda *_, **__: None)


def called(pair):
    return pair if isinstance(pair, str) else f"{pair}"


@pytest.mark.parametrize("name", SHEETS)
@pytest.mark.parametrize("number", range(2))
def test_what_is_right_gets_full_marks_and_no_word(name, number):
    sheet, course = SHEETS[name], course_of(number)
    score = score_of(sheet, sheet.right, course, "ann", sheet.said(course, "ann"))
    assert (score.points, score.tag, score.feedback) == (exercises()[name].points, "", None)


@pytest.mark.parametrize("name", SHEETS)
def test_untouched_earns_nothing_and_hears_that_it_is_not_solved(name):
    sheet = SHEETS[name]
    if sheet.builds:
        score = graded(sheet, sheet.stub, course_of(0), Commitments("ann"))[0]
        assert (score.points, score.tag) == (0.0, "not-solved")
    else:
        score = score_of(sheet, {}, course_of(0), "ann", Commitments("ann"))
        assert (score.points, score.tag) == (0.0, "not-answered")


@pytest.mark.parametrize("name", SHEETS)
def test_an_exercise_knows_at_least_six_misconceptions(name):
    assert len(SHEETS[name].wrong) >= 6


@pytest.mark.soak
@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=called)
def test_each_misconception_gets_its_share_and_its_tag(name, wrong, scale, only_marks):
    sheet, played = SHEETS[name], SHEETS[name].wrong[wrong]
    for number in range(scale(2) - (name in HEAVY)):
        learner = f"learner {number}"
        score = score_of(sheet, played.hands_in, course_of(number), learner, Commitments(learner))
        assert score.tag == played.tag
        assert played.lowest - 0.001 <= score.build_share <= played.highest + 0.001
        assert score.build_share < 0.85
        assert score.feedback.question.endswith("?")
        assert played.question in score.feedback.question


@pytest.mark.parametrize(("name", "n"), CONSTANTS, ids=called)
def test_a_constant_answer_earns_at_most_a_quarter(name, n, only_marks):
    sheet = SHEETS[name]
    times = 3 if sheet.builds or name in HEAVY else 12  # answers are one draw a learner, builds twelve
    shares = [
        score_of(sheet, sheet.constants[n], course_of(k), f"learner {k}", Commitments(f"learner {k}"))
        for k in range(times)
    ]
    assert sum(score.build_share for score in shares) / times <= 0.25


@pytest.mark.parametrize("name", [name for name in SHEETS if name not in BUILDS])
def test_what_the_form_check_calls_complete_is_never_wrong_for_its_type_alone(name):
    sheet, course = SHEETS[name], course_of(0)
    right = sheet.right(course, "ann")
    for field, value in right.items():
        for other in retyped(value):
            said = Commitments.read({"learner": "ann", "answered": right | {field: other}})
            if not exercises()[name].visible(course, said, None).tag:
                assert score_of(sheet, said.answered, course, "ann", said).build_share == 1.0, (field, other)


def retyped(value):
    """``value`` as somebody may type or compute it who does not look at types."""
    if type(value) is list:
        return [[other, *value[1:]] for other in retyped(value[0])]
    return [float(value), str(value)] if type(value) is int else []


@pytest.mark.parametrize("name", [n for n in BUILDS if n.startswith("01.") or exercises()[n].function])
def test_what_is_wrong_on_graded_inputs_alone_is_judged_and_told_without_a_number(
    name, only_marks, monkeypatch
):
    """As where a rare branch is wrong: no public case shows it."""
    monkeypatch.setattr(played, "PLAYS", 20)
    sheet, exercise, course = SHEETS[name], exercises()[name], course_of(0)
    for wrong in sheet.wrong.values():
        made = iter(range(10_000))

        def make(made=made, wrong=wrong, **settings):
            thing = wrong.hands_in if next(made) < played.CASES else sheet.right
            return SimpleNamespace(**{exercise.function: thing})

        asker = InProcess(make)
        score = exercise.grade(course, Commitments("ann"), asker)
        asker.close()
        assert (score.tag, score.feedback.where) == (wrong.tag, "")
        assert score.feedback.question.endswith("?")
        assert not set("{}") & set(score.text)


def shipped():
    """Every public class of gpulab."""
    found = {}
    for module in pkgutil.walk_packages(gpulab.__path__, "gpulab."):
        if any(part in module.name for part in (".cli", "quiet_start", "__main__")):
            continue
        loaded = importlib.import_module(module.name)
        for name, cls in inspect.getmembers(loaded, inspect.isclass):
            if cls.__module__ == loaded.__name__ and not name.startswith("_"):
                found[f"{module.name}.{name}"] = cls
    return found


@pytest.mark.parametrize("name", [name for name in BUILDS if name not in LONG])
def test_no_class_or_function_of_gpulab_earns_more_than_half_of_a_build(name, only_marks):
    sheet, course = SHEETS[name], course_of(0)
    handed = shipped()
    if exercises()[name].function:
        handed = {
            f"{where}.{label}": value
            for where in {cls.__module__ for cls in handed.values()}
            for label, value in vars(sys.modules[where]).items()
            if callable(value) and not label.startswith("_") and getattr(value, "__module__", "") == where
        }
    first = first_questions(sheet, course)
    assert answers(sheet, sheet.right, first)
    best = {
        where: share_at_most(sheet, thing, course)
        for where, thing in handed.items()
        if answers(sheet, thing, first)
    }
    assert {where: share for where, share in best.items() if share > 0.5} == {}


def maker(sheet, thing):
    """What the judge makes its objects with when ``thing`` is handed in."""
    function = exercises()[sheet.exercise].function
    return (lambda **_: SimpleNamespace(**{function: thing})) if function else thing


def first_questions(sheet, course):
    """``new`` and the first question after it: the same ones for whatever is handed in."""
    asker, heard = InProcess(maker(sheet, sheet.right)), []
    asker.overheard = lambda question, _: heard.append(question)
    exercises()[sheet.exercise].grade(course, Commitments(), asker)
    asker.close()
    return heard[:2]


def answers(sheet, thing, questions):
    """Does ``thing`` give any answer to ``questions``? Else its talk ends before it could earn something."""
    answerer = Answerer(maker(sheet, thing))
    replies = [json.loads(answerer.answer(question)) for question in questions]
    answerer.close()
    return all(status == "ok" for _, status, _ in replies)


def share_at_most(sheet, thing, course):
    """The share of the build; at the first answer that is none the talk ends, as if the process were gone."""
    exercise = exercises()[sheet.exercise]
    asker = InProcess(maker(sheet, thing))
    exchange = asker._exchange

    def answered(question):
        reply = exchange(question)
        if json.loads(reply)[1] != "ok":
            raise AnswerFault("gone", "a shipped thing gave no usable answer")
        return reply

    asker._exchange = answered
    try:
        return exercise.grade(course, Commitments(), asker).build_share
    finally:
        asker.close()


@pytest.mark.parametrize("name", BUILDS)
def test_a_short_adapter_around_gpulab_earns_at_most_half_of_a_build(name, only_marks):
    for shortcut in SHEETS[name].shortcuts:
        source = [line.strip() for line in inspect.getsource(shortcut).splitlines()]
        body = [line for line in source if line and not line.startswith(("class ", "def ", '"""'))]
        assert len(body) <= 8
        assert graded(SHEETS[name], shortcut, course_of(0), Commitments())[0].build_share <= 0.5


@pytest.mark.parametrize("name", [name for name in BUILDS if name not in LONG])
def test_a_graded_build_takes_at_most_five_thousand_questions(name):
    sheet = SHEETS[name]
    assert graded(sheet, sheet.right, course_of(0), Commitments())[1] <= 5000


@pytest.mark.parametrize("name", [name for name in BUILDS if name not in LONG])
def test_over_the_socket_a_wrong_build_gets_the_same_score(name, kernel):
    sheet = SHEETS[name]
    wrong, played = next(iter(sheet.wrong.items()))
    here = graded(sheet, played.hands_in, course_of(0), Commitments("ann"))[0]
    sitting = Sitting(course_of(0), "ann")
    try:
        notebook = kernel(sitting.path)
        notebook.run(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom sheets import *")
        notebook.run("from autograder.learner import *\nlearner('ann')")
        notebook.run(f"sheet = {{s.exercise: s for s in all_sheets()}}[{name!r}]")
        sitting.open(name)
        heard = notebook.run(f"check({name!r}, sheet.wrong[{wrong!r}].hands_in)")
        assert heard == f"{name}: received.\n"
        there = sitting.close()
    finally:
        sitting.end()
    assert (there.text, there.build_share, there.tag) == (here.text, here.build_share, here.tag)


@pytest.mark.parametrize("name", BUILDS)
def test_nothing_of_a_graded_input_stands_in_the_feedback(name, only_marks):
    sheet, course = SHEETS[name], course_of(0)
    secret = sheet.secret_numbers(course) if sheet.secret_numbers else set()
    for wrong in sheet.wrong.values() if secret else ():
        score = graded(sheet, wrong.hands_in, course, Commitments("ann"))[0]
        text = re.sub(r"<figure>.*?</figure>", "", score.html, flags=re.DOTALL) + score.text
        assert not {int(n.replace(",", "")) for n in re.findall(r"\d[\d,]{3,}", text)} & secret


SIGN = "PassedOn"  # what stands for a graded input that code passes on
NOTHING_GRADED = {"02.break", "04.break", "07.break", "07.plan"}  # they are asked nothing that is graded


@pytest.mark.parametrize("way", ["raised", "answered", "as a number"])
@pytest.mark.parametrize("name", [name for name in BUILDS if name not in NOTHING_GRADED])
def test_what_code_says_of_a_graded_input_is_not_in_the_feedback(name, way, only_marks, monkeypatch):
    """Its first object passes on what it was asked; later ones answer rightly, so that no public case shows the fault."""
    monkeypatch.setattr(played, "PLAYS", 3)
    sheet, exercise, course = SHEETS[name], exercises()[name], course_of(0)
    number = 47110815
    asker = InProcess(maker(sheet, sheet.right), exercise.seconds)
    exchange, made = asker._exchange, []

    def passes_on(question):
        reply = exchange(question)
        serial, method, *_ = json.loads(question)
        made.extend(["new"] * (method == "new"))
        if method in ("new", "begin", "news") or len(made) > 1:
            return reply
        said = {"type": SIGN, "text": SIGN, "method": SIGN, "line": number}
        return json.dumps(
            [serial, "raised", said]
            if way == "raised"
            else [serial, "ok", SIGN if way == "answered" else number]
        )

    asker._exchange = passes_on
    score = exercise.grade(course, Commitments("ann"), asker)
    asker.close()
    told = re.sub(r"<figure>.*?</figure>", "", score.html, flags=re.DOTALL) + score.text
    assert SIGN not in told
    assert str(number) not in told.replace(",", "")


@pytest.mark.parametrize("name", exercises())
def test_hints_stand_ready_for_every_build_of_four_points_and_end_in_blocks(name):
    exercise = exercises()[name]
    assert exercise.hints
    if exercise.builds and exercise.points >= 4:
        lines, order = exercise.blocks
        assert len(exercise.hints) == 3
        assert f'blocks("{name}")' in exercise.hints[2]
        assert 6 <= len(lines) <= 10
        assert len(lines) - len(order) == 2
        assert set(order) <= set(lines)


@pytest.mark.parametrize("name", [name for name in BUILDS if name != "02.break"])
def test_the_message_shown_is_one_that_the_judge_really_sends(name):
    """Same methods, same number and kind of arguments as in a real conversation with the right answer."""
    exercise, course, right = exercises()[name], Course.self_study(), SHEETS[name].right
    example = exercise.example(course)
    assert example is not None
    asked = [(method, [type(a).__name__ for a in arguments]) for _, method, arguments, _ in example[0]]
    heard = []
    asker = InProcess(
        (lambda **_: SimpleNamespace(**{exercise.function: right})) if exercise.function else right
    )
    exchange = asker._exchange

    def overheard(question):
        _, method, arguments, told = json.loads(question)
        heard.extend(
            (name, [type(a).__name__ for a in given]) for name, given in [*told, [method, arguments]]
        )
        return exchange(question)

    asker._exchange = overheard
    exercise.visible(course, Commitments(), asker)
    asker.close()
    for method, kinds in asked:
        assert (method, kinds) in heard, f"{method}{kinds} was shown but never asked; asked were {heard[:5]}"
    assert "judge: " in texts.message(exercise, course)


@pytest.mark.parametrize("tag", ["raised", "unsendable", "too-long", "not-solved"])
def test_nothing_that_the_learners_side_says_of_a_graded_input_is_told(tag):
    """The name of a type or of a method may hold what was asked as well as a text may."""
    secret = {"type": "Size4096", "text": "size 4096", "method": "take_4096"}
    outcome = played.Outcome(lawful=False, tag=tag, numbers=secret)
    assert "4096" not in "".join(played.told(outcome, {}, "", event="").lines())
    assert "4096" in "".join(played.told(outcome, {}, played.PUBLIC, event="").lines())


ODD = (
    None,
    True,
    -1,
    10**1200,
    1.5,
    "x",
    {"a": 1},
    [[]],
    [None],
    [True],
    [10**1200, None],
    ["grow", 10**1200],
)
ODD += (["grow", True], ["chunk", None], [[None], []], [[], [10**1200]], [[0, [None]]])
TOLD = {
    "reclaim",
    "give",
    "grow",
    "grown",
    "reached",
    "fork",
}  # whose answers nobody reads, but for 02.pool's give
TOLD |= {"arrived", "served"}  # 04.fair


@pytest.mark.parametrize("name", [name for name in BUILDS if name not in LONG])
def test_whatever_is_answered_in_the_middle_of_right_answers_the_judge_goes_on(name, monkeypatch, only_marks):
    monkeypatch.setattr(played, "PLAYS", 0)
    sheet, exercise, course = SHEETS[name], exercises()[name], course_of(0)
    told = TOLD - ({"give"} if name == "02.pool" else set())
    for method in sorted(methods_of(sheet, course) - told):
        for value in ODD:
            asker = InProcess(SaysOnce(sheet, method, value))
            score = exercise.visible(course, Commitments("ann"), asker)
            asker.close()
            assert score.build_share <= 1.0
            assert score.text
            assert score.html


class SaysOnce:
    """Makes the right object, whose second answer (a function's first) to ``method`` is ``value``."""

    def __init__(self, sheet, method="", value=None):
        self.function, self.right = exercises()[sheet.exercise].function, sheet.right
        self.method, self.value, self.seen = method, value, set()

    def __call__(self, **settings):
        right = SimpleNamespace(**{self.function: self.right}) if self.function else self.right(**settings)
        outer, count = self, iter(range(1 if self.function else 0, 1_000_000))

        class Object:
            def __getattr__(self, method):
                outer.seen.add(method)
                said = getattr(right, method)
                if method == outer.method and next(count) == 1:
                    return lambda *arguments: (said(*arguments), outer.value)[1]
                return said

        return Object()


def methods_of(sheet, course):
    """The methods that the judge asks a right object for."""
    listener = SaysOnce(sheet)
    asker = InProcess(listener)
    exercises()[sheet.exercise].visible(course, Commitments("ann"), asker)
    asker.close()
    return listener.seen
