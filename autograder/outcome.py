"""What became of each submission, and the table of it that is kept."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

GRADED, REFUSED, FAILED = "graded", "refused", "failed"


@dataclass
class Outcome:
    """What became of one submission in this run.

    Attributes:
        student: the submission's folder. status: ``graded``; ``refused``: what was handed in cannot be
        graded, ``reason`` says what to do; ``failed``: our side broke down, nobody's mark is touched.
        score, max_score: points, None unless graded. points: by exercise or grade id.
        reason: why not graded. notes: what an instructor should look at, e.g. another name typed.
        unread: grade ids of answers that a person has not read yet; they are in ``max_score`` alone.
    """

    student: str
    status: str
    score: float | None = None
    max_score: float | None = None
    points: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    notes: str = ""
    unread: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The outcome in a few words."""
        if self.status != GRADED:
            return self.status
        waits = f", and {', '.join(self.unread)} to be read by a person" if self.unread else ""
        return f"{self.score:g} of {self.max_score:g}{waits}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FIRST, _LAST = ("lab", "student", "status", "score", "max_score"), ("reason", "notes")


def write_summary(
    file: Path, lab: str, outcomes: list[Outcome], keep: dict[str, dict[str, str]] | None = None
) -> None:
    """A row for every submission of this run: status, points in all and each, the reason, the notes.

    ``keep`` are rows of an earlier summary by student; those of nobody in this run stay as they are.
    """
    rows: dict[str, dict] = dict(keep or {})
    for one in outcomes:
        first = (lab, one.student, one.status, _rounded(one.score), _rounded(one.max_score))
        points = {name: _rounded(one.points.get(name)) for name in (*one.points, *one.unread)}
        last = {"reason": one.reason, "notes": one.notes}
        rows[one.student] = dict(zip(_FIRST, first, strict=True)) | points | last
    cells = sorted({name for row in rows.values() for name in row if name} - {*_FIRST, *_LAST})
    fresh = file.with_name(f".{file.name}.new")  # a table that cannot be written leaves the old one
    with fresh.open("w", encoding="utf-8", errors="replace", newline="") as handle:
        table = csv.DictWriter(handle, [*_FIRST, *cells, *_LAST], restval="", extrasaction="ignore")
        table.writeheader()
        table.writerows({name: cell_of(value) for name, value in row.items()} for row in rows.values())
    fresh.replace(file)


def read_summary(file: Path, lab: str, only: str | None = None) -> dict[str, dict[str, str]]:
    """The rows of ``lab`` in an earlier ``summary.csv``, by student; ``only`` that of one.

    Raises:
        ValueError: it is no such table. OSError: it cannot be read.
    """
    with file.open(encoding="utf-8", newline="") as handle:
        rows = csv.DictReader(handle)
        if not {"lab", "student", "status", "score"} <= set(rows.fieldnames or ()):
            raise ValueError(
                f"{file} is no summary of a grading: it has no columns lab, student, status, score"
            )
        plain = [{name: _as_written(value) for name, value in row.items()} for row in rows]
    return {row["student"]: row for row in plain if row["lab"] == lab and only in (None, row["student"])}


def moved(before: dict[str, dict[str, str]], outcomes: list[Outcome]) -> list[str]:
    """A line for each mark that differs from an earlier grading's: the student, the exercise, both marks."""
    lines = []
    for one in outcomes:
        was = before.get(one.student)
        if was is None:
            lines.append(f"{one.student}: new")
            continue
        if was["status"] != one.status:
            lines.append(f"{one.student}: {was['status']} before, {one.status} now")
        for name, points in sorted(one.points.items()):
            then, now = was.get(name) or "", str(_rounded(points))
            if then != now:
                lines.append(f"{one.student}: {name} {then or 'no mark'} before, {now or 'no mark'} now")
        score = str(_rounded(one.score))
        if was["score"] != score:  # also where no exercise moved: a penalty for late work
            lines.append(f"{one.student}: score {was['score'] or 'none'} before, {score or 'none'} now")
    gone = sorted(set(before) - {one.student for one in outcomes})
    return lines + [f"{student}: graded before, not there now" for student in gone]


def cell_of(value: object) -> object:
    """``value`` as a spreadsheet and a terminal may have it: a quote before what would be a formula, no control characters."""
    if not isinstance(value, str):
        return value
    plain = "".join(char if char.isprintable() else "?" for char in value)
    return f"'{plain}" if value[:1] in _FORMULA else plain


def _as_written(value: object) -> object:
    return value[1:] if isinstance(value, str) and value[:1] == "'" and value[1:2] in _FORMULA else value


def _rounded(points: float | None) -> float | str:
    """Points without the dust that adding floats leaves; the judge gives hundredths."""
    return "" if points is None else round(points, 4)
