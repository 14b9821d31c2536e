"""The page a learner gets back: as nbconvert makes it, without the second look that takes longer than the page."""

import re
import sqlite3
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_output
from sqlalchemy import create_engine, text

from autograder import feedback
from autograder.verdict import Feedback, Score
from autograder.grading import not_waiting_for_the_disk

ROOT = Path(__file__).parents[2]
PLAIN = new_code_cell("x", outputs=[new_output("display_data", {"text/html": '<img src="data:image/png,x">'})])


def test_the_page_is_the_one_that_nbconvert_makes(monkeypatch):
    monkeypatch.setattr(feedback, "_MATHJAX", re.compile("(?!)"))
    monkeypatch.setattr(feedback, "_POLICY", "")
    monkeypatch.setattr(feedback, "_STYLE", "")
    nb = nbformat.read(ROOT / "labs/02-allocate/02-allocate.ipynb", as_version=4)
    nb.cells.append(PLAIN)
    theirs, ours = (make().from_notebook_node(nb)[0] for make in (HTMLExporter, feedback.FeedbackPage))
    theirs, ours = (BeautifulSoup(page, "html.parser") for page in (theirs, ours))

    assert 'alt="No description' in str(ours)
    assert len(ours.select("[tabindex]")) > len(nb.cells)
    assert [(one.name, one.attrs) for one in ours.find_all()] == [
        (one.name, one.attrs) for one in theirs.find_all()
    ]
    assert ours.get_text().split() == theirs.get_text().split()


def test_half_a_character_in_an_answer_stops_no_page():
    told = Feedback("A rule.", "the first", "one", "'\ud800'", "Which?")
    outputs = feedback.outputs_of(Score("02.pool", 1.0, 4.0, "other", (), told, "\ud800"), 4.0)
    nbformat.writes(nbformat.v4.new_notebook(cells=[new_code_cell("x", outputs=outputs)])).encode()


def test_a_page_sends_nobody_elsewhere_and_takes_no_time_for_pictures_without_words():
    outputs = [
        new_output("display_data", {"text/html": '<META http-equiv="refresh" content="0;url=http://evil">'}),
        new_output("display_data", {"text/html": "<img " * 100_000}),
    ]
    page, _ = feedback.FeedbackPage().from_notebook_node(
        nbformat.v4.new_notebook(cells=[new_code_cell("x", outputs=outputs)])
    )
    assert "<meta http-equiv" not in page.partition("<body")[2].lower()
    assert "form-action 'none'; base-uri 'none'" in page


def test_a_template_is_compiled_once_a_process_however_many_pages_are_made():
    kept = feedback._compiled()
    for _ in range(2):
        page, _ = feedback.FeedbackPage().from_notebook_node(nbformat.v4.new_notebook(cells=[PLAIN]))
        code = dict(kept._code)
        assert code and "data:image/png,x" in page
    assert kept._code == code and feedback._compiled() is kept


def test_only_databases_opened_meanwhile_do_not_wait_for_the_disk(tmp_path):
    def waits(name: str) -> int:
        with create_engine(f"sqlite:///{tmp_path / name}").connect() as connection:
            return connection.execute(text("PRAGMA synchronous")).scalar()

    usual = sqlite3.connect(":memory:").execute("PRAGMA synchronous").fetchone()[0]
    with not_waiting_for_the_disk():
        assert waits("a") == 0
    assert waits("b") == usual != 0
