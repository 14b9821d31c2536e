"""``gpulab published``: numbers that others published, and what comes out here."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table


def published(
    rows: Annotated[
        list[str] | None, typer.Argument(help="F1, F4 …: these rows only.", show_default="all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as one JSON list.")] = False,
) -> None:
    """Recompute published results and compare; exit with status 1 if one is missed."""
    from gpulab.cli.published_rows import PUBLISHED

    wanted = list(dict.fromkeys(rows or PUBLISHED))
    unknown = [name for name in wanted if name not in PUBLISHED]
    if unknown:
        typer.echo(f"There is no row {unknown[0]!r}; there are: {', '.join(PUBLISHED)}.", err=True)
        raise typer.Exit(2)
    quiet = Console(stderr=True, emoji=False)
    found = [
        row for name in track(wanted, "published", console=quiet, transient=True) for row in PUBLISHED[name]()
    ]
    if as_json:
        verdicts = [{**asdict(row), "verdict": "holds" if row.holds else "missed"} for row in found]
        typer.echo(json.dumps(verdicts, ensure_ascii=False))
    else:
        _show(found)
    if not all(row.holds for row in found):
        raise typer.Exit(1)


def _show(found: list) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("row", "what", "expected", "tolerance", "got", "verdict", "source"):
        table.add_column(name, justify="right" if name in {"expected", "tolerance", "got"} else "left")
    for row in found:
        tolerance = f"± {row.tolerance:g}" if row.tolerance else "exact"
        verdict = "holds" if row.holds else "missed"
        table.add_row(row.row, row.what, _text(row.expected), tolerance, _text(row.got), verdict, row.source)
    Console(emoji=False).print(table)


def _text(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"
