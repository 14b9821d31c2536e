"""Hostile submissions: each a file of cells with a head that says what it tries and what must happen.

The head is comment lines ``# Name: value``:

    Tries, Must   one line each, for the reader
    Points        what it must get of 02.first-fit, to the hundredth; its prediction alone is worth 0.6
    Together      a word: files with the same one are run in one kernel, one after the other
    Says          words, divided by " | ", that what its cells show must all contain
    Note          words, divided by " | ", that the feedback of the check must all contain
    Limits        fields of Limits, as JSON
    Timeout       seconds for a cell
    Tags          tags, divided by " | ", of its cells
    Link          "name -> target": a link in what was handed in
    Large, Pipe   the name of a file of 2 MB, of a named pipe, in what was handed in

Cells are divided by ``# %%``; one that begins with ``# After the check`` is run after it. @COURSE@, @REPO@, @PID@, @PORT@ and @SOCKET@ stand for what an attacker can at best know:
the course's folder, the repository, the process that grades, a port and a socket on which that process listens.
@SOLUTION@ stands for a right class.
"""

import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path

from nbformat.v4 import new_code_cell, new_notebook

FOLDER = Path(__file__).parent / "submissions"
NAMES = (
    "Tries",
    "Must",
    "Points",
    "Together",
    "Says",
    "Note",
    "Limits",
    "Timeout",
    "Tags",
    "Link",
    "Large",
    "Pipe",
)
AFTER = "# After the check"
CANARY = "canary-4f1c"
"""In every secret of the course; attackers write it in two pieces, so that only what they read can contain it."""

_COMMIT = 'from autograder.learner import *\nlearner("ann")\npredict("02.first-fit", refusals=3)'
_NO_BUILD = "class MyAllocator:\n    pass"
_CHECK = 'check("02.first-fit", MyAllocator)'
_GRADED = {
    "nbgrader": {
        "schema_version": 3,
        "grade_id": "02-first-fit",
        "grade": True,
        "solution": False,
        "locked": True,
        "task": False,
        "points": 6,
        "cell_type": "code",
    }
}


@dataclass(frozen=True)
class Submission:
    """One file of the corpus."""

    name: str
    head: dict[str, str]
    cells: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "Submission":
        """The file at ``path``. ``ValueError`` when its head is not in order."""
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        head = {}
        while lines and lines[0].startswith("# ") and ":" in lines[0]:
            name, _, value = lines.pop(0)[2:].partition(":")
            head[name] = value.strip()
        if not {"Tries", "Must", "Points"} <= set(head) <= set(NAMES):
            raise ValueError(f"{path.name}: its head has {', '.join(head)}")
        return cls(path.stem, head, tuple(cell.strip() for cell in "\n".join(lines).split("# %%\n")))

    def words(self, name: str) -> list[str]:
        """What the head's ``Says``, ``Note`` or ``Tags`` lists."""
        return [word.strip() for word in self.head.get(name, "").split(" | ") if word.strip()]

    @property
    def limits(self) -> dict[str, int]:
        return json.loads(self.head.get("Limits", "{}"))


def corpus() -> list[Submission]:
    """All submissions, by name."""
    return [Submission.read(path) for path in sorted(FOLDER.glob("*.cells"))]


def batches() -> dict[str, list[Submission]]:
    """The submissions by what is run in one kernel."""
    found: dict[str, list[Submission]] = {}
    for one in corpus():
        found.setdefault(one.head.get("Together", one.name), []).append(one)
    return found


def notebook(submissions: list[Submission], knows: dict[str, str]):
    """One notebook of all cells of ``submissions``, a commitment before them and the check behind most of them.

    A cell's metadata says under ``hostile`` whose it is.
    """
    before, after = [new_code_cell(_COMMIT), new_code_cell(_NO_BUILD)], []
    for one in submissions:
        for source in one.cells:
            known = re.sub("@([A-Z]+)@", lambda found: {**knows, "SOLUTION": solution()}[found[1]], source)
            cell = new_code_cell(known, metadata={"hostile": one.name, "tags": one.words("Tags")})
            (after if source.startswith(AFTER) else before).append(cell)
    cells = [*before, new_code_cell(_CHECK, metadata=_GRADED), *after]
    made = new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def solution() -> str:
    """A right class for 02.first-fit."""
    from autograder.references import lab02
    from gpulab.memory.allocator import Allocator

    return f"from {Allocator.__module__} import Allocator\n{inspect.getsource(lab02.MyAllocator)}"


def shown(cell) -> str:
    """All that a cell shows, as text."""
    told = [output.get("text", "") or json.dumps(output.get("data", "")) for output in cell.outputs]
    return "\n".join([*told, *(f"{o.ename}: {o.evalue}" for o in cell.outputs if o.output_type == "error")])
