"""04.convoy: what one long request in front costs, by theory on a drawn mix and on a timeline (F12)."""

from dataclasses import replace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04.convoy_cases import (
    BEHIND,
    WORSE,
    Convoy,
    drawn,
    key,
    longest_waiter,
    misread_means,
    waited_ns,
)
from autograder.checks.lab04.convoy_words import HINTS, QUESTIONS, RULE
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

BAND = 0.10  # a mean is right within this much of theory
WEIGHTS = {"fifo_ms": 0.3, "ps_ms": 0.3, "convoy": 0.2, "worse_off": 0.2}


@final
class ConvoyExercise(Exercise):
    """Two means by theory, one convoy and who pays for its end, read from a personal timeline."""

    id = "04.convoy"
    points = 2.0
    fields = ("fifo_ms", "ps_ms", "head", "behind", "worse_off")
    predicts = ("ratio",)
    hints = HINTS

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Convoy:
        """This learner's mix and timeline, or fresh ones for practice."""
        if variant is None:
            return drawn(course.of_learner(self.id, learner))
        return drawn(course.public(self.id + "/variant", variant), tiny=size == "tiny")

    def watched(self, puzzle: Convoy, part: str = "a") -> Ledger:
        """The timeline first come, first served (``a``), or shared in turns (``b``)."""
        return puzzle.shared() if part == "b" else puzzle.first_come()

    def reference(self, course: Course, puzzle: Convoy) -> Ledger:
        """The timeline first come, first served."""
        return puzzle.first_come()

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Convoy, answered: dict) -> Score:
        right = _right(puzzle, answered)
        share = sum(WEIGHTS[name] for name in right if right[name])
        tag = "not-answered" if not answered else "" if all(right.values()) else _tag(puzzle, answered, right)
        note = "Right: " + (", ".join(name for name in right if right[name]) or "none") + "."
        said_of = _feedback(puzzle, answered, tag) if tag and answered else None
        return Score(self.id, 0.0, 0.0, tag, (note,), said_of, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        means = {"fifo_ms", "ps_ms"}
        answered = {n: _whole(value) if n in means else value for n, value in said.answered.items()}
        kinds = {"fifo_ms": int, "ps_ms": int, "head": int, "behind": list, "worse_off": list}
        return answered_form(self, replace(said, answered=answered), kinds)


def _right(task: Convoy, answered: dict) -> dict[str, bool]:
    found = key(task)
    return {
        "fifo_ms": _near(answered.get("fifo_ms"), task.mix.fifo_ms()),
        "ps_ms": _near(answered.get("ps_ms"), task.mix.ps_ms),
        "convoy": _whole_number(answered.get("head")) == found.head
        and _set(answered.get("behind")) == found.behind,
        "worse_off": _set(answered.get("worse_off")) == found.worse_off,
    }


def _tag(task: Convoy, answered: dict, right: dict[str, bool]) -> str:
    wrong = [name for name in ("fifo_ms", "ps_ms") if not right[name]]
    if wrong:
        guesses = misread_means(task.mix)
        fits = (
            tag
            for tag, values in guesses.items()
            if all(name in values and _near(answered.get(name), values[name], 0.02) for name in wrong)
        )
        return next(fits, "other-mean")
    if not right["convoy"]:
        head = _whole_number(answered.get("head"))
        if head not in {request.id for request in task.requests}:
            return "no-head"
        if head != key(task).head:
            return "longest-waiter-is-head" if head == longest_waiter(task) else "other-head"
        given = _set(answered.get("behind"))
        return next((tag for tag, wrong in BEHIND.items() if wrong(task, head) == given), "other-convoy")
    given = _set(answered.get("worse_off"))
    return next((tag for tag, wrong in WORSE.items() if wrong(task) == given), "other-losers")


def _near(value: object, wanted: float, band: float = BAND) -> bool:
    return type(value) in (int, float) and abs(value - wanted) <= band * wanted


def _set(value: object) -> frozenset | None:
    """The numbers of a list, in any order; None when it is no list of whole numbers."""
    known = type(value) is list and all(type(item) is int for item in value)
    return frozenset(value) if known else None


def _whole_number(value: object) -> int | None:
    return value if type(value) is int else None


def _whole(value: object) -> object:
    """A mean may be typed with decimals; its form is looked at as if it were whole."""
    return round(value) if type(value) is float else value


def _feedback(task: Convoy, answered: dict, tag: str) -> Feedback:
    named = _named(task, answered)
    return Feedback(
        RULE,
        "your mix and your timeline",
        "both means within 10 % of theory, the longest convoy, and who is answered later when the server is shared",
        ", ".join(f"{name}={value!r}" for name, value in answered.items())[:300],
        QUESTIONS[tag].format(**named),
        _picture(task),
        "Your timeline, first come, first served.",
    )


def _named(task: Convoy, answered: dict) -> dict:
    """Numbers for the question: of what was typed and of what the picture shows anyway."""
    waiter = longest_waiter(task)
    return {
        "waiter": waiter,
        "waited": f"{waited_ns(task)[waiter] // MS:,}",
        "short": task.mix.short_ms,
        "long": f"{task.mix.ratio * task.mix.short_ms:,}",
        "mean": f"{task.mix.mean_ms:,.0f}",
        "head": _whole_number(answered.get("head")),
    }


def _picture(task: Convoy) -> object:
    from gpulab.report.charts import lanes

    return lanes(task.first_come(), by="request", title="First come, first served")
