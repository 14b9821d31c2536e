"""One service in a process of its own: ``python serve_alone.py POLICY TRACE``, the start of Python included.

``gpulab bench serving`` runs this file; nothing of ``gpulab.cli`` is imported here, which a served trace does not need.
"""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulab.serving.cost import StepCost

REPLICAS = 3
PAIR = "llama2-7b-a100"


def main(policy: str, trace: str) -> None:
    """Serve ``trace`` on three replicas, and write how many MB the process had at its most, as JSON."""
    from gpulab.serving.policies.rank import RankPolicy
    from gpulab.serving.service import Service
    from gpulab.serving.traces import read_trace

    class ShortestPrompt(RankPolicy):
        """What a learner may write."""

        def rank(self, job):
            return job.prompt_tokens, job.generated

    chosen = ShortestPrompt if policy == "rank" else policy
    ran = Service(board(), chosen, replicas=REPLICAS).run(read_trace(trace))
    if ran.fault is not None:
        raise ran.fault
    sys.stdout.write(json.dumps({"most_mb": most_mb()}))


def board() -> "StepCost":
    """Llama-2-7B on an A100 without its window: of the hour's requests 8 % are longer, and all are to be served."""
    from gpulab.serving import cost

    return replace(cost.load(PAIR), window_tokens=0)


def most_mb() -> int:
    """The most memory that this process had, in MB."""
    status = Path(
        "/proc/self/status"
    )  # what getrusage says on Linux is that of whoever started this process, too
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) // 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20


if __name__ == "__main__":
    main(*sys.argv[1:])
