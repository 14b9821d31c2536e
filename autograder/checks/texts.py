"""What the labs say on request: one real message, a task in words, a constant of a twist."""

import json

from autograder.answerer import Answerer
from autograder.course import Course
from autograder.judge import Exercise
from gpulab.units import format_bytes


def task(puzzle: object) -> str:
    """A task in words."""
    if hasattr(puzzle, "graded"):
        return puzzle.graded.text()
    if hasattr(puzzle, "text"):
        return puzzle.text()
    lines = [f"arena: {puzzle.capacity:,} B"]
    lines += [f"{c.time_ns:>6,} ns  {c.owner}: {c.size:,} B for {c.hold_ns:,} ns" for c in puzzle.claims]
    return "\n".join(lines)


def constant(name: str, value: int) -> str:
    """A twist's constant with its unit, which is the last word of its name, else bytes."""
    unit = name.rpartition("_")[2]
    if unit in ("blocks", "tokens", "percent", "steps", "ns", "claims"):
        return f"{value:,} {unit}"
    rounded = format_bytes(value)
    return f"{value:,} B" if rounded == f"{value:,} B" else f"{value:,} B ({rounded})"


def message(exercise: Exercise, course: Course) -> str:
    """The judge's first questions, as they travel, and what an answer looks like."""
    found = exercise.example(course)
    if found is None and exercise.builds:
        return f"For {exercise.id} the judge makes your class and asks each of its methods, without arguments, once."
    if found is None:
        return f"The judge sends nothing for {exercise.id}: it reads the answers you noted."
    questions, make = found
    answerer = Answerer(make)
    spoken = [(json.dumps(question), answerer.answer(json.dumps(question))) for question in questions]
    answerer.close()
    heard = "\n".join(f"judge: {question}\nyou:   {reply}" for question, reply in spoken)
    made = questions[0][2][0] if questions[0][1] == "new" else {}
    with_what = f" Your class is made with {', '.join(f'`{name}`' for name in made)}." if made else ""
    if questions[0][2][1:] == ["view"]:
        with_what += " Your `decide` never sees these lists: they keep up a view like that of the engine, which it gets."
    form = "What stands behind `you` shows the form of an answer; its values need not be right."
    order = "A question is [serial, method, arguments, told]: the calls in `told` are made first."
    return f"{heard}\n{order}{with_what}\n{form}"
