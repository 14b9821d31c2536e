"""The sheets of 02.first-fit, 02.predict-oom and 02.strand; their wrong answers stand in lab02_mutants.py."""

from sheets import Sheet, Wrong, loaded

from autograder.checks import exercises
from autograder.checks.lab02.first_fit_play import BANDS
from autograder.references.lab02 import MyAllocator
from autograder.verdict import Commitments
from gpulab.memory.allocator import Allocator

mutants = loaded("lab02_mutants")


class Stub(Allocator):
    def prepare(self):
        self.holes = [(0, self.capacity)]

    def place(self, size):
        raise NotImplementedError("yours to write")

    def reclaim(self, offset, size):
        raise NotImplementedError("yours to write")


def placed(answer):
    """An allocator that always answers the same."""
    return type("Constant", (MyAllocator,), {"place": lambda self, size: answer})


def first_fit_said(course, learner):
    cause, shows = exercises()["02.first-fit"].key(course, learner)
    return Commitments(learner, {"refusals": 1}, {"cause": cause, "events": sorted(shows)})


def oom_said(course, learner):
    exercise = exercises()["02.predict-oom"]
    cause, shows = exercise.evidence(exercise.puzzle(course, learner).shown)
    return Commitments(learner, {"largest_a": 1, "largest_b": 1}, {"cause": cause, "events": sorted(shows)})


def oom_key(course, learner):
    exercise = exercises()["02.predict-oom"]
    key = exercise.key(exercise.puzzle(course, learner).graded)
    return {"largest_a": key.largest_a, "largest_b": key.largest_b, "blocks_it": key.blocks_it}


def on_own_task(exercise, answers):
    """``answers`` of a misconception to this learner's own task."""

    def typed(course, learner):
        task = exercises()[exercise].puzzle(course, learner)
        return answers(getattr(task, "graded", task))

    return typed


def answers_to(exercise, table):
    """A misconception for each row of ``table``."""
    return {
        name: Wrong(on_own_task(exercise, answers), lowest, highest, tag)
        for name, (answers, lowest, highest, tag) in table.items()
    }


FIRST_FIT = Sheet(
    "02.first-fit",
    MyAllocator,
    {name: Wrong(*wrong) for name, wrong in mutants.FIRST_FIT.items()},
    said=first_fit_said,
    stub=Stub,
    constants=tuple(placed(answer) for answer in (0, None, 512, 1 << 20)),
    cuts=tuple(least for least, _ in BANDS),
)
OOM = Sheet(
    "02.predict-oom",
    oom_key,
    answers_to("02.predict-oom", mutants.PREDICT_OOM),
    said=oom_said,
    constants=({"largest_a": 4 << 30, "largest_b": 6 << 30, "blocks_it": "a"},),
)
STRAND = Sheet(
    "02.strand",
    on_own_task("02.strand", mutants.STRAND_RIGHT),
    answers_to("02.strand", mutants.STRAND),
    constants=({"reserved_mib": 19080, "stranded_mib": 9360, "cap_mib": 20},),
)

SHEETS = [OOM, FIRST_FIT, STRAND]
