"""What the references did on public inputs, recorded: scores and every answer, for a kit that holds no reference.

``write`` makes the records where the references are, ``compare`` plays a learner's own code beside them. A *run* is what one
object of the reference was asked, from ``new`` on; the inputs are the ones that ``check`` plays in a learner's notebook.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from autograder.channel import InProcess, printable
from autograder.checks import exercises
from autograder.course import Course
from autograder.judge import Exercise
from autograder.verdict import Commitments, Score

FOLDER = Path(__file__).with_name("records")
MOST_CHARS = 60_000  # of a run that is recorded answer by answer; of a longer one only its digest

Turn = tuple[str, object]
"""A question as it travelled, without its number, and the answer, as JSON values."""


def write(folder: Path, course: Course) -> dict[str, dict]:
    """A file for each exercise that has a reference, made anew; what stands in them. Equal courses give equal bytes."""
    from autograder.references import references

    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for name, reference in references().items():
        made[name] = record(exercises()[name], course, reference)
        text = json.dumps(made[name], sort_keys=True, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return made


def record(exercise: Exercise, course: Course, built: Callable) -> dict:
    """What ``built`` earns on the public inputs, and its runs there."""
    score, runs = played(exercise, course, built)
    found = {
        "exercise": exercise.id,
        "rules": course.rules.get(exercise.id, {}),
        "points": score.points,
        "of": round(score.max_points, 2),
        "notes": list(score.notes),
        "runs": [_recorded(run) for run in runs],
    }
    kept = exercise.kept(course)
    return found if kept is None else found | {"kept": kept}


def _recorded(run: list[Turn]) -> dict:
    found = {"asked": len(run), "digest": digest(run)}
    short = len(json.dumps(run)) <= MOST_CHARS
    return found | {"turns": run} if short else found


def digest(run: list[Turn]) -> str:
    """Twelve hex digits of all that was asked and answered."""
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:12]


def played(exercise: Exercise, course: Course, built: Callable) -> tuple[Score, list[list[Turn]]]:
    """The score of ``built`` on the public inputs, and its runs in the order of the questions."""
    name = exercise.function
    asker = InProcess((lambda **_: SimpleNamespace(**{name: built})) if name else built, exercise.seconds)
    runs: list[list[Turn]] = []

    def hear(question: str, answer: str) -> None:
        asked = json.loads(question)[1:]
        if asked[0] == "new":
            runs.append([])
        runs[-1].append([asked, _answer(answer)])

    asker.overheard = hear
    try:
        return exercise.visible(course, Commitments(), asker), runs
    finally:
        asker.close()


def _answer(text: str) -> object:
    """The status and the value of an answer; its text where it has no such form."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return said[1:] if type(said) is list else said


def recorded(name: str, course: Course, folder: Path = FOLDER) -> dict | None:
    """The record of exercise ``name`` for this course; None where there is none, as in a checkout of the sources."""
    file = folder / f"{name}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    return found if found["rules"] == course.rules.get(name, {}) else None


def compare(name: str, built: Callable, folder: Path = FOLDER) -> None:
    """Play ``built`` on the public inputs and say where its answers first differ from the reference's.

    Another answer is not always a worse one: ``check`` says what it is worth.
    """
    known, course = exercises().get(name), Course.at_hand()
    kept = recorded(name, course, folder) if known else None
    if kept is None:
        there = ", ".join(sorted(path.stem for path in folder.glob("*.json")))
        print(
            f"{name}: there is no record of it for this course. There are: {there or 'none; kits hold them'}."
        )
        return
    score, runs = played(known, course, built)
    print(f"{name}: yours {score.points:g}, the reference {kept['points']:g} of {kept['of']:g} points.")
    for number, reference in enumerate(kept["runs"]):
        run = runs[number] if number < len(runs) else []
        print(f"  run {number + 1}: {_compared(run, reference)}")


def _compared(run: list[Turn], reference: dict) -> str:
    if digest(run) == reference["digest"]:
        return f"all {reference['asked']:,} answers are the reference's."
    if "turns" not in reference:
        return (
            f"something differs; you answered {len(run):,} questions, the reference {reference['asked']:,}."
        )
    turns = reference["turns"]
    pairs = enumerate(zip(run, turns, strict=False))
    at, (mine, theirs) = next(((n, pair) for n, pair in pairs if pair[0] != pair[1]), (None, (None, None)))
    if at is None:
        return f"you answered {len(run):,} questions, the reference {len(turns):,}; the shorter run is alike."
    if mine[0] != theirs[0]:
        return (
            f"{at:,} answers are alike; then another question came, since what you had said before differs."
        )
    asked, said, given = (_told(part) for part in (mine[0][1:], mine[1], theirs[1]))
    return f"{at:,} answers are alike; then {mine[0][0]} {asked}: you said {said}, the reference {given}."


def _told(part: object) -> str:
    return printable(json.dumps(part), 160)
