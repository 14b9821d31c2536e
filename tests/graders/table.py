"""`make mutants`: every wrong answer of every sheet, judged in many courses; the result is ``mutants.md``.

Each exercise has a section with a digest of its check's and its sheet's code. Sections whose digest still holds are kept,
unless ``--all`` is given; ``--only 02.pool`` names exercises, ``--secrets 20`` is for a quick look.
"""

import argparse
import ast
import hashlib
import inspect
import os
import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from sheets import Sheet, all_sheets, course_of, score_of, sheet_files

from autograder.checks import exercises
from autograder.checks.played import STANDARD
from autograder.verdict import Commitments

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = HERE / "mutants.md"
SECRETS, CHUNK = 200, 5
RIGHT = "(right)"
_MEASURED = re.compile(r"all laws kept; (\d+)% of")  # what bands are read off, as the note of a build says it
_HEAD = "| answer | share: mean | lowest | highest | measured: mean | tags |"


@dataclass(frozen=True, slots=True)
class Played:
    """One answer in one course: the share of the build, what the bands were read off (None: nothing), the tag."""

    share: float
    measured: int | None
    tag: str


def digest(exercise: str) -> str:
    """Twelve hex digits of the text of all that decides on the marks of ``exercise``."""
    files = code_of(exercise)
    text = "".join(f"{file.relative_to(ROOT)}\n{file.read_text(encoding='utf-8')}" for file in files)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def code_of(exercise: str) -> list[Path]:
    """The files of its check and of its sheet, and what they import.

    Left out: hints, the lists of exercises, and what lies under every check alike (gpulab, channel, judge).
    """
    files, todo = set(), [Path(inspect.getfile(type(exercises()[exercise]))), sheet_files()[exercise]]
    while todo:
        file = todo.pop()
        if file not in files:
            files.add(file)
            todo += _imported(file)
    return sorted(files)


