"""``gpulab sensitivity``: what a per cent more or less of every step's time does to a promise, under two rules.

The load is the one of Vidur's run at 3.6 requests a second (``run_b``: the first 1,000 requests of Azure's conversation
trace, arrivals stretched to 1.25): Llama-2-7B on one A100-80, first token within a second, 50 ms a token after it. Near its
capacity a queue turns an error of a per cent into several points of attainment, so a number of a simulator is worth no
more than its step times; which rule is ahead, and that it is, holds at every scale here.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpulab.cli.run_b import FITTED
from gpulab.units import MS, SECOND

if TYPE_CHECKING:
    from gpulab.report.table import Table

SETTING = "conv x1.25, {}"
SCALES = tuple(sorted((*(scale / 100 for scale in range(97, 107)), FITTED)))


@dataclass(frozen=True, slots=True)
class Row:
    """With every step ``scale`` times as long: the requests that kept their promise under each rule, in per cent."""

    scale: float
    chunked: float
    prefill_first: float

    @property
    def ahead(self) -> float:
        """Points by which chunked is ahead."""
        return round(self.chunked - self.prefill_first, 2)


def rows(scales: Iterable[float] = SCALES) -> Iterator[Row]:
    """A row for each of ``scales``. Cost: half a second each."""
    from gpulab.cli.run_b import ROWS, scaled, served, traces
    from gpulab.report.metrics import Slo
    from gpulab.report.scores import score
    from gpulab.serving.cost import load

    board, promise = load("llama2-7b-a100"), Slo(ttft_ns=SECOND, tpot_ns=50 * MS)
    pair = [row for row in ROWS if row.name in (SETTING.format("sarathi"), SETTING.format("vllm"))]
    trace = traces()[pair[0].name]
    for scale in scales:
        found = (score([served(row, trace, scaled(board, scale))], promise) for row in pair)
        yield Row(scale, *(100 * one.kept / one.requests for one in found))


def table(found: Iterable[Row]) -> "Table":
    """``found`` for a notebook or a terminal; the fitted scale is marked."""
    from gpulab.report.table import Table

    columns = ("every step times", "chunked %", "prefill-first %", "ahead, points")
    lines = tuple(
        (
            f"{row.scale:.4f} (fitted)" if row.scale == FITTED else f"{row.scale:.2f}",
            *(f"{value:.1f}" for value in (row.chunked, row.prefill_first, row.ahead)),
        )
        for row in found
    )
    return Table("Requests that kept their promise, as step times change", columns, lines, frozenset(columns))


def sensitivity(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Serve one load near capacity with steps from 0.97 to 1.06 times as long, chunked and prompts first.

    ``fitted`` is the factor that `gpulab fidelity --all` fits to Vidur's runs.
    """
    from rich.progress import track

    quiet = Console(stderr=True, emoji=False)
    found = list(track(rows(), "scales", total=len(SCALES), console=quiet, transient=True))
    if as_json:
        told = [{**asdict(row), "ahead": row.ahead} for row in found]
        typer.echo(json.dumps({"fitted": FITTED, "rows": told}))
    else:
        typer.echo(repr(table(found)))
