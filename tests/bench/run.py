"""Measure the times that the project promises: ``python tests/bench/run.py [WORD]``.

Runs every ``bench_*.py`` beside this file whose name holds WORD. Each has ``cases() -> {name: function}``;
every function runs five times and the table shows the fastest and the middle run, and the middle run as a
multiple of the file's first case, which says more than seconds of an unknown machine. Nothing here fails.
"""

import importlib.util
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

RUNS = 5
ROOT = Path(__file__).parents[2]


def load(path: Path) -> dict:
    """The cases of one file, by name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cases()


def measure(case) -> list[float]:
    """Seconds of each run, in order of length."""
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        case()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)


def main(word: str = "") -> None:
    sys.path.insert(0, str(ROOT))  # some cases are made by what stands in tests/
    table = Table("file", "case", "fastest s", "middle s", "x first")
    console = Console()
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        if word not in path.stem:
            continue
        first = None
        for name, case in load(path).items():
            with console.status(f"{path.stem}: {name}"):
                seconds = measure(case)
            middle = statistics.median(seconds)
            first = first or middle
            row = f"{seconds[0]:.3f}", f"{middle:.3f}", f"{middle / first:.1f}"
            table.add_row(path.stem, name, *row)
    console.print(table)


if __name__ == "__main__":
    main(*sys.argv[1:2])
