"""01.sort: twelve situations; for each the question that it answers, for three also a number that decides."""

import textwrap
from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab01.bank_elsewhere import ELSEWHERE
from autograder.checks.lab01.bank_memory import MEMORY
from autograder.checks.lab01.bank_time import TIME
from autograder.checks.lab01.situations import QUESTIONS, Drawn, Situation
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Feedback, Score

BANK: tuple[Situation, ...] = (*MEMORY, *TIME, *ELSEWHERE)
ITEMS, NUMBERED = 12, 3
EACH_ONCE = ("q1", "q2", "q3", "q4", "q5", "q6")  # and two of these a second time
BY_CHANCE = 1 / 8  # of the items: eight questions

# what is taken for what -> the misconception; the first that somebody shows most is named
_TAGS = {
    "waiting-is-scheduling": (("q4", "q2"), ("q2", "q4")),
    "batching-is-scheduling": (("q5", "q2"), ("q2", "q5")),
    "routing-is-placement": (("q6", "q3"), ("q3", "q6")),
    "scaling-is-allocation": (("q7", "q1"),),
    "oom-is-allocation": (("q7", "q1"), ("q3", "q1")),
    "everything-is-ours": tuple(("q8", ours) for ours in ("q1", "q2", "q3", "q4", "q5", "q6", "q7")),
}
_ASKS = {
    "waiting-is-scheduling": "{item}: they wait at the door, holding nothing, or inside, where somebody is next. "
    "Which promise is being protected?",
    "batching-is-scheduling": "{item}: does it matter how many go together, or who is next?",
    "routing-is-placement": "{item}: has the work a place already everywhere, or none yet? What is chosen?",
    "scaling-is-allocation": "{item}: what would change: how much there is, or who holds it?",
    "oom-is-allocation": "{item}: does what is asked exceed what there is, or where it was tried? Would any way of "
    "granting help?",
    "everything-is-ours": "{item}: does anything wait for the GPU, and would it come sooner? What does the request "
    "wait for?",
    "wrong-number": "{item}: which two numbers of the text have to be compared?",
    "other-question": "{item}: which one change would cure it, and to which question is that the answer?",
    "incomplete": "{item}: which one change would cure it?",
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """One learner's situations, in order; ``numbered`` are the places of those that ask for a number."""

    items: tuple[Drawn, ...]
    numbered: frozenset[int]

    def text(self) -> str:
        """The questions, then the situations."""
        lines = [f"{name}  {question}" for name, question in QUESTIONS.items()]
        for number, item in enumerate(self.items):
            asks = " [and a number]" if number in self.numbered else ""
            lines += ["", *textwrap.wrap(f"s{number + 1}{asks}  {item.text}", 100, subsequent_indent="    ")]
        return "\n".join(lines)

    def key(self) -> dict[str, list]:
        """A right answer to each, computed by the predicates."""
        return {
            f"s{n + 1}": [item.key, *([min(item.decides)] if n in self.numbered else [])]
            for n, item in enumerate(self.items)
        }


@final
class Sort(Exercise):
    """Each item counts the same: the question, and where one is asked, half for the number behind it."""

    id = "01.sort"
    points = 3.0
    fields = tuple(f"s{number}" for number in range(1, ITEMS + 1))
    hints = (
        "Take one situation: name the one change that cures it. Who would have to decide that change?",
        "# is anything missing in all, or only for who came at a bad moment?\n"
        "# does somebody hold what another one needs?\n"
        "# could any order help? would it help if fewer came in?\n"
        "# is the GPU waited for at all?",
    )

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Sheet:
        """This learner's twelve situations, or fresh ones for practice (four when tiny)."""
        draw = course.of_learner(self.id, learner)
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
        sheet = drawn(draw)
        return (
            Sheet(sheet.items[:4], frozenset(n for n in sheet.numbered if n < 4)) if size == "tiny" else sheet
        )

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Sheet, answered: dict) -> Score:
        right = [_credit(puzzle, n, answered.get(f"s{n + 1}")) for n in range(len(puzzle.items))]
        chance = BY_CHANCE * len(right)
        share = max(0.0, (sum(right) - chance) / (len(right) - chance))
        if not answered:
            return Score(self.id, 0.0, 0.0, "not-answered", ("Nothing was answered.",))
        wrong = [n for n, credit in enumerate(right) if credit < 1]
        notes = [f"Right: {sum(right):g} of {len(right)}; what eight questions give by chance is taken off."]
        notes += [f"s{n + 1} {puzzle.items[n].key}: {puzzle.items[n].why}" for n in wrong]
        tag, told = _diagnosed(puzzle, answered, wrong) if wrong else ("", None)
        return Score(self.id, 0.0, 0.0, tag, tuple(notes), told, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        sheet = self.puzzle(course, said.learner)
        problems = [
            line for n in range(ITEMS) if (line := _problem(sheet, n, said.answered.get(f"s{n + 1}")))
        ]
        note = "; ".join(problems) + "." if problems else "Complete; it is graded when you hand in."
        tag = "not-answered" if problems else ""
        return Score(self.id, 0.0, 0.0, tag, (note,), None, said.learner)


def drawn(draw: Random) -> Sheet:
    """Twelve situations: two each of *how many* (one of bytes, one of work) and of *none*, the others once or twice."""
    wanted = [*EACH_ONCE, *draw.sample(EACH_ONCE, 2), "q8", "q8"]
    items = [_item(draw, "q7", of_memory, []) for of_memory in (True, False)]
    for question in wanted:
        items.append(_item(draw, question, None, [item.situation.name for item in items]))
    draw.shuffle(items)
    return Sheet(tuple(items), frozenset(draw.sample(range(ITEMS), NUMBERED)))


def _item(draw: Random, question: str, of_memory: bool | None, taken: list[str]) -> Drawn:
    """A situation that answers ``question`` and is none of those ``taken``."""
    fitting = [
        each
        for each in BANK
        if each.name not in taken
        and any(case.accepted[0] == question for case in each.cases)
        and of_memory in (None, each.of_memory)
    ]
    return draw.choice(fitting).drawn(draw, question)


def _credit(sheet: Sheet, number: int, given: object) -> float:
    """1, 1/2 (the question without the number that is asked) or 0."""
    item = sheet.items[number]
    if type(given) is not list or not given or given[0] not in item.case.accepted:
        return 0.0
    if number not in sheet.numbered:
        return 1.0
    return 1.0 if len(given) == 2 and type(given[1]) is int and given[1] in item.decides else 0.5


def _problem(sheet: Sheet, number: int, given: object) -> str:
    """What is missing in the form of one answer, or ''."""
    name, asks = f"s{number + 1}", number in sheet.numbered
    if given is None:
        return f"{name}: not answered yet"
    if type(given) is not list or not given or given[0] not in [*QUESTIONS]:
        return f'{name}: write a list that begins with "q1" to "q8"'
    if len(given) != 1 + asks or (asks and type(given[1]) is not int):
        return f"{name}: write the question{' and one whole number' if asks else ' alone'}"
    return ""


def _diagnosed(sheet: Sheet, answers: dict, wrong: list[int]) -> tuple[str, Feedback]:
    """The misconception that most of the wrong answers show, and what to ask about the first of them."""
    said = {n: answers.get(f"s{n + 1}") for n in wrong}
    pairs = {n: (sheet.items[n].key, v[0]) for n, v in said.items() if type(v) is list and v}
    shown = {tag: [n for n, pair in pairs.items() if pair in _TAGS[tag]] for tag in _TAGS}
    tag = max(shown, key=lambda name: len(shown[name]))
    numbers = [n for n, v in said.items() if type(v) is list and v and v[0] in sheet.items[n].case.accepted]
    if shown[tag]:
        item = shown[tag][0]
    elif numbers:
        tag, item = "wrong-number", numbers[0]
    else:
        tag, item = ("other-question", min(pairs)) if pairs else ("incomplete", wrong[0])
    told = Feedback(
        "A situation belongs to the question whose answer, changed, would cure it.",
        f"s{item + 1}: {sheet.items[item].text}",
        f"{sheet.items[item].key}: {QUESTIONS[sheet.items[item].key]}",
        f"s{item + 1} = {said[item]!r}"[:60],
        _ASKS[tag].format(item=f"s{item + 1}"),
    )
    return tag, told
