"""What a learner calls in a lab: plain functions with literal values; nothing here needs a widget.

``predict``, ``reconcile`` and ``answer`` note what was typed. ``check`` plays visible inputs against the
learner's code in this process, or, when the notebook is graded, answers the judge's questions and hears no
verdict. The notes live as long as the kernel; a restart and run-all makes the same ones again.
"""

import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace

from autograder import memo
from autograder.answerer import serve
from autograder.channel import InProcess
from autograder.checks import exercises, texts
from autograder.course import Course
from autograder.desk import Desk, as_judged, listed, named, pairs
from autograder.judge import Exercise, foreseen
from autograder.shown import Practice, Shown
from autograder.verdict import tidy_name
from autograder.written import looked_over
from gpulab.report.form import Form
from gpulab.report.widgets import form
from gpulab.telemetry.ledger import Ledger

__all__ = [
    "answer",
    "blocks",
    "check",
    "finding",
    "hint",
    "learner",
    "look_over",
    "predict",
    "predict_form",
    "puzzle",
    "reconcile",
    "rules",
    "show_message",
    "variant",
    "watch",
]

PRACTICES = 64  # public seeds that ``variant`` goes through before it begins again


_desk = Desk()  # the only state of this module


def learner(name: str | None = None) -> None:
    """Say who you are: your own tasks are drawn for this name, so keep it the same everywhere."""
    tidy = tidy_name("" if name is None else str(name))
    if not tidy:
        offered = (
            os.environ.get("JUPYTERHUB_USER") or os.environ.get("USER") or os.environ.get("USERNAME") or "ada"
        )
        print(f'Not named yet: write  name = "{offered}"  with your own name, quotes included; then run all.')
        return
    _desk.name = tidy
    print(f"Hello {tidy}. Course: {Course.at_hand().course_id}. Your own tasks are drawn for this name.")


def rules(exercise: str) -> dict[str, int]:
    """The constants of this course for ``exercise``, printed too, by the name under which your code has them."""
    known = _exercise(exercise)
    given = Course.at_hand().rules.get(known.id, {})
    for name, value in given.items():
        print(f"{known.constant.format(name)} is {texts.constant(name, value)} in this course")
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
    if not named(known.predicts, guesses, "predict", exercise):
        return
    if exercise in _desk.predicted:
        print(f"{exercise}: already committed, and it stays: {pairs(_desk.predicted[exercise])}.")
        return
    missing = [name for name in known.predicts if guesses.get(name) is None]
    if missing:
        print(
            f"{exercise}: not committed yet. Write your guess in place of None; right or wrong does not matter. "
            f"Still open: {', '.join(missing)}."
        )
        return
    noted = as_judged(exercise, guesses)
    odd = [name for name, value in noted.items() if not foreseen(value, known.choices)]
    if odd:
        wanted = f"one of {', '.join(map(repr, known.choices))}" if known.choices else "a number"
        print(f"{exercise}: not committed: {odd[0]} is {noted[odd[0]]!r}; write {wanted}.")
    elif noted:
        _desk.commit(exercise, noted)
        print(f"{exercise}: committed: {pairs(noted)}.")


def predict_form(exercise: str) -> Form | None:
    """Fields for the prediction of ``exercise``, and the line of ``predict`` to put into the code cell below.

    The form commits nothing: only ``predict`` in a cell does. After that the form shows what was committed and
    is shut. None, with a sentence, for an exercise without a prediction.
    """
    known = _exercise(exercise)
    if not known.predicts:
        print(f"{exercise} asks for no prediction.")
        return None
    made = form(known.predicts, lambda values: f'predict("{exercise}", {pairs(values)})')
    _desk.forms[exercise] = made
    if exercise in _desk.predicted:
        made.lock(_desk.predicted[exercise])
    return made


def watch(exercise: str, part: str = "a") -> Ledger:
    """The naive rule on your own trace, as a ledger; empty, with a sentence, until you have predicted."""
    known = _exercise(exercise)
    if exercise not in _desk.predicted:
        print(f"{exercise}: predict first; then this cell shows what happens.")
        return Ledger()
    return known.watched(known.puzzle(Course.at_hand(), _desk.name), part)


def reconcile(exercise: str, cause: str | None = None, events: int | Sequence[int] = ()) -> None:
    """Say what explains the run: a ``cause`` from the list and the serials of the events that show it."""
    known = _exercise(exercise)
    if cause is None:
        print(f"{exercise}: not reconciled yet. Causes: {', '.join(known.causes)}.")
        return
    if cause not in known.causes:
        print(f"{exercise}: {cause!r} is not on the list: {', '.join(known.causes)}.")
        return
    noted = as_judged(exercise, {"cause": cause, "events": listed(events)})
    if not noted:
        return
    if any(type(event) is not int for event in noted["events"]):
        print(f"{exercise}: not noted: write the numbers of the events, for example events=[17].")
        return
    _desk.reconciled[exercise] = noted
    shown = ", ".join(f"#{event}" for event in noted["events"]) or "no event yet"
    print(f"{exercise}: noted: {cause}, shown by {shown}.")


