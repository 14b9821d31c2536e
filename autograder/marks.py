"""nbgrader's table of all marks, written so that a spreadsheet reads what is in it and nothing else."""

import csv
from pathlib import Path
from typing import final

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from autograder.outcome import cell_of

_COLUMNS = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email")
_COLUMNS += ("raw_score", "late_submission_penalty", "score", "max_score")


@final
class MarksTable(ExportPlugin):
    """nbgrader's own ``grades.csv``, the same rows and columns, for ``nbgrader export`` too.

    nbgrader joins values with commas as they are: in a student's name a comma moves a score of the learner's choice into
    the column of scores, and a formula is one for whoever opens the table.
    """

    def export(self, gradebook: Gradebook) -> None:
        """Write the table to ``to``: a row for each assignment and student, 0 where nothing was handed in."""
        file = Path(self.to or "grades.csv")
        fresh = file.with_name(f".{file.name}.new")  # a table that cannot be written leaves the old one
        with fresh.open("w", encoding="utf-8", errors="replace", newline="") as handle:
            table = csv.writer(handle, lineterminator="\n")
            table.writerow(_COLUMNS)
            for assignment in gradebook.assignments:
                if self.assignment and assignment.name not in map(str, self.assignment):
                    continue
                for student in gradebook.students:
                    if not self.student or student.id in map(str, self.student):
                        row = _row(gradebook, assignment, student)
                        table.writerow(["" if value is None else cell_of(value) for value in row])
        fresh.replace(file)


def _row(gradebook: Gradebook, assignment, student) -> list:
    found, raw, penalty = None, 0.0, 0.0
    try:
        found = gradebook.find_submission(assignment.name, student.id)
        raw, penalty = found.score, found.late_submission_penalty or 0.0
    except MissingEntry:
        pass
    who = (student.id, student.last_name, student.first_name, student.email)
    marks = (raw, penalty, max(0.0, raw - penalty), assignment.max_score)
    return [
        assignment.name,
        assignment.duedate,
        found and found.timestamp,
        *who,
        *(round(m, 4) for m in marks),
    ]
