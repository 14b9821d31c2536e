"""The instructor's commands: ``python -m autograder release | grade | outputs | lint | kit | sandbox``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autograder.places import Places
from gpulab.startup import skip_slow_grammar

app = typer.Typer(help="Release labs, grade them, keep their stored outputs true.", no_args_is_help=True)

_COLOURS = {"graded": "green", "refused": "yellow", "failed": "red"}

LabsArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of labs; all of them if none is given.")
]


def _labs(names: list[str] | None, console: Console) -> list[str]:
    """The labs that are meant; ends the command with one sentence when a name is wrong."""
    places = Places.found()
    try:
        for name in names or []:
            places.source(name)
    except LookupError as error:
        console.print(error.args[0], markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    return names or places.lab_names()


def _line(console: Console):
    return lambda text: console.print(_shown(text), markup=False, highlight=False, soft_wrap=True)


def _shown(text: str) -> str:
    """``text`` for a terminal: a learner's name of a file may hold anything. Lines of our own stay lines."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


@app.command()
def release(
    labs: LabsArgument = None,
    exchange: Annotated[bool, typer.Option(help="Also put it into nbgrader's exchange.")] = False,
) -> None:
    """Build the learner's release of each lab from its source notebook."""
    from autograder import release as builder

    skip_slow_grammar()
    console = Console()
    say = _line(console)
    for lab in _labs(labs, console):
        try:
            if not builder.is_stale(lab):
                say(f"{lab}: the release is up to date")
            builder.build(lab, progress=say)
            if exchange:
                builder.publish(lab)
                say(f"{lab}: in the exchange, to be fetched")
        except Exception as error:  # one lab that fails is told, with its reason, and ends the command
            say(f"{lab}: {error}")
            raise typer.Exit(2) from None


@app.command()
def grade(
    lab: Annotated[str, typer.Argument(help="Name of the lab.")],
    *,
    collect: Annotated[bool, typer.Option(help="First collect what lies in the exchange.")] = True,
    only: Annotated[str | None, typer.Option(help="Grade this student alone.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", exists=True, help="First take this zip (Moodle, Canvas) or folder."),
    ] = None,
    regrade_from: Annotated[
        Path | None,
        typer.Option(exists=True, help="Grade all again and show what moved since this earlier summary.csv."),
    ] = None,
    force: Annotated[
        bool | None,
        typer.Option(help="Grade again what is graded already; --regrade-from does, unless told --no-force."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that grade; 0: one a core.")] = 0,
    scheduler: Annotated[str, typer.Option(help="Address of a Dask scheduler: its cluster grades.")] = "",
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run learners' code with your own rights.")
    ] = False,
) -> None:
    """Collect, grade and write feedback for one lab, then export the marks.

    What was graded before, by the same code and with the same marks of a person, is not graded again: a run that
    was cut off goes on where it was.

    Ends with 0 if every submission was graded, 1 if some were refused, 2 if grading itself failed.
    """
    console = Console()
    _labs([lab], console)
    skip_slow_grammar()
    from autograder.batch import Batch
    from autograder.frame import NbgraderFailed
    from autograder.journal import Busy
    from autograder.outcome import moved, read_summary
    from autograder.received import Unfit
    from autograder.sandbox import NoSandbox, SandboxFailed
    from autograder.workers import Workers, cores

    say = _line(console)
    try:
        # Read first: the run writes its own over it.
        before = read_summary(regrade_from, lab, only) if regrade_from else None
        crew = Workers(workers or cores(), scheduler)
        again = before is not None if force is None else force
        batch = Batch(lab, say, crew, force=again, unsafe_no_sandbox=unsafe_no_sandbox)
        outcomes = batch.grade(collect=collect, only=only, source=source)
    except ModuleNotFoundError as missing:
        if missing.name != "distributed":
            raise
        say("--scheduler needs Dask's package distributed: pip install 'gpulab[dask]'.")
        raise typer.Exit(2) from None
    except (NbgraderFailed, NoSandbox, SandboxFailed, Busy, Unfit, ValueError, OSError) as failure:
        say(f"{lab}: {failure}")
        raise typer.Exit(2) from None
    except Exception as error:
        from traceback import format_exc

        say(
            f"{format_exc()}\n{lab}: grading stopped for a fault of its own ({type(error).__name__}: {error}). What is graded is kept."
        )
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        how = " with --no-force" if force or (regrade_from and force is None) else ""
        say(
            f"{lab}: stopped. What is graded is kept; give the command again{how}, and it goes on from there."
        )
        raise typer.Exit(130) from None
    if not outcomes:
        say(f"{lab}: nothing was handed in" + (f" by {only}{_who_did(lab)}" if only else ""))
        raise typer.Exit(1 if only else 0)
    console.print(_table(lab, outcomes))
    if before is not None:
        differ = moved(before, outcomes)
        say(
            "\n".join([f"since {regrade_from}:", *(f"  {line}" for line in differ)])
            if differ
            else "nothing has moved"
        )
    states = {outcome.status for outcome in outcomes}
    raise typer.Exit(2 if "failed" in states else 1 if "refused" in states else 0)


def _who_did(lab: str) -> str:
    """Whose submissions of ``lab`` there are, as the rest of a sentence."""
    folder = Places.found().course / "submitted"
    there = sorted(path.parent.name for path in folder.glob(f"*/{lab}"))
    return (
        f"; there is something of {', '.join(there[:10])}{' ...' if len(there) > 10 else ''}" if there else ""
    )


def _table(lab: str, outcomes) -> Table:
    """The outcomes as a table for a terminal."""
    table = Table(title=lab, title_justify="left")
    for name, side in (("student", "left"), ("status", "left"), ("points", "right"), ("reason", "left")):
        table.add_column(name, justify=side, overflow="fold")
    for one in outcomes:
        points = "" if one.score is None else f"{one.score:g} / {one.max_score:g}"
        table.add_row(
            _plain(one.student),
            f"[{_COLOURS[one.status]}]{one.status}[/]",
            points,
            _plain(one.reason or one.notes),
        )
    return table


def _plain(text: str):
    from rich.text import Text

    return Text(_shown(text))


@app.command()
def why(
    student: Annotated[str, typer.Argument(help="Whose submission.")],
    exercise: Annotated[str, typer.Argument(help="Which exercise, for example 02.first-fit.")],
    lab: Annotated[str | None, typer.Option(help="Its lab; found by the exercise's number.")] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run learners' code with your own rights.")
    ] = False,
) -> None:
    """Grade one exercise of one submission once more and tell everything, graded inputs too. For your eyes only."""
    console = Console()
    skip_slow_grammar()
    from autograder.why import why as told_of

    say = _line(console)
    labs = [lab] if lab else [name for name in Places.found().lab_names() if name.startswith(exercise[:2])]
    try:
        told = told_of(labs[0] if labs else "", student, exercise, unsafe_no_sandbox=unsafe_no_sandbox)
    except (LookupError, RuntimeError, OSError) as failure:
        say(str(failure.args[0] if failure.args else failure))
        raise typer.Exit(1) from None
    say("\n".join(told.lines()))


