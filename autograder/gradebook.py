"""The gradebook, in slices: a worker gets one learner's rows and gives them back, one writer keeps the whole.

nbgrader keeps its gradebook in SQLite. A slice is a gradebook of its own, with the lab's cells and one learner:
nbgrader's own steps run on it unchanged, on any machine. What comes back are the columns that grading owns; a mark
that a person gave meanwhile stays.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_OF_LEARNERS = ("comment", "grade", "submitted_notebook", "submitted_assignment", "student")  # children first
_OWNED = {  # what grading writes; everything else is a person's, or never changes
    "submitted_assignment": ("timestamp",),
    "submitted_notebook": ("late_submission_penalty",),
    "grade": ("auto_score",),
    "comment": ("auto_comment",),
}

_LOOKED_UP = {"submitted_notebook": "assignment_id", "grade": "notebook_id", "comment": "notebook_id"}

Rows = dict[str, list[dict]]
"""Table to rows, each column to value; parents first."""


def blank(gradebook: Path) -> bytes:
    """``gradebook`` without a learner: the assignments and their cells, as the bytes of an SQLite file."""
    with _opened(gradebook) as whole, closing(sqlite3.connect(":memory:")) as copy:
        whole.backup(copy)
        for table in _OF_LEARNERS:
            copy.execute(f"DELETE FROM {table}")
        copy.commit()
        copy.execute("VACUUM")
        return copy.serialize()


def index(gradebook: Path) -> None:
    """Let a learner's rows be found without reading the whole class's, by this module and by nbgrader's own questions.

    nbgrader makes no such indexes: a question about one learner takes as long as the class is large.
    """
    with _opened(gradebook) as book:
        for table, column in _LOOKED_UP.items():
            book.execute(f"CREATE INDEX IF NOT EXISTS gpulab_{table} ON {table} ({column})")
        book.commit()


def due(gradebook: Path, lab: str) -> str:
    """When ``lab`` must be handed in, as the gradebook has it; '' without a date."""
    with _opened(gradebook) as book:
        found = _all(book, "SELECT duedate FROM assignment WHERE name = ?", lab)
    return str(found[0]["duedate"] or "") if found else ""


def rows_of(gradebook: Path, lab: str, student: str) -> Rows:
    """The rows of ``student`` and ``lab``; no submission when there has been none."""
    with _opened(gradebook) as book:
        return _rows(book, lab, student)


def fill(gradebook: Path, rows: Rows) -> None:
    """Put ``rows`` into a blank ``gradebook``."""
    with _opened(gradebook) as book:
        for table, those in rows.items():
            for row in those:
                _insert(book, table, row)
        book.commit()


def store(gradebook: Path, rows: Rows) -> None:
    """Write what a worker made of its slice into the whole ``gradebook``, in one transaction.

    New rows are added; of known ones only what grading owns is changed, and whether a person must look is
    decided by the marks that stand here now, as nbgrader decides it (SaveAutoGrades).
    """
    with _opened(gradebook) as book:
        for table, those in rows.items():
            for row in those:
                if not _insert(book, table, row):
                    _update(book, table, row)
        for row in rows.get("grade", []):
            book.execute(
                "UPDATE grade SET needs_manual_grade = (manual_score IS NOT NULL OR auto_score IS NULL) WHERE id = ?",
                (row["id"],),
            )
        book.commit()


def _rows(book: sqlite3.Connection, lab: str, student: str) -> Rows:
    found = {"student": _all(book, "SELECT * FROM student WHERE id = ?", student)}
    found["submitted_assignment"] = _all(
        book,
        "SELECT s.* FROM submitted_assignment s JOIN assignment a ON s.assignment_id = a.id "
        "WHERE s.student_id = ? AND a.name = ?",
        *(student, lab),
    )
    found["submitted_notebook"] = [
        row
        for submission in found["submitted_assignment"]
        for row in _all(book, "SELECT * FROM submitted_notebook WHERE assignment_id = ?", submission["id"])
    ]
    for table in ("grade", "comment"):
        found[table] = [
            row
            for notebook in found["submitted_notebook"]
            for row in _all(book, f"SELECT * FROM {table} WHERE notebook_id = ? ORDER BY id", notebook["id"])
        ]
    return found


def _all(book: sqlite3.Connection, question: str, *values: object) -> list[dict]:
    return [dict(row) for row in book.execute(question, values)]


def _insert(book: sqlite3.Connection, table: str, row: dict) -> bool:
    """Add ``row`` unless there is one with its id."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    made = book.execute(
        f"INSERT INTO {table} ({names}) SELECT {places} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE id = ?)",
        (*row.values(), row["id"]),
    )
    return made.rowcount == 1


def _update(book: sqlite3.Connection, table: str, row: dict) -> None:
    owned = _OWNED.get(table, ())
    if owned:
        named = ", ".join(f"{name} = ?" for name in owned)
        values = [row[name] for name in owned]
        book.execute(f"UPDATE {table} SET {named} WHERE id = ?", (*values, row["id"]))


@contextmanager
def _opened(gradebook: Path) -> Iterator[sqlite3.Connection]:
    """The gradebook, waiting up to a minute while somebody else (the form grader) writes."""
    with closing(sqlite3.connect(gradebook, timeout=60)) as book:
        book.row_factory = sqlite3.Row
        yield book