def _imported(file: Path) -> list[Path]:
    """The files of the checks, the references and this folder that ``file`` imports or loads."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.Call(func=ast.Name(id="loaded"), args=[ast.Constant(value=str(name))]):
                names.add(name)
    ours = [ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("autograder.")]
    ours = [path for path in ours if path.parts[len(ROOT.parts) + 1] in ("checks", "references")]
    beside = [HERE / f"{name}.py" for name in names if "." not in name and name != "sheets"]
    return [
        path for path in (*ours, *beside) if path.is_file() and path.name not in ("__init__.py", "hints.py")
    ]


def cuts(sheet: Sheet) -> list[float]:
    """Where bands begin, in percent, strictly between nothing and all."""
    return [round(100 * cut, 1) for cut in sheet.cuts or [least for least, _ in STANDARD] if 0 < cut < 1]


def answers(sheet: Sheet) -> list[str]:
    """What is played of ``sheet``: the right answer and each misconception."""
    return [RIGHT, *sheet.wrong]


def plays(exercise: str, first: int, count: int) -> dict[str, list[Played]]:
    """All answers to ``exercise`` in ``count`` courses from number ``first`` on, each with a learner of its own."""
    sheet = next(sheet for sheet in all_sheets() if sheet.exercise == exercise)
    found = {answer: [] for answer in answers(sheet)}
    for number in range(first, first + count):  # course by course: what is drawn serves all its answers
        for answer, rows in found.items():
            hands_in = sheet.right if answer == RIGHT else sheet.wrong[answer].hands_in
            rows.append(_played(sheet, hands_in, number))
    return found


def _played(sheet: Sheet, hands_in: object, number: int) -> Played:
    learner = f"learner {number}"
    score = score_of(sheet, hands_in, course_of(number), learner, Commitments(learner))
    measured = _MEASURED.search(" ".join(score.notes))
    return Played(score.build_share, int(measured[1]) if measured else None, score.tag)


def only_judge() -> None:
    """For a process of this command: no pictures, no looking for what to show, what many answers share is drawn once.

    Share and tag stand before any of that is done.
    """
    from remembered import draw_once, reached

    from autograder.checks import played
    from autograder.checks.lab07 import planning
    from autograder.checks.lab07.policy import PolicyExercise
    from gpulab.report import charts

    charts.memory_map = charts.lanes = lambda *_, **__: None
    played.PLAYS = 0
    PolicyExercise._feedback = lambda *_: None
    planning.reached = reached
    draw_once(setattr)


def section(sheet: Sheet, played: dict[str, list[Played]]) -> str:
    """The Markdown of one exercise."""
    secrets = len(played[RIGHT])
    begin = ", ".join(f"{cut:g} %" for cut in cuts(sheet))
    bands = f" Bands begin at {begin}." if any(p.measured is not None for p in played[RIGHT]) else ""
    lines = [f"## {sheet.exercise}", "", f"Code `{digest(sheet.exercise)}`, {secrets} secrets.{bands}", ""]
    lines += [_HEAD, "|---|---|---|---|---|---|"]
    for answer, rows in played.items():
        shares = [100 * row.share for row in rows]
        measures = [row.measured for row in rows if row.measured is not None]
        tags = Counter(row.tag or "none" for row in rows)
        told = ", ".join(tag if len(tags) == 1 else f"{tag} × {count}" for tag, count in tags.most_common())
        mean = f"{sum(measures) / len(measures):.1f} %" if measures else "-"
        lines.append(
            f"| {answer} | {sum(shares) / len(shares):.1f} % | {min(shares):.1f} % | {max(shares):.1f} % | {mean} | {told} |"
        )
    return "\n".join(lines) + "\n"


def sections(text: str) -> dict[str, str]:
    """The sections of a page by exercise."""
    found = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0][3:]: part.rstrip() + "\n" for part in found}


def stored() -> dict[str, str]:
    """The sections of the page as it stands."""
    return sections(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}


def stale(exercise: str, parts: dict[str, str]) -> bool:
    """Is the section of ``exercise`` missing, or older than its code?"""
    return f"Code `{digest(exercise)}`" not in parts.get(exercise, "")


def main() -> None:
    """Play what is stale, show how far it is, write the page."""
    from rich.progress import track

    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--secrets", type=int, default=SECRETS)
    options.add_argument("--only", nargs="*", default=[], metavar="EXERCISE")
    options.add_argument("--all", action="store_true", help="also what has not changed")
    given = options.parse_args()
    parts, sheets = stored(), {sheet.exercise: sheet for sheet in all_sheets()}
    wanted = [name for name in given.only or sheets if given.all or given.only or stale(name, parts)]
    jobs = {}
    with ProcessPoolExecutor(os.cpu_count(), initializer=only_judge) as pool:
        for name in wanted:
            for first in range(0, given.secrets, CHUNK):
                jobs[pool.submit(plays, name, first, min(CHUNK, given.secrets - first))] = name, first
        found = {name: {} for name in wanted}
        for job in track(as_completed(jobs), "playing", total=len(jobs)):
            name, first = jobs[job]
            found[name][first] = job.result()
            if len(found[name]) * CHUNK >= given.secrets:  # written at once: whoever interrupts keeps it
                parts[name] = section(sheets[name], _joined(found.pop(name)))
                PAGE.write_text(
                    page({name: parts[name] for name in sheets if name in parts}), encoding="utf-8"
                )
    print(f"{PAGE.name}: {len(wanted)} of {len(sheets)} exercises played anew")


def _joined(chunks: dict[int, dict[str, list[Played]]]) -> dict[str, list[Played]]:
    """The rows of each answer in the order of the courses."""
    ordered = [chunks[first] for first in sorted(chunks)]
    return {answer: [row for chunk in ordered for row in chunk[answer]] for answer in ordered[0]}


def page(parts: dict[str, str]) -> str:
    """The whole page."""
    head = (
        "# What each wrong answer earns\n\nWritten by `make mutants`: every wrong answer in the sheets beside this page, "
        "each in a number of courses\nwith secrets and learners of their own. *Share* is of the build (or of what the answers "
        "carry), *measured* what\nthe bands are read off, over the courses where all laws were kept. A test asks that the code is "
        "the one that was\nplayed, and that no band begins within 3 points of a mean.\n"
    )
    return "\n".join([head, *parts.values()])


if __name__ == "__main__":
    main()
