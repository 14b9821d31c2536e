"""``gpulab report``: one offline page with everything that a ledger says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpulab.cli.patience import patience
from gpulab.cli.writing import refuse_to_overwrite, write_whole
from gpulab.errors import GpulabError, TraceFault

if TYPE_CHECKING:
    from gpulab.telemetry.ledger import Ledger


def report(
    ledger: Annotated[Path, typer.Argument(help="A ledger, as `Ledger.to_jsonl` writes it (.jsonl).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    skip_broken: Annotated[
        bool, typer.Option(help="Report the facts before the first line that cannot be read.")
    ] = False,
) -> None:
    """Report LEDGER: audit, account, numbers and pictures, each with its table, in one page without a network."""
    try:
        refuse_to_overwrite(ledger, output, "ledger")
        with patience(Console(stderr=True, emoji=False)) as say:
            say("reading")
            facts, notes = _facts(ledger, skip_broken)
            from gpulab.report.page import page

            made = page(facts, ledger.name, notes=notes, tick=say)
            say("writing")
            text = made.html.encode("utf-8", "replace")
            write_whole(output, lambda path: path.write_bytes(text))
    except (GpulabError, OSError, ValueError, ImportError, MemoryError) as wrong:
        typer.echo(f"{type(wrong).__name__}: {wrong}", err=True)
        raise typer.Exit(1) from None
    except ArithmeticError:
        typer.echo(f"{ledger} has a number that is too large to be told or drawn.", err=True)
        raise typer.Exit(1) from None
    except RecursionError:
        typer.echo(f"{ledger} is no ledger: a line of it is nested too deeply.", err=True)
        raise typer.Exit(1) from None
    verdict = "every law is kept" if not made.violations else f"{made.violations:,} facts break a law"
    Console(emoji=False).print(
        f"{output}: {len(facts):,} facts, {made.pictures} pictures, {len(text) / 1000:,.0f} kB; {verdict}.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _facts(path: Path, skip_broken: bool) -> "tuple[Ledger, tuple[str, ...]]":
    """The ledger in ``path`` and what its reader must know."""
    from gpulab.telemetry.ledger import Ledger

    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; the ledger of a run in which nothing happened has one line.")
    try:
        return Ledger.from_jsonl(path), ()
    except TraceFault as broken:
        if not broken.good:
            raise
        if not skip_broken:
            raise TraceFault(
                f"{broken} With --skip-broken they are reported.", rows=broken.rows, good=broken.good
            ) from None
        line = broken.rows[0][0]
        note = f"Only the {len(broken.good):,} facts before line {line:,} are told: that line cannot be read."
        return Ledger(broken.good), (note,)
