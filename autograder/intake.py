"""What was handed in, before anything runs: every submission is listed, with what was repaired or why it is refused."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.channel import printable
from autograder.repair import Unreadable, of_another_lab, of_this_lab, repaired
from autograder.walk import entries

MOST_OF_A_CELL, MOST_OF_ALL, MOST_CELLS = 100_000, 500_000, 1_500  # a lab has 60,000 characters in 50 cells
MOST_BYTES = 200_000_000
"""A notebook beyond this is refused: a lab with its charts takes under 1 MB, one with a flood of output 40 MB."""


@dataclass(frozen=True)
class Submission:
    """One learner's folder for one lab.

    Attributes:
        student: the folder's name. status: ``ok``, ``missing`` or ``unreadable``.
        reason: why it is not ``ok``, and what to do. path: the notebook, or the folder when ``missing``.
        notes: what was repaired, a few words each. The file itself stays as it was handed in.
    """

    student: str
    status: str
    reason: str
    path: Path
    notes: tuple[str, ...] = ()


def read(submitted: Path, lab: str, released: list[dict] = ()) -> list[Submission]:
    """Every submission of ``lab`` below ``submitted`` (``STUDENT/LAB/``), by student.

    Nothing is dropped, nothing is changed, nothing is run. A learner without a folder for this lab has
    handed in nothing and is not listed. ``released``: the cells of the release, to know the lab's cells by.
    """
    if not submitted.is_dir():
        return []
    folders = [path / lab for path in sorted(submitted.iterdir()) if (path / lab).is_dir()]
    return [_examine(folder, lab, list(released)) for folder in folders]


def mended(submission: Submission, released: list[dict]) -> bytes:
    """The notebook of an ``ok`` submission, repaired, as the bytes that are graded."""
    nb, _ = repaired(submission.path.read_bytes(), released)
    return json.dumps(nb, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n"


def _examine(folder: Path, lab: str, released: list[dict]) -> Submission:
    student, notebook = folder.parent.name, folder / f"{lab}.ipynb"
    notes: list[str] = []
    if not notebook.is_symlink() and not notebook.exists():
        others = _notebooks(folder, lab)
        if len(others) != 1:
            return Submission(
                student, "missing", _one_line(_nothing_found(folder, notebook.name, others)), folder
            )
        notebook = others[0]
        notes = [f"the notebook is called {notebook.relative_to(folder)}"]
    fault, repairs = _looked_at(notebook, released, sure=not notes)
    said = tuple(_one_line(note) for note in (*notes, *repairs))
    return Submission(student, "unreadable" if fault else "ok", _one_line(fault), notebook, said)


def _one_line(text: str) -> str:
    """``text`` on one line and without what no file can hold: it may quote a file's name."""
    return printable(text, len(text))


def _notebooks(folder: Path, lab: str) -> list[Path]:
    """Notebooks that may be meant: the only one there is, else those whose name holds the lab's."""
    found = [
        path
        for path in entries(folder)
        if path.suffix.lower() == ".ipynb" and path.is_file() and not path.is_symlink()
        if not {".ipynb_checkpoints", "__MACOSX"} & set(path.relative_to(folder).parts)
        if not path.name.startswith(".")
    ]
    return found if len(found) == 1 else [path for path in found if lab in path.stem] or found


def _nothing_found(folder: Path, name: str, others: list[Path]) -> str:
    listed = sorted(path.relative_to(folder).as_posix() for path in entries(folder))
    there = (
        f"There is: {', '.join(listed[:8])}{' ...' if len(listed) > 8 else ''}" if listed else "It is empty"
    )
    which = "Which of them is meant is not clear: hand in that one alone, as" if others else "Hand in"
    return f"{name} is not in what was handed in. {there}. {which} {name}."


def _looked_at(notebook: Path, released: list[dict], *, sure: bool) -> tuple[str, list[str]]:
    """Why this file cannot be graded as a notebook, '' when it can; and what was repaired."""
    again = "If JupyterLab opens it, save it there and hand it in again; if not, hand in an earlier copy."
    if notebook.is_symlink() or not notebook.is_file():
        return f"{notebook.name} is a link or a folder, not a file. Hand in the file itself.", []
    size = notebook.stat().st_size
    if size > MOST_BYTES:
        clear = "Clear the outputs (Edit > Clear Outputs of All Cells), save, and hand it in again."
        return f"{notebook.name} has {size:,} bytes, the limit is {MOST_BYTES:,}. {clear}", []
    try:
        nb, notes = repaired(notebook.read_bytes(), released)
    except OSError as error:
        return f"{notebook.name} cannot be read ({error}). {again}", []
    except Unreadable as wrong:
        return f"{notebook.name} {wrong}. {again}", []
    fault = _too_much(nb["cells"])
    if fault:
        return f"{notebook.name} {fault}. Take out what does not belong to the lab and hand it in again.", []
    fault = _not_read_by_nbformat(nb)
    if fault:
        return f"{notebook.name} is JSON but not a notebook: {fault}. {again}", []
    if not sure and released and not of_this_lab(nb["cells"], released):
        return f"{notebook.name} holds none of this lab's cells. Hand in the notebook of this lab.", []
    others = of_another_lab(nb["cells"], released)
    if others:
        listed = ", ".join(others[:3])
        return f"{notebook.name} is the notebook of another lab ({listed}). Hand in the one of this lab.", []
    return "", notes


def _too_much(cells: list[dict]) -> str:
    """Why showing this notebook would take minutes: it is far beyond what anybody writes; '' if it is not."""
    longest = max((len(cell["source"]) for cell in cells), default=0)
    whole = sum(len(cell["source"]) for cell in cells)
    for amount, most, what in (
        (longest, MOST_OF_A_CELL, "characters in one cell"),
        (whole, MOST_OF_ALL, "characters in its cells"),
        (len(cells), MOST_CELLS, "cells"),
    ):
        if amount > most:
            return f"has {amount:,} {what}, the limit is {most:,}"
    return ""


def _not_read_by_nbformat(nb: dict) -> str:
    """What nbformat, the reader of all later steps, says of it; faults that it repairs or bears are none."""
    import warnings

    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nbformat.reads(json.dumps(nb), as_version=4, capture_validation_error={})
    except Exception as error:  # it raises whatever the content makes it stumble over
        return f"nbformat cannot read it ({error})"
    return ""


def report(submissions: list[Submission], progress: Callable[[str], None]) -> None:
    """Say how many can be graded, each one that cannot, by name, and what was repaired in others."""
    good = sum(submission.status == "ok" for submission in submissions)
    progress(f"intake: {len(submissions)} handed in, {good} can be graded")
    for submission in submissions:
        if submission.status != "ok":
            progress(f"  {submission.student}: {submission.status}. {submission.reason}")
        elif submission.notes:
            progress(f"  {submission.student}: repaired: {'; '.join(submission.notes)}")
