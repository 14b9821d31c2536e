"""Print the digest of fixed serving runs. Run by Pythons that have nothing installed."""

import sys
from dataclasses import replace

from gpulab.datasets import load as recorded
from gpulab.serving.cost import load
from gpulab.serving.demand import guessed
from gpulab.serving.named import REFERENCES, ROUTERS
from gpulab.serving.request import Request, Trace
from gpulab.serving.service import Service, merged
from gpulab.units import MS, SECOND

TENANTS = ("chat", "code", "batch")


def trace() -> Trace:
    """150 recorded prompts of three tenants: shared prefixes, impatient clients, some that hang up."""
    return guessed(
        Trace(
            Request(
                number,
                row.arrival_ns // 4,
                max(64, row.prompt_tokens),
                row.output_tokens,
                most_tokens=(0, 500)[number % 2] and max(500, row.output_tokens),
                tenant=TENANTS[number % 3],
                prefix=(number % 5, 100 + number % 7),
                patience_ns=(0, 0, 3 * SECOND)[number % 3],
                aborted_ns=(0, 0, 0, 4 * SECOND)[number % 4],
                first_token_ns=(400, 900, 0)[number % 3] * MS,
            )
            for number, row in enumerate(recorded("azure-conv-2023")[:150])
        ),
        30,
    )


if __name__ == "__main__":
    board = replace(load("llama3-8b-a100"), kv_blocks=700, host_ns=3 * MS, most_tokens=400)
    for number, policy in enumerate(REFERENCES):
        service = Service(board, policy, 2, ROUTERS[number % len(ROUTERS)], max_jobs=24, token_budget=512)
        ran = service.run(trace())
        assert ran.fault is None, ran.fault
        sys.stdout.write(merged(ran.ledgers).digest()[:16] + "\n")
    foreign = {name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"gpulab", "__main__"}
    assert not foreign, f"a service runs without {foreign}"
