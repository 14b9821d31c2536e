"""Broken and odd submissions: each is listed by name with its reason, and none costs another one anything."""

import csv
import json
import os
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder import intake, release
from autograder.__main__ import app
from autograder.places import Places
from autograder.tasks import Tasks

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
        one.reason == f"{LAB}.ipynb is not in what was handed in. There is: notes.txt. Hand in {LAB}.ipynb."
    )


def test_the_only_notebook_is_meant_whatever_it_is_called_and_wherever_it_lies(submitted):
    submitted("ann", "final (2).ipynb")
    nested = submitted("bob", content=None) / "download" / f"{LAB}.ipynb"
    nested.parent.mkdir()
    nested.write_text(nbformat.writes(GOOD))
    (nested.parent / ".ipynb_checkpoints").mkdir()
    (nested.parent / ".ipynb_checkpoints" / f"{LAB}-checkpoint.ipynb").write_text("{}")
    found = intake.read(submitted.root, LAB)
    assert [(one.status, one.notes) for one in found] == [
        ("ok", ("the notebook is called final (2).ipynb",)),
        ("ok", (f"the notebook is called download/{LAB}.ipynb",)),
    ]


def test_of_several_notebooks_the_one_with_the_labs_name_in_it_is_meant(submitted):
    submitted("ann", f"{LAB} (1).ipynb")
    submitted("ann", "scratch.ipynb")
    assert read_one(submitted).notes == (f"the notebook is called {LAB} (1).ipynb",)


@pytest.mark.parametrize("names", [("a", "b"), (f"{LAB} (1)", f"{LAB}-Copy1")], ids=["odd", "copies"])
def test_notebooks_are_not_guessed_between(submitted, names):
    for name in names:
        submitted("ann", f"{name}.ipynb")
    one = read_one(submitted)
    assert (one.status, f"There is: {names[0]}.ipynb, {names[1]}.ipynb." in one.reason) == ("missing", True)
    assert "Which of them is meant is not clear" in one.reason


def test_another_labs_notebook_under_an_odd_name_is_refused(submitted):
    submitted("ann", "final.ipynb")
    (one,) = intake.read(submitted.root, LAB, source_notebook().cells)
    assert (one.status, "holds none of this lab's cells" in one.reason) == ("unreadable", True)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([new_code_cell("x = 1\n" * 20_000)], "has 120,000 characters in one cell, the limit is 100,000"),
        (
            [new_code_cell("x" * 99_000) for _ in range(6)],
            "has 594,000 characters in its cells, the limit is 500,000",
        ),
        ([new_code_cell("x") for _ in range(1_501)], "has 1,501 cells, the limit is 1,500"),
    ],
)
def test_what_would_take_minutes_to_show_is_refused_with_the_amount(submitted, cells, said):
    submitted("ann", content=json.dumps(new_notebook(cells=cells)))
    one = read_one(submitted)
    assert (one.status, said in one.reason) == ("unreadable", True)


def test_a_files_name_that_no_table_can_hold_is_told_without_it(submitted):
    folder = submitted("ann", content=None)
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9\n.txt"))).write_text("x")
    one = read_one(submitted)
    assert "There is: caf??.txt" in one.reason
    one.reason.encode()


