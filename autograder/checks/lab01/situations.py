"""What a situation of 01.sort is: a text with drawn numbers, and predicates over them that compute its key.

The bank is data: ``bank_*.py`` beside this file. A predicate is written as it is read, for example
``smallest <= free < wanted``; the first case whose predicate holds gives the question that the situation
answers. No text names a lesson.
"""

import operator
import re
from dataclasses import dataclass
from random import Random

QUESTIONS = {
    "q1": "Who holds how much, where, and until when?",
    "q2": "Who runs next, and for how long?",
    "q3": "On which device does it get its place?",
    "q4": "May it come in at all?",
    "q5": "What is one unit of work?",
    "q6": "Which replica, of several that could all do it?",
    "q7": "How many devices?",
    "q8": "None of these: the cause lies elsewhere, or nothing needs to change.",
}
_COMPARE = {"<": operator.lt, "<=": operator.le}
_TRIES = 20_000


@dataclass(frozen=True, slots=True)
class Case:
    """With numbers for which ``holds``, the answer is ``question`` (two of them: either is taken), because ``why``."""

    question: str | tuple[str, ...]
    holds: str
    why: str

    @property
    def accepted(self) -> tuple[str, ...]:
        return (self.question,) if isinstance(self.question, str) else self.question


@dataclass(frozen=True, slots=True)
class Situation:
    """A template.

    Attributes:
        numbers: name to (lowest, highest, step) of what is drawn. sums: name to the numbers it adds up.
        given: what holds of the numbers in every case, so that the text makes sense.
        of_memory: does it tell of bytes that do not fit?
    """

    name: str
    text: str
    numbers: dict[str, tuple[int, int, int]]
    cases: tuple[Case, ...]
    given: tuple[str, ...] = ()
    sums: dict[str, tuple[str, ...]] | None = None
    of_memory: bool = False

    def case_of(self, numbers: dict[str, int]) -> Case | None:
        """The first case whose predicate holds; None if none does, or the text makes no sense."""
        if not all(holds(each, numbers) for each in self.given):
            return None
        return next((case for case in self.cases if holds(case.holds, numbers)), None)

    def drawn(self, draw: Random, question: str) -> "Drawn":
        """This situation with numbers for which it answers ``question``."""
        for _ in range(_TRIES):
            numbers = {
                name: draw.randrange(low, high + 1, step) for name, (low, high, step) in self.numbers.items()
            }
            for name, parts in (self.sums or {}).items():
                numbers[name] = sum(numbers[part] for part in parts)
            case = self.case_of(numbers)
            if case is not None and case.accepted[0] == question:
                return Drawn(self, numbers, case)
        raise ValueError(f"{self.name}: no numbers found for {question}")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A situation with its numbers and the case that they make."""

    situation: Situation
    numbers: dict[str, int]
    case: Case

    @property
    def text(self) -> str:
        return self.situation.text.format(**self.numbers)

    @property
    def key(self) -> str:
        return self.case.accepted[0]

    @property
    def decides(self) -> set[int]:
        """The numbers that the predicate compares: another one could have made it another question."""
        return {self.numbers[name] for name in names_in(self.case.holds)}

    @property
    def why(self) -> str:
        """The reason, with the numbers."""
        return f"{self.case.why} ({filled(self.case.holds, self.numbers)})"


def names_in(predicate: str) -> list[str]:
    """The names of numbers in a predicate."""
    return [word for word in re.findall(r"[a-z_]+", predicate) if word != "and"]


def holds(predicate: str, numbers: dict[str, int]) -> bool:
    """Is ``predicate`` true of ``numbers``? Names and whole numbers between ``<`` and ``<=``; ``and`` joins such."""
    return all(_chain_holds(chain.split(), numbers) for chain in predicate.split(" and "))


def _chain_holds(words: list[str], numbers: dict[str, int]) -> bool:
    values = [int(word) if word.isdigit() else numbers[word] for word in words[::2]]
    return all(_COMPARE[sign](values[n], values[n + 1]) for n, sign in enumerate(words[1::2]))


def filled(predicate: str, numbers: dict[str, int]) -> str:
    """``predicate`` with the numbers behind the names."""
    return re.sub(
        r"[a-z_]+",
        lambda found: f"{found[0]} {numbers[found[0]]:,}" if found[0] in numbers else found[0],
        predicate,
    )
