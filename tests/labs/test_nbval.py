"""The labs as others run them: stored outputs are true, and a release runs to its end unsolved."""

import os
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from autograder import release
from autograder.checks import exercises
from autograder.notebooks import graded_exercise
from autograder.outputs import judged

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("labs/*/*.ipynb"))

POLITE = re.compile(r"not (answered|solved) yet", re.IGNORECASE)

names = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def code_cells(nb) -> list:
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def test_there_is_at_least_one_lab():
    assert [path.stem for path in SOURCES if path.stem == path.parent.name] == [path.stem for path in SOURCES]
    assert SOURCES


@names
def test_every_code_cell_of_a_source_was_run_in_order_without_errors_or_warnings(source):
    cells = code_cells(nbformat.read(source, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    bad = [
        (cell.id, output.get("ename", "stderr"))
        for cell in cells
        for output in cell.outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert bad == []


@names
def test_a_source_is_a_valid_notebook_of_at_most_50_cells(source):
    nb = nbformat.read(source, as_version=4)
    nbformat.validate(nb)
    assert len(nb.cells) <= 50


@names
def test_nbval_finds_every_stored_output_again(source):
    """Strict nbval. A dead kernel makes it expect the rest to fail, so anything but passed is a failure."""
    command = [
        sys.executable,
        "-c",
        _NBVAL,
        "--nbval",
        "--nbval-cell-timeout=60",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "-c", os.devnull, f"--rootdir={ROOT}", str(source)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    cells = len(code_cells(nbformat.read(source, as_version=4)))
    summary = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.fullmatch(rf"{cells} passed in .*", summary), summary


_NBVAL = """
import sys, pytest
from gpulab.startup import skip_slow_grammar
skip_slow_grammar()
sys.exit(pytest.main(sys.argv[1:]))
"""


@names
def test_a_release_runs_to_its_end_and_each_unsolved_exercise_says_so(source, tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_COURSE", str(tmp_path / "course"))
    folder = release.build(source.stem)
    nb = nbformat.read(folder / source.name, as_version=4)
    NotebookClient(
        nb, timeout=60, resources={"metadata": {"path": str(folder)}}
    ).execute()  # raises if a cell does
    unsolved = {graded_exercise(cell): cell for cell in nb.cells if graded_exercise(cell)}
    assert unsolved
    assert [cell.id for cell in code_cells(nb) if len(cell.source.splitlines()) > longest(cell)] == []
    silent = [name for name, cell in unsolved.items() if not POLITE.search(shown(cell))]
    assert silent == []
    points = judged(nb)
    assert set(points) == {name for name in unsolved if name in exercises()}
    assert [name for name, (got, _) in points.items() if got] == []


@names
def test_a_page_made_of_a_source_shows_every_picture_without_a_network(source):
    nb = nbformat.read(source, as_version=4)
    drawn = [o for cell in code_cells(nb) for o in cell.outputs if "image/svg+xml" in o.get("data", {})]
    page, _ = HTMLExporter(embed_images=True).from_notebook_node(nb)
    shown = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert [b64decode(text).decode() for text in shown] == ["".join(o.data["image/svg+xml"]) for o in drawn]
    assert drawn or source.stem[:2] not in ("00", "01", "02", "03", "04")


def longest(cell) -> int:
    """25 lines, or 50 for a class to write: its contract stands in the docstrings."""
    return 50 if "yours to write" in cell.source else 25


def shown(cell) -> str:
    return "".join(
        str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
        for output in cell.outputs
    )


@names
def test_a_cell_for_a_real_device_steps_aside_with_one_sentence(source):
    for cell in code_cells(nbformat.read(source, as_version=4)):
        if "gpu" in cell.metadata.get("tags", []):
            assert {"watch", "nbval-ignore-output"} <= set(cell.metadata.tags)  # with a GPU it says more
            assert [output.output_type for output in cell.outputs] == ["stream"]
            assert re.fullmatch(r"No GPU here, so [^.\n]+\.\n", cell.outputs[0].text)
