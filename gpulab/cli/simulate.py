"""``gpulab simulate``: a trace served by a model on GPUs under a policy, and where time and capacity went."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpulab.cli import serving_options as options
from gpulab.cli.patience import patience
from gpulab.cli.simulated import show, told
from gpulab.cli.writing import refuse_to_overwrite, write_whole
from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpulab.telemetry.ledger import Ledger


def simulate(  # noqa: PLR0917 (options of a command, given by name)
    trace: options.TraceName,
    model: options.Model = "llama2-7b-a100",
    gpu: options.Gpu = None,
    policy: options.Policy = "chunked",
    replicas: options.Replicas = 1,
    router: options.Router = "round-robin",
    slo: options.Promises = None,
    rate: options.Rate = "1",
    requests: options.Requests = None,
    max_jobs: options.MaxJobs = 128,
    token_budget: options.TokenBudget = 2048,
    blocks: options.Blocks = None,
    host_gap: options.HostGap = None,
    guess_error: options.GuessError = None,
    ledger: Annotated[Path | None, typer.Option(help="Write all facts to this JSON Lines file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report of the run to this page.")] = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """Serve TRACE: times of requests, goodput, fairness, occupancy, both gauges.

    A policy that breaks a rule ends the run with status 1; what happened before is told, and written, all the same.
    """
    started = time.perf_counter()
    try:
        for out in filter(None, (ledger, report)):
            refuse_to_overwrite(Path(trace), out, "trace")
        with patience(Console(stderr=True)) as say:
            say("reading")
            cost = options.cost_of(model, gpu, blocks, host_gap)
            asked = options.demand_of(trace, slo, rate, requests, guess_error, skip_broken, cost.block_tokens)
            service = options.service_of(cost, policy, replicas, router, max_jobs, token_budget)
            say("serving")
            ran = service.run(asked.trace)
            if not ran.ledgers:
                raise ran.fault
            from gpulab.serving.service import merged

            facts = merged(ran.ledgers)
            if ledger is not None:
                write_whole(ledger, facts.to_jsonl)
            say("adding up")
            result = {
                "trace": trace,
                **told(service, asked, ran, facts),
                "seconds": round(time.perf_counter() - started, 3),
            }
            if report is not None:
                _write_report(facts, report, trace, say)
    except (GpulabError, OSError, ValueError, ImportError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show(result)
    if ran.fault is not None:
        typer.echo(f"{type(ran.fault).__name__}: {ran.fault}", err=True)
        raise typer.Exit(1)


def _write_report(facts: "Ledger", path: Path, trace: str, say: "Callable[[str], None]") -> None:
    from gpulab.report.page import page

    made = page(facts, Path(trace).name, tick=say)
    write_whole(path, lambda part: part.write_bytes(made.html.encode("utf-8", "replace")))
