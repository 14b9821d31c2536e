"""``gpulab calibrate``: measure the real device of this machine into a spec file."""

import json
import os
from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpulab.device.spec import CONSTANTS, Spec
from gpulab.errors import GpulabError


def calibrate(
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("device.toml"),
    device: Annotated[int, typer.Option(min=0, help="Which device of this machine.")] = 0,
    force: Annotated[bool, typer.Option(help="Write over an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was measured, as one JSON object.")] = False,
) -> None:
    """Measure launch, memory, copies, bandwidth and matmul of a real device; half a minute, 1 GiB of it.

    The simulated device then takes its constants from the file: open_device("sim", spec="device.toml").
    """
    steps = Console(stderr=True, emoji=False)
    try:
        if out.exists() and not force:
            raise FileExistsError(f"{out} is there already; give another --out, or --force to write over it.")
        spec, before = measured(device, lambda words: steps.print(f"measuring {words} ...", highlight=False))
        write(spec, out)
    except (GpulabError, OSError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    changed = {
        name: [getattr(before, name), getattr(spec, name)]
        for name in CONSTANTS
        if spec.sources[name] != before.sources[name]
    }
    if as_json:
        typer.echo(json.dumps({"file": str(out), "name": spec.name, "was_and_is": changed}))
        return
    for name, (was, now) in changed.items():
        typer.echo(f"{name:<30} {now:>22,}   (was {was:,})")
    typer.echo(f'{spec.name}: written to {out}. Use it as open_device("sim", spec="{out}").')


def measured(index: int, tell) -> tuple[Spec, Spec]:
    """The spec measured on real device ``index``, and the one it had before. ``DeviceUnavailable`` if none."""
    from gpulab.device.calibrate import calibrate as measure
    from gpulab.device.device import open_device
    from gpulab.telemetry.nvml import find_driver

    device = open_device("cuda", index=index)
    driver = find_driver().version or f"CUDA {device.spec.driver}"
    return measure(device, day=date.today().isoformat(), driver=driver, tell=tell), device.spec


def write(spec: Spec, out: Path) -> None:
    """Write the file of ``spec`` whole or not at all."""
    part = out.with_name(out.name + ".part")
    part.write_text(spec.to_toml(), encoding="utf-8", newline="\n")
    os.replace(part, out)
