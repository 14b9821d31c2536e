"""``gpulab swap``: the swap test. Would another rule have kept more promises?"""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpulab.cli import serving_options as options
from gpulab.cli import sweeping
from gpulab.cli.patience import patience
from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from gpulab.serving.swap import Swapped

_SAID = {
    "ours": "It is ours: another rule keeps at least 5 points more.",
    "between": "Between: another rule keeps more, but not 5 points.",
    "not ours": "It is not ours: no rule keeps more than 1 point more; look at the demand or the hardware.",
}


def swap(  # noqa: PLR0917 (options of a command, given by name)
    trace: options.TraceName,
    slo: Annotated[list[str], typer.Option(help="ttft=1s,tpot=50ms,latency=10s; for one tenant: chat:ttft=1s.")],
    model: options.Model = "llama2-7b-a100",
    gpu: options.Gpu = None,
    policy: options.Policy = "chunked",
    replicas: options.Replicas = 1,
    router: options.Router = "round-robin",
    rate: options.Rate = "1",
    requests: options.Requests = None,
    max_jobs: options.MaxJobs = 128,
    token_budget: options.TokenBudget = 2048,
    blocks: options.Blocks = None,
    host_gap: options.HostGap = None,
    guess_error: Annotated[
        int, typer.Option(min=0, max=99, help="Guesses of output lengths, for `shortest`, are off by at most this %.")
    ] = 40,
    workers: sweeping.Workers = None,
    scheduler: sweeping.Scheduler = None,
    journal: sweeping.Journal = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """Serve TRACE under its policy and under the nine references: which rule moves attainment, by how much?"""
    try:
        from gpulab.report.scores import Measured
        from gpulab.serving.swap import swap_test

        cost = options.cost_of(model, gpu, blocks, host_gap)
        asked = options.demand_of(trace, slo, rate, requests, guess_error, skip_broken, cost.block_tokens)
        service = options.service_of(cost, policy, replicas, router, max_jobs, token_budget)
        with (
            patience(Console(stderr=True)) as say,
            sweeping.sweeping(
                workers, scheduler, journal, lambda done, of: say(f"serving {of} runs", done, of)
            ) as sweep,
        ):
            found = swap_test(asked.trace, service, Measured(asked.slo), sweep=sweep)
    except (GpulabError, OSError, ValueError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps({"trace": trace, "policy": policy, **_plain(found)}))
    else:
        _show(trace, policy, found)


def _plain(found: "Swapped") -> dict:
    return {
        "own": float(found.own),
        "moved_points": {rule: float(points) for rule, points in found.moved.items()},
        "best": found.best,
        "verdict": found.verdict,
        "faults": found.faults,
        "extrapolated": {row["name"]: row["extrapolated"] for row in found.results if row["extrapolated"]},
        "digests": {row["name"]: row["digest"] for row in found.results},
    }


def _show(trace: str, policy: str, found: "Swapped") -> None:
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"{trace} under {policy}: {float(found.own):.2%} kept their promise. Under other rules:")
    table = Table(box=None, pad_edge=False)
    table.add_column("rule")
    table.add_column("points more", justify="right")
    table.add_column("")
    for rule, points in sorted(found.moved.items(), key=lambda row: -row[1]):
        table.add_row(rule, f"{float(points):+.2f}", "ended early" if rule in found.faults else "")
    console.print(table)
    for name, fault in found.faults.items():
        say(f"{name}: {fault}")
    beyond = sum(bool(row["extrapolated"]) for row in found.results)
    if beyond:
        say(f"Extrapolated: in {beyond} of {len(found.results)} runs steps are larger than what was measured.")
    say(_SAID[found.verdict])