@pytest.mark.parametrize("name", ["02-allocate.ipynb", "final.ipynb"])
def test_the_notebook_of_another_lab_is_refused_under_any_name_and_one_without_checks_is_not(tmp_path, name):
    labs = Places.found().labs
    ours, other = (
        json.loads((labs / lab / f"{lab}.ipynb").read_text()) for lab in ("02-allocate", "01-define")
    )
    path = tmp_path / "ann" / "02-allocate" / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(other))
    (one,) = intake.read(tmp_path, "02-allocate", ours["cells"])
    assert one.status == "unreadable"
    assert "another lab (01-" in one.reason or "none of this lab's cells" in one.reason

    kept = [cell for cell in ours["cells"] if not cell["metadata"].get("nbgrader", {}).get("grade")]
    path.write_text(json.dumps({**ours, "cells": kept}))
    assert [one.status for one in intake.read(tmp_path, "02-allocate", ours["cells"])] == ["ok"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty (0 bytes)"),
        ('{"cells": [', "is not JSON"),
        (b"\xff\xfe{}\xff", "cannot be read as UTF-8 text"),
        (b"\xff{}", "cannot be read as UTF-8 text"),
        ("[" * 200_000, "is not JSON"),
        ("[1, 2]", "not a notebook: it holds a list"),
        ('{"cells": []}', "it does not say its nbformat"),
        (
            '{"nbformat": true, "nbformat_minor": 5, "metadata": {}, "cells": []}',
            "it does not say its nbformat",
        ),
        ('{"nbformat": 2, "nbformat_minor": 0, "metadata": {}, "worksheets": []}', "has nbformat 2"),
        ('{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": 7}', "cannot be converted"),
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


def mended(submitted, content: bytes):
    """The notebook that is graded, and what was said of it; the file stays as it was."""
    path = submitted("ann", content=content) / f"{LAB}.ipynb"
    released = json.loads(nbformat.writes(source_notebook()))["cells"]
    (one,) = intake.read(submitted.root, LAB, released)
    assert (one.status, path.read_bytes()) == ("ok", content)
    return nbformat.reads(intake.mended(one, released).decode(), as_version=4), one.notes


def written(nb) -> bytes:
    return nbformat.writes(nb).encode()


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        (b"\xef\xbb\xbf" + written(GOOD), ("byte order mark removed",)),
        (nbformat.writes(GOOD).encode("utf-16"), ("UTF-16 read as such",)),
        (written(GOOD).replace(b"\n", b"\r\n"), ()),
        (written(GOOD).replace(b"x = 1", b"x = 1\\r\\n"), ("line endings of 1 cells made plain",)),
        (
            written(GOOD).replace(
                b'"metadata": {},\n "nbformat"', b'"metadata": {"widgets": 5},\n "nbformat"'
            ),
            ("stored state of widgets left out",),
        ),
        (written(GOOD).replace(b'"nbformat_minor": 5', b'"nbformat_minor": 2'), ()),
        (written(GOOD).replace(b'"nbformat_minor": 5', b'"nbformat_minor": 9'), ()),
    ],
    ids=["bom", "utf-16", "crlf", "crlf-in-cells", "widgets", "old-minor", "new-minor"],
)
def test_what_tools_do_to_a_file_is_undone_and_said(submitted, content, notes):
    nb, said = mended(submitted, content)
    assert ([cell.source.strip() for cell in nb.cells], said) == (["x = 1"], notes)


def test_a_notebook_of_version_3_is_converted(submitted):
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "input": "x = 1",
                        "outputs": [],
                        "metadata": {},
                        "language": "python",
                    }
                ]
            }
        ],
    }
    nb, said = mended(submitted, json.dumps(old).encode())
    assert ([cell.source for cell in nb.cells], said[0]) == (["x = 1"], "nbformat 3 converted to 4")


def test_a_flood_of_stored_output_is_left_out(submitted):
    nb = new_notebook(cells=[new_code_cell("x = 1")])
    nb.cells[0].outputs = [nbformat.v4.new_output("stream", text="y" * 6_000_000)]
    graded, said = mended(submitted, written(nb))
    assert (graded.cells[0].outputs, said[0].endswith("characters of stored output left out")) == ([], True)


def stripped_of_metadata(keep_ids: bool):
    """The small lab as an editor leaves it that knows nothing of nbgrader; the solution is written."""
    nb = source_notebook()
    nb.cells[1].source = "def double(n):\n    return n + n"
    for cell in nb.cells:
        cell.metadata = {}
        if not keep_ids:
            del cell["id"]
    return nb


@pytest.mark.parametrize("keep_ids", [True, False])
def test_cells_that_lost_their_metadata_are_known_by_id_or_by_what_stands_in_them(submitted, keep_ids):
    nb, said = mended(submitted, json.dumps(stripped_of_metadata(keep_ids)).encode())
    assert [cell.metadata["nbgrader"]["grade_id"] for cell in nb.cells] == [
        "setup",
        "double-code",
        "double",
        "later",
    ]
    assert said[-1].startswith("nbgrader's metadata had been lost in ") and "double-code" in said[-1]


