"""``gpulab swap``: the swap test. Would another rule have kept more promises?"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from gpulab.cli import serving_options as options
from gpulab.cli.sweeping import Sweeping
from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from gpulab.serving.swap import Swapped

_SAID = {
    "ours": "It is ours: another rule keeps at least 5 points more.",
    "between": "Between: another rule keeps more, but not 5 points.",
    "not ours": "It is not ours: no rule keeps more than 1 point more; look at the demand or the hardware.",
}


@dataclass(frozen=True)
class Swapping:
    """The options of ``gpulab swap`` alone."""

    policy: options.Policy = "chunked"
    as_json: options.AsJson = False


def swap(served: options.Served, own: Swapping, sweeping: Sweeping) -> None:
    """Serve TRACE under its policy and under the nine references: which rule keeps how many more promises (--slo)?

    `shortest` goes by guesses of the output lengths: those of the trace, else off by at most 40 % (--guess-error).
    """
    try:
        from gpulab.report.scores import Measured
        from gpulab.serving.swap import swap_test

        guessing = replace(served, guess_error=40 if served.guess_error is None else served.guess_error)
        asked = guessing.demand()
        with sweeping.open() as sweep:
            found = swap_test(asked.trace, served.service(own.policy), Measured(asked.slo), sweep=sweep)
    except (GpulabError, OSError, ValueError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if own.as_json:
        typer.echo(json.dumps({"trace": served.trace, "policy": own.policy, **_plain(found)}))
    else:
        _show(served.trace, own.policy, found)
    if found.faults:
        raise typer.Exit(1)


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
    console = Console(emoji=False)

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
        say(
            f"Extrapolated: in {beyond} of {len(found.results)} runs steps are larger than what was measured."
        )
    say(_SAID[found.verdict])
