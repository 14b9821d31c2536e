"""Broken and odd submissions: each is listed by name with its reason, and none costs another one anything."""

import csv
import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder import intake, release
from autograder.__main__ import app
from autograder.places import Places

LAB = "91-small"

GOOD = new_notebook(cells=[new_code_cell("x = 1")])


@pytest.fixture
def submitted(tmp_path):
    """A folder of submissions, and a way to fill it: student, file name, content (None: no file)."""

    def hand_in(
        student: str, name: str = f"{LAB}.ipynb", content: str | bytes | None = nbformat.writes(GOOD)
    ):
        folder = tmp_path / student / LAB
        folder.mkdir(parents=True, exist_ok=True)
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    hand_in.root = tmp_path
    return hand_in


def read_one(submitted) -> intake.Submission:
    (submission,) = intake.read(submitted.root, LAB)
    return submission


def test_a_folder_with_the_notebook_is_accepted_and_others_for_other_labs_are_not_looked_at(submitted):
    submitted("ann")
    (submitted.root / "bob" / "another-lab").mkdir(parents=True)
    (submitted.root / "a file").write_text("x")
    assert [(one.student, one.status, one.reason) for one in intake.read(submitted.root, LAB)] == [
        ("ann", "ok", "")
    ]


def test_before_anything_was_handed_in_there_is_nothing_and_no_error(tmp_path):
    assert intake.read(tmp_path / "submitted", LAB) == []


def test_a_submission_without_its_notebook_is_missing_and_what_is_there_is_named(submitted):
    submitted("ann", "notes.txt", "hello")
    one = read_one(submitted)
    assert (one.student, one.status) == ("ann", "missing")
    assert (
        one.reason
        == f"{LAB}.ipynb is not in what was handed in. There is: notes.txt. Hand the notebook in again."
    )


def test_one_notebook_of_another_name_is_renamed_and_the_name_to_give_it_is_said(submitted):
    submitted("ann", "final (2).ipynb")
    one = read_one(submitted)
    assert (one.status, one.path.name) == ("renamed", "final (2).ipynb")
    assert f"final (2).ipynb. Rename it to {LAB}.ipynb" in one.reason


def test_two_notebooks_of_other_names_are_not_guessed_between(submitted):
    submitted("ann", "a.ipynb")
    submitted("ann", "b.ipynb")
    one = read_one(submitted)
    assert (one.status, "There is: a.ipynb, b.ipynb." in one.reason) == ("missing", True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty (0 bytes)"),
        ('{"cells": [', "is not JSON"),
        ("\ufeff" + nbformat.writes(GOOD), "is not JSON: Unexpected UTF-8 BOM"),
        (b"\xff\xfe{}", "cannot be read as UTF-8 text"),
        ("[" * 200_000, "is not JSON"),
        ("[1, 2]", "not a notebook: it holds a list"),
        ('{"cells": []}', "it does not say its nbformat"),
        (
            '{"nbformat": true, "nbformat_minor": 5, "metadata": {}, "cells": []}',
            "it does not say its nbformat",
        ),
        ('{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}', "it has nbformat 3"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": {}}', "it has no list of cells"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [7]}', "cell 1 is a int"),
    ],
)
def test_a_file_that_is_no_notebook_is_unreadable_and_the_reason_says_what_it_is(submitted, content, said):
    submitted("ann", content=content)
    one = read_one(submitted)
    assert one.status == "unreadable"
    assert said in one.reason


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ({"cell_type": "heading", "source": "", "metadata": {}}, "has the type 'heading'"),
        ({"cell_type": "code", "source": 5, "metadata": {}}, "has a source that is not text"),
        ({"cell_type": "code", "source": "", "metadata": []}, "has no metadata"),
        ({"cell_type": "code", "source": "", "metadata": {"tags": "watch"}}, "has tags that are not a list"),
    ],
)
def test_a_cell_that_no_step_could_walk_through_is_named_by_its_number(submitted, cell, said):
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [GOOD.cells[0], cell]}
    submitted("ann", content=json.dumps(content))
    assert f"cell 2 {said}" in read_one(submitted).reason


