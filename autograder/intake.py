"""What was handed in, before anything runs: every submission is listed, with a reason if it is refused."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 20_000_000
"""A notebook beyond this is refused: a lab with its charts takes under 1 MB."""

_CELL_TYPES = ("code", "markdown", "raw")


@dataclass(frozen=True)
class Submission:
    """One learner's folder for one lab.

    Attributes:
        student: the folder's name. status: ``ok``, ``missing``, ``renamed`` or ``unreadable``.
        reason: why it is not ``ok``, and what to do. path: the notebook, or the only other one when
        ``renamed``, or the folder when ``missing``.
    """

    student: str
    status: str
    reason: str
    path: Path


def read(submitted: Path, lab: str) -> list[Submission]:
    """Every submission of ``lab`` below ``submitted`` (``STUDENT/LAB/``), by student.

    Nothing is dropped, nothing is changed, nothing is run. A learner without a folder for this lab has
    handed in nothing and is not listed.
    """
    if not submitted.is_dir():
        return []
    folders = [path / lab for path in sorted(submitted.iterdir()) if (path / lab).is_dir()]
    return [_examine(folder, lab) for folder in folders]


def _examine(folder: Path, lab: str) -> Submission:
    student, notebook = folder.parent.name, folder / f"{lab}.ipynb"
    if notebook.is_symlink() or notebook.exists():
        fault = _fault(notebook)
        return Submission(student, "unreadable" if fault else "ok", fault, notebook)
    others = sorted(path for path in folder.glob("*.ipynb") if path.is_file())
    if len(others) == 1:
        reason = (
            f"{notebook.name} is not there, but one notebook of another name is: {others[0].name}. "
            f"Rename it to {notebook.name} and hand it in again."
        )
        return Submission(student, "renamed", reason, others[0])
    found = sorted(path.name for path in folder.iterdir())
    listed = f"There is: {', '.join(found[:8])}{' ...' if len(found) > 8 else ''}" if found else "It is empty"
    reason = f"{notebook.name} is not in what was handed in. {listed}. Hand the notebook in again."
    return Submission(student, "missing", reason, folder)


def _fault(notebook: Path) -> str:
    """Why this file cannot be graded as a notebook; empty when it can."""
    again = "If JupyterLab opens it, save it there and hand it in again; if not, hand in an earlier copy."
    if notebook.is_symlink() or not notebook.is_file():
        return f"{notebook.name} is a link or a folder, not a file. Hand in the file itself."
    size = notebook.stat().st_size
    if size > MOST_BYTES:
        return (
            f"{notebook.name} has {size:,} bytes, the limit is {MOST_BYTES:,}. "
            "Clear the outputs (Edit > Clear Outputs of All Cells), save, and hand it in again."
        )
    try:
        text = notebook.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"{notebook.name} cannot be read as UTF-8 text ({error}). {again}"
    if not text.strip():
        return f"{notebook.name} is empty ({size} bytes). {again}"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"{notebook.name} is not JSON: {error}. {again}"
    fault = _not_a_notebook(content) or _not_read_by_nbformat(text)
    return f"{notebook.name} is JSON but not a notebook: {fault}. {again}" if fault else ""


def _not_a_notebook(content: object) -> str:
    """What keeps parsed JSON from being a notebook that nbgrader's steps can walk through."""
    if not isinstance(content, dict):
        return f"it holds a {type(content).__name__}"
    if type(content.get("nbformat")) is not int or type(content.get("nbformat_minor")) is not int:
        return "it does not say its nbformat"
    if content["nbformat"] != 4:
        return f"it has nbformat {content['nbformat']}, this course works with 4"
    if not isinstance(content.get("metadata"), dict) or not isinstance(content.get("cells"), list):
        return "it has no list of cells, or no metadata"
    for number, cell in enumerate(content["cells"], 1):
        fault = _not_a_cell(cell)
        if fault:
            return f"cell {number} {fault}"
    return ""


def _not_a_cell(cell: object) -> str:
    if not isinstance(cell, dict):
        return f"is a {type(cell).__name__}"
    if cell.get("cell_type") not in _CELL_TYPES:
        return f"has the type {cell.get('cell_type')!r}"
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        return "has a source that is not text"
    metadata = cell.get("metadata")
    if not isinstance(metadata, dict):
        return "has no metadata"
    tags = metadata.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return "has tags that are not a list of words"
    return ""


def _not_read_by_nbformat(text: str) -> str:
    """What nbformat, the reader of all later steps, says of it; faults that it repairs or bears are none."""
    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nbformat.reads(text, as_version=4, capture_validation_error={})
    except Exception as error:  # it raises whatever the content makes it stumble over
        return f"nbformat cannot read it ({error})"
    return ""


def report(submissions: list[Submission], progress: Callable[[str], None]) -> None:
    """Say how many can be graded, and each one that cannot, by name."""
    good = sum(submission.status == "ok" for submission in submissions)
    progress(f"intake: {len(submissions)} handed in, {good} can be graded")
    for submission in submissions:
        if submission.status != "ok":
            progress(f"  {submission.student}: {submission.status}. {submission.reason}")
