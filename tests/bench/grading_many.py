"""A large class: ``python tests/bench/grading_many.py [--sizes 100 300 1000] [--full 100] [--lab 02-allocate]``.

``autograder grade`` with two workers, each class in a process of its own. Printed for each size: wall seconds in all
and a submission (also as a multiple of the first class's, which bears the start-up of the workers alone); processor time
and the most memory of the process that grades, without its workers; the gradebook.

In the classes of ``--sizes`` a worker answers at once with what one real grading had made (``tests/stand_in.py``): what is
measured is the parent. In those of ``--full`` each notebook runs in its sandbox. In each class one submission of
ten has a text of its own. Nothing here fails.
"""

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from gpulab.startup import skip_slow_grammar  # noqa: E402

skip_slow_grammar()

import nbformat  # noqa: E402

from autograder import intake, release  # noqa: E402
from autograder.batch import Batch  # noqa: E402
from autograder.grading import grade_alone  # noqa: E402
from autograder.places import Places  # noqa: E402
from autograder.tasks import Tasks  # noqa: E402
from autograder.workers import Workers  # noqa: E402
from tests.stand_in import StandIn, record  # noqa: E402

HEAD = "workers   graded        wall s   s each   x first   parent: CPU s each    MiB   gradebook MiB"


def most_memory_mib() -> float:
    """Of this process since it began; ``getrusage`` would begin with that of the process that started it."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def hand_in(lab: str, count: int) -> None:
    """``count`` solved notebooks, one of ten with a text of its own; those of nobody were there before."""
    places = Places.found()
    nb = nbformat.read(places.source(lab), as_version=4)
    card = (places.course / "release" / lab / "course.json").read_bytes()
    code = next(cell for cell in nb.cells if cell.cell_type == "code")
    first = code.source
    for number in range(count):
        there = places.step("submitted", f"learner-{number:04}", lab)
        there.mkdir(parents=True)
        code.source = f"{first}\n# of learner {number}" if number % 10 == 0 else first
        nbformat.write(nb, there / f"{lab}.ipynb")
        (there / "course.json").write_bytes(card)


def prepare(lab: str, count: int) -> None:
    """The course that the environment names, with what was handed in, and one grading recorded."""
    places = Places.found()
    places.course.mkdir(parents=True)
    (places.course / "secret").write_text("self\n")  # the answers in the source are those of the open course
    release.build(lab)
    hand_in(lab, count)
    tasks = Tasks(lab, places)
    (one,) = intake.read(places.course / "submitted", lab, tasks.released)[:1]
    record(tasks.task(one), places.course / "recorded")


def grade(lab: str, count: int, full: bool) -> dict:
    """One class graded in this process, which does nothing else."""
    places = Places.found()
    before = multiprocessing.get_context("spawn").Process(target=prepare, args=(lab, count))
    before.start()
    before.join()
    play = grade_alone if full else StandIn(places.course / "recorded")
    start, used = time.perf_counter(), time.process_time()
    outcomes = Batch(lab, lambda line: None, Workers(2, play=play)).grade(collect=False)
    wall, used = time.perf_counter() - start, time.process_time() - used
    return {
        "graded": sum(one.status == "graded" for one in outcomes),
        "wall": wall,
        "used": used,
        "parent_mib": most_memory_mib(),
        "gradebook_mib": (places.course / "gradebook.db").stat().st_size / 2**20,
    }


def measured(lab: str, count: int, full: bool) -> dict:
    """As ``grade``, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="gpulab-bench-") as folder:
        environment = os.environ | {"GPULAB_COURSE": f"{folder}/course", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, __file__, "--lab", lab, "--one", str(count), *["--in-full"] * full]
        told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(told.stdout)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--sizes", type=int, nargs="*", default=[100, 300, 1000])
    words.add_argument("--full", type=int, nargs="*", default=[])
    words.add_argument("--lab", default="02-allocate")
    words.add_argument("--one", type=int, help=argparse.SUPPRESS)
    words.add_argument("--in-full", action="store_true", help=argparse.SUPPRESS)
    asked = words.parse_args()
    if asked.one:
        print(json.dumps(grade(asked.lab, asked.one, asked.in_full)))
        return
    print(f"{asked.lab}\n{HEAD}")
    for name, sizes in (("stand in", asked.sizes), ("in full", asked.full)):
        first = None
        for count in sizes:  # a line as soon as it is known: a large class takes minutes
            row = measured(asked.lab, count, name == "in full")
            each, used = row["wall"] / count, row["used"] / count
            first = first or each
            graded = f"{row['graded']} of {count}"
            shown = f"{name:<10}{graded:<13}{row['wall']:>7.1f}{each:>9.3f}{each / first:>10.2f}{used:>21.3f}"
            print(f"{shown}{row['parent_mib']:>7.0f}{row['gradebook_mib']:>16.1f}", flush=True)


if __name__ == "__main__":
    main()
