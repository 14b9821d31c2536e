"""What a lab's cells display: the result of a check, and a task to practise on."""

import html

from autograder.answerer import plain
from autograder.better import shared
from autograder.checks import alternatives, texts
from autograder.course import Course
from autograder.desk import named
from autograder.judge import Exercise
from autograder.verdict import Score
from gpulab.telemetry.ledger import Ledger


class Shown:
    """The result of a check, as text and, when a rule was broken, as a picture of a small trace."""

    def __init__(self, score: Score, exercise: Exercise) -> None:
        self.score, self.exercise = score, exercise

    @property
    def passed(self) -> bool:
        """Every visible input came out as it should."""
        return self.exercise.builds and self.score.full

    @property
    def text(self) -> str:
        names = shared(self.exercise.id, alternatives())
        return f"{self._verdict}\nThe better of {' and '.join(names)} counts." if names else self._verdict

    @property
    def _verdict(self) -> str:
        score, said = self.score, self.score.feedback
        if score.tag == "not-solved":
            return f"{score.exercise}: not solved yet. {said.rule} Nothing is lost; go on when you like."
        if not self.exercise.builds:
            told = f"{score.exercise}: {' '.join(score.notes)}"
            return "\n".join([told, "", *said.lines()]) if said else told
        head = "passed on the public inputs" if self.passed else "not passed yet"
        lines = [f"{score.exercise}: {head}. {' '.join(score.notes)}"]
        if score.max_points:  # a plan is weighed only against the reference, which no learner has
            lines.append(
                f"On inputs like these the build is worth {score.points:g} of {score.max_points:g} points."
            )
        return "\n".join([*lines, "", *said.lines()] if said else lines)

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"text/plain": self.text}
        said = self.score.feedback
        if said is not None and said.picture is not None and self.score.tag != "not-solved":
            data["text/html"] = f"<pre>{html.escape(self.text)}</pre><figure>{said.picture.svg()}</figure>"
        mark = {"exercise": self.score.exercise, "points": self.score.points, "max": self.score.max_points}
        return data, {"gpulab": mark}


class Practice:
    """A task to practise on: ``text`` says it, ``ledger`` is the reference's run, ``check`` tells all."""

    def __init__(self, exercise: Exercise, course: Course, number: int, size: str) -> None:
        self._exercise, self._course, self._number = exercise, course, number
        self.task = exercise.puzzle(course, "", number, size)

    @property
    def text(self) -> str:
        return f"Practice {self._number + 1} of {self._exercise.id}\n{texts.task(self.task)}"

    @property
    def ledger(self) -> Ledger:
        """What the reference does on this task, fact by fact."""
        return self._exercise.reference(self._course, self.task)

    def check(self, *built: object, **fields: object) -> Score | None:
        """Full feedback on your answers to this practice task; it carries no points.

        None, with a sentence, for names that the exercise does not ask for, and for a build.
        """
        asked = self._exercise
        if built and asked.fields:
            print(f"p.check takes answers by name; what you built is played by check({asked.id!r}, …).")
            return None
        if not named(asked.fields, fields, "check", asked.id):
            return None
        return self._exercise.practise(self._course, self.task, plain(fields))

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text}
