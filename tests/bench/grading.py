"""Grading beside plain nbgrader, on the same submissions of one lab: ``python tests/bench/grading.py [COUNT] [LAB]``.

Printed for each way: wall seconds in all; processor seconds of the learners' cells and of the judge; and the
overhead of a submission, which is the wall time less those two. Where several threads of a cell computed side by side
(a browser engine draws the charts), no more than the cell's wall time is taken off. With two workers half of their
work is taken off: it is done side by side. Judge and kernel share a core, so they never work at once. nbgrader runs with its own steps in a cold kernel and writes no feedback, ours
with sandbox, judge, channel and feedback page. Each way has a process of its own, and the clock starts when that has
imported nbgrader; each grades a course of its own, that nobody has graded before. Nothing here fails.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from gpulab.startup import skip_slow_grammar  # noqa: E402

skip_slow_grammar()

from nbgrader.converters import Autograde  # noqa: E402
from nbgrader.preprocessors import Execute  # noqa: E402

from autograder import judge, release  # noqa: E402
from autograder.batch import Batch  # noqa: E402
from autograder.frame import open_nbgrader  # noqa: E402
from autograder.grading import Graded, Task, grade_alone  # noqa: E402
from autograder.places import Places  # noqa: E402
from autograder.sandbox_tree import processes  # noqa: E402
from autograder.workers import Workers  # noqa: E402

SPENT = {"cells": 0.0, "judge": 0.0, "work": 0.0}
"""Of the way that is being measured: processor seconds; and of both, and of counting them, what the wall time holds."""


def of_tree(pid: int) -> float:
    """Processor seconds of a process and of what came of it: each one's own clock, and of ended children its count."""
    spent = 0.0
    for one in processes(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            spent += sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
            spent += time.clock_gettime(~one << 3 | 2)  # clock_getcpuclockid(3), ended threads included
    return spent


def counting_cells() -> None:
    """The processor time of the kernel while a cell runs is added to ``SPENT``; ours runs cells as nbgrader's does."""
    plain = Execute.execute_cell

    def root(self) -> int:
        made = self.km.provisioner
        return getattr(made, "root_pid", 0) or made.pid

    def counted(self, cell, *arguments, **named):
        begun, before, start = time.perf_counter(), of_tree(root(self)), time.perf_counter()
        try:
            return plain(self, cell, *arguments, **named)
        finally:
            end, cells = time.perf_counter(), of_tree(root(self)) - before
            SPENT["cells"] += cells
            SPENT["work"] += min(end - start, cells) + start - begun + time.perf_counter() - end

    Execute.execute_cell = counted


def counting_judge() -> None:
    """The judge's processor time is added to ``SPENT``."""
    plain = judge.Sitting._converse

    def counted(self, connection):
        before = time.thread_time()
        plain(self, connection)
        spent = time.thread_time() - before
        SPENT["judge"] += spent
        SPENT["work"] += spent

    judge.Sitting._converse = counted


def plain_nbgrader(lab: str, students: list[str]) -> None:
    """``nbgrader autograde`` with the steps that nbgrader has by itself."""
    api = open_nbgrader()
    api.config.pop("Autograde", None)
    api.coursedir.assignment_id, api.coursedir.student_id = lab, "*"
    Autograde(coursedir=api.coursedir, parent=api, force=True).start()


def noted(task: Task) -> Graded:
    """``task`` graded in a worker, and what it ``SPENT`` written down for whoever waits."""
    SPENT.update(dict.fromkeys(SPENT, 0.0))
    try:
        return grade_alone(task)
    finally:
        with open(Places.found().course / "spent.jsonl", "a", encoding="utf-8") as out:
            out.write(json.dumps(SPENT) + "\n")


def ours(lab: str, count: int) -> None:
    """The instructor's command with ``count`` workers."""
    Batch(lab, silent, Workers(count, play=noted)).grade(collect=False)
    told = (Places.found().course / "spent.jsonl").read_text().splitlines()
    SPENT.update({part: sum(json.loads(line)[part] for line in told) for part in SPENT})


WAYS = {
    "nbgrader autograde": plain_nbgrader,
    "autograder grade, 1 worker": lambda lab, _: ours(lab, 1),
    "autograder grade, 2 workers": lambda lab, _: ours(lab, 2),
}


def silent(line: str) -> None:
    """Nobody reads what a run says here."""


def measured(name: str, lab: str, students: list[str]) -> dict[str, float]:
    """Wall seconds of one way in this process, and what ``SPENT`` says of it."""
    counting_cells()
    counting_judge()
    start = time.perf_counter()
    WAYS[name](lab, students)
    return {"wall": time.perf_counter() - start, **SPENT}


def hand_in(lab: str, students: list[str]) -> None:
    """A new course, with the source's own answers handed in by each of ``students``."""
    places = Places.found()
    places.course.mkdir()
    (places.course / "secret").write_text("self\n")  # the answers in the source are those of the open course
    release.build(lab)
    for student in students:
        there = places.step("submitted", student, lab)
        there.mkdir(parents=True)
        shutil.copyfile(places.source(lab), there / f"{lab}.ipynb")
        shutil.copyfile(places.course / "release" / lab / "course.json", there / "course.json")


def main(count: int = 20, lab: str = "02-allocate", only: str = "") -> None:
    students = [f"learner-{number:02}" for number in range(count)]
    if only:
        print(json.dumps(measured(only, lab, students)))
        return
    console, rows = Console(), {}
    for number, name in enumerate(WAYS):
        with tempfile.TemporaryDirectory(prefix="gpulab-bench-") as folder, console.status(name):
            os.environ["GPULAB_COURSE"] = f"{folder}/course"
            hand_in(lab, students)
            command = [sys.executable, __file__, str(count), lab, name]
            quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            told = subprocess.run(command, check=True, text=True, **quiet).stdout
        row = json.loads(told.splitlines()[-1])
        rows[name] = row | {"overhead": (row["wall"] - row["work"] / max(1, number)) / count}
    table = Table("", "wall s", "cells' CPU s", "judge's CPU s", "overhead s a submission", "of nbgrader's")
    first = rows["nbgrader autograde"]
    for name, row in rows.items():
        shown = [f"{row[part]:.2f}" for part in ("wall", "cells", "judge", "overhead")]
        table.add_row(name, *shown, f"1/{first['overhead'] / row['overhead']:.1f}")
    console.print(table)
    print(json.dumps(rows))


if __name__ == "__main__":
    main(*(int(text) if text.isdigit() else text for text in sys.argv[1:]))