@app.command()
def outputs(labs: LabsArgument = None) -> None:
    """Run each source notebook, show what changed in its stored outputs, and store them.

    Nothing is stored, and the command ends with 1, when an exercise's reference does not get full marks.
    """
    console = Console()
    skip_slow_grammar()
    from autograder.outputs import refresh, store_picture

    say, good = _line(console), True
    for lab in _labs(labs, console):
        good &= refresh(Places.found().source(lab), say)
    if good:
        store_picture(Places.found().labs)
    raise typer.Exit(0 if good else 1)


@app.command()
def lint(
    labs: Annotated[
        list[str] | None, typer.Argument(help="Names or folders of labs, or the folder of all; without: all.")
    ] = None,
    run: Annotated[bool, typer.Option(help="Also run each lab, solved and unsolved.")] = True,
) -> None:
    """Find what would break a class: read each source notebook, release it, run it solved and unsolved.

    Ends with 0 when there is no fault, with 1 when there are some, with 2 when a release could not be built.
    """
    console = Console()
    skip_slow_grammar()
    from autograder.frame import NbgraderFailed
    from autograder.lint import lint as faults_of
    from autograder.lint import named

    say, faults = _line(console), 0
    for lab in _labs(named(labs or [], Places.found().labs), console):
        try:
            found = faults_of(lab, say, running=run)
        except NbgraderFailed as failure:
            say(f"{lab}: {failure}")
            raise typer.Exit(2) from None
        for fault in found:
            say(f"{lab}: {fault}")
        say(f"{lab}: {len(found) or 'no'} fault{'s' * (len(found) != 1)}")
        faults += len(found)
    raise typer.Exit(1 if faults else 0)


@app.command()
def kit(
    folder: Annotated[Path, typer.Argument(help="Where to put it; made anew.")] = Path("dist/gpulab-kit"),
) -> None:
    """Build what learners are handed: a wheel, released notebooks, data; no solutions."""
    console = Console()
    skip_slow_grammar()
    from autograder.frame import NbgraderFailed
    from autograder.kit import build

    say = _line(console)
    try:
        build(folder, say)
    except (NbgraderFailed, RuntimeError, OSError) as failure:
        say(f"no kit: {failure}")
        raise typer.Exit(2) from None


@app.command()
def sandbox() -> None:
    """Say how learners' code is shut in on this machine; ends with 1 when it cannot be."""
    console = Console()
    from autograder.sandbox import NoSandbox, SandboxFailed
    from autograder.sandbox_warm import warm

    try:
        console.print(warm().told, highlight=False, soft_wrap=True)
    except (NoSandbox, SandboxFailed) as refusal:
        console.print(str(refusal), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
