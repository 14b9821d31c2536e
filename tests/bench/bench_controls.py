"""How long a control takes to answer a move, in the kernel: the pictures are made there, the browser shows them.

A move of the playground is promised in under 500 ms with its drawing, and the run itself in under 200 ms.
"""

from itertools import cycle

from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool
from gpulab.report.widgets import playground, scrub
from gpulab.units import GiB

STEPS = [["alloc", "a", GiB], ["alloc", "t", 4 * GiB], ["free", "t"], ["alloc", "b", GiB], ["free", "a"]]


def run(last_gib: int):
    return run_operations(CuPyPool(8 * GiB), [*STEPS, ["alloc", "d", last_gib * GiB]])


def cases() -> dict:
    ground, scrubber = playground(run, last_gib=(1, 8)), scrub(run(5))
    sizes, events = cycle((2, 5)), cycle((3, 9, 15))
    return {
        "a run alone": lambda: run(5),
        "one move of the playground": lambda: setattr(ground.controls["last_gib"], "value", next(sizes)),
        "one move of the scrubber": lambda: setattr(scrubber.event, "value", next(events)),
    }