def test_what_nbformat_itself_stumbles_over_is_unreadable(submitted):
    cell = {"cell_type": "markdown", "source": "![](a)", "metadata": {}, "attachments": 5}
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    submitted("ann", content=json.dumps(content))
    assert "nbformat cannot read it" in read_one(submitted).reason


def test_a_link_in_the_place_of_the_notebook_is_not_followed(submitted):
    target = submitted.root / "elsewhere.ipynb"
    target.write_text(nbformat.writes(GOOD))
    (submitted("ann", content=None) / f"{LAB}.ipynb").symlink_to(target)
    assert (read_one(submitted).status, "is a link" in read_one(submitted).reason) == ("unreadable", True)


def test_a_notebook_beyond_the_limit_is_refused_before_it_is_read(submitted, monkeypatch):
    monkeypatch.setattr(intake, "MOST_BYTES", 100)
    submitted("ann")
    assert "the limit is 100" in read_one(submitted).reason


def test_odd_names_of_students_are_kept_as_they_are(submitted):
    odd = ["(x)", "12345", "Zoë", "[brk]", "a b", "a+b", "o'neill"]
    for student in odd:
        submitted(student)
    assert [one.student for one in intake.read(submitted.root, LAB)] == sorted(odd)


# From here on with nbgrader: one class, graded once, for all the tests below.

META = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
SOURCE = [
    ("setup", "import math", {"locked": True}),
    (
        "double-code",
        "def double(n):\n    ### BEGIN SOLUTION\n    return 2 * n\n    ### END SOLUTION",
        {"solution": True},
    ),
    ("double", "assert double(4) == 8", {"grade": True, "locked": True, "points": 3}),
    ("later", "assert double(5) == 10", {"grade": True, "locked": True, "points": 2}),
]


def source_notebook():
    cells = [
        new_code_cell(text, id=name, metadata={"nbgrader": {**META, "grade_id": name, **flags}})
        for name, text, flags in SOURCE
    ]
    nb = new_notebook(cells=cells)
    nb.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nb


def copied_solution_cell(nb):
    nb.cells.insert(
        2, nbformat.from_dict(dict(nb.cells[1]) | {"id": "copy", "source": "def double(n): return 0"})
    )
    nb.cells.insert(3, nbformat.from_dict(dict(nb.cells[1]) | {"id": "again"}))


def deleted_cells(nb):
    del nb.cells[2], nb.cells[0]


def changed_check(nb):
    nb.cells[2].source = "double = None"
    nb.cells[2].metadata["nbgrader"]["points"] = 300


def flipped_flags(nb):
    nb.cells[2].metadata["nbgrader"].update(grade=False, solution=True, locked=False, schema_version=1)


def check_as_markdown(nb):
    nb.cells[2] = nbformat.v4.new_markdown_cell("nothing", metadata=nb.cells[2].metadata)


def invented_cell(nb):
    made_up = {**META, "grade_id": "bonus", "grade": True, "locked": True, "points": 50}
    nb.cells.append(new_code_cell("pass", metadata={"nbgrader": made_up}))


def nonsense_metadata(nb):
    nb.cells[0].metadata["nbgrader"] = [1, 2]
    nb.cells[2].metadata["nbgrader"] = {"grade_id": ["double"], "grade": "yes"}
    nb.metadata = {"kernelspec": None, "widgets": 5}


def invalid_cells(nb):
    nb.cells[0]["id"] = nb.cells[1]["id"] = "not an id!"
    nb.cells[0].metadata["tags"] = ["same", "same"]
    nb.cells[2]["outputs"] = [{"output_type": "moonlight"}]
    nb.cells[2]["execution_count"] = "many"
    del nb.cells[3]["outputs"]
    nb.cells.append(
        {"cell_type": "markdown", "source": "![](a)", "metadata": {}, "attachments": {"a": {"b": 5}}}
    )
    nb.nbformat_minor = 2


