"""Grading beside plain nbgrader, on the same submissions of one lab: ``python tests/bench/grading.py [COUNT] [LAB]``.

Printed for each way: wall seconds in all; processor seconds of the learners' cells and of the judge; and the
overhead of a submission, which is the wall time less those two. Where several threads of a cell computed side by side
(a browser engine draws the charts), no more than the cell's wall time is taken off. With two workers half of the work
is taken off: it is done side by side. nbgrader runs with its own steps in a cold kernel and writes no feedback, ours
with sandbox, judge, channel and feedback page. Nothing here fails.
"""

import json
import os
import shutil
import sys
import tempfile
import time
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
from autograder.places import Places  # noqa: E402
from autograder.sandbox_tree import processes  # noqa: E402
from autograder.workers import Workers  # noqa: E402

SPENT = {"cells": 0.0, "judge": 0.0, "work": 0.0}
"""Of the way that is being measured: processor seconds, and of both what the wall time of the cells holds."""


def of_tree(pid: int) -> float:
    """Processor seconds of a process and what came of it."""
    ticks = 0
    for one in processes(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # its own, and of children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def counting_cells() -> None:
    """The processor time of the kernel while a cell runs is added to ``SPENT``; ours runs cells as nbgrader's does."""
    plain = Execute.execute_cell

    def root(self) -> int:
        made = self.km.provisioner
        return getattr(made, "root_pid", 0) or made.pid

    def counted(self, cell, *arguments, **named):
        before, judge, start = of_tree(root(self)), SPENT["judge"], time.perf_counter()
        try:
            return plain(self, cell, *arguments, **named)
        finally:
            cells, wall = of_tree(root(self)) - before, time.perf_counter() - start
            SPENT["cells"] += cells
            SPENT["work"] += min(wall, cells + SPENT["judge"] - judge)

    Execute.execute_cell = counted


def counting_judge() -> None:
    """The judge's processor time is added to ``SPENT``."""
    plain = judge.Sitting._converse

    def counted(self, connection):
        before = time.thread_time()
        plain(self, connection)
        SPENT["judge"] += time.thread_time() - before

    judge.Sitting._converse = counted


def plain_nbgrader(lab: str, students: list[str]) -> None:
    """``nbgrader autograde`` with the steps that nbgrader has by itself."""
    api = open_nbgrader()
    api.config.pop("Autograde", None)
    api.coursedir.assignment_id, api.coursedir.student_id = lab, "*"
    Autograde(coursedir=api.coursedir, parent=api, force=True).start()


def main(count: int = 20, lab: str = "02-allocate") -> None:
    console, students = Console(), [f"learner-{number:02}" for number in range(count)]
    folder = Path(tempfile.mkdtemp(prefix="gpulab-bench-"))
    os.environ["GPULAB_COURSE"] = str(folder)
    (folder / "secret").write_text("self\n")  # the answers in the source are those of the open course
    places = Places.found()
    release.build(lab)
    for student in students:
        there = places.step("submitted", student, lab)
        there.mkdir(parents=True)
        shutil.copyfile(places.source(lab), there / f"{lab}.ipynb")
        shutil.copyfile(places.course / "release" / lab / "course.json", there / "course.json")
    counting_cells()
    counting_judge()
    ways = {
        "nbgrader autograde": lambda: plain_nbgrader(lab, students),
        "autograder grade, 1 worker": lambda: Batch(lab, lambda line: None, Workers(1)).grade(collect=False),
        "autograder grade, 2 workers": lambda: Batch(lab, lambda line: None, Workers(2)).grade(collect=False),
    }
    rows = {}
    for name, way in ways.items():
        shutil.rmtree(folder / "journal", ignore_errors=True)
        shutil.rmtree(folder / "autograded", ignore_errors=True)
        SPENT.update(cells=0.0, judge=0.0, work=0.0)
        with console.status(name):
            start = time.perf_counter()
            way()
            wall = time.perf_counter() - start
        at_once = 2 if name.endswith("2 workers") else 1
        if at_once == 2:  # the work is spent in other processes; it is that of one worker
            SPENT.update({part: rows["autograder grade, 1 worker"][part] for part in SPENT})
        overhead = (wall - SPENT["work"] / at_once) / count
        rows[name] = {"wall": wall, **SPENT, "overhead": overhead}
    table = Table("", "wall s", "cells' CPU s", "judge's CPU s", "overhead s a submission", "of nbgrader's")
    first = rows["nbgrader autograde"]
    for name, row in rows.items():
        shown = [f"{row[part]:.2f}" for part in ("wall", "cells", "judge", "overhead")]
        table.add_row(name, *shown, f"1/{first['overhead'] / row['overhead']:.1f}")
    console.print(table)
    print(json.dumps(rows))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(*(int(text) if text.isdigit() else text for text in sys.argv[1:]))
