"""02.best-fit: a function that chooses among holes; the judge holds the holes."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab02.hints import HINTS
from autograder.checks.played import Outcome, said_of, told, unanswered
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.shape import Contiguous

CASES, LISTS = 12, 200  # 2,400 asks
_GRAIN = 512


@dataclass(frozen=True, slots=True)
class Choice:
    """Holes ``((start, length), ...)`` by address, and a claim of ``size`` bytes aligned to ``align``."""

    holes: tuple[tuple[int, int], ...]
    size: int
    align: int

    def fits(self, index: int) -> bool:
        """Does the claim fit into hole ``index`` behind its first legal start?"""
        return Contiguous(self.size, self.align).take((self.holes[index],)) is not None

    def text(self) -> str:
        """The question in one line."""
        listed = ", ".join(
            f"{n}: [{start:,}, {start + length:,})" for n, (start, length) in enumerate(self.holes)
        )
        return f"holes {listed}; a claim of {self.size:,} B on a multiple of {self.align:,}"


def rule(choice: Choice) -> int | None:
    """The smallest hole that fits after aligning; of equals the lower address; None when none fits."""
    fitting = [index for index in range(len(choice.holes)) if choice.fits(index)]
    return min(fitting, key=lambda index: (choice.holes[index][1], index), default=None)


def _raw(choice: Choice) -> int | None:
    """The smallest hole that is long enough before aligning."""
    long = [index for index, (_, length) in enumerate(choice.holes) if length >= choice.size]
    return min(long, key=lambda index: (choice.holes[index][1], index), default=None)


def _worst(choice: Choice) -> int | None:
    fitting = [index for index in range(len(choice.holes)) if choice.fits(index)]
    return max(fitting, key=lambda index: (choice.holes[index][1], -index), default=None)


def _late(choice: Choice) -> int | None:
    fitting = [index for index in range(len(choice.holes)) if choice.fits(index)]
    return min(fitting, key=lambda index: (choice.holes[index][1], -index), default=None)


def _first(choice: Choice) -> int | None:
    return next((index for index in range(len(choice.holes)) if choice.fits(index)), None)


def _smallest_only(choice: Choice) -> int | None:
    raw = _raw(choice)
    return raw if raw is not None and choice.fits(raw) else None


def _other_end(choice: Choice) -> int | None:
    """Compares what is left behind the claim, not the hole: a tight end in a long hole looks small."""
    fitting = [index for index in range(len(choice.holes)) if choice.fits(index)]

    def behind(index: int) -> tuple[int, int]:
        start, length = choice.holes[index]
        return start + length - -(-start // choice.align) * choice.align, index

    return min(fitting, key=behind, default=None)


# tag -> (what answers so, the question)
_MISREAD = {
    "raw-size": (_raw, "Hole {got} is the smallest, but is it long enough after aligning?"),
    "smallest-only": (
        _smallest_only,
        "The smallest long hole does not fit after aligning. Does hole {rule}?",
    ),
    "worst-fit": (_worst, "You took the largest hole that fits. Which is the smallest that fits?"),
    "tie-by-age": (_late, "Holes {rule} and {got} are equally long. Which one does the rule say?"),
    "first-fit": (_first, "Hole {got} is the first that fits. Is hole {rule} tighter?"),
    "behind-only": (_other_end, "You compare what follows the legal start. What does the rule compare?"),
}


@final
class BestFitExercise(Exercise):
    """Best fit after aligning, as one choice among holes."""

    id = "02.best-fit"
    hints = HINTS["02.best-fit"]
    points = 2.0
    builds = True
    function = "choose"

    def example(self, course: Course) -> tuple[list, Callable]:
        holes = [[0, 4096], [8192, 2048]]
        questions = [[1, "new", [{}], []], [2, "choose", [holes, 1024, 512], []]]
        return questions, lambda: SimpleNamespace(choose=lambda holes, size, align: 1)

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Choice:
        """One question for practice."""
        draw = course.public(self.id + "/variant", variant or 0)
        return _drawn(draw, 3 if size == "tiny" else 8)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return self._judged(
            [course.graded(self.id, n) for n in range(CASES)], LISTS, said, asker, graded=True
        )

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return self._judged([course.public(self.id, n) for n in range(4)], 50, said, asker)

    def _judged(
        self, draws: list[Random], lists: int, said: Commitments, asker: Asker, *, graded: bool = False
    ) -> Score:
        wrong: list[tuple[Choice, object]] = []
        equal, lawful, unusable = 0, True, None
        for draw in draws:
            choices = [_drawn(draw, draw.randrange(3, 13)) for _ in range(lists)]
            try:
                asker.new({})
                answers = [
                    asker.ask("choose", [[list(h) for h in c.holes], c.size, c.align]) for c in choices
                ]
            except AnswerFault as fault:
                unusable = unanswered(Outcome(), fault)
                lawful = False
                break
            missed = [(c, a) for c, a in zip(choices, answers, strict=True) if not _same(a, rule(c))]
            lawful &= all(_legal(c, a) for c, a in missed)
            wrong += missed
            equal += not missed
        share = equal / len(draws) if lawful else 0.0
        tag = unusable.tag if unusable else _tag(wrong)
        note = f"Build: {equal} of {len(draws)} cases equal the rule throughout."
        if unusable:
            note = "Build: a question had no usable answer."
        elif not lawful:
            note = "Build: a safety law was broken: the chosen hole must fit the claim."
        shown = _unusable(unusable, graded) if unusable else _feedback(tag, wrong, graded) if tag else None
        points = as_points(share, self.points)
        return Score(self.id, points, self.points, tag, (note,), shown, said.learner, share)


def _drawn(draw: Random, count: int) -> Choice:
    """Holes of few different lengths, so that ties, near fits and misalignment are common."""
    align = _GRAIN << draw.randrange(0, 6)
    size = _GRAIN * draw.randrange(8, 40)
    holes, at = [], _GRAIN * draw.randrange(0, 8)
    for _ in range(count):
        near = size + _GRAIN * draw.choice((-4, -1, 0, 0, 1, 2, 4, 4, 8, 16, 31))
        length = max(_GRAIN, near)
        holes.append((at, length))
        at += length + _GRAIN * draw.randrange(1, 40)
    return Choice(tuple(holes), size, align)


def _same(answer: object, key: int | None) -> bool:
    return answer is None and key is None if key is None else type(answer) is int and answer == key


def _legal(choice: Choice, answer: object) -> bool:
    if answer is None:
        return True
    return type(answer) is int and 0 <= answer < len(choice.holes) and choice.fits(answer)


def _tag(wrong: list[tuple[Choice, object]]) -> str:
    """The misreading that gives the most of the wrong answers."""
    if not wrong:
        return ""
    hits = {tag: sum(_same(a, f(c)) for c, a in wrong) for tag, (f, _) in _MISREAD.items()}
    best = max(hits, key=lambda tag: hits[tag])
    return best if hits[best] > len(wrong) // 2 else "other-hole"


def _unusable(outcome: Outcome, graded: bool) -> Feedback:
    """What came instead of an answer. Of a graded question without a word of the learner's side, which has read it."""
    if graded:
        return told(outcome, {}, "", event="")
    outcome.got = said_of(outcome, quoting=True)
    return told(outcome, {}, "A practice question.", event="the question at which it happened")


