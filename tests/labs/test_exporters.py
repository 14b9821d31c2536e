"""Notebooks go through nbgrader's steps without being copied, and come out as nbconvert would have them."""

from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors import ClearMetadataPreprocessor

from autograder.exporters import GradedNotebook

LABS = sorted((Path(__file__).parents[2] / "labs").glob("*/*.ipynb"))


def read(file: Path) -> nbformat.NotebookNode:
    return nbformat.read(file, as_version=4)


@pytest.mark.parametrize("file", LABS, ids=lambda file: file.stem)
def test_what_comes_out_is_what_nbconvert_writes(file):
    notebook = read(file)
    notebook.metadata["signature"] = "not for a file"
    ours, said = GradedNotebook().from_notebook_node(deepcopy(notebook), {"metadata": {"name": "a"}})
    theirs, theirs_said = NotebookExporter().from_notebook_node(notebook, {"metadata": {"name": "a"}})
    assert nbformat.reads(ours, as_version=4) == nbformat.reads(theirs, as_version=4)
    assert said["output_suffix"] == theirs_said["output_suffix"]
    assert said["output_extension"] == theirs_said["output_extension"]
    assert "signature" not in ours


def test_steps_run_in_order_on_the_notebook_itself():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", metadata={"tags": ["x"]})])
    exporter = GradedNotebook(preprocessors=[ClearMetadataPreprocessor()])
    text, _ = exporter.from_notebook_node(notebook)
    assert '"tags"' not in text
    assert notebook.cells[0].metadata == {}


def test_a_step_that_leaves_no_notebook_is_told():
    def broken(notebook, resources):
        notebook.cells[0]["outputs"] = "none"
        return notebook, resources

    exporter = GradedNotebook(preprocessors=[broken])
    with pytest.raises(nbformat.ValidationError):
        exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))
