"""``gpulab replay``: a trace of requests against an allocator, and where the capacity went."""

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import track

from gpulab.errors import GpulabError
from gpulab.units import SECOND, format_bytes, format_ns, parse_bytes

if TYPE_CHECKING:
    from gpulab.telemetry.ledger import Ledger


class Rule(StrEnum):
    """The allocators and pools that a trace can be replayed against."""

    bump = "bump"
    first_fit = "first-fit"
    best_fit = "best-fit"
    cupy = "cupy"
    pytorch = "pytorch"


def replay(  # noqa: PLR0917 (options of a command, given by name)
    trace: Annotated[str, typer.Argument(help="A data set's name (azure-conv-2023) or a CSV file like it.")],
    allocator: Annotated[Rule, typer.Option(help="The rule that places the claims.")] = Rule.first_fit,
    capacity: Annotated[str, typer.Option(help="Bytes of the arena or the device.")] = "12 GiB",
    bytes_per_token: Annotated[
        int, typer.Option(min=1, help="KV cache; Llama-3-8B keeps 131,072 B.")
    ] = 131_072,
    steps_per_second: Annotated[
        int, typer.Option(min=1, help="A request holds its bytes one step a token.")
    ] = 400,
    ledger: Annotated[Path | None, typer.Option(help="Write all facts to this JSON Lines file.")] = None,
    chart: Annotated[
        Path | None, typer.Option(help="Draw use over time to this .svg, .png or .html.")
    ] = None,
    skip_broken: Annotated[bool, typer.Option(help="Go on without rows that cannot be read.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object.")] = False,
) -> None:
    """Replay TRACE: each request claims its KV cache, holds it while its tokens are made, waits if refused."""
    try:
        claims = _claims(trace, skip_broken, bytes_per_token, SECOND // steps_per_second)
        result, facts = _replayed(claims, _allocator(allocator, parse_bytes(capacity)), quiet=as_json)
        result = {"trace": trace, "allocator": allocator.value, **result}
        if ledger is not None:
            facts.to_jsonl(ledger)
        if chart is not None:
            from gpulab.report.charts import use_over_time

            use_over_time(facts, title=f"{trace} on {format_bytes(result['capacity'])}").save(chart)
    except (GpulabError, OSError, ValueError, ImportError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result)


def _claims(trace: str, skip_broken: bool, bytes_per_token: int, step_ns: int) -> list:
    from gpulab import datasets
    from gpulab.memory.replay import claims_from

    path = datasets.path_of(trace) if trace in datasets.names() else Path(trace)
    if not path.is_file():
        raise FileNotFoundError(
            f"{trace!r} is neither a file nor a data set; the data sets are: {', '.join(datasets.names())}."
        )
    requests = datasets.read_azure(path, skip_broken=skip_broken)
    return claims_from(requests, bytes_per_token=bytes_per_token, step_ns=step_ns)


def _replayed(claims: list, place, *, quiet: bool) -> tuple[dict, "Ledger"]:
    """What the run came to, as plain numbers, and its ledger."""
    from gpulab.memory.replay import replay as play
    from gpulab.report.account import TERMS, Account, levels
    from gpulab.telemetry.events import Claimed, Granted

    started = time.perf_counter()
    steps = (
        claims
        if quiet
        else track(claims, "replay", console=Console(stderr=True, emoji=False), transient=True)
    )
    facts = play(steps, place)
    claimed = {fact.claim: fact.time_ns for fact in facts.of(Claimed) if fact.resource == place.resource}
    granted = {fact.claim: fact.time_ns for fact in facts.of(Granted) if fact.claim in claimed}
    waits = [granted[claim] - asked for claim, asked in claimed.items() if claim in granted]
    accounts = {level: Account(facts, level)() for level in levels(facts)}
    return {
        "capacity": place.capacity,
        "claims": len(claimed),
        "granted": len(granted),
        "waited": sum(wait > 0 for wait in waits),
        "longest_wait_ns": max(waits, default=0),
        "facts": len(facts),
        "run_ns": facts.end_ns - facts.start_ns,
        "account": {
            level: {term: getattr(terms, term) for term in TERMS} for level, terms in accounts.items()
        },
        "seconds": round(time.perf_counter() - started, 3),
    }, facts


def _allocator(rule: Rule, capacity: int):
    from gpulab.memory import arena, pools

    made = {
        Rule.bump: arena.Bump,
        Rule.first_fit: arena.FirstFit,
        Rule.best_fit: arena.BestFit,
        Rule.cupy: pools.CuPyPool,
        Rule.pytorch: pools.PyTorchPool,
    }
    return made[rule](capacity)


def _show(result: dict) -> None:
    console = Console(emoji=False)
    waited = result["waited"] / result["claims"] if result["claims"] else 0.0
    never = result["claims"] - result["granted"]
    console.print(
        f"{result['trace']}: {result['claims']:,} claims against {result['allocator']} on "
        f"{format_bytes(result['capacity'])}; {result['granted']:,} granted, {result['waited']:,} waited "
        f"({waited:.1%}), the longest {format_ns(result['longest_wait_ns'])}."
        + (f" {never:,} are larger than the arena and were turned away." if never else ""),
        highlight=False,
        soft_wrap=True,
    )
    for level, terms in result["account"].items():
        total = sum(terms.values()) or 1
        shares = ", ".join(f"{term} {amount / total:.2%}" for term, amount in terms.items())
        console.print(f"{level}: {shares}.", highlight=False, soft_wrap=True)
    console.print(f"{result['facts']:,} facts, {result['seconds']:.2f} s here.", highlight=False)
