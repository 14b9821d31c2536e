"""``gpulab bench serving``: what serving costs on this machine, beside the bars that the project set itself."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpulab.errors import GpulabError


def bench(
    what: Annotated[str, typer.Argument(help="What is measured: serving.")],
    *,
    trace: Annotated[
        str, typer.Option(help="Served instead of the hour; the bars are those of the hour.")
    ] = "azure-conv-2023",
    runs: Annotated[int, typer.Option(min=1, help="Runs of which the middle one counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Serve the Azure conversation hour: seconds and MB of a process, ten times the requests, both loops.

    Takes half a minute. Seconds are those of this machine, so a missed bar is told and is no error.
    """
    if what != "serving":
        typer.echo(f"There is no bench of {what!r}; there is: serving.", err=True)
        raise typer.Exit(2)
    from gpulab.cli.bench_serving import HOUR, measurements
    from gpulab.cli.run_b import traces
    from gpulab.serving.traces import read_trace

    try:
        served = read_trace(trace)
        crowded = traces()["conv x1.25, sarathi"]
        found = [one for measure in _tracked(measurements(trace, served, crowded, runs)) for one in measure()]
    except (GpulabError, OSError, ValueError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    rows = [
        {"what": one.what, "got": one.got, "unit": one.unit}
        | ({"bar": one.bar, "holds": one.holds} if trace == HOUR else {"bar": None, "holds": None})
        for one in found
    ]
    if as_json:
        typer.echo(json.dumps({"trace": trace, "requests": len(served), "runs": runs, "rows": rows}))
    else:
        _show(rows)


def _tracked(work):
    """``work``, with a bar on stderr while it is done."""
    from rich.progress import track

    return track(list(work), "bench", console=Console(stderr=True, emoji=False), transient=True)


def _show(rows: list[dict]) -> None:
    table = Table(box=None, pad_edge=False)
    for name, side in (("what", "left"), ("got", "right"), ("unit", "left"), ("bar", "right"), ("", "left")):
        table.add_column(name, justify=side)
    for row in rows:
        bar, verdict = "", ""
        if row["bar"] is not None:
            bar, verdict = f"≤ {row['bar']:,}", "holds" if row["holds"] else "missed"
        table.add_row(row["what"], f"{row['got']:,}", row["unit"], bar, verdict)
    Console(emoji=False).print(table)