def test_where_two_cells_could_be_meant_neither_is_taken(submitted):
    nb = stripped_of_metadata(keep_ids=False)
    nb.cells.insert(2, nbformat.v4.new_code_cell("def double(n):\n    return 0"))
    del nb.cells[2]["id"]
    graded, _ = mended(submitted, json.dumps(nb).encode())
    assert ["nbgrader" in cell.metadata for cell in graded.cells] == [True, False, False, True, True]


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


def texts_with_pictures_in_the_place_of_code(nb):
    picture = {"a.png": {"image/png": "AAAA"}}
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("locked") and cell.cell_type == "code":
            cell["attachments"] = picture
            cell["cell_type"] = "markdown"
            del cell["outputs"], cell["execution_count"]


def half_characters(nb):
    """As an editor leaves them that cuts a picture letter in two; JSON can say them, no file in UTF-8 can."""
    nb.cells.append(new_code_cell("print('\ud83d')"))
    nb.cells.append(nbformat.v4.new_markdown_cell("half \ud83d", metadata={"note": "\ud83d"}))


def tags_of_grading(nb):
    tags = ["graded-inputs-seen", "restored", "watch", "remove_cell"]
    nb.cells.append(new_code_cell("raise SystemExit", metadata={"tags": tags}))
    nb.cells[1].metadata["tags"] = tags[:2]
    nb.cells[2].metadata["tags"] = tags


def wrong_answer(nb):
    nb.cells[1].source = "def double(n): return 7"


HONEST = [copied_solution_cell, deleted_cells, changed_check, flipped_flags]
HONEST += [check_as_markdown, invented_cell, nonsense_metadata, invalid_cells]
HONEST += [half_characters, tags_of_grading, texts_with_pictures_in_the_place_of_code]


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
            where.mkdir(parents=True, exist_ok=True)
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
        hand_in("no-metadata", json.dumps(stripped_of_metadata(keep_ids=False)))
        hand_in("two-names", nbformat.writes(source_notebook()), "final.ipynb")
        hand_in("two-names", nbformat.writes(source_notebook()), "final2.ipynb")
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
    assert sorted(refused) == ["no-json", "no-notebook", "two-names"]
    assert "final.ipynb, final2.ipynb" in refused["two-names"]
    marks = (places.course / "grades.csv").read_text()
    for name in refused:
        assert f"{name}: " in result.output
        assert f",{name},,,,0.0,0.0,0.0,5.0" in marks


def test_what_was_repaired_is_graded_and_said_in_the_table(graded_class):
    rows, _, places = graded_class
    assert [rows[name]["score"] for name in ("other-name", "no-metadata")] == ["5.0", "5.0"]
    assert rows["other-name"]["notes"] == "repaired: the notebook is called final.ipynb"
    assert "metadata had been lost in double, double-code, later, setup" in rows["no-metadata"][
        "notes"
    ].replace("setup, double, later, double-code", "double, double-code, later, setup")
    # nbgrader's fetch_feedback looks for a page named like the notebook that was handed in.
    assert (places.step("feedback", "other-name", LAB) / "final.html").is_file()


def test_a_refused_learner_finds_the_reason_on_a_feedback_page(graded_class):
    _, _, places = graded_class
    page = (places.step("feedback", "two-names", LAB) / f"{LAB}.html").read_text()
    assert "Which of them is meant is not clear" in page
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


def test_values_nested_deeper_than_jupyter_writes_are_refused(submitted):
    value = {}
    for _ in range(120):
        value = {"a": value}
    submitted("ann", content=json.dumps(new_notebook(cells=[new_code_cell("x", metadata=value)])))
    one = read_one(submitted)
    assert (one.status, "more than 100 values lie in each other" in one.reason) == ("unreadable", True)


def test_folders_with_the_names_of_the_graders_files_are_left_out(submitted):
    folder = submitted("ann")
    for name in ("course.json", f"{LAB}.html", "timestamp.txt", "mine"):
        (folder / name).mkdir()
        (folder / name / "x.txt").write_text("x")
    tasks = SimpleNamespace(lab=LAB)
    assert list(Tasks._files(tasks, SimpleNamespace(path=folder / f"{LAB}.ipynb"))) == ["mine/x.txt"]