def wrong_answer(nb):
    nb.cells[1].source = "def double(n): return 7"


HONEST = [copied_solution_cell, deleted_cells, changed_check, flipped_flags]
HONEST += [check_as_markdown, invented_cell, nonsense_metadata, invalid_cells]


@pytest.fixture(scope="module")
def graded_class(tmp_path_factory):
    """Every kind of submission in one class, graded by the command; its summary, status and places."""
    from typer.testing import CliRunner

    folder = tmp_path_factory.mktemp("class")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPULAB_LABS", str(folder / "labs"))
        environment.setenv("GPULAB_COURSE", str(folder / "course"))
        environment.delenv("GPULAB_EXCHANGE", raising=False)
        places = Places.found()
        source = places.labs / LAB / f"{LAB}.ipynb"
        source.parent.mkdir(parents=True)
        nbformat.write(source_notebook(), source)
        release.build(LAB)

        def hand_in(student: str, content: str | None, name: str = f"{LAB}.ipynb") -> None:
            where = places.step("submitted", student, LAB)
            where.mkdir(parents=True)
            if content is not None:
                (where / name).write_text(content)

        for change in [*HONEST, wrong_answer]:
            nb = source_notebook()
            change(nb)
            hand_in(change.__name__, json.dumps(nb))
        for student in ("[brk]", "a+b, c", "Zoë (x)"):
            hand_in(student, nbformat.writes(source_notebook()))
        hand_in("no-notebook", None)
        hand_in("other-name", nbformat.writes(source_notebook()), "final.ipynb")
        hand_in("no-json", "{")
        result = CliRunner().invoke(app, ["grade", LAB])
        rows = list(csv.DictReader((places.course / "summary.csv").read_text(encoding="utf-8").splitlines()))
        yield {row["student"]: row for row in rows}, result, places


@pytest.mark.parametrize("change", HONEST, ids=lambda change: change.__name__)
def test_a_right_answer_keeps_its_marks_whatever_the_tools_did_to_the_cells_around_it(graded_class, change):
    row = graded_class[0][change.__name__]
    assert (row["status"], row["score"], row["max_score"], row["reason"]) == ("graded", "5.0", "5.0", "")


def test_a_wrong_answer_beside_all_these_is_still_wrong(graded_class):
    assert graded_class[0]["wrong_answer"]["score"] == "0.0"


@pytest.mark.parametrize("student", ["[brk]", "a+b, c", "Zoë (x)"])
def test_odd_names_of_students_are_graded_like_others(graded_class, student):
    assert graded_class[0][student]["score"] == "5.0"


def test_refused_submissions_are_in_the_table_the_summary_and_the_marks_with_their_reasons(graded_class):
    rows, result, places = graded_class
    refused = {name: row["reason"] for name, row in rows.items() if row["status"] == "refused"}
    assert sorted(refused) == ["no-json", "no-notebook", "other-name"]
    assert "final.ipynb" in refused["other-name"]
    marks = (places.course / "grades.csv").read_text()
    for name in refused:
        assert f"{name}: " in result.output
        assert f",{name},,,,0.0,0.0,0.0,5.0" in marks


def test_a_refused_learner_finds_the_reason_on_a_feedback_page(graded_class):
    _, _, places = graded_class
    page = (places.step("feedback", "other-name", LAB) / "final.html").read_text()
    assert f"Rename it to {LAB}.ipynb" in page
    assert "no-json" not in page


def test_some_refused_and_none_failed_ends_the_command_with_1(graded_class):
    assert graded_class[1].exit_code == 1


def test_no_feedback_page_names_another_learner_or_loads_or_runs_anything(graded_class):
    rows, _, places = graded_class
    for name in rows:
        page = (places.step("feedback", name, LAB) / f"{LAB}.html").read_text()
        assert [other for other in rows if other != name and other in page] == []
        assert "default-src 'none'" in page
        assert "<script" not in page
