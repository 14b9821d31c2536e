"""``gpulab doctor``: five lines about this machine, and which path runs will take."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

import typer
from rich.console import Console

import gpulab
from gpulab.device.cuda import CudaPath, try_cuda
from gpulab.telemetry.nvml import Driver, find_driver
from gpulab.units import format_bytes


def doctor(
    require: Annotated[
        Literal["sim", "cuda"] | None,
        typer.Option(help="Exit with status 1 and the reason if this path is not usable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Say in five lines what was found on this machine, and which path runs will take and why."""
    found = diagnose(find_driver(), try_cuda())
    console = Console(emoji=False)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for name in ("python", "arrays", "driver", "device", "path"):
            console.print(f"{name:<7} {found[name]}", highlight=False, markup=False, soft_wrap=True)
    if require == "cuda" and not found["cuda"]:
        typer.echo(f"cuda is required and cannot be used here: {found['reason']}.", err=True)
        raise typer.Exit(1)


def diagnose(driver: Driver, cuda: CudaPath) -> dict[str, str | bool]:
    """The five lines by name, and ``cuda`` (usable or not) with its ``reason``."""
    reason = cuda.reason if driver.version or cuda.usable else f"{driver.reason}; {cuda.reason}"
    if driver.version is None:
        line = f"none: {driver.reason}"
    else:
        line = f"NVIDIA {driver.version}, runs CUDA up to {'.'.join(map(str, driver.cuda or ()))}"
    devices = [f"{name}, {format_bytes(size)}" for name, size in driver.devices]
    return {
        "python": f"Python {platform.python_version()} on {platform.system()}, gpulab {gpulab.__version__}",
        "arrays": f"NumPy {_version('numpy')}, CuPy {cuda.cupy or 'none'}",
        "driver": line,
        "device": "; ".join(devices) or cuda.device or "none",
        "path": f"cuda: {cuda.reason}" if cuda.usable else f"sim (the simulated device): {reason}",
        "cuda": cuda.usable,
        "reason": reason,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