def answer(exercise: str, **fields: object) -> None:
    """Note your answers. Calling again replaces them; what stands when you hand in is graded."""
    known = _exercise(exercise)
    if not named(known.fields, fields, "answer", exercise):
        return
    given = {name: value for name, value in fields.items() if value is not None}
    noted = as_judged(exercise, given)
    if given and not noted:
        return  # it said why
    _desk.answered[exercise] = noted
    missing = [name for name in known.fields if name not in noted]
    print(f"{exercise}: noted: {pairs(noted)}." if noted else f"{exercise}: not answered yet.")
    if noted and missing:
        print(f"Still open: {', '.join(missing)}.")


def finding(
    id: str,
    sentence: str | None = None,
    query: list | None = None,
    value: float | None = None,
    unit: str | None = None,
) -> None:
    """Note one claim of 07.claims: a sentence, the query behind it, its value and unit. Again with an id replaces it."""
    claims = _exercise("07.claims")
    if id not in claims.fields:
        print(f"{claims.id}: there is no claim {id!r}; there are: {', '.join(claims.fields)}.")
        return
    if None in (sentence, query, value, unit):
        print(f"{claims.id}: {id} is not claimed yet.")
        return
    number = float(value) if isinstance(value, Fraction) else value
    noted = as_judged(claims.id, {id: [sentence, query, number, unit]})
    if noted:
        _desk.answered.setdefault(claims.id, {}).update(noted)
        left = [name for name in claims.fields if name not in _desk.answered[claims.id]]
        print(
            f"{claims.id}: noted {id}. "
            + (f"Still open: {', '.join(left)}." if left else "All five are there.")
        )


def check(exercise: str, make: Callable | None = None) -> "Shown | None":
    """Check ``exercise``. For a build hand in your class or function; the result is shown as text and picture.

    On your machine the inputs are public ones. When your notebook is graded the same call answers the
    judge, whose inputs are fresh, and prints no verdict.
    """
    known = _exercise(exercise)
    if known.builds:
        make = _maker(known, make)
    address = os.environ.get("GPULAB_JUDGE")
    if address:
        _graded(known, make, address)
        return None
    said = _desk.said(exercise)
    if not known.builds:
        return Shown(known.visible(Course.at_hand(), said, None), known)
    asker = InProcess(make, known.seconds)
    try:
        return Shown(known.visible(Course.at_hand(), said, asker), known)
    finally:
        asker.close()


def look_over(exercise: str, text: str | None = None) -> None:
    """Say of a written answer how long it is and which technical words it does not explain; never a mark."""
    lines = looked_over(exercise, text)
    if exercise == "07.memo":  # its numbers are claims, filled in as they are recomputed
        claims = _exercise("07.claims")
        runs = claims.puzzle(Course.at_hand(), _desk.name)
        lines += memo.looked_over(text, _desk.answered.get(claims.id, {}), runs)
    print("\n".join(lines))


def variant(exercise: str, size: str = "") -> "Practice":
    """A fresh task for practice, as often as you like; ``size="tiny"`` makes it a very small one."""
    known = _exercise(exercise)
    number = _desk.practised.get(exercise, 0)
    _desk.practised[exercise] = number + 1
    return Practice(known, Course.at_hand(), number % PRACTICES, size)


def hint(exercise: str) -> None:
    """The next of up to three hints: a question about the picture, the sub-goals, lines to put in order."""
    rungs = _exercise(exercise).hints
    step = _desk.rungs.get(exercise, 0)
    _desk.rungs[exercise] = min(step + 1, len(rungs))
    if step >= len(rungs):
        print("There are no further hints; hint() showed them all, and variant() gives a smaller case.")
        return
    print(f"Hint {step + 1} of {len(rungs)}:\n{rungs[step]}")


def blocks(exercise: str, order: str = "") -> None:
    """Lines to put in order, two of which are wrong; ``order`` (letters, for example "cab") is checked."""
    lines, right = _exercise(exercise).blocks
    if not lines:
        print(f"{exercise} has no blocks to order; hint({exercise!r}) helps.")
    elif not order:
        print("\n".join(f"{letter}  {line}" for letter, line in lines.items()))
        print(f'Two lines are wrong. Check an order with blocks("{exercise}", "...").')
    elif not isinstance(order, str):
        print(f'Write the letters in one string, for example blocks("{exercise}", "cab").')
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
    print(texts.message(_exercise(exercise), Course.at_hand()))


def _graded(exercise: Exercise, make: Callable | None, address: str) -> None:
    said = _desk.said(exercise.id)
    typed = {
        "learner": said.learner,
        "predicted": said.predicted,
        "reconciled": said.reconciled,
        "answered": said.answered,
    }
    taken = serve(address, [exercise.id, typed], make or _nothing)
    print(f"{exercise.id}: received." if taken else f"{exercise.id}: not open now; nothing was changed.")


def _maker(exercise: Exercise, given: Callable | None) -> Callable:
    """What makes the object that the judge asks: the learner's class, or a holder of the learner's function."""
    what = exercise.function or "MyClass"
    if not callable(given):
        kind = "function" if exercise.function else "class"
        print(f"{exercise.id}: hand in your {kind}, without brackets: check({exercise.id!r}, {what}).")
        return _nothing
    return (lambda **_: SimpleNamespace(**{what: given})) if exercise.function else given


def _nothing(**_: object) -> None:
    raise NotImplementedError("no class was handed in")


def _exercise(name: str) -> Exercise:
    known = exercises()
    if name not in known:
        raise ValueError(f"There is no exercise {name!r}; there are: {', '.join(known)}.")
    return known[name]
