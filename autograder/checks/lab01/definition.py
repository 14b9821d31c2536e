"""A definition written as a function: how it is asked, what it answers, and how it is misread.

Every case is one question. Each graded case holds a trap by construction: the answer of one misreading
differs there from the rule's, and from every other misreading's, so a wrong answer says what went wrong.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab01.case import Case
from autograder.checks.played import CASES, Outcome, capped, judged, shown_small, tag_of, told, unanswered
from autograder.course import Course
from autograder.judge import Exercise, as_points, committed
from autograder.verdict import Commitments, Feedback, Score

DRAWS, PATIENCE = 4_000, 400  # draws for one trap, and after how many of them a row more is allowed
PREDICTED, RECONCILED = 0.1, 0.2  # of the points, where an exercise asks for them
_EMPTY_EVERY = 6  # one graded case in six has an empty answer, so that a constant earns little


@dataclass(frozen=True, slots=True)
class Misreading:
    """What somebody answers who reads the definition so, and the question that may change their mind."""

    question: str
    answers: tuple[Callable[[Case], object], ...]


@dataclass(frozen=True)
class Definition:
    """One definition: the question, the rule's answer and the misreadings of it.

    Attributes:
        rule: the definition in one sentence, for feedback.
        right: the rule's answer to a case. misread: tag -> Misreading; six graded cases and then six more
            hold them as traps, in this order.
        drawn: (draw, how many rows) -> a case. shrinks: can rows be left out of a case?
        credit: (answer, the rule's answer) -> how much of the case a wrong answer earns, 0 to 1.
        band: outcomes of a build that kept the laws -> its share and the line on it.
        lawful: (case, answer) -> is the safety law kept?
        names: (case, answer, the rule's answer) -> (the first event, what the question names).
        picture: a case as a picture, for feedback.
        empties: does one graded case in six have an empty answer, and the others none?
        worth: (case, the rule's answer) -> is this a case to ask?
    """

    exercise: str
    function: str
    rule: str
    right: Callable[[Case], object]
    misread: dict[str, Misreading]
    drawn: Callable[[Random, int], Case]
    names: Callable[[Case, object, object], tuple[str, dict]]
    picture: Callable[[Case], object]
    credit: Callable[[object, object], float] = lambda answer, key: 0.0
    band: Callable[[list[Outcome]], tuple[float, str]] = field(default_factory=lambda: share_of_cases)
    lawful: Callable[[Case, object], bool] = lambda case, answer: True
    rows: tuple[int, int] = (12, 40)
    large: int = 0  # rows of the first graded case, when not as many as of the others
    small: tuple[int, int] = (3, 6)
    empties: bool = False
    worth: Callable[[Case, object], bool] = lambda case, key: True


def same(answer: object, key: object) -> bool:
    """Equal as JSON: ``true`` is not 1, 1.0 is not 1."""
    return json.dumps(answer, sort_keys=True) == json.dumps(key, sort_keys=True)


def graded_cases(asked: Definition, course: Course) -> Iterator[Case]:
    """The twelve cases of ``course``, each drawn when its turn comes."""
    for number in range(CASES):
        draw = course.graded(asked.exercise, number)
        rows = asked.large if asked.large and number == 0 else draw.randint(*asked.rows)
        yield _numbered(asked, draw, rows, number)


def public_cases(asked: Definition, course: Course) -> Iterator[Case]:
    """The visible cases of the learner's own check: each misreading is a trap of one."""
    for number in range(len(asked.misread)):
        draw = course.public(asked.exercise, number)
        yield _numbered(asked, draw, draw.randint(*asked.rows), number)


def practice_case(asked: Definition, draw: Random, size: str) -> Case:
    """A fresh case with the rule's answer; ``size`` "tiny" makes it a very small one."""
    rows = asked.small[0] if size == "tiny" else 2 * asked.small[1]
    case = trapped(asked, draw, rows, draw.choice(list(asked.misread)))
    return replace(case, answer=asked.right(case))


def trapped(asked: Definition, draw: Random, rows: int, tag: str, empty: bool | None = None) -> Case:
    """A case on which the misreading ``tag`` answers otherwise than the rule and all other misreadings.

    Where no such case is found, one on which it answers otherwise than the rule. ``empty``: whether the
    rule's answer must be empty; None when it does not matter.
    """
    second = None
    for attempt in range(DRAWS):
        case = asked.drawn(draw, rows + attempt // PATIENCE)
        key = asked.right(case)
        if (empty is not None and (key in (None, [])) != empty) or not asked.worth(case, key):
            continue
        answer = asked.misread[tag].answers[0](case)
        if same(answer, key):
            continue
        second = case
        others = (misreading.answers[0](case) for name, misreading in asked.misread.items() if name != tag)
        if not any(same(answer, other) for other in others):
            return case
    if second is None:
        raise ValueError(f"{asked.exercise}: no case of {rows} rows holds the trap {tag}")
    return second


def play(asked: Definition, case: Case, asker: Asker, wanted: str = "") -> Outcome:
    """One question, its answer and, when that is not the rule's, the misreading that gives it.

    Of several such misreadings the outcome says ``wanted`` if it is among them, else the first.
    """
    outcome = Outcome(asked=1)
    try:
        asker.new({})
        answer = asker.ask(asked.function, case.arguments())
    except AnswerFault as fault:
        outcome = unanswered(outcome, fault)
        outcome.numbers["case"] = case
        return outcome
    key = asked.right(case)
    if same(answer, key):
        outcome.equal, outcome.way = 1, 1.0
        return outcome
    outcome.way = asked.credit(answer, key)
    outcome.lawful = asked.lawful(case, answer)
    found = [
        tag
        for tag, misreading in asked.misread.items()
        if any(same(answer, read(case)) for read in misreading.answers)
    ]
    other = "not-sorted" if type(answer) is list and _tidied(answer) == _tidied(key) else "other-answer"
    outcome.tag = wanted if wanted in found else [*found, other][0]
    outcome.sure = len(found) == 1
    outcome.expected, outcome.got = repr(key), repr(answer)
    outcome.numbers = {"case": case, "answer": answer, "key": key}
    return outcome


def graded_score(
    exercise: Exercise,
    asked: Definition,
    course: Course,
    said: Commitments,
    asker: Asker,
    *,
    reconciled: tuple[float, str] | None = None,
) -> Score:
    """The score on the graded cases. What an exercise does not ask (prediction, reconciling) is the build's."""
    share, note, tag, said_of = _judged_build(asked, graded_cases(asked, course), course, asker)
    earned, notes, rest = 0.0, [], 1.0
    if exercise.predicts:
        predicted, noted = committed(said, exercise.predicts, exercise.choices)
        earned, rest = earned + PREDICTED * predicted, rest - PREDICTED
        notes.append(noted)
    if reconciled:
        earned, rest = earned + RECONCILED * reconciled[0], rest - RECONCILED
        notes.append(reconciled[1])
    points = as_points(earned + rest * share, exercise.points)
    notes = (*notes, note)
    return Score(exercise.id, points, exercise.points, tag, notes, said_of, said.learner, share)


def visible_score(
    exercise: Exercise, asked: Definition, course: Course, said: Commitments, asker: Asker
) -> Score:
    """The score of the build's part on the public cases."""
    share, note, tag, said_of = _judged_build(asked, public_cases(asked, course), course, asker)
    most = exercise.points * (1 - PREDICTED * bool(exercise.predicts) - RECONCILED * bool(exercise.causes))
    points = as_points(share, most)
    return Score(exercise.id, points, most, tag, (note,), said_of, said.learner, share)


def _judged_build(
    asked: Definition, cases: Iterable[Case], course: Course, asker: Asker
) -> tuple[float, str, str, Feedback | None]:
    """The build's share, its note, its tag and its feedback."""
    outcomes = judged(cases, lambda case: play(asked, case, asker))
    share, note = capped(outcomes) or asked.band(outcomes)
    tag = tag_of(outcomes)
    return share, note, tag, feedback(asked, outcomes, course, asker) if tag else None


def share_of_cases(outcomes: list[Outcome]) -> tuple[float, str]:
    """The mean credit of the cases, and the line on it."""
    share = sum(outcome.way for outcome in outcomes) / len(outcomes)
    equal = sum(outcome.equal for outcome in outcomes)
    return share, f"Build: {equal} of {len(outcomes)} cases are answered as the rule does."


def feedback(asked: Definition, outcomes: list[Outcome], course: Course, asker: Asker) -> Feedback:
    """The fault on a small public case; no graded input is ever shown."""
    tag = tag_of(outcomes)
    found = next(outcome for outcome in outcomes if outcome.tag == tag)
    traps = [tag] if tag in asked.misread else list(asked.misread)

    def public(number: int) -> Case:
        draw = course.public(asked.exercise + "/small", number)
        return trapped(asked, draw, draw.randint(*asked.small), traps[number % len(traps)])

    shown, where = shown_small(
        found,
        [],
        public=public,
        cut=lambda case: case.items(),
        joined=lambda case, items: case.of_items(items),
        play=lambda case: play(asked, case, asker, wanted=tag),
    )
    rules = {name: (asked.rule, misreading.question) for name, misreading in asked.misread.items()}
    rules["not-sorted"] = (asked.rule, "The right things in another order. What order does the contract ask?")
    rules["other-answer"] = (asked.rule, "Work the shown case by hand, row by row. Where do you part?")
    event, named, picture = "this question", {}, None
    if where and "case" in shown.numbers:
        numbers = shown.numbers
        case = numbers["case"]
        if "answer" in numbers:
            event, named = asked.names(case, numbers["answer"], numbers["key"])
        event, picture = f"{event}\n{case.text()}", asked.picture(case)
    elif not where:
        rules = {
            name: (rule, "Which rows of a small case would you try by hand?")
            for name, (rule, _) in rules.items()
        }
    return told(shown, rules, where, event=event, picture=picture, named=named)


def _numbered(asked: Definition, draw: Random, rows: int, number: int) -> Case:
    tags = list(asked.misread)
    tag = tags[number % len(tags)]
    if not asked.empties:
        return trapped(asked, draw, rows, tag)
    empty = number % _EMPTY_EVERY == 3
    return trapped(asked, draw, asked.rows[0] if empty else rows, tag, empty)  # few rows are sooner empty


def _tidied(answer: object) -> object:
    """Lists in lists, each in one order."""
    return sorted(map(_tidied, answer), key=json.dumps) if type(answer) is list else answer
