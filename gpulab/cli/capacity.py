"""``gpulab capacity``: the highest rate that a service can serve within its promises."""

import json
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console

from gpulab.cli import serving_options as options
from gpulab.cli.sweeping import Sweeping
from gpulab.errors import GpulabError


@dataclass(frozen=True)
class Sought:
    """The options of ``gpulab capacity`` alone."""

    policy: options.Policy = "chunked"
    share: Annotated[str, typer.Option(help="Requests that must keep their promise, in %.")] = "99"
    precision: Annotated[str, typer.Option(help="How near the limit is to be found, in %.")] = "2"
    as_json: options.AsJson = False


def capacity(served: options.Served, own: Sought, sweeping: Sweeping) -> None:
    """Find the highest rate of TRACE at which enough requests keep their promise (--slo): all arrivals move together."""
    try:
        from gpulab.report.scores import Measured
        from gpulab.serving import capacity as search

        asked, wanted = served.demand(), options.fraction(own.share) / 100
        near = options.fraction(own.precision) / 100
        with sweeping.open() as sweep:
            found = search.capacity(
                *(asked.trace, served.service(own.policy), Measured(asked.slo)),
                share=wanted,
                precision=near,
                sweep=sweep,
            )
    except (GpulabError, OSError, ValueError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if own.as_json:
        typer.echo(json.dumps({"trace": served.trace, "share": float(wanted), **_plain(found)}))
    else:
        _show(served.trace, wanted, found)
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
    console = Console(emoji=False)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    for one in sorted(found.tried, key=lambda one: one.factor):
        mark = "enough" if one.enough else "too much"
        beyond = ", extrapolated" if one.result["extrapolated"] else ""
        say(
            f"{float(one.per_s):9.3f} requests/s: {float(one.share):7.2%} kept their promise, {mark}{beyond}."
        )
        if one.result["fault"]:
            say(f"          {one.result['fault']}")
    if found.best is None:
        say(f"{trace}: at no rate that was tried do {float(wanted):.4g} of the requests keep their promise.")
    else:
        over = f", {float(found.over.per_s):.3f} is too much" if found.over else ", and more was not tried"
        factor = float(found.best.factor)
        say(f"{trace}: {float(found.best.per_s):.3f} requests/s ({factor:.3f} times its own rate){over}.")
