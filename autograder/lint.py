"""What would break a class, found before the release: a source notebook is read, released and run.

A fault names the cell, what is wrong there with its numbers, and what to do. Nothing of the source is changed.
"""

import copy
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.checks import exercises
from autograder.notebooks import graded_exercise
from autograder.scratch import Scratch

CELL_SECONDS = 10.0
"""A cell that takes longer keeps a class waiting; thirty learners' graders more so."""
_SHORTEST = 20  # characters of a solution's line that cannot be anybody's by chance

_UNSTABLE = {
    "a path of this machine": re.compile(
        r"(?<![\w.])(?:/(?:home|Users|root|tmp|var|work|opt|mnt|private)/|[A-Z]:\\)\S+"
    ),
    "a clock": re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b[0-2]\d:[0-5]\d:[0-5]\d\b"),
    "a memory address": re.compile(r"\b0x[0-9a-fA-F]{6,}\b"),
    "a network address": re.compile(r"\b(?:localhost|\d{1,3}(?:\.\d{1,3}){3}):\d+"),
}
_BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"


@dataclass(frozen=True, slots=True)
class Fault:
    """``cell``: its id. ``what`` is wrong, with the numbers; ``do``: how to mend it."""

    cell: str
    what: str
    do: str

    def __str__(self) -> str:
        return f"{self.cell}: {self.what}. {self.do}"


def read(nb, lab: str) -> list[Fault]:
    """The faults that can be seen without running ``nb``, the source notebook of ``lab``."""
    return [*_twice(nb), *_points(nb, lab), *_outputs(nb), *_pictures(nb)]


