"""The released cells of a submission, whatever the learner's tools have made of them."""

from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.notebooks import make_plain


class RestoreCells(NbGraderPreprocessor):
    """A submission whose nbgrader metadata is the released one, and which lacks no graded cell.

    nbgrader believes most of what stands in a submission's cells: a copied solution cell stops the run
    of the whole class (jupyter/nbgrader#1083), a flipped flag or a deleted check cell fails the
    submission. So the metadata is written anew from the gradebook. Of several cells with one id the
    last one counts, as with nbgrader; the others become the learner's own. A graded cell that is
    missing is put back behind the released cell that stood before it, and tagged ``restored``. The
    notebook's own metadata (kernel, widgets) is made plain too: OverwriteKernelspec sets the kernel.
    Sources are not touched here: OverwriteCells restores those of locked cells afterwards.
    """

    def preprocess(self, nb, resources):
        """The notebook with the released metadata."""
        place = resources["nbgrader"]
        with Gradebook(place["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(place["notebook"], place["assignment"])
            released = _released_metadata(notebook)
            sources = {cell.name: cell.source for cell in notebook.source_cells}
        make_plain(nb)
        present = _rewrite_metadata(nb, released)
        _put_back(nb, released, sources, present)
        return nb, resources


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
            cell.metadata["nbgrader"] = dict(released[name])
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
            new_cell = new_code_cell if metadata["cell_type"] == "code" else new_markdown_cell
            cell = new_cell(sources[name], metadata={"nbgrader": metadata, "tags": ["restored"]})
            nb.cells.insert(after, cell)
            after += 1
