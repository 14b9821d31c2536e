"""``gpulab fit``: a model on a GPU from its measured kernels, with the error on batches that were held out."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpulab.cli.pairs import PAIRS, Pair
from gpulab.errors import GpulabError, SpecFault
from gpulab.serving import fit as fitting
from gpulab.serving.profiles import SHAPES, Shape, read

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
    )
    try:
        if out is not None and out.exists() and not force:
            raise FileExistsError(f"{out} is there already; give another -o, or --force to write over it.")
        wanted = given if not pair else PAIRS.get(pair)
        if wanted is None:
            raise SpecFault(f"There is no pair {pair!r}; there are: {', '.join(PAIRS)}.")
        name, shape = shape_of(wanted.model)
        kernels, files = read(profile, shape, wanted.only)
        found = fitting.fit(kernels)
        if out is not None:
            _write(out, spec_of(replace(wanted, model=name), shape, found, files))
    except (GpulabError, OSError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(told(name, wanted.gpu, found, files)))
    else:
        _show(name, wanted.gpu, found, files, out)


def _write(out: Path, text: str) -> None:
    """Write ``text`` whole or not at all."""
    part = out.with_name(out.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, out)


def shape_of(text: str) -> tuple[str, Shape]:
    """The name and the sizes of a model; ``SpecFault`` lists the names there are."""
    name, _, sizes = text.partition("=")
    numbers = [int(part) for part in sizes.split(",") if part.strip().isdecimal()]
    if len(numbers) == 6 and all(numbers):
        return name, Shape(*numbers)
    if sizes or name not in SHAPES:
        raise SpecFault(
            f"There is no model {text!r}; there are: {', '.join(SHAPES)}. For another one give --model "
            f"NAME=layers,heads,kv_heads,head_dim,hidden,inner, six whole numbers."
        )
    return name, SHAPES[name]


def spec_of(pair: Pair, shape: Shape, found: fitting.Fitted, files: tuple[Path, ...]) -> str:
    """The text of the file that ``gpulab.serving.cost.load`` reads: whole picoseconds, and whence they come."""
    newest = max(path.stat().st_mtime for path in files)
    a, w, g, e, c = (round(value * 1e9) for value in found.bent.coefficients)
    rows = {
        **{"model": pair.model, "gpu": pair.gpu},
        **{"constant_ps": a, "weights_ps": w, "token_ps": g, "cached_token_ps": e, "square_token_ps": c},
        **{"host_ns": pair.host_ns, "kv_blocks": pair.kv_blocks, "block_tokens": 16},
        "kv_bytes_per_token": shape.kv_bytes_per_token,
        **{"most_tokens": found.most_tokens, "most_cached_tokens": found.most_cached_tokens},
        "badge": f"fitted to measured kernels, held-out error {found.bent.error:.1%}",
        "date": pair.date or datetime.fromtimestamp(newest, UTC).date().isoformat(),
        "source": f"{', '.join(path.name for path in files)}; {pair.note}",
    }
    return "".join(
        f"{name} = {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else f'{value:_}'}\n"
        for name, value in rows.items()
    )


def told(name: str, gpu: str, found: fitting.Fitted, files: tuple[Path, ...]) -> dict:
    """The fit as plain values: coefficients in milliseconds, errors as shares."""
    return {
        "model": name,
        "gpu": gpu,
        "files": [path.name for path in files],
        "held_out": {
            which: {
                "coefficients_ms": form.coefficients,
                "mape": form.error,
                "p90": form.p90,
                "max": form.worst,
            }
            for which, form in (("bent", found.bent), ("linear", found.linear))
        },
        "most_tokens": found.most_tokens,
        "most_cached_tokens": found.most_cached_tokens,
    }


def _show(name: str, gpu: str, found: fitting.Fitted, files: tuple[Path, ...], out: Path | None) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    for title in ("form", "MAPE", "p90", "max", "coefficients (ms)"):
        table.add_column(title, justify="right" if title in {"MAPE", "p90", "max"} else "left")
    for which, form in (("bent", found.bent), ("linear", found.linear)):
        numbers = ", ".join(f"{value:.3g}" if value > 1e-9 else "0" for value in form.coefficients)
        table.add_row(_NAMES[which], f"{form.error:.2%}", f"{form.p90:.1%}", f"{form.worst:.0%}", numbers)
    held = fitting.BATCHES - fitting.FITTED
    console.print(
        f"{name} on {gpu}: {fitting.FITTED:,} batches fitted, {held} held out; up to {found.most_tokens:,} tokens a "
        f"step and {found.most_cached_tokens:,} cached. From {', '.join(path.name for path in files)}.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(table)
    if out is not None:
        console.print(f"Written to {out}.", highlight=False, soft_wrap=True)
