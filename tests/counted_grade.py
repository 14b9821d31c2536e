"""``python tests/counted_grade.py grade LAB ...``: the instructor's command, with a line in ``$PLAYED`` for each grading begun."""

import functools
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from autograder import batch, workers
from autograder.grading import Graded, Task, grade_alone


def play(task: Task) -> Graded:
    """``task`` graded as always, and noted first."""
    with open(os.environ["PLAYED"], "a", encoding="utf-8") as out:
        out.write(f"{task.student}\n")
    return grade_alone(task)


if __name__ == "__main__":
    from autograder.__main__ import app
    from tests import counted_grade

    workers.Workers = functools.partial(batch.Workers, play=counted_grade.play)
    app()
