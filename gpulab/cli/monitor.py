"""``gpulab monitor``: follow a device's counters in the terminal."""

import json
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gpulab.errors import GpulabError
from gpulab.telemetry.nvml import Reading, read
from gpulab.units import MS, format_bytes

_SHOWN = (  # in one line a look
    "memory_used_bytes",
    "utilization_gpu_percent",
    "utilization_memory_percent",
    "sm_active_permille",
)
_UNITS = {"percent": " %", "permille": " ‰", "celsius": " °C", "milliwatts": " mW", "mhz": " MHz"}
_NOTE = "utilization_gpu: any kernel ran. sm_active: multiprocessors with a block. Memory used is not memory busy."


class Watched(StrEnum):
    """What can be followed."""

    auto = "auto"
    sim = "sim"
    cuda = "cuda"


def monitor(  # noqa: PLR0917 (options of a command, given by name)
    device: Annotated[
        Watched,
        typer.Option(help="cuda: device --index; sim: a demo load, simulated; auto: cuda if there is one."),
    ] = Watched.auto,
    index: Annotated[int, typer.Option(min=0, help="Which real device.")] = 0,
    spec: Annotated[str, typer.Option(help="The board to simulate, or a spec file.")] = "h100-80",
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after this long; else with Ctrl-C.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds from one look to the next.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look.")] = False,
) -> None:
    """Follow a device live: memory, the two utilisations, multiprocessors at work, clocks, power."""
    try:
        look = _look_at(device, index, spec, round(interval * 1000) * MS)
        first = look()
        if first[0].values["name"] is None:
            reason = first[0].missing["name"]
            typer.echo(
                f"There is no real device {index} to follow: {reason}. `gpulab monitor --device sim` shows a demo "
                f"load on the simulated device.",
                err=True,
            )
            raise typer.Exit(1)
        _follow(first, look, seconds, interval, as_json=as_json)
    except GpulabError as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        return


def _look_at(device: Watched, index: int, spec: str, step_ns: int) -> Callable[[], tuple[Reading, str]]:
    """What looks at the device: a reading, and what it is doing if that is known.

    Each look at the simulated device lets its demo load go on for ``step_ns`` of simulated time.
    """
    real = read(index) if device is Watched.auto else None
    if device is Watched.cuda or (real is not None and real.values["name"] is not None):
        return lambda: (read(index), "")
    from gpulab.cli.demo_load import DemoLoad
    from gpulab.device.device import open_device

    load = DemoLoad(open_device("sim", spec=spec))
    why = f"no real device: {real.missing['name']}; " if real else ""

    def look() -> tuple[Reading, str]:
        doing = load.go_on(step_ns)
        return read(load.device, step_ns), f"{why}demo load: {doing}"

    return look


def _follow(
    first: tuple[Reading, str],
    look: Callable[[], tuple[Reading, str]],
    seconds: float | None,
    interval: float,
    *,
    as_json: bool,
) -> None:
    """Show ``first``, then look again each ``interval`` until ``seconds`` are over."""
    console = Console(emoji=False)
    end = None if seconds is None else time.monotonic() + seconds
    seen = first
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
    if live:
        live.start()
    try:
        while True:
            if live:
                live.update(table(*seen), refresh=True)
            else:
                typer.echo(json.dumps(record(*seen)) if as_json else line(*seen))
            if end is not None and time.monotonic() + interval > end:
                return
            time.sleep(interval)
            seen = look()
    finally:
        if live:
            live.stop()


def record(reading: Reading, doing: str) -> dict:
    """One look as plain data."""
    return {"badge": reading.badge, "doing": doing, **reading.values, "missing": reading.missing}


def line(reading: Reading, doing: str) -> str:
    """One look in one line, for a terminal that cannot be drawn on."""
    parts = [f"{name} {shown(name, reading.values[name])}" for name in _SHOWN]
    return f"[{reading.badge}] " + ", ".join(parts) + (f" ({doing})" if doing else "")


def table(reading: Reading, doing: str) -> Group:
    """One look as a table, what is missing with its reason."""
    rows = Table("counter", "value", title=Text(reading.badge), title_justify="left")
    for name, value in reading.values.items():
        rows.add_row(
            name, shown(name, value) if value is not None else f"not available: {reading.missing[name]}"
        )
    return Group(rows, Text(doing), Text(_NOTE), Text("Ctrl-C ends it."))


def shown(name: str, value: int | str | None) -> str:
    """A value of the counter ``name`` for a person."""
    if value is None:
        return "not available"
    unit = name.rsplit("_", 1)[-1]
    return format_bytes(value) if unit == "bytes" else f"{value}{_UNITS.get(unit, '')}"
