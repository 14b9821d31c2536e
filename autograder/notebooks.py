"""What every notebook of the course has in common: ids and plain metadata."""

import re

from gpulab.report.control import WIDGET_MIME

_GRADE_ID = re.compile(r"(\d\d)-(.+)")


def exercise_of(grade_id: str) -> str:
    """The exercise id a grade id stands for, ``'02.strand'`` for ``'02-strand'``; ``''`` if it has not that form.

    nbgrader 0.9.6 allows letters, digits, ``_`` and ``-`` only in a grade id (nbgraderformat/v3.json).
    """
    match = _GRADE_ID.fullmatch(grade_id)
    return f"{match[1]}.{match[2]}" if match else ""


def graded_exercise(cell) -> str:
    """The exercise that this locked grade cell of a notebook marks, ``''`` for every other cell."""
    meta = cell.metadata.get("nbgrader", {})
    locked_grade_cell = meta.get("grade") and not meta.get("solution") and cell.cell_type == "code"
    return exercise_of(meta.get("grade_id", "")) if locked_grade_cell else ""


def make_plain(nb) -> None:
    """Leave in ``nb`` no version, no widget state, no timing and no layout of the machine that saved it.

    nbformat asks that widget metadata has its state; stored state without its kernel is of no use, so
    both go (reported upstream as cleanlab/examples#102), and the numbers of widgets in outputs with them: what
    stays of a control is its picture and its text.
    """
    nb.metadata.clear()
    nb.metadata.update(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    for cell in nb.cells:
        for key in ("execution", "collapsed", "scrolled", "ExecuteTime", "jupyter"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "raw":
            cell.metadata.pop("raw_mimetype", None)  # a page asks for its form and may fail on it
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_MIME, None)
