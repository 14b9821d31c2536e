"""``gpulab fidelity``: a run of a real server served again here, and by how much each quantile is off."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpulab.errors import GpulabError, SpecFault


def fidelity(
    run: Annotated[Path | None, typer.Argument(help="Requests as JSON lines, or vLLM's result file.")] = None,
    *,
    profile: Annotated[Path | None, typer.Option(help="A folder of kernel tables: fitted first.")] = None,
    model: Annotated[str, typer.Option(help="A pair that ships, a spec file, or the tables' model.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Part of the tables' names; may be repeated.")
    ] = None,
    kv_blocks: Annotated[int | None, typer.Option(min=1, help="KV blocks of 16 tokens.")] = None,
    max_jobs: Annotated[int | None, typer.Option(min=1, help="Requests served at a time.")] = None,
    token_budget: Annotated[int | None, typer.Option(min=1, help="Tokens of a step.")] = None,
    host_gap_ms: Annotated[float | None, typer.Option(min=0, help="The host's time before a step.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything that ships, against its bars.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Serve a measured run again and print the error of TTFT, TPOT and latency at p50, p90, p99, and of the makespan.

    What the run says about its server (KV blocks, requests at a time, tokens a step) is taken from it. With --all:
    both vLLM runs, Vidur's six with one fitted factor, and the fits; exit with status 1 if a bar is missed.
    """
    from gpulab.cli import fidelities, measured

    try:
        if all_:
            found = fidelities.everything(_tracked)
        elif run is None:
            raise SpecFault("Name a RUN, or say --all.")
        else:
            known = measured.read_run(run)
            known = fidelities.changed(
                known, kv_blocks=kv_blocks, max_jobs=max_jobs, token_budget=token_budget
            )
            cost = fidelities.cost_for(known, profile, model, tuple(only or ()))
            cost = fidelities.changed(cost, host_ns=None if host_gap_ms is None else round(host_gap_ms * 1e6))
            found = {"runs": [fidelities.served(known, cost)]}
    except (GpulabError, OSError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _show(found)
    if not found.get("holds", True):
        raise typer.Exit(1)


def _tracked(rows, words: str):
    """``rows``, with a bar on stderr while they are worked on."""
    from rich.progress import track

    return track(rows, words, console=Console(stderr=True, emoji=False), transient=True)


def _show(found: dict) -> None:
    console = Console(emoji=False)
    quiet = {"highlight": False, "soft_wrap": True}
    for run in found["runs"]:
        console.print(
            f"{run['run']} on {run['model']}, {run['gpu']}: {run['kv_blocks']:,} KV blocks, host gap "
            f"{run['host_ns'] / 1e6:g} ms. {run['badge']}.{_said(run)}",
            **quiet,
        )
        console.print(
            _errors(run["rows"], "measured_ns", "simulated_ns", lambda value: f"{value / 1e6:,.1f} ms")
        )
    if "run_b" in found:
        vidur = found["run_b"]
        console.print(f"Vidur's runs, every step {vidur['factor']:.4f} times as long.{_said(vidur)}", **quiet)
        table = Table("run", *next(iter(vidur["rows"].values())), box=None, pad_edge=False)
        for name, row in vidur["rows"].items():
            table.add_row(name, *(f"{one['error']:+.1%}" for one in row.values()))
        console.print(table)
    if "fits" in found:
        table = Table(
            "fit, held-out error", "MAPE", "p90", "max", "linear form", "", box=None, pad_edge=False
        )
        for row in found["fits"]:
            numbers = (f"{row[name]:.2%}" for name in ("mape", "p90", "max", "linear_mape"))
            table.add_row(row["pair"], *numbers, "holds" if row["holds"] else "missed")
        console.print(table)


def _said(row: dict) -> str:
    return "" if "holds" not in row else " Holds." if row["holds"] else " Missed."


def _errors(rows: dict, was: str, came: str, text) -> Table:
    table = Table("", "measured", "here", "error", box=None, pad_edge=False)
    for name, row in rows.items():
        table.add_row(name, text(row[was]), text(row[came]), f"{row['error']:+.1%}")
    return table
