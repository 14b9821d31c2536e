"""``gpulab capacity``: the highest rate that a service can serve within its promises."""

import json
from typing import Annotated

import typer
from rich.console import Console

from gpulab.cli import serving_options as options
from gpulab.cli import sweeping
from gpulab.cli.patience import patience
from gpulab.errors import GpulabError


def capacity(  # noqa: PLR0917 (options of a command, given by name)
    trace: options.TraceName,
    slo: Annotated[list[str], typer.Option(help="ttft=1s,tpot=50ms,latency=10s; for one tenant: chat:ttft=1s.")],
    share: Annotated[str, typer.Option(help="Requests that must keep their promise, in %.")] = "99",
    precision: Annotated[str, typer.Option(help="How near the limit is to be found, in %.")] = "2",
    model: options.Model = "llama2-7b-a100",
    gpu: options.Gpu = None,
    policy: options.Policy = "chunked",
    replicas: options.Replicas = 1,
    router: options.Router = "round-robin",
    requests: options.Requests = None,
    max_jobs: options.MaxJobs = 128,
    token_budget: options.TokenBudget = 2048,
    blocks: options.Blocks = None,
    host_gap: options.HostGap = None,
    guess_error: options.GuessError = None,
    workers: sweeping.Workers = None,
    scheduler: sweeping.Scheduler = None,
    journal: sweeping.Journal = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the highest rate of TRACE at which enough requests keep their promise: its arrivals are moved together."""
    try:
        from gpulab.report.scores import Measured
        from gpulab.serving import capacity as search

        cost = options.cost_of(model, gpu, blocks, host_gap)
        asked = options.demand_of(trace, slo, "1", requests, guess_error, skip_broken, cost.block_tokens)
        service = options.service_of(cost, policy, replicas, router, max_jobs, token_budget)
        wanted = options.fraction(share) / 100
        with (
            patience(Console(stderr=True)) as say,
            sweeping.sweeping(workers, scheduler, journal, lambda done, of: say("searching")) as sweep,
        ):
            found = search.capacity(
                *(asked.trace, service, Measured(asked.slo)),
                share=wanted,
                precision=options.fraction(precision) / 100,
                sweep=sweep,
            )
    except (GpulabError, OSError, ValueError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps({"trace": trace, "share": float(wanted), **_plain(found)}))
    else:
        _show(trace, wanted, found)
    if found.best is None:
        raise typer.Exit(1)


def _plain(found) -> dict:
    rows = [
        {"factor": float(one.factor), "per_s": float(one.per_s), "share": float(one.share)}
        | {"enough": one.enough, "fault": one.result["fault"], "extrapolated": one.result["extrapolated"]}
        | {"digest": one.result["digest"]}
        for one in found.tried
    ]
    best, over = (one and float(one.per_s) for one in (found.best, found.over))
    return {"per_s": best, "too_much_per_s": over, "tried": rows}


def _show(trace: str, wanted, found) -> None:
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    for one in sorted(found.tried, key=lambda one: one.factor):
        mark = "enough" if one.enough else "too much"
        beyond = ", extrapolated" if one.result["extrapolated"] else ""
        say(f"{float(one.per_s):9.3f} requests/s: {float(one.share):7.2%} kept their promise, {mark}{beyond}.")
        if one.result["fault"]:
            say(f"          {one.result['fault']}")
    if found.best is None:
        say(f"{trace}: at no rate that was tried do {float(wanted):.4g} of the requests keep their promise.")
    else:
        over = f", {float(found.over.per_s):.3f} is too much" if found.over else ", and more was not tried"
        factor = float(found.best.factor)
        say(f"{trace}: {float(found.best.per_s):.3f} requests/s ({factor:.3f} times its own rate){over}.")
