"""A notebook with controls as everybody but a live notebook meets it: stored, compared, converted, opened offline."""

import base64
import os
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

from autograder.notebooks import make_plain
from autograder.outputs import run_as_learner
from gpulab.report.control import WIDGET_MIME

CELLS = (
    "from autograder.learner import predict_form\n"
    "from gpulab.memory.arena import FirstFit\n"
    "from gpulab.memory.operations import run_operations\n"
    "from gpulab.report.widgets import playground, scrub\n"
    "def run(size):\n"
    '    return run_operations(FirstFit(8192), [["alloc", "a", 512], ["alloc", "b", size * 512]])',
    "scrub(run(4))",
    "playground(run, size=(1, 9))",
    'predict_form("02.first-fit")',
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A notebook with every control, run and stored as the sources of the labs are."""
    nb = new_notebook(cells=[new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(CELLS)])
    file = tmp_path_factory.mktemp("controls") / "controls.ipynb"
    make_plain(nb)
    run_as_learner(nb, file.parent)
    assert all(WIDGET_MIME in cell.outputs[0].data for cell in nb.cells[1:])  # a live notebook has them
    assert "widgets" in nb.metadata
    make_plain(nb)
    nbformat.write(nb, file)
    return file


def test_what_is_stored_is_picture_and_words_without_widgets_and_their_state(stored):
    nb = nbformat.read(stored, as_version=4)
    assert "widgets" not in nb.metadata
    kinds = [sorted(output.data) for cell in nb.cells for output in cell.outputs]
    assert kinds == [["image/svg+xml", "text/plain"], ["image/svg+xml", "text/plain"], ["text/plain"]]
    assert nb.cells[3].outputs[0].data["text/plain"].endswith('predict("02.first-fit", refusals=None)')


def test_strict_nbval_finds_the_stored_outputs_again(stored):
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "gpulab.quiet_start",
        "-p",
        "no:cacheprovider",
        "--nbval",
        "-q",
    ]
    done = subprocess.run(
        [*words, "-c", os.devnull, f"--rootdir={stored.parent}", str(stored)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{len(CELLS)} passed" in done.stdout, done.stdout[-3000:]


class _Pictures(HTMLParser):
    """Counts what a page draws and what it would fetch or run for a widget."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn, self.widgets = [], 0

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        kind, _, content = given.get("src", "").partition(";base64,")
        if tag == "img" and kind == "data:image/svg+xml":
            self.drawn.append(ElementTree.fromstring(base64.b64decode(content)).get("aria-label"))
        self.widgets += "widget" in given.get("type", "")


def test_a_page_of_it_shows_the_pictures_without_a_network(stored):
    page, _ = HTMLExporter().from_filename(str(stored))
    seen = _Pictures()
    seen.feed(page)
    assert [name.split(", ")[0] for name in seen.drawn] == ["#5", "size=1"]
    assert seen.widgets == 0
