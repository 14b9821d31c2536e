"""Why a mark is what it is: one exercise of one submission graded once more, with everything that was said.

For instructors: it shows graded inputs. The run is the graded one again: same code, same secret, same questions.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import final

import nbformat

from autograder import intake
from autograder.grading import Task, grade_alone
from autograder.notebooks import graded_exercise
from autograder.places import Places
from autograder.scratch import Scratch
from autograder.tasks import Tasks


@final
@dataclass(frozen=True, slots=True)
class Told:
    """All that is known of one mark.

    Attributes:
        said: what the learner's page says of the exercise. mark: the judge's own words on it: points, max, tag,
        typed_name. conversation: (question, answer) as they travelled; none for a reading task.
        kept: the file that holds the conversation, a JSON pair a line.
    """

    said: str
    mark: dict
    conversation: list[tuple[list, list]]
    kept: Path | None

    def lines(self, most: int = 12) -> list[str]:
        """The same as text, of the conversation the first and last ``most`` questions."""
        found = [self.said, f"tag: {self.mark.get('tag') or 'none'}"]
        talk = self.conversation
        if not talk:
            return [*found, "The judge asked nothing: a reading task, or no answer ever came."]
        shown = talk if len(talk) <= 2 * most else [*talk[:most], None, *talk[-most:]]
        found.append(f"{len(talk)} questions, all of them in {self.kept}")
        for pair in shown:
            found += (
                ["  ..."] if pair is None else [f"  judge {_short(pair[0])}", f"  code  {_short(pair[1])}"]
            )
        return found


def why(lab: str, student: str, exercise: str, *, unsafe_no_sandbox: bool = False) -> Told:
    """Grade ``exercise`` of ``student``'s submission once more and tell everything; no mark is touched.

    Raises:
        LookupError: no such lab, submission or exercise in it; the text says what there is. RuntimeError: it could
            not be graded.
    """
    places = Places.found()
    places.source(lab)
    tasks = Tasks(lab, places, unsafe=unsafe_no_sandbox)
    known = [name for cell in tasks.released if (name := graded_exercise(nbformat.from_dict(cell)))]
    if exercise not in known:
        raise LookupError(f"{lab} has no exercise {exercise!r}; it has: {', '.join(known)}")
    submissions = {one.student: one for one in intake.read(places.course / "submitted", lab, tasks.released)}
    if student not in submissions:
        raise LookupError(
            f"{student!r} has handed in nothing for {lab}; there is: {', '.join(submissions) or 'nobody'}"
        )
    if submissions[student].status != "ok":
        raise LookupError(f"{student}: {submissions[student].reason}")
    folder = places.course / "why" / lab / student
    folder.mkdir(parents=True, exist_ok=True)
    with Scratch() as scratch:
        record = scratch / "conversation"
        notebook, mark = _graded(tasks.task(submissions[student]), lab, exercise, record)
        talk = [json.loads(line) for line in record.read_text().splitlines()] if record.is_file() else []
    kept = folder / f"{exercise}.jsonl" if talk else None
    if kept is not None:
        kept.write_text("".join(json.dumps(pair) + "\n" for pair in talk), encoding="utf-8")
    return Told(notebook, mark, [tuple(pair) for pair in talk], kept)


def _graded(task: Task, lab: str, exercise: str, record: Path) -> tuple[str, dict]:
    """What the page says of ``exercise``, and the judge's mark; the conversation goes to ``record``."""
    result = grade_alone(task, (exercise, str(record)))
    if result.fault:
        raise RuntimeError(f"{task.student}: {result.fault}")
    nb = nbformat.reads(result.folders["autograded"][f"{lab}.ipynb"].decode(), as_version=4)
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            mark = output.get("metadata", {}).get("gpulab", {})
            if mark.get("exercise") == exercise:
                return output.data["text/plain"], dict(mark)
    return f"{exercise}: its check cell has no verdict", {}


def _short(packet: object, most: int = 160) -> str:
    text = packet if isinstance(packet, str) else json.dumps(packet)
    return text if len(text) <= most else f"{text[: most - 4]} ..."
