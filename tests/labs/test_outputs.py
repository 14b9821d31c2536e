"""Stored outputs: run anew, shown where they differ, and stored only when every reference has full marks."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder.outputs import refresh

CHECK = """\
from IPython.display import display
mark = {{"exercise": "90.double", "points": {points}, "max": 3}}
display({{"text/plain": "{points} of 3"}}, raw=True, metadata={{"gpulab": mark}})"""


@pytest.fixture
def lab(tmp_path, cell_meta):
    """Writes a source notebook whose check gives these points, and returns its path."""

    def write(check: str = CHECK.format(points=3), first: str = "print('new')"):
        shown = new_code_cell(
            first, id="shown", outputs=[new_output("stream", text="old\n")], execution_count=9
        )
        locked = cell_meta("90-double", grade=True, locked=True, points=3)
        nb = new_notebook(cells=[shown, new_code_cell(check, id="double", metadata=locked)])
        nb.metadata["language_info"] = {"name": "python", "version": "3.0.1"}
        path = tmp_path / "90-small.ipynb"
        nbformat.write(nb, path)
        return path

    return write


def test_new_outputs_are_stored_in_order_and_what_changed_is_shown_by_cell(lab):
    path, said = lab(), []
    assert refresh(path, said.append)
    nb = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in nb.cells] == [1, 2]
    assert [cell.id for cell in nb.cells] == ["shown", "double"]
    assert nb.cells[0].outputs == [new_output("stream", text="new\n")]
    assert nb.metadata["language_info"] == {"name": "python"}
    assert [line for line in said if line[:1] in "+-"] == [
        *("--- shown (stored)", "+++ shown (now)", "-old", "+new"),
        *("--- double (stored)", "+++ double (now)", "+3 of 3"),
    ]


def test_running_again_changes_no_byte_and_says_so(lab):
    path, said = lab(), []
    refresh(path, said.append)
    before = path.read_bytes()
    assert refresh(path, said.append)
    assert path.read_bytes() == before
    assert said[-1] == "90-small: nothing has changed"


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (CHECK.format(points=2.5), "not stored, 90.double: its check gives the reference 2.5 of 3 points"),
        ("'3 of 3'", "not stored, 90.double: its check gives no verdict"),
        ("raise ValueError('broken')", "not stored, a cell raised"),
    ],
)
def test_nothing_is_stored_unless_every_exercise_shows_full_marks(lab, check, said):
    path, lines = lab(check), []
    before = path.read_bytes()
    assert not refresh(path, lines.append)
    assert path.read_bytes() == before
    assert said in "\n".join(lines)


def test_a_wrong_answer_in_a_source_is_found_by_the_judge_though_its_check_tells_nothing(tmp_path):
    source = Path(__file__).parents[2] / "labs" / "02-allocate" / "02-allocate.ipynb"
    nb, said = nbformat.read(source, as_version=4), []
    (answer,) = [cell for cell in nb.cells if cell.id == "02-strand-answer"]
    answer.source = answer.source.replace("cap_mib=20,", "cap_mib=2000,")
    path = tmp_path / source.name
    nbformat.write(nb, path)
    assert not refresh(path, said.append)
    assert said[1:] == ["02-allocate: not stored, 02.strand: the judge gives the reference 2.25 of 3 points"]
