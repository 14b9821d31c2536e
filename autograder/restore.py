"""The released cells of a submission, whatever the learner's tools have made of them."""

import re

from nbformat import NotebookNode, validate
from nbformat.v4 import nbformat, nbformat_minor, new_code_cell, new_markdown_cell, new_raw_cell
from nbformat.v4.nbbase import validate as validate_part
from nbformat.validator import ValidationError
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.notebooks import make_plain

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # JEP 62
_NEW_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class RestoreCells(NbGraderPreprocessor):
    """A submission that is a valid notebook without outputs, has the released metadata, lacks no graded cell.

    nbgrader believes most of what stands in a submission's cells: a copied solution cell stops the run
    of the whole class (jupyter/nbgrader#1083), a flipped flag or a deleted check cell fails the
    submission. So the metadata is written anew from the gradebook. Of several cells with one id the
    last one counts, as with nbgrader; the others become the learner's own. A graded cell that is
    missing is put back behind the released cell that stood before it, and tagged ``restored``.

    This is the first step, so that those behind it meet a valid notebook: it drops outputs, makes ids
    unique and writes a cell anew that nbformat would not accept. Sources are not touched
    here: OverwriteCells restores those of locked cells afterwards, OverwriteKernelspec sets the kernel.
    """

    def preprocess(self, nb, resources):
        """The notebook as nbgrader's next steps need it."""
        place = resources["nbgrader"]
        with Gradebook(place["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(place["notebook"], place["assignment"])
            released = _released_metadata(notebook)
            sources = {cell.name: cell.source for cell in notebook.source_cells}
        make_plain(nb)
        present = _rewrite_metadata(nb, released)
        _make_valid(nb)
        _put_back(nb, released, sources, present)
        return nb, resources


def _make_valid(nb) -> None:
    """Drop outputs, give every cell an id of its own, write a cell anew that is not valid."""
    nb.nbformat, nb.nbformat_minor = nbformat, nbformat_minor
    seen = set()
    for index, cell in enumerate(nb.cells):
        given = cell.get("id")
        usable = isinstance(given, str) and _CELL_ID.fullmatch(given) and given not in seen
        cell["id"] = given if usable else f"cell-{index}-{len(nb.cells)}"
        seen.add(cell["id"])
        if cell.cell_type == "code":
            cell["outputs"], cell["execution_count"] = [], None
    try:
        validate(nb)
    except ValidationError:  # looking at each cell takes twenty times as long
        for index, cell in enumerate(nb.cells):
            _mend(nb, index, cell)


def _mend(nb, index: int, cell) -> None:
    try:
        validate_part(cell, f"{cell.cell_type}_cell")
    except ValidationError:
        kept = {"nbgrader": cell.metadata["nbgrader"]} if "nbgrader" in cell.metadata else {}
        nb.cells[index] = _NEW_CELL[cell.cell_type](cell.source, metadata=kept, id=cell["id"])


def _released_metadata(notebook) -> dict[str, dict]:
    """nbgrader's metadata (schema version 3) of every released cell by grade id, in order."""
    points = {cell.name: cell.max_score for cell in [*notebook.grade_cells, *notebook.task_cells]}
    graded = {cell.name for cell in notebook.grade_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    tasks = {cell.name for cell in notebook.task_cells}
    metadata = {}
    for cell in notebook.source_cells:
        metadata[cell.name] = {
            "schema_version": 3,
            "grade_id": cell.name,
            "grade": cell.name in graded,
            "solution": cell.name in solutions,
            "locked": bool(cell.locked),
            "task": cell.name in tasks,
            "cell_type": cell.cell_type,
            "checksum": cell.checksum,
        }
        if cell.name in points:
            metadata[cell.name]["points"] = points[cell.name]
    return metadata


def _rewrite_metadata(nb, released: dict[str, dict]) -> set[str]:
    """Give each released cell its metadata back, take it from every other; the ids that are present."""
    present = set()
    for cell in reversed(nb.cells):
        claimed = cell.metadata.pop("nbgrader", None)
        name = claimed.get("grade_id") if isinstance(claimed, dict) else None
        if isinstance(name, str) and name in released and name not in present:
            # Nothing else stays: a tag can keep a check from running, and a check without output has full marks.
            cell.metadata = NotebookNode(nbgrader=dict(released[name]))
            if released[name]["cell_type"] == "code":
                cell.pop("attachments", None)  # of a text in its place; nbgrader changes the type and no more
            present.add(name)
    return present


def _put_back(nb, released: dict[str, dict], sources: dict[str, str], present: set[str]) -> None:
    after = 0
    for name, metadata in released.items():
        if name in present:
            after = 1 + next(
                index
                for index, cell in enumerate(nb.cells)
                if cell.metadata.get("nbgrader", {}).get("grade_id") == name
            )
        elif metadata["grade"] or metadata["task"]:
            new_cell = _NEW_CELL[metadata["cell_type"]]
            cell = new_cell(sources[name], metadata={"nbgrader": metadata, "tags": ["restored"]})
            nb.cells.insert(after, cell)
            after += 1
