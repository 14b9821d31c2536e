"""``gpulab compare``: policies side by side, on the same trace and the same seeds."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpulab.cli import serving_options as options
from gpulab.cli.sweeping import Sweeping
from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from gpulab.serving.service import Service
    from gpulab.serving.sweep import Sweep

# What is compared: its name in a result, its title, and how it is shown.
_COLUMNS = {
    "attainment": ("attainment", lambda x: f"{x:.2%}"),
    "goodput_per_s": ("goodput/s", lambda x: f"{x:.3f}"),
    "throughput_per_s": ("requests/s", lambda x: f"{x:.3f}"),
    "ttft_p50_ns": ("TTFT p50", options.time_text),
    "ttft_p99_ns": ("TTFT p99", options.time_text),
    "tpot_p50_ns": ("TPOT p50", options.time_text),
    "tpot_p99_ns": ("TPOT p99", options.time_text),
    "latency_p99_ns": ("E2E p99", options.time_text),
}


@dataclass(frozen=True)
class Compared:
    """The options of ``gpulab compare`` alone."""

    policies: Annotated[str, typer.Option(help="Policies, with commas between; the first is the yardstick.")]
    seeds: Annotated[
        int, typer.Option(min=1, help="Days like that of the trace; the first is the trace itself.")
    ] = 1
    as_json: options.AsJson = False


def compare(served: options.Served, own: Compared, sweeping: Sweeping) -> None:
    """Serve TRACE under each of several policies: means over the seeds, with the 95 % interval of each mean.

    A seed above 0 is the trace with the contents of each 64 requests in a row in another order. A star marks what
    differs from the first policy, seed by seed: the interval of the difference excludes 0.
    """
    names = [name.strip() for name in own.policies.split(",") if name.strip()]
    try:
        if len(set(names)) < len(names) or not names:
            raise ValueError(f"--policies {own.policies!r} must name policies, each once.")
        asked, services = served.demand(), {name: served.service(name) for name in names}
        with sweeping.open() as sweep:
            found = _compared(asked, services, own.seeds, sweep)
    except (GpulabError, OSError, ValueError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    result = {"trace": served.trace, "seeds": own.seeds, "policies": found}
    if own.as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result)
    if any(row["faults"] for row in found.values()):
        raise typer.Exit(1)


def _compared(
    asked: options.Demand, services: "dict[str, Service]", seeds: int, sweep: "Sweep"
) -> dict[str, dict]:
    """By policy: means and halves of their intervals, differences from the first policy, faults and digests."""
    from gpulab.report.intervals import interval
    from gpulab.report.scores import Measured
    from gpulab.serving.demand import resampled
    from gpulab.serving.sweep import Point

    days = [resampled(asked.trace, seed) for seed in range(seeds)]
    points = [Point(name, service, day) for name, service in services.items() for day in days]
    results = sweep.run(points, Measured(asked.slo))
    found, first = {}, results[:seeds]
    for place, name in enumerate(services):
        mine = results[place * seeds : (place + 1) * seeds]
        rows = {"mean": {}, "half": {}, "more": {}, "more_half": {}}
        for column in _COLUMNS:
            pairs = [(run[column], base[column]) for run, base in zip(mine, first, strict=True)]
            whole = None if any(None in pair for pair in pairs) else pairs
            for kind, values in (
                ("mean", [value for value, _ in whole or ()]),
                ("more", [value - base for value, base in whole or ()]),
            ):
                mean, half = interval(values) or (None, None)
                rows[kind][column] = mean
                rows["half" if kind == "mean" else "more_half"][column] = half
        found[name] = {
            **rows,
            "faults": [run["fault"] for run in mine if run["fault"]],
            "extrapolated": sum(run["extrapolated"] for run in mine),
            "digests": [run["digest"] for run in mine],
        }
    return found


def _show(result: dict) -> None:
    console, seeds = Console(emoji=False), result["seeds"]
    shown = [
        column
        for column in _COLUMNS
        if any(row["mean"][column] is not None for row in result["policies"].values())
    ]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in result["policies"]:
        table.add_column(name, justify="right")
    for column in shown:
        title, text = _COLUMNS[column]
        table.add_row(title, *(_cell(row, column, text, seeds) for row in result["policies"].values()))
    console.print(table)
    if seeds > 1:
        console.print(
            f"Means of {seeds} seeds ± half of the 95 % interval; * differs from the first policy, seed by seed.",
            highlight=False,
            soft_wrap=True,
        )
    for name, row in result["policies"].items():
        if row["faults"]:
            said = f"{name}: {len(row['faults'])} of {seeds} runs ended early. {row['faults'][0]}"
            console.print(said, highlight=False, markup=False, soft_wrap=True)
        if row["extrapolated"]:
            said = f"{name}: {row['extrapolated']:,} steps are larger than what was measured."
            console.print(said, highlight=False, markup=False, soft_wrap=True)


def _cell(row: dict, column: str, text, seeds: int) -> str:
    mean, half = row["mean"][column], row["half"][column]
    if mean is None:
        return "–"
    if seeds == 1:
        return text(mean)
    differs = abs(row["more"][column]) > row["more_half"][column]
    return f"{text(mean)} ± {text(half)}{' *' if differs else '  '}"
