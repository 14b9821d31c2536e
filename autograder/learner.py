"""What a learner calls in a lab: plain functions with literal values; nothing here needs a widget.

``predict``, ``reconcile`` and ``answer`` note what was typed. ``check`` plays visible inputs against the
learner's code in this process, or, when the notebook is graded, answers the judge's questions and hears no
verdict. The notes live as long as the kernel; a restart and run-all makes the same ones again.
"""

import html
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autograder.answerer import Unsendable, plain
from autograder.channel import InProcess
from autograder.checks import exercises, texts
from autograder.course import Course
from autograder.judge import Commitments, Exercise, Score
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_bytes

__all__ = [
    "answer",
    "blocks",
    "check",
    "hint",
    "learner",
    "predict",
    "puzzle",
    "reconcile",
    "rules",
    "show_message",
    "variant",
    "watch",
]

PRACTICES = 64  # public seeds that ``variant`` goes through before it begins again


@dataclass
class _Desk:
    """One kernel's notes: who works here and what was typed. The only state of this module."""

    name: str = ""
    predicted: dict[str, dict] = field(default_factory=dict)
    reconciled: dict[str, dict] = field(default_factory=dict)
    answered: dict[str, dict] = field(default_factory=dict)
    rungs: dict[str, int] = field(default_factory=dict)
    practised: dict[str, int] = field(default_factory=dict)

    def said(self, exercise: str) -> Commitments:
        """What was typed for one exercise so far."""
        return Commitments(
            self.name,
            self.predicted.get(exercise, {}),
            self.reconciled.get(exercise, {}),
            self.answered.get(exercise, {}),
        )


_desk = _Desk()


def learner(name: str | None = None) -> None:
    """Say who you are: your own tasks are drawn for this name, so keep it the same everywhere."""
    if not name:
        offered = (
            os.environ.get("JUPYTERHUB_USER") or os.environ.get("USER") or os.environ.get("USERNAME") or "ada"
        )
        print(
            f'Not named yet: type your name between the quotes, for example learner("{offered}"), and run all.'
        )
        return
    _desk.name = str(name)
    print(f"Hello {name}. Course: {Course.at_hand().course_id}. Your own tasks are drawn for this name.")


def rules(exercise: str) -> dict[str, int]:
    """The constants of this course for ``exercise``, printed too; your object has them as ``self.rules``."""
    given = Course.at_hand().rules.get(_exercise(exercise).id, {})
    for name, value in given.items():
        print(f'self.rules["{name}"] is {value:,} B ({format_bytes(value)}) in this course')
    return given


def puzzle(exercise: str, part: str = ""):
    """Your own task of ``exercise``, or one ``part`` of it; the same each time for your name."""
    found = _exercise(exercise).puzzle(Course.at_hand(), _desk.name)
    return getattr(found, part) if part else found


def predict(exercise: str, **guesses: object) -> None:
    """Commit to a prediction before you watch. It is marked for being made, never for being right.

    The first commitment stays for the kernel's life.
    """
    known = _exercise(exercise)
    if not _named(known.predicts, guesses, "predict", exercise):
        return
    if exercise in _desk.predicted:
        print(f"{exercise}: already committed, and it stays: {_pairs(_desk.predicted[exercise])}.")
    elif any(value is None for value in guesses.values()):
        print(
            f"{exercise}: not committed yet. Write your guess in place of None; right or wrong does not matter."
        )
    else:
        _desk.predicted[exercise] = guesses
        print(f"{exercise}: committed: {_pairs(guesses)}.")


def watch(exercise: str, part: str = "a") -> Ledger:
    """The naive rule on your own trace, as a ledger; empty, with a sentence, until you have predicted."""
    known = _exercise(exercise)
    if exercise not in _desk.predicted:
        print(f"{exercise}: predict first; then this cell shows what happens.")
        return Ledger()
    return known.watched(known.puzzle(Course.at_hand(), _desk.name), part)


def reconcile(exercise: str, cause: str | None = None, events: Sequence[int] = ()) -> None:
    """Say what explains the run: a ``cause`` from the list and the serials of the events that show it."""
    known = _exercise(exercise)
    if cause is None:
        print(f"{exercise}: not reconciled yet. Causes: {', '.join(known.causes)}.")
        return
    if cause not in known.causes:
        print(f"{exercise}: {cause!r} is not on the list: {', '.join(known.causes)}.")
        return
    _desk.reconciled[exercise] = {"cause": cause, "events": list(events)}
    print(f"{exercise}: noted: {cause}, shown by {', '.join(f'#{e}' for e in events) or 'no event yet'}.")


def answer(exercise: str, **fields: object) -> None:
    """Note your answers. Calling again replaces them; what stands when you hand in is graded."""
    known = _exercise(exercise)
    if not _named(known.fields, fields, "answer", exercise):
        return
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        _desk.answered[exercise] = plain(given)
    except Unsendable as wrong:
        print(f"{exercise}: not noted: {wrong}.")
        return
    missing = [name for name in known.fields if name not in given]
    print(f"{exercise}: noted: {_pairs(given)}." if given else f"{exercise}: not answered yet.")
    if given and missing:
        print(f"Still open: {', '.join(missing)}.")


