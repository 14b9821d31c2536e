"""The table of all marks: nbgrader's own rows, and no name moves a mark or becomes a formula."""

import csv
from datetime import datetime

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

from autograder.frame import open_nbgrader
from autograder.marks import MarksTable


def written(kind, gradebook, file, **options):
    exporter = kind(**options)
    exporter.to = str(file)
    exporter.export(gradebook)
    return file.read_text()


@pytest.fixture
def gradebook(tmp_path, monkeypatch):
    """Two assignments of one cell of 3 points; ann handed in the first, late by half a point."""
    monkeypatch.setenv("GPULAB_COURSE", str(tmp_path / "course"))
    open_nbgrader()  # it puts alembic, which makes a gradebook, on the path
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        for name, due in (("lab", datetime(2030, 1, 2, 3)), ("more", None)):
            book.add_assignment(name, duedate=due)
            book.add_notebook(name, name)
            book.add_grade_cell("cell", name, name, max_score=3, cell_type="code")
        for student in ("ann", "bob"):
            book.add_student(student, last_name="Roe", email=f"{student}@example.org")
        made = book.add_submission("lab", "ann", timestamp=datetime(2030, 1, 2, 4))
        grade = book.find_grade("cell", "lab", "lab", "ann")
        grade.auto_score, made.late_submission_penalty = 2.5, None
        book.find_submission_notebook("lab", "lab", "ann").late_submission_penalty = 0.5
        book.db.commit()
        yield book


def test_the_rows_are_those_of_nbgrader(gradebook, tmp_path):
    theirs = written(CsvExportPlugin, gradebook, tmp_path / "theirs.csv")
    assert written(MarksTable, gradebook, tmp_path / "ours.csv") == theirs
    assert ",2.5,0.5,2.0,3.0" in theirs
    options = {"student": ["ann"], "assignment": ["lab"]}
    theirs = written(CsvExportPlugin, gradebook, tmp_path / "theirs.csv", **options)
    assert written(MarksTable, gradebook, tmp_path / "ours.csv", **options) == theirs
    assert len(theirs.splitlines()) == 2


@pytest.mark.parametrize("name", ["Mallory,,,,22.0,0.0,22.0,22.0", '=HYPERLINK("http:x","y")', "a\nb,c", "\x1b[2J"])
def test_a_name_stays_in_its_column(gradebook, tmp_path, name):
    gradebook.add_student(name)
    text = written(MarksTable, gradebook, tmp_path / "ours.csv")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 6
    assert all(row["score"] in ("0.0", "2.0") and None not in row and None not in row.values() for row in rows)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert not any(row["student_id"].startswith("=") for row in rows)


def test_marks_have_no_dust_of_floats(gradebook, tmp_path):
    gradebook.find_grade("cell", "lab", "lab", "ann").auto_score = 0.1 + 0.2
    gradebook.db.commit()
    assert ",0.3,0.5,0.0,3.0" in written(MarksTable, gradebook, tmp_path / "ours.csv")


def test_nbgraders_own_export_writes_it_into_the_course(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_COURSE", str(tmp_path / "course"))
    config = open_nbgrader().config
    assert config.ExportApp.plugin_class == "autograder.marks.MarksTable"
    assert config.ExportPlugin.to == str(tmp_path / "course" / "grades.csv")
