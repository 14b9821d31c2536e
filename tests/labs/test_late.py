"""Late hand-ins: nbgrader's due date and penalty work as in any nbgrader course, and our table says so."""

import csv

import pytest
from nbformat import read

from autograder import frame
from autograder.batch import Batch
from autograder.workers import Workers


@pytest.fixture
def late(built, tmp_path, monkeypatch):
    """Grades the tiny lab with a due date in the gradebook; late work earns nothing."""
    config = tmp_path / "nbgrader_config.py"
    shipped = frame.CONFIG.read_text(encoding="utf-8")
    config.write_text(f'{shipped}\nc.LateSubmissionPlugin.penalty_method = "zero"\n', encoding="utf-8")
    monkeypatch.setattr(frame, "CONFIG", config)
    nb = read(built.source, as_version=4)
    del nb.metadata["widgets"]  # whose loss would be a note
    for student, stamp in {"ann": "2026-11-29 12:00:00 UTC", "ben": "2026-12-02 13:30:00 UTC"}.items():
        built.hand_in(student, nb).with_name("timestamp.txt").write_text(stamp)
    told = []

    def grade(due: str):
        with frame.open_nbgrader().gradebook as gradebook:
            gradebook.update_or_create_assignment(built.name, duedate=due)
        told.clear()
        outcomes = Batch(built.name, told.append, Workers(1)).grade(collect=False)
        return {one.student: one for one in outcomes}, list(told)

    return grade


def test_a_penalty_is_taken_off_in_every_table_and_a_new_due_date_is_a_new_grading(late, built):
    outcomes, told = late("2026-12-01 12:00:00 UTC")
    assert {name: (one.score, one.max_score) for name, one in outcomes.items()} == {
        "ann": (3.0, 3.0),
        "ben": (0.0, 3.0),
    }
    assert outcomes["ben"].points == {"double": 3.0}
    assert outcomes["ben"].notes == "handed in 25.5 hours late: 3 points taken off"
    assert outcomes["ann"].notes == ""
    for name in ("summary.csv", "grades.csv"):
        with (built.places.course / name).open(encoding="utf-8") as table:
            rows = {row.get("student") or row["student_id"]: float(row["score"]) for row in csv.DictReader(table)}
        assert rows == {"ann": 3.0, "ben": 0.0}

    outcomes, told = late("2026-12-03 12:00:00 UTC")
    assert outcomes["ben"].score == 3.0 and outcomes["ben"].notes == ""
    assert not any("as before" in line for line in told)
    outcomes, told = late("2026-12-03 12:00:00 UTC")
    assert sum("as before" in line for line in told) == 2
