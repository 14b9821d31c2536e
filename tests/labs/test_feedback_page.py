"""The page a learner gets back: as nbconvert makes it, without the second look that takes longer than the page."""

import os
import re
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateFeedback
from sqlalchemy import text

from autograder import feedback, harmless
from autograder.frame import open_nbgrader
from autograder.verdict import Feedback, Score
from autograder.grading import one_engine

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


def test_nbgraders_page_asks_for_no_fonts_and_wraps_its_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_COURSE", str(tmp_path))
    nbgrader = open_nbgrader()
    config = GenerateFeedback(coursedir=nbgrader.coursedir, parent=nbgrader).config
    nb = nbformat.v4.new_notebook(cells=[PLAIN])
    marks = {"nbgrader": {"notebook": "90-tiny", "score": 0, "max_score": 0, "late_penalty": 0}}
    theirs, ours = (make(config=config).from_notebook_node(nb, marks)[0] for make in (HTMLExporter, feedback.FeedbackPage))

    assert ("@font-face" in theirs, "@font-face" in ours) == (True, False)
    assert "glyphicons-halflings-regular" not in ours
    assert re.search(r"[.]output_area pre \{[^}]*pre-wrap[^}]*word-break: normal", ours)


def test_what_is_the_same_for_the_whole_class_is_drawn_once_and_nothing_else_is_taken_for_it(monkeypatch):
    kept = feedback.Remembered(most=3, longest=40)
    monkeypatch.setattr(feedback, "_MADE", kept)
    code, words, long = new_code_cell("x = 1"), new_markdown_cell("# Words"), new_code_cell("x = 1  " + "#" * 40)
    shown = new_markdown_cell("![](attachment:a.png)", attachments={"a.png": {"image/png": "AAAA"}})

    def page(*cells, language: str = "python") -> str:
        nb = nbformat.v4.new_notebook(cells=list(cells), metadata={"language_info": {"name": language}})
        return feedback.FeedbackPage().from_notebook_node(nb)[0]

    first = page(code, words, long, shown)
    assert {key[-1] for key in kept._made} == {"x = 1", "# Words"}
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(feedback.Highlight2HTML, "__call__", None)  # nobody is asked again
        assert "hl-python" in page(code, words)
    assert "hl-r" in page(code, language="r") and "hl-r" not in page(code)
    assert "data:image/png;base64,AAAA" in first
    odd = new_code_cell("x = 1", metadata={"magics_language": ["a", {}]})  # as a learner's own cell may have it
    assert "hl-python" in page(odd) and len(kept._made) == 3
    other = shown | {"attachments": {"a.png": {"image/png": "BBBB"}}}
    assert "data:image/png;base64,BBBB" in page(nbformat.from_dict(other))


def test_what_is_remembered_never_grows_beyond_its_bound():
    kept, asked = feedback.Remembered(most=2, longest=3), []
    for text in ("a", "a", "b", "c", "a", "long", "long"):
        assert kept.of(("code", text), lambda text=text: asked.append(text) or text.upper()) == text.upper()
        assert len(kept._made) <= 2
    assert asked == ["a", "b", "c", "a", "long", "long"]


def test_gradebooks_opened_meanwhile_share_an_engine_and_do_not_wait_for_the_disk(tmp_path, monkeypatch):
    def waits(gradebook: Gradebook) -> int:
        with gradebook.engine.connect() as connection:
            return connection.execute(text("PRAGMA synchronous")).scalar()

    usual = sqlite3.connect(":memory:").execute("PRAGMA synchronous").fetchone()[0]
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # nbgrader calls alembic
    engines = []
    for course in ("a", "b"):
        monkeypatch.setenv("GPULAB_COURSE", str(tmp_path / course))
        (tmp_path / course).mkdir()
        url = f"sqlite:///{tmp_path / course / 'gradebook.db'}"
        with Gradebook(url) as before:
            before.add_student(course)
        with one_engine():
            for _ in range(2):
                with Gradebook(url) as meanwhile:
                    assert [one.id for one in meanwhile.students] == [course]
                    engines.append(meanwhile.engine)
                    assert waits(meanwhile) == 0
        with Gradebook(url) as after:
            assert (waits(after), after.engine in engines) == (usual, False) and usual != 0
    assert len(set(map(id, engines))) == 1


def page_of(*cells, **more):
    return feedback.FeedbackPage(**more).from_notebook_node(nbformat.v4.new_notebook(cells=list(cells)))[0]


LOST = "![drawing](attachment:gone.png)"


@pytest.mark.parametrize(
    "cell",
    [
        new_markdown_cell(LOST),
        new_markdown_cell(LOST, attachments={"gone.png": {}}),
        new_code_cell("x", outputs=[new_output("display_data", {"text/markdown": LOST})]),
    ],
)
def test_a_picture_that_was_not_handed_in_costs_no_page(cell):
    assert f"<pre>{LOST}</pre>" in page_of(cell, new_markdown_cell("**more**"))
    assert "<strong>more</strong>" in page_of(cell, new_markdown_cell("**more**"))
    context = SimpleNamespace(get=lambda *_: cell)
    assert harmless.markdown(context, LOST) == f"<pre>{LOST}</pre>"


def test_what_would_take_the_square_of_its_length_is_shown_as_it_is_written(monkeypatch):
    monkeypatch.setattr(feedback, "MOST_WORK", 1_000**2)
    long, short = "[" * 900, "**b**"
    cells = [new_markdown_cell(long), new_markdown_cell(long + "."), new_code_cell("a." * 450), new_markdown_cell(short)]
    page = page_of(*cells)
    assert f"<pre>{long}.</pre>" in page
    assert f"<pre>{long}</pre>" not in page
    assert '<pre>a.a.' in page
    assert "<strong>b</strong>" in page
    assert page == page_of(*cells)


def test_no_source_of_a_lab_comes_near_the_most_work():
    for file in ROOT.glob("labs/*/*.ipynb"):
        cells = nbformat.read(file, as_version=4).cells
        assert sum(len(cell.source) ** 2 for cell in cells) * 5 < feedback.MOST_WORK, file.name


def test_nothing_on_a_page_opens_another_one():
    for tag in ("meta", "iframe", "FRAME", "object", "embed", "link", "base"):
        shown = f"<{tag} src='http://example.org'>"
        page = page_of(new_markdown_cell(shown), new_code_cell("x", outputs=[new_output("display_data", {"text/html": shown})]))
        body = page.partition("<body")[2]
        assert f"<{tag}".lower() not in body.lower()
        assert body.count(f"&lt;{tag}") == 2


def test_one_kind_of_error_is_named_on_a_page():
    def failed(kind):
        return new_code_cell("x", metadata={"tags": [feedback.SEEN]}, outputs=[new_output("error", ename=kind, evalue="", traceback=[])])

    nb, resources = nbformat.v4.new_notebook(cells=[failed("KeyError"), failed("ValueError"), failed("Mine")]), {}
    nb, _ = feedback.HideGradedInputs().preprocess(nb, resources)
    assert [cell.outputs[0].text.split()[-1] for cell in nb.cells] == ["KeyError.", "exception.", "exception."]
