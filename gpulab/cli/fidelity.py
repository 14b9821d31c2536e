"""``gpulab fidelity``: a run of a real server served again here, and by how much each quantile is off."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gpulab import datasets
from gpulab.cli import measured, run_b
from gpulab.cli.fit import shape_of
from gpulab.cli.pairs import PAIRS
from gpulab.errors import GpulabError, SpecFault
from gpulab.serving import cost as costs
from gpulab.serving import fit, profiles
from gpulab.serving.cost import StepCost

# The runs of servers that ship: data set, pair, most error of a quantile, of the makespan.
RUNS = (
    ("vllm-rtx4090-requests", "llama3.1-8b-rtx4090", 0.05, 0.02),
    ("vllm-rtxpro6000-requests", "llama3.1-8b-rtxpro6000", 0.05, 0.05),
)
RUN_B_ERROR = 0.06
RUN_B_FACTORS = (0.99, 1.03)  # outside of it, the factor explains more than a bias
FIT_ERROR, USUAL_FIT_ERROR, UNUSUAL_FITS = 0.05, 0.035, 1  # held out; all but one below the usual


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
    try:
        if all_:
            found = everything()
        elif run is None:
            raise SpecFault("Name a RUN, or say --all.")
        else:
            known = measured.read_run(run)
            known = _set(known, kv_blocks=kv_blocks, max_jobs=max_jobs, token_budget=token_budget)
            cost = _cost(known, profile, model, tuple(only or ()))
            cost = _set(cost, host_ns=None if host_gap_ms is None else round(host_gap_ms * 1e6))
            found = {"runs": [_served(known, cost)]}
    except (GpulabError, OSError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _show(found)
    if not found.get("holds", True):
        raise typer.Exit(1)


def _set(record, **fields):
    """``record`` with those of ``fields`` that say something."""
    return replace(record, **{name: value for name, value in fields.items() if value is not None})


def _served(run: measured.Measured, cost: StepCost) -> dict:
    """``run`` compared with an engine of ``cost``; of what both say about the server, the run is right."""
    board = _set(cost, kv_blocks=run.kv_blocks or None)
    return measured.compared(run, board, max_jobs=run.max_jobs, token_budget=run.token_budget)


def _cost(run: measured.Measured, profile: Path | None, model: str, only: tuple[str, ...]) -> StepCost:
    """The cost to serve ``run`` with: that of a spec, or one fitted to the tables of ``profile``.

    Of a folder with tables of several boards those are taken whose names have the middle of the run's name in
    them (``rtx4090_llama31-8b`` of ``vllm019_rtx4090_llama31-8b_requests``), unless ``only`` says which.
    """
    if profile is None:
        if not model:
            raise SpecFault(
                "Say what to serve the run with: --profile DIR, or --model with a pair or a spec file."
            )
        return costs.load(model)
    tag = "_".join(run.name.split(".")[0].split("_")[1:-1])
    if not only and tag and any(tag in path.name for path in profile.glob("*")):
        only = (tag,)
    name, shape = shape_of(model or run.model)
    kernels, files = profiles.read(profile, shape, only)
    found = fit.fit(kernels)
    a, w, g, e, c = (round(value * 1e9) for value in found.bent.coefficients)
    blocks = run.kv_blocks or run.blocks_for_all(16)
    return StepCost(
        *(name, "as profiled", a, w, g, e, c, 0, blocks, 16),
        *(shape.kv_bytes_per_token, found.most_tokens, found.most_cached_tokens),
        source=", ".join(path.name for path in files),
        badge=f"fitted just now, held-out error {found.bent.error:.1%}"
        + ("" if run.kv_blocks else "; the run does not say how many KV blocks there were: enough for all"),
    )


def everything() -> dict:
    """All that ships, and whether it holds: ``runs``, ``run_b``, ``fits``."""
    console = Console(stderr=True)
    runs = [_one(*row) for row in track(RUNS, "vLLM's runs", console=console, transient=True)]
    vidur = vidurs()
    folder = datasets.path_of("vidur-a100-llama2-7b-mlp").parent
    fits = [_fit(name, folder) for name in track(PAIRS, "the fits", console=console, transient=True)]
    few = sum(row["mape"] > USUAL_FIT_ERROR for row in fits) <= UNUSUAL_FITS
    holds = few and all(row["holds"] for row in (*runs, vidur, *fits))
    return {"runs": runs, "run_b": vidur, "fits": fits, "holds": holds}


def _one(data: str, pair: str, most: float, most_makespan: float) -> dict:
    found = _served(measured.read_run(datasets.path_of(data)), costs.load(pair))
    errors = {name: abs(row["error"]) for name, row in found["rows"].items()}
    found["holds"] = max(errors.values()) <= most and errors["makespan"] <= most_makespan
    return found


def vidurs() -> dict:
    """Vidur's six runs: the factor that fits best, and with it each quantile's error."""
    board = costs.load("llama2-7b-a100")
    traces = {row.name: run_b.trace_of(row) for row in run_b.ROWS}
    factor = run_b.fitted_factor(lambda tried: run_b.logs(board, traces, tried))
    scaled = run_b.scaled(board, factor)
    rows = {
        row.name: {
            name: {"vidur": expected, "simulated": ours, "error": ours / expected - 1}
            for name, (expected, ours) in run_b.quantiles(row, traces[row.name], scaled).items()
        }
        for row in run_b.ROWS
    }
    worst = max(abs(one["error"]) for row in rows.values() for one in row.values())
    low, high = RUN_B_FACTORS
    holds = worst <= RUN_B_ERROR and low <= factor <= high
    return {"factor": factor, "rows": rows, "worst": worst, "holds": holds}


def _fit(name: str, folder: Path) -> dict:
    pair = PAIRS[name]
    found = fit.fit(profiles.read(folder, profiles.SHAPES[pair.model], pair.only)[0])
    bent, linear = found.bent, found.linear
    return {
        "pair": name,
        **{"mape": bent.error, "p90": bent.p90, "max": bent.worst, "linear_mape": linear.error},
        "holds": bent.error <= FIT_ERROR and bent.error < linear.error,
    }


def _show(found: dict) -> None:
    console = Console()
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
        error = row["error"] if math.isfinite(row["error"]) else 0.0
        table.add_row(name, text(row[was]), text(row[came]), f"{error:+.1%}")
    return table
