"""The Azure conversation hour, 19,366 requests, served: whole processes, and the cost of ten times the requests."""

import subprocess
import sys
from functools import partial

from gpulab.serving import cost
from gpulab.serving.request import Request, Trace
from gpulab.serving.service import Service
from gpulab.serving.traces import read_trace

BOARD = cost.load("llama2-7b-a100")
SERVED = """
import re, resource, sys
from pathlib import Path
from gpulab.serving import cost
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.rank import RankPolicy
from gpulab.serving.service import Service
from gpulab.serving.traces import read_trace

class Mine(RankPolicy):
    def rank(self, job):
        return job.prompt_tokens, job.generated

policy = {"chunked": "chunked", "mine": Mine}[sys.argv[1]]
ran = Service(cost.load("llama2-7b-a100"), policy, replicas=3).run(read_trace("azure-conv-2023"))
assert ran.fault is None
status = Path("/proc/self/status")  # what getrusage says on Linux is that of whoever started this process, too
if status.exists():
    most_mb = int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) // 1024
else:
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
assert most_mb < 300, f"{most_mb} MB"
"""


def cases() -> dict:
    tenth = Trace(read_trace("azure-conv-2023").requests[:1936])
    return {
        "import nothing": partial(python, "-c", ""),
        "the hour, three replicas, chunked (bar: 4 s and 300 MB)": partial(python, "-c", SERVED, "chunked"),
        "the hour, three replicas, a RankPolicy (bar: 6 s and 300 MB)": partial(python, "-c", SERVED, "mine"),
        "gpulab simulate: both gauges, summary, digest": partial(
            python, "-m", "gpulab", "simulate", "azure-conv-2023", "--replicas", "3"
        ),
        # Two loads that differ in length alone.
        "1,936 requests": partial(serve, tenth),
        "10 times as many at the same load (bar: 11 times the time)": partial(serve, repeated(tenth, 10)),
    }


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def repeated(trace: Trace, times: int) -> Trace:
    """``trace`` again and again, each time when the one before is over."""
    lasts_ns = trace[-1].arrival_ns + 1
    rows = [(n * len(trace), n * lasts_ns, request) for n in range(times) for request in trace]
    return Trace(
        Request(more + r.id, after_ns + r.arrival_ns, r.prompt_tokens, r.output_tokens)
        for more, after_ns, r in rows
    )


def serve(trace: Trace) -> None:
    assert Service(BOARD, "chunked", replicas=3).run(trace).fault is None