def _feedback(tag: str, wrong: list[tuple[Choice, object]], graded: bool) -> Feedback:
    """The misreading on a public question of three or more holes that it answers wrongly."""
    law = "The chosen hole is the smallest that fits after aligning; of equals, the one at the lower address."
    shown = _public_example(tag)
    if shown is None:
        choice, answer = next(((c, a) for c, a in wrong if type(a) is not int), wrong[0])
        kind = "" if answer is None or type(answer) is int else f", of type {type(answer).__name__}"
        if graded:
            event, right, got = (
                "in a graded question, which is not shown",
                "the rule's hole",
                f"another answer{kind}",
            )
        else:
            event, right, got = choice.text(), f"{rule(choice)}", f"{answer!r:.80}{kind}"
        return Feedback(law, event, right, got, "Which holes fit, and which index has the smallest of them?")
    choice, got = shown
    question = _MISREAD[tag][1].format(got=got, rule=rule(choice))
    return Feedback(law, choice.text(), f"{rule(choice)}", f"{got}", question)


def _public_example(tag: str) -> tuple[Choice, int | None] | None:
    """The first public question, fewest holes first, on which this misreading differs from the rule."""
    if tag not in _MISREAD:
        return None
    for count in range(2, 7):
        draw = Random(f"public/02.best-fit/{count}")
        for _ in range(300):
            choice = _drawn(draw, count)
            got = _MISREAD[tag][0](choice)
            others = [f(choice) for name, (f, _) in _MISREAD.items() if name != tag]
            if got != rule(choice) and others.count(got) <= 1:
                return choice, got
    return None
