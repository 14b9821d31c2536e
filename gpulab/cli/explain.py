"""``gpulab explain``: where the memory went in a PyTorch snapshot or a recording, and why a claim failed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpulab.cli.patience import patience
from gpulab.cli.writing import refuse_to_overwrite, write_whole
from gpulab.errors import GpulabError
from gpulab.units import format_bytes, format_ns, parse_bytes

if TYPE_CHECKING:
    from gpulab.report.diagnosis import Diagnosis
    from gpulab.telemetry.ledger import Ledger

TOP = 10
_PICTURES = (".svg", ".png", ".html")


def explain(  # noqa: PLR0917 (options of a command, given by name)
    snapshot: Annotated[
        Path,
        typer.Argument(help="From torch.cuda.memory._dump_snapshot (pickle or JSON), or a ledger (.jsonl)."),
    ],
    device: Annotated[
        int | None, typer.Option(min=0, help="Which GPU; else the one that failed, or the fullest.")
    ] = None,
    capacity: Annotated[
        str | None,
        typer.Option(help="Memory of the GPU, as 80GiB; a snapshot without a failure does not say it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object.")] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the memory map to this .svg, .png or .html.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Write all facts to this JSON Lines file.")] = None,
    skip_broken: Annotated[
        bool, typer.Option(help="Explain the facts before the first broken line of a .jsonl.")
    ] = False,
) -> None:
    """Explain SNAPSHOT: five terms a level, the largest free extent, the claim that failed, who strands what."""
    try:
        _check_outputs(snapshot, chart, ledger)
        given = parse_bytes(capacity) if capacity else None
        with patience(Console(stderr=True, emoji=False)) as say:
            facts, notes, kind = _facts(snapshot, device, given, skip_broken, say)
            say("working out the account")
            from gpulab.report.diagnosis import diagnose

            found = diagnose(facts)
            say("writing")
            if ledger is not None:
                write_whole(ledger, facts.to_jsonl)
            if chart is not None:
                _draw(facts, found, chart)
    except (GpulabError, OSError, ValueError, ImportError, MemoryError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(as_numbers(found, notes, kind)))
    else:
        _show(found, notes, f"{snapshot.name}, {kind}")


def _check_outputs(snapshot: Path, chart: Path | None, ledger: Path | None) -> None:
    """Refuse, before any work, what could not be written, or would be written over the input."""
    for out in (chart, ledger):
        if out is not None:
            refuse_to_overwrite(snapshot, out, "snapshot")
    if chart is not None and chart.suffix.lower() not in _PICTURES:
        raise ValueError(f"{chart.name} is no picture; its name ends in one of {', '.join(_PICTURES)}.")


def _facts(path: Path, device: int | None, capacity: int | None, skip_broken: bool, say) -> tuple:
    """The ledger, what its reader must know, and what the file is."""
    from gpulab.errors import TraceFault
    from gpulab.memory.history import chosen_device, retell
    from gpulab.memory.snapshot import read_snapshot
    from gpulab.report.audit import check
    from gpulab.telemetry.ledger import Ledger

    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file.")
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b'{"gpulab":"ledger"'):
        if device is not None or capacity is not None:
            raise ValueError(
                f"{path} is a ledger: it has one device and says its capacity; leave the options out."
            )
        say("reading")
        try:
            facts, notes = Ledger.from_jsonl(path), ()
        except TraceFault as broken:
            if not (skip_broken and broken.good):
                raise
            facts, notes = (
                Ledger(broken.good),
                (f"Only the {len(broken.good):,} facts before a broken line are told.",),
            )
        say("checking")
        check(facts)
        return facts, notes, f"a ledger of {len(facts):,} facts"
    found = read_snapshot(path, say)
    device = chosen_device(found) if device is None else device
    told = retell(found, device, capacity=capacity, tick=say)
    others = f" of {', '.join(map(str, found.devices))}" if len(found.devices) > 1 else ""
    events = len(found.traces[device]) if device < len(found.traces) else 0
    segments = sum(segment.device == device for segment in found.segments)
    kind = f"PyTorch snapshot, device {device}{others}: {segments:,} segments at its end, {events:,} events of history"
    return told.ledger, told.notes, kind


def _draw(facts: "Ledger", found: "Diagnosis", chart: Path) -> None:
    from gpulab.report.charts import memory_map

    mark = [found.failure.event] if found.failure else []
    picture = memory_map(facts, title=f"Memory of a device of {format_bytes(found.capacity)}", mark=mark)
    write_whole(chart, picture.save)


def as_numbers(found: "Diagnosis", notes: tuple[str, ...], kind: str) -> dict:
    """What `explain --json` prints: everything that the text says, as plain numbers."""
    from dataclasses import asdict

    return {
        "source": kind,
        "notes": list(notes),
        "event": found.event,
        "time_ns": found.time_ns,
        "capacity": found.capacity,
        "account": {level: asdict(terms) for level, terms in found.terms.items()},
        "failed_claim": asdict(found.failure) if found.failure else None,
        "largest_free_bytes": found.largest_free,
        "device_or_whole_segments_bytes": found.liquid,
        "largest_hole_bytes": found.largest_hole,
        "holes": found.holes,
        "owners": [{**asdict(loss), "lost": loss.lost} for loss in found.losses[:TOP]],
        "owners_in_all": len(found.losses),
        "diagnosis": found.sentence,
    }


def _show(found: "Diagnosis", notes: tuple[str, ...], source: str) -> None:
    from gpulab.report.account import TERMS
    from gpulab.report.table import Table

    failure, lines = found.failure, [f"{source}.", *notes]
    if failure:
        rounded = "" if failure.asked == failure.size else f" ({format_bytes(failure.asked)} asked)"
        lines.append(
            f"Failed at {format_ns(found.time_ns)}, event #{failure.event}: {format_bytes(failure.size)}{rounded} for "
            f"{failure.owner or 'nobody named'}."
        )
    else:
        lines.append(f"No claim failed; this is the end, {format_ns(found.time_ns)}.")
    for level, terms in found.terms.items():
        parts = ", ".join(
            f"{term} {format_bytes(getattr(terms, term))} ({terms.share(term):.1%})" for term in TERMS
        )
        lines.append(f"{level}: {parts}.")
    lines.append(
        f"Largest free extent: {format_bytes(found.largest_free)}. The device has {format_bytes(found.liquid)} left, "
        f"whole cached segments included; {found.holes:,} holes in other segments, the largest "
        f"{format_bytes(found.largest_hole)}."
    )
    rows = tuple(
        (loss.owner, f"{loss.grants:,}", *map(format_bytes, (loss.held, loss.unused, loss.pinned)))
        for loss in found.losses[:TOP]
    )
    if rows:
        columns = ("owner", "blocks", "holds", "unused", "pins")
        caption = f"Who strands what: the first {len(rows):,} of {len(found.losses):,} owners"
        lines.append(repr(Table(caption, columns, rows, frozenset(columns[1:]))))
    lines.append(found.sentence)
    Console(emoji=False).print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