def check(exercise: str, make: Callable | None = None) -> "Shown | None":
    """Check ``exercise``. For a build hand in your class; the result is shown as text and picture.

    On your machine the inputs are public ones. When your notebook is graded the same call answers the
    judge, whose inputs are fresh, and prints no verdict.
    """
    known = _exercise(exercise)
    if known.builds and not callable(make):
        print(f"{exercise}: hand in your class, without brackets: check({exercise!r}, MyAllocator).")
        make = _nothing
    address = os.environ.get("GPULAB_JUDGE")
    if address:
        _graded(known, make, address)
        return None
    said = _desk.said(exercise)
    if not known.builds:
        return Shown(known.visible(Course.at_hand(), said, None), known)
    asker = InProcess(make)
    try:
        return Shown(known.visible(Course.at_hand(), said, asker), known)
    finally:
        asker.close()


def variant(exercise: str, size: str = "") -> "Practice":
    """A fresh task for practice, as often as you like; ``size="tiny"`` makes it a very small one."""
    known = _exercise(exercise)
    number = _desk.practised.get(exercise, 0)
    _desk.practised[exercise] = number + 1
    return Practice(known, number % PRACTICES, size)


def hint(exercise: str) -> None:
    """The next of up to three hints: a question about the picture, the sub-goals, lines to put in order."""
    rungs = texts.hints(_exercise(exercise).id)
    step = _desk.rungs.get(exercise, 0)
    _desk.rungs[exercise] = min(step + 1, len(rungs))
    if step >= len(rungs):
        print("There are no further hints; hint() showed them all, and variant() gives a smaller case.")
        return
    print(f"Hint {step + 1} of {len(rungs)}:\n{rungs[step]}")


def blocks(exercise: str, order: str = "") -> None:
    """Lines to put in order, two of which are wrong; ``order`` (letters, for example "cab") is checked."""
    lines, right = texts.blocks(_exercise(exercise).id)
    if not lines:
        print(f"{exercise} has no blocks to order; hint({exercise!r}) helps.")
    elif not order:
        print("\n".join(f"{letter}  {line}" for letter, line in lines.items()))
        print(f'Two lines are wrong. Check an order with blocks("{exercise}", "...").')
    elif order.replace(" ", "") == right:
        print("That order works. Now write it as code.")
    else:
        given = order.replace(" ", "")
        agree = next(
            (n for n, (a, b) in enumerate(zip(given, right, strict=False)) if a != b),
            min(len(given), len(right)),
        )
        print(f"The first {agree} of your letters are in place; look at what comes after.")


def show_message(exercise: str) -> None:
    """Print one real message that the judge will send to your object, and the form of your answer."""
    print(texts.message(_exercise(exercise).id, Course.at_hand()))


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
        score = self.score
        if score.tag == "not-solved":
            return f"{score.exercise}: not solved yet. {score.feedback.rule} Nothing is lost; go on when you like."
        if not self.exercise.builds:
            return f"{score.exercise}: {' '.join(score.notes)}"
        head = "passed on the public inputs" if self.passed else "not passed yet"
        lines = [f"{score.exercise}: {head}. {' '.join(score.notes)}"]
        lines.append(
            f"On inputs like these the build is worth {score.points:g} of {score.max_points:g} points."
        )
        said = score.feedback
        if said:
            lines += ["", said.rule, f"First event that broke it: {said.event}"]
            lines += [f"Expected: {said.expected}", f"Got:      {said.got}", said.question]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"text/plain": self.text}
        said = self.score.feedback
        if said is not None and said.picture is not None and self.score.tag != "not-solved":
            data["text/html"] = f"<pre>{html.escape(self.text)}</pre><figure>{said.picture.svg()}</figure>"
        mark = {"exercise": self.score.exercise, "points": self.score.points, "max": self.score.max_points}
        return data, {"gpulab": mark}


class Practice:
    """A task to practise on: ``text`` says it, ``ledger`` is the reference's run, ``check`` tells all."""

    def __init__(self, exercise: Exercise, number: int, size: str) -> None:
        self._exercise, self._course = exercise, Course.at_hand()
        self.task = exercise.puzzle(self._course, "", number, size)
        self._number = number

    @property
    def text(self) -> str:
        return f"Practice {self._number + 1} of {self._exercise.id}\n{texts.task(self.task)}"

    @property
    def ledger(self) -> Ledger:
        """What the reference does on this task, fact by fact."""
        return self._exercise.reference(self._course, self.task)

    def check(self, **fields: object) -> Score:
        """Full feedback on your answers to this practice task; it carries no points."""
        return self._exercise.practise(self._course, self.task, plain(fields))

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text}


def _graded(exercise: Exercise, make: Callable | None, address: str) -> None:
    from autograder.answerer import serve

    said = _desk.said(exercise.id)
    hello = [
        exercise.id,
        {
            "learner": said.learner,
            "predicted": _sendable(said.predicted),
            "reconciled": _sendable(said.reconciled),
            "answered": said.answered,
        },
    ]
    taken = serve(address, hello, make or _nothing)
    print(f"{exercise.id}: received." if taken else f"{exercise.id}: not open now; nothing was changed.")


def _sendable(values: dict) -> dict:
    try:
        return plain(values)
    except Unsendable:
        return {}


def _nothing(**_: object) -> None:
    raise NotImplementedError("no class was handed in")


def _exercise(name: str) -> Exercise:
    known = exercises()
    if name not in known:
        raise ValueError(f"There is no exercise {name!r}; there are: {', '.join(known)}.")
    return known[name]


def _named(expected: Sequence[str], given: dict, verb: str, exercise: str) -> bool:
    unknown = [name for name in given if name not in expected]
    if unknown or not given:
        wanted = ", ".join(f"{name}=…" for name in expected)
        print(
            f"{exercise}: write {verb}({exercise!r}, {wanted}); {', '.join(unknown) or 'nothing'} was given."
        )
        return False
    return True


def _pairs(values: dict) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
