"""A written answer is read by a person: until then nobody is told that it is worth 0, afterwards the mark stays."""

import csv

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from typer.testing import CliRunner

from autograder.__main__ import app
from autograder.learner import look_over
from autograder.written import looked_over, unexplained, words_of

TEXT = "Bytes are scarce when two conversations want the same ones at one instant."


@pytest.fixture(scope="module")
def lab(built, cell_meta):
    """The tiny lab with one written answer, two submissions of it, graded once; a way to grade again."""
    from autograder import release

    nb = nbformat.read(built.source, as_version=4)
    written = cell_meta("sentence", grade=True, solution=True, points=3, cell_type="code")
    nb.cells.append(new_code_cell(f"sentence = {TEXT!r}  # ANSWER", id="sentence", metadata=written))
    built.save(nb)
    (built.source.parent / "rubric-sentence.md").write_text("2 points: names a unit")
    (built.source.parent / "instructor.md").write_text("for whoever teaches")
    release.build(built.name)
    for student, text in (("ann", repr(TEXT)), ("bob", None)):
        handed_in = nbformat.read(built.released, as_version=4)
        if text:
            handed_in.cells[-1].source = f"sentence = {text}"
        built.hand_in(student, handed_in)
    return built


def graded(lab, student):
    """What the command said, the summary's row and the page's body."""
    said = CliRunner().invoke(app, ["grade", lab.name, "--only", student]).output
    rows = csv.DictReader((lab.places.course / "summary.csv").read_text().splitlines())
    (row,) = (row for row in rows if row["student"] == student)
    page = (lab.places.step("feedback", student, lab.name) / f"{lab.name}.html").read_text()
    return said, row, page[page.index("<body") :]


@pytest.fixture(scope="module")
def first(lab):
    """Ann's first grading."""
    return graded(lab, "ann")


def test_the_release_holds_neither_the_text_nor_what_is_for_the_instructor(lab):
    cells = nbformat.read(lab.released, as_version=4).cells
    assert cells[-1].source == "sentence = None  # your answer"
    assert sorted(path.name for path in lab.released.parent.iterdir()) == ["90-tiny.ipynb", "course.json"]


def test_an_unread_answer_is_named_and_not_a_silent_zero(first):
    said, row, page = first
    assert "ann: 0 of 6, and sentence to be read by a person" in said
    assert (row["sentence"], row["double"]) == ("", "0.0")
    assert row["notes"] == "sentence: to be read by a person (3 points)"
    assert page.count("to be read by a person: 3 points") == 2
    assert "Score: 0.0 / 6.0, without what a person will read" in page
    assert page.count("Score: 0.0 / 3.0") == 2  # those of the other cell


def test_a_mark_given_by_a_person_survives_the_next_grading(lab, first):
    from autograder.frame import open_nbgrader

    with open_nbgrader().gradebook as gradebook:
        grade = gradebook.find_grade("sentence", lab.name, lab.name, "ann")
        grade.manual_score, grade.needs_manual_grade = 2.5, False
        gradebook.db.commit()
    said, row, page = graded(lab, "ann")
    assert "ann: 2.5 of 6" in said
    assert (row["sentence"], row["notes"]) == ("2.5", "sentence: the mark that a person gave stands")
    assert "to be read by a person" not in page
    assert page.count("Score: 2.5 / 3.0") == 2


def test_an_answer_left_empty_waits_for_nobody(lab):
    said, row, page = graded(lab, "bob")
    assert (row["sentence"], row["notes"]) == ("0.0", "")
    assert "to be read" not in said + page


def test_words_are_counted_as_people_count_them():
    assert words_of("It's a well-known rule: 3 of 4.") == 7
    assert words_of("") == 0


@pytest.mark.parametrize(
    "text",
    [
        "Goodput is the rate of answers in time.",
        "The KV cache (what the model keeps of each token) grows.",
        "A limit on how long an answer may take (SLO) is broken.",
        "We use a MIG, that is a slice of a card.",
        "Latency means how long one waits. Later, latency grows.",
        "The part of the run called decoding makes words.",
        "Allocation: who holds what.",
    ],
)
def test_a_technical_word_that_its_first_sentence_explains_is_not_named(text):
    assert unexplained(text) == []


def test_technical_words_without_explanation_are_named_in_the_order_of_the_text():
    text = "Throughput fell. Then the TTFT rose, and goodput. Goodput is the rate of answers in time. Small things sm."
    assert unexplained(text) == ["Throughput", "TTFT", "goodput"]


def test_the_look_over_says_form_only_and_never_a_mark(capsys):
    look_over("01.sentence", "Goodput fell. " * 5)
    assert capsys.readouterr().out == (
        "01.sentence: 10 words, asked are 80 to 150.\n"
        "Used at first without a word on what they mean: Goodput.\n"
        "A person reads and marks it; this looks at the form alone.\n"
    )
    look_over("01.sentence", None)
    assert capsys.readouterr().out == "01.sentence: not written yet.\n"
    assert looked_over("01.sentence", "word " * 80)[0] == "01.sentence: 80 words, as asked."
    with pytest.raises(ValueError, match="no written answer"):
        look_over("01.sort", "text")
