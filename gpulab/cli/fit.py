"""``gpulab fit``: a model on a GPU from its measured kernels, with the error on batches that were held out."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpulab.cli.pairs import PAIRS, Pair
from gpulab.errors import GpulabError, SpecFault

_NAMES = {"bent": "a + hypot(w, g T) + e KV + c W", "linear": "a + b P + c S + d B + e KV"}


def fit(
    profile: Annotated[Path, typer.Argument(metavar="PROFILE_DIR", help="The folder of the tables.")],
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The spec to write (TOML).")] = None,
    pair: Annotated[str, typer.Option(help="A pair that ships: brings all options below.")] = "",
    model: Annotated[str, typer.Option(help="Llama-3-8B …, or NAME=layers,heads,kv,head,hidden,inner.")] = "",
    gpu: Annotated[str, typer.Option(help="The name of the GPU.")] = "unnamed GPU",
    only: Annotated[
        list[str] | None, typer.Option(help="Part of the tables' names; may be repeated.")
    ] = None,
    kv_blocks: Annotated[
        int, typer.Option(min=1, help="KV blocks of 16 tokens that the server has.")
    ] = 1_000,
    host_gap_ms: Annotated[float, typer.Option(min=0, help="The host's time before each step.")] = 0.0,
    window: Annotated[
        int, typer.Option(min=0, help="Most tokens of prompt and answer.", show_default="the model's")
    ] = 0,
    date: Annotated[str, typer.Option(help="When it was measured.", show_default="the newest file's")] = "",
    force: Annotated[bool, typer.Option(help="Write over an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The fit as one JSON object.")] = False,
) -> None:
    """Fit the cost of a step to kernel profiles and print the error on 500 batches that were held out.

    Tables: LLMServingSim's dense, attention and per_sequence; Vidur's mlp with NVIDIA's context_attention and
    generation_attention; NVIDIA's gemm with the same two.
    """
    given = Pair(
        *(model, gpu, tuple(only or ()), kv_blocks, date, "KV blocks as given"),
        host_ns=round(host_gap_ms * 1e6),
        window_tokens=window,
    )
    try:
        if out is not None and out.exists() and not force:
            raise FileExistsError(f"{out} is there already; give another -o, or --force to write over it.")
        wanted = PAIRS.get(pair) if pair else given
        if wanted is None:
            raise SpecFault(f"There is no pair {pair!r}; there are: {', '.join(PAIRS)}.")
        said = _fitted(profile, wanted, out)
    except (GpulabError, OSError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(said))
    else:
        _show(said, out)


def _fitted(profile: Path, wanted: Pair, out: Path | None) -> dict:
    """Fit ``wanted`` to the tables of ``profile``, write the spec if asked for, and tell."""
    from gpulab.cli import fitted
    from gpulab.serving.fit import fit as fit_to
    from gpulab.serving.profiles import read

    name, shape = fitted.shape_of(wanted.model)
    kernels, files = read(profile, shape, wanted.only)
    found = fit_to(kernels)
    if out is not None:
        _write(out, fitted.spec_of(replace(wanted, model=name), shape, found, files))
    return fitted.told(name, wanted.gpu, found, files)


def _write(out: Path, text: str) -> None:
    """Write ``text`` whole or not at all."""
    part = out.with_name(out.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, out)


def _show(said: dict, out: Path | None) -> None:
    console = Console(emoji=False)
    quiet = {"highlight": False, "soft_wrap": True}
    table = Table(box=None, pad_edge=False)
    for title in ("form", "MAPE", "p90", "max", "coefficients (ms)"):
        table.add_column(title, justify="right" if title in {"MAPE", "p90", "max"} else "left")
    for which, form in said["held_out"].items():
        numbers = ", ".join(f"{value:.3g}" if value > 1e-9 else "0" for value in form["coefficients_ms"])
        table.add_row(
            _NAMES[which], f"{form['mape']:.2%}", f"{form['p90']:.1%}", f"{form['max']:.0%}", numbers
        )
    console.print(
        f"{said['model']} on {said['gpu']}: {said['fitted_batches']:,} batches fitted, {said['held_out_batches']:,} "
        f"held out; up to {said['most_tokens']:,} tokens a step and {said['most_cached_tokens']:,} cached. "
        f"From {', '.join(said['files'])}.",
        **quiet,
    )
    console.print(table)
    if out is not None:
        console.print(f"Written to {out}.", **quiet)
