"""``gpulab simulate``: a trace served by a model on GPUs under a policy, and where time and capacity went."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpulab.cli import serving_options as options
from gpulab.cli.patience import patience, uncollected
from gpulab.cli.simulated import show, told
from gpulab.cli.writing import refuse_to_overwrite, write_whole
from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpulab.serving.service import Ran
    from gpulab.telemetry.ledger import Ledger


@dataclass(frozen=True)
class Simulated:
    """The options of ``gpulab simulate`` alone."""

    policy: options.Policy = "chunked"
    ledger: Annotated[Path | None, typer.Option(help="Write all facts to this JSON Lines file.")] = None
    report: Annotated[Path | None, typer.Option(help="Write the report of the run to this page.")] = None
    as_json: options.AsJson = False


def simulate(served: options.Served, own: Simulated) -> None:
    """Serve TRACE: times of requests, goodput, fairness, occupancy, both gauges.

    A policy that breaks a rule ends the run with status 1; what happened before is told, and written, all the same.
    """
    started = time.perf_counter()
    try:
        with patience(Console(stderr=True, emoji=False)) as say, uncollected():
            ran, result = _simulated(served, own, say)
    except (GpulabError, OSError, ValueError, ImportError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    result["seconds"] = round(time.perf_counter() - started, 3)
    if own.as_json:
        typer.echo(json.dumps(result))
    else:
        show(result)
    if ran.fault is not None:
        typer.echo(f"{type(ran.fault).__name__}: {ran.fault}", err=True)
        raise typer.Exit(1)


def _simulated(served: options.Served, own: Simulated, say: "Callable[[str], None]") -> "tuple[Ran, dict]":
    from gpulab.serving.service import merged

    for out in filter(None, (own.ledger, own.report)):
        refuse_to_overwrite(Path(served.trace), out, "trace")
    say("reading")
    asked, service = served.demand(), served.service(own.policy)
    say("serving")
    ran = service.run(asked.trace)
    if not ran.ledgers:
        raise ran.fault
    facts = merged(ran.ledgers)
    if own.ledger is not None:
        write_whole(own.ledger, facts.to_jsonl)
    say("adding up")
    result = {"trace": served.trace, **told(service, asked, ran, facts)}
    if own.report is not None:
        _write_report(facts, own.report, served.trace, say)
    return ran, result


def _write_report(facts: "Ledger", path: Path, trace: str, say: "Callable[[str], None]") -> None:
    from gpulab.report.page import page

    made = page(facts, Path(trace).name, tick=say)
    write_whole(path, lambda part: part.write_bytes(made.html.encode("utf-8", "replace")))
