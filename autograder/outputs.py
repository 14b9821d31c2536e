"""Stored outputs of the source notebooks: run, compare, show the difference, store."""

import copy
import difflib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

from autograder.checks import exercises
from autograder.course import Course
from autograder.notebooks import graded_exercise, make_plain
from autograder.scratch import Scratch

_CELL_SECONDS = 60
_PICTURE = ("02-allocate", "fit-own")  # lab and cell whose picture README shows


def refresh(notebook: Path, say: Callable[[str], None]) -> bool:
    """True when ``notebook`` was run and its outputs are stored; what changed is said, cell by cell.

    The notebook is run twice: as a learner runs it, for its outputs, and before the judge of the
    self-study course, for the marks of its solutions. False, and the file is left as it was, when a cell
    raises or an exercise has not full marks in both: each such exercise is named.
    """
    old = nbformat.read(notebook, as_version=4)
    new = nbformat.read(notebook, as_version=4)
    say(f"{notebook.stem}: running {sum(cell.cell_type == 'code' for cell in new.cells)} code cells ...")
    make_plain(new)
    try:
        run_as_learner(new, notebook.parent)
    except CellExecutionError as error:
        say(f"{notebook.stem}: not stored, a cell raised:\n{error}")
        return False
    make_plain(new)
    short = short_of_full_marks(new, verdicts(new), "its check")
    if not short:
        short = short_of_full_marks(new, judged(new), "the judge")
    for line in short:
        say(f"{notebook.stem}: not stored, {line}")
    if short:
        return False
    changes = difference(old, new)
    for line in changes:
        say(line)
    text = nbformat.writes(new) + "\n"
    if text != notebook.read_text(encoding="utf-8"):
        notebook.write_text(text, encoding="utf-8")
        say(f"{notebook.stem}: stored" + ("" if changes else " (outputs equal, metadata tidied)"))
    else:
        say(f"{notebook.stem}: nothing has changed")
    return True


def store_picture(labs: Path) -> None:
    """Write ``labs/picture.svg``, README's picture, from the stored output of the lab that draws it."""
    lab, cell_id = _PICTURE
    source = labs / lab / f"{lab}.ipynb"
    if source.is_file():
        cells = {cell.get("id"): cell for cell in nbformat.read(source, as_version=4).cells}
        drawn = [
            output.data["image/svg+xml"]
            for output in cells[cell_id].outputs
            if "image/svg+xml" in output.get("data", {})
        ]
        (labs / "picture.svg").write_text(drawn[0], encoding="utf-8", newline="\n")


def run_as_learner(nb, folder: Path) -> None:
    """Run ``nb`` in a fresh kernel in ``folder``, as a learner would; outputs and counts are written into it.

    ``CellExecutionError`` at the first cell that raises.
    """
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with Scratch() as scratch:
        client(nb, folder, scratch).execute()


def client(nb, folder: Path, scratch: Path, *, allow_errors: bool = False) -> NotebookClient:
    """What runs ``nb`` in a fresh kernel in ``folder``; the kernel's sockets lie in ``scratch``."""
    return NotebookClient(
        nb,
        timeout=_CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        allow_errors=allow_errors,
        resources={"metadata": {"path": str(folder)}},
        config=_own_sockets(scratch),
    )


def _own_sockets(scratch: Path) -> Config:
    """A kernel that is reached through files in ``scratch`` where the system has such sockets."""
    transport = "ipc" if os.name == "posix" else "tcp"
    return Config(
        {"KernelManager": {"transport": transport, "connection_file": str(scratch / "kernel.json")}}
    )


def judged(nb) -> dict[str, tuple[float, float]]:
    """Points and full points of each exercise of ``nb``, as the judge of the self-study course gives them."""
    if not any(graded_exercise(cell) in exercises() for cell in nb.cells):
        return {}
    from autograder.execute import JudgedExecute

    class SelfStudyExecute(JudgedExecute):
        def load_course(self) -> Course:
            return Course.self_study()

    submission = copy.deepcopy(nb)
    with Scratch() as folder:
        resources = {"nbgrader": {"student": ""}, "metadata": {"path": str(folder)}}
        SelfStudyExecute().preprocess(submission, resources)
    return verdicts(submission)


def verdicts(nb) -> dict[str, tuple[float, float]]:
    """Points and full points of each exercise, from the mark that a check leaves in its output's metadata."""
    found = {}
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            mark = output.get("metadata", {}).get("gpulab", {})
            if "exercise" in mark:
                found[mark["exercise"]] = (float(mark["points"]), float(mark["max"]))
    return found


def short_of_full_marks(nb, got: dict[str, tuple[float, float]], who: str) -> list[str]:
    """A sentence for each exercise of ``nb`` to which ``who`` has not given full marks in ``got``."""
    wanted = sorted({graded_exercise(cell) for cell in nb.cells} - {""})
    if who == "the judge":
        wanted = [name for name in wanted if name in exercises()]
    short = [f"{name}: {who} gives no verdict" for name in wanted if name not in got]
    short += [
        f"{name}: {who} gives the reference {points:g} of {most:g} points"
        for name, (points, most) in sorted(got.items())
        if points < most
    ]
    return short


def difference(old, new) -> list[str]:
    """A unified diff of what each cell shows as text, headed by the cell's id; empty when all is equal."""
    before = {cell.get("id", index): cell for index, cell in enumerate(old.cells)}
    lines = []
    for index, cell in enumerate(new.cells):
        name = cell.get("id", index)
        was, now = _shown(before.get(name, {})), _shown(cell)
        lines += [
            line.rstrip("\n")
            for line in difflib.unified_diff(was, now, f"{name} (stored)", f"{name} (now)", lineterm="", n=1)
        ]
    return lines


def _shown(cell) -> list[str]:
    """The outputs of a cell as lines of text; pictures by a digest of their content."""
    lines = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            lines += output.text.splitlines()
        elif output.output_type == "error":
            lines.append(f"{output.ename}: {output.evalue}")
        else:
            for kind, content in sorted(output.data.items()):
                lines += _lines_of(kind, content)
    return lines


def _lines_of(kind: str, content) -> list[str]:
    if kind == "text/plain":
        return str(content).splitlines()
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return [f"<{kind} {digest[:12]}>"]
