"""The Azure conversation hour, 19,366 requests, served: whole processes, and the cost of ten times the requests.

``gpulab bench serving`` measures the same, and both loops, and says which bars hold.
"""

import subprocess
import sys
from functools import partial

from gpulab.cli.bench_serving import HOUR, TIMES, alone, repeated, serve
from gpulab.serving.request import Trace
from gpulab.serving.traces import read_trace


def cases() -> dict:
    tenth = Trace(read_trace(HOUR).requests[:1936])
    return {
        "import nothing": partial(python, "-c", ""),
        "the hour, three replicas, chunked (bar: 4 s)": partial(alone, "chunked", HOUR),
        "the hour, three replicas, a RankPolicy (bar: 6 s)": partial(alone, "rank", HOUR),
        "gpulab simulate: both gauges, summary, digest": partial(
            python, "-m", "gpulab", "simulate", HOUR, "--replicas", "3"
        ),
        # Two loads that differ in length alone.
        "1,936 requests": partial(serve, tenth),
        "10 times as many at the same load (bar: 11 times the time)": partial(serve, repeated(tenth, TIMES)),
    }


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
