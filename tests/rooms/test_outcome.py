"""The table of a grading: what a spreadsheet would take for a formula is text, and a regrade reads it as it was."""

import pytest

from autograder.outcome import Outcome, read_summary, write_summary


def test_a_name_that_would_be_a_formula_is_text_in_the_table_and_itself_when_it_is_read(tmp_path):
    file, student = tmp_path / "summary.csv", '=HYPERLINK("http:evil","x")'
    write_summary(file, "90-tiny", [Outcome(student, "graded", 1.0, 3.0, {"double": 1.0}, notes="-1 is odd")])
    text = file.read_text()
    assert "\"'=HYPERLINK" in text and ",'-1 is odd" in text
    row = read_summary(file, "90-tiny")[student]
    assert (row["score"], row["notes"]) == ("1.0", "-1 is odd")


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path):
    file = tmp_path / "summary.csv"
    write_summary(file, "90-tiny", [Outcome("ann", "graded", 1.0, 3.0)])
    odd = Outcome("bob", "graded", 1.0, 3.0, notes="caf\udce9")
    write_summary(file, "90-tiny", [odd], read_summary(file, "90-tiny"))
    assert b"caf?" in file.read_bytes()
    (tmp_path / ".summary.csv.new").mkdir()
    with pytest.raises(OSError):
        write_summary(file, "90-tiny", [Outcome("zoe", "graded", 1.0, 3.0)])
    assert b"ann" in file.read_bytes()
