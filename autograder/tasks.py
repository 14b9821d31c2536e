"""What grading one submission depends on, packed for a worker, and a key that changes when any of it does."""

import json
import os
from pathlib import Path
from typing import final

import autograder
import gpulab
from autograder import gradebook, intake
from autograder.course import CARD, Course
from autograder.grading import Task, read_files
from autograder.journal import digest, of_the_code
from autograder.places import Places

_BY_HAND = ("manual_score", "extra_credit", "manual_comment")


@final
class Tasks:
    """What the gradings of one lab have in common, read once; ``released`` are the cells of the release."""

    def __init__(self, lab: str, places: Places, *, unsafe: bool = False) -> None:
        self._unsafe = unsafe
        self.lab, self._gradebook = lab, places.course / "gradebook.db"
        given = read_files(places.course / "release" / lab)
        notebook = given.pop(f"{lab}.ipynb")
        self.released: list[dict] = json.loads(notebook)["cells"]
        self._beside = {name: content for name, content in given.items() if not name.endswith(".ipynb")}
        kept, in_environment = places.course / "secret", os.environ.get("GPULAB_COURSE_SECRET", "")
        self._secret = kept.read_bytes() if kept.is_file() else in_environment.encode()
        self._blank = gradebook.blank(self._gradebook)
        code = of_the_code(*(Path(package.__file__).parent for package in (gpulab, autograder)))
        due = gradebook.due(self._gradebook, lab)  # a penalty for late work depends on it
        self._common = digest(
            notebook, self._beside, Course.load(places.course).course_id, code, [unsafe, due]
        )

    def task(self, submission: intake.Submission) -> Task:
        """What a worker needs to grade ``submission``: its notebook repaired, what lies beside it as it is."""
        files = self._files(submission)
        files[f"{self.lab}.ipynb"] = intake.mended(submission, self.released)
        rows = gradebook.rows_of(self._gradebook, self.lab, submission.student)
        return Task(
            self.lab, submission.student, files, self._beside, self._blank, rows, self._secret, self._unsafe
        )

    def key(self, submission: intake.Submission) -> str:
        """All that this submission's mark and page depend on, as one number: a person's marks and words too."""
        rows = gradebook.rows_of(self._gradebook, self.lab, submission.student)
        by_hand = [
            [row["id"], *(row.get(name) for name in _BY_HAND)]
            for table in ("grade", "comment")
            for row in rows[table]
            if any(row.get(name) is not None for name in _BY_HAND)
        ]
        return digest(self._common, submission.path.read_bytes(), self._files(submission), by_hand)

    def _files(self, submission: intake.Submission) -> dict[str, bytes]:
        folder = next(path for path in submission.path.parents if path.name == self.lab)
        found = {name: content for name, content in read_files(folder).items() if not name.endswith(".ipynb")}
        if not _is_time(found.get("timestamp.txt", b"")):  # a learner's own file; nbgrader would stop at it
            found.pop("timestamp.txt", None)
        ours = {CARD, "timestamp.txt", "submission_secret.txt", f"{self.lab}.ipynb", f"{self.lab}.html"}
        return {
            name: content
            for name, content in found.items()
            if name.partition("/")[0] not in ours or name in ours
        }


def _is_time(content: bytes) -> bool:
    """Can nbgrader read this as the time at which something was handed in?"""
    from nbgrader.utils import parse_utc

    try:
        return parse_utc(content.decode().strip()) is not None
    except Exception:  # the parser behind it raises whatever it stumbles over
        return False