def released(nb, folder: Path, secret: str) -> list[Fault]:
    """What a learner would find in the release ``folder`` of ``nb``: lines of its solutions, the course's secret."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if secret and secret != "self" and secret in path.read_text(encoding="utf-8", errors="replace"):
            found.append(Fault(path.name, "the course's secret stands in it", "Take it out of the source."))
    solved = _solution_lines(nb)
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".ipynb"):
        left = [
            line
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
            if line.strip() in solved
        ]
        if left:
            what = f"a line of a solution stands in it: {left[0].strip()[:60]!r}"
            found.append(Fault(path.name, what, "Take the file out of the lab's folder."))
    for cell in nbformat.read(folder / f"{folder.name}.ipynb", as_version=4).cells:
        left = [line for line in cell.source.splitlines() if line.strip(" \t>") in solved]
        if left:
            what = f"the release shows a line of a solution: {left[0].strip()[:60]!r}"
            found.append(Fault(cell.get("id", "?"), what, "Write it another way outside of the solution."))
    return found


def run(nb, release, folder: Path, *, seconds: float = CELL_SECONDS) -> list[Fault]:
    """The faults that only a run shows. ``nb`` is the source, ``release`` what is made of it.

    The solved notebook must get full marks, the released one nothing; no cell of the solved one may take
    longer than ``seconds``. The judge is that of the self-study course.
    """
    from autograder.outputs import judged, short_of_full_marks

    found = [
        Fault(name.replace(".", "-", 1), text, "Mend the reference or the check.")
        for line in short_of_full_marks(nb, judged(nb), "the judge")
        for name, text in [line.split(": ", 1)]
    ]
    found += [
        Fault(
            name.replace(".", "-", 1), f"unsolved it already gets {points:g} of {most:g}", "Mend the check."
        )
        for name, (points, most) in judged(release).items()
        if points > 0
    ]
    found += _slow(nb, folder, seconds)
    return found + _own_tests(release, folder)


def _twice(nb) -> Iterator[Fault]:
    for what, names in (
        ("cell id", [cell.get("id") for cell in nb.cells]),
        ("grade id", [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells]),
    ):
        for name, count in Counter(names).items():
            if name and count > 1:
                told = f"{count} cells have this {what}"
                yield Fault(name, told, "nbgrader would stop the class at it: give each cell its own.")


def _points(nb, lab: str) -> Iterator[Fault]:
    known, seen = exercises(), {}
    for cell in nb.cells:
        name, meta = graded_exercise(cell), cell.metadata.get("nbgrader", {})
        if name not in known:
            continue
        seen[name] = float(meta.get("points", 0))
        worth = (
            0.0 if known[name].instead_of else known[name].points
        )  # the better of two stands in the first one's cell
        if seen[name] != worth:
            what = f"the cell says {seen[name]:g} points, the exercise {worth:g}"
            yield Fault(cell.get("id", "?"), what, "Write the exercise's points into the cell.")
    for name in known:
        if name.startswith(f"{lab[:2]}.") and name not in seen:
            yield Fault(name, "the lab has no graded cell for it", "Add one, or take the exercise out.")


def _outputs(nb) -> Iterator[Fault]:
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                yield Fault(
                    cell.get("id", "?"), f"it ended with {output.ename}", "Mend the cell and run it again."
                )
            elif output.output_type == "stream" and output.name == "stderr":
                yield Fault(
                    cell.get("id", "?"),
                    "it wrote to stderr",
                    "Mend what it warns of: nbgrader gives 0 for it.",
                )
            yield from _unstable(cell.get("id", "?"), _text_of(output))


def _unstable(cell: str, text: str) -> Iterator[Fault]:
    for what, pattern in _UNSTABLE.items():
        match = pattern.search(text)
        if match:
            told = f"its stored output shows {what}: {match[0][:60]!r}"
            yield Fault(cell, told, "It differs on every machine; print something else.")


def _text_of(output) -> str:
    if output.output_type == "stream":
        return output.text
    texts = [content for kind, content in output.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join(text if isinstance(text, str) else "".join(text) for text in texts)


def _pictures(nb) -> Iterator[Fault]:
    for cell in nb.cells:
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(|<img(?![^>]*\balt=)", cell.source):
            yield Fault(cell.get("id", "?"), "a picture has no description", "Say in words what it shows.")
        for output in cell.get("outputs", []):
            if _undescribed(output.get("data", {}), output.get("metadata", {})):
                yield Fault(cell.get("id", "?"), "a chart has no description", "Say in words what it shows.")


def _undescribed(data: dict, metadata: dict) -> bool:
    charts = [content for kind, content in data.items() if "vegalite" in kind]
    if charts:
        return not all(isinstance(chart, dict) and chart.get("description") for chart in charts)
    if "image/svg+xml" in data:
        return not re.search(r"aria-label=|<title>|<desc>", "".join(data["image/svg+xml"]))
    images = [kind for kind in data if kind.startswith("image/")]
    return any(not metadata.get(kind, {}).get("alt") for kind in images)


def _solution_lines(nb) -> set[str]:
    """Lines that stand in a solution and nowhere else in the source."""
    solved, open_to_all = set(), set()
    for cell in nb.cells:
        inside = False
        for line in map(str.strip, cell.source.splitlines()):
            if line in (_BEGIN, _END):
                inside = line == _BEGIN
            elif len(line) >= _SHORTEST:
                (solved if inside else open_to_all).add(line)
    # A line that the source itself shows outside of a solution is given, as a worked example or a hint.
    return solved - open_to_all


def _slow(nb, folder: Path, seconds: float) -> list[Fault]:
    """Cells of the solved notebook that take longer than ``seconds``, run as a learner runs them."""
    took = _timed(copy.deepcopy(nb), folder)
    return [
        Fault(
            cell, f"it takes {spent:.1f} s, at most {seconds:g} s are planned", "Do less in it, or split it."
        )
        for cell, spent in took.items()
        if spent > seconds
    ]


def _own_tests(release, folder: Path) -> list[Fault]:
    """Graded cells without the judge (nbgrader's own tests) that an unsolved notebook passes."""
    known = exercises()
    nb = copy.deepcopy(release)
    own = [cell for cell in nb.cells if _locked_test(cell) and graded_exercise(cell) not in known]
    if not own:
        return []
    _timed(nb, folder)
    return [
        Fault(cell.get("id", "?"), "unsolved it passes: nothing in it fails", "Add a test that fails.")
        for cell in own
        if not any(output.output_type == "error" for output in cell.outputs)
    ]


def _locked_test(cell) -> bool:
    meta = cell.metadata.get("nbgrader", {})
    return bool(cell.cell_type == "code" and meta.get("grade") and not meta.get("solution"))


def _timed(nb, folder: Path) -> dict[str, float]:
    """Wall seconds of each code cell of ``nb``, which is run to its end whatever its cells raise."""
    from autograder.outputs import client

    took, since = {}, {}
    with Scratch() as scratch:
        runner = client(nb, folder, scratch, allow_errors=True)
        runner.on_cell_execute = lambda cell, cell_index: since.update({cell_index: time.monotonic()})
        # nbclient calls on_cell_complete before the kernel has answered.
        runner.on_cell_executed = lambda cell, cell_index, execute_reply: took.update(
            {cell.get("id", str(cell_index)): time.monotonic() - since.get(cell_index, time.monotonic())}
        )
        runner.execute()
    return took


def named(given: list[str], labs: Path) -> list[str]:
    """Names of labs for what was ``given``: names, folders or notebooks; the folder of all labs means all of them."""
    names = []
    for text in given:
        path = Path(text)
        if path.resolve() == labs.resolve():
            return []
        names.append(path.stem if path.suffix == ".ipynb" else path.name)
    return names


def lint(lab: str, say: Callable[[str], None], *, running: bool = True) -> list[Fault]:
    """Every fault of ``lab``: read, released and, with ``running``, run. ``say`` hears what takes a while."""
    from autograder import release
    from autograder.places import Places

    places = Places.found()
    source = places.source(lab)
    nb = nbformat.read(source, as_version=4)
    found = read(nb, lab)
    if any("cells have this" in fault.what for fault in found):
        return found  # nbgrader builds no release of it
    folder = release.build(lab, progress=say)
    secret = places.course / "secret"
    found += released(nb, folder, secret.read_text(encoding="utf-8").strip() if secret.is_file() else "")
    if running:
        say(f"{lab}: running it solved and unsolved ...")
        found += run(nb, nbformat.read(folder / f"{lab}.ipynb", as_version=4), source.parent)
    return found
