"""``gpulab lab``: build the learner's notebooks, put them into ``work/`` and open JupyterLab there.

Nothing here is tied to one operating system: JupyterLab is a child process started with this Python.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from gpulab.cli.handout import hand_out

# JupyterLab checks schemas with jsonschema: without the slow grammar its server answers 0.75 s sooner.
_SERVER = (
    "from gpulab.startup import skip_slow_grammar; skip_slow_grammar(); "
    "from jupyterlab.labapp import main; main()"
)
# Settings that our JupyterLab starts from (what a learner sets in the menu wins): no pop-up that asks
# whether to fetch news from the network, over the notebook.
_SETTINGS = Path(__file__).with_name("jupyter")


def lab(
    ctx: typer.Context,
    fresh: Annotated[
        str | None, typer.Option(metavar="NAME", help="Start this lab again; the old notebook is kept aside.")
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Open a browser; without it, only the address is shown.")
    ] = True,
    port: Annotated[
        int | None, typer.Option(help="Port to try first (JupyterLab takes the next free one).")
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Start JupyterLab; without it, only prepare work/.")
    ] = True,
) -> None:
    """Prepare the labs in work/ and open JupyterLab on the first. Your own notebooks are never overwritten.

    Options that are not listed here are passed on to JupyterLab, e.g. --ServerApp.ip=0.0.0.0.
    """
    console = Console(emoji=False)
    repository, labs = _look_around(console)
    chosen = None if fresh is None else match_lab(fresh, labs)
    if fresh is not None and chosen is None:
        _stop(console, f"There is no lab {fresh!r}; there is: {', '.join(labs)}.", code=2)
    work = repository / "work"
    try:
        for sentence in prepare(repository, labs, fresh=chosen, release=_release(console), console=console):
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    except OSError as error:
        _stop(console, f"work/ cannot be prepared: {error}. Nothing of yours was changed.")
    ready = [name for name in labs if (work / name / f"{name}.ipynb").is_file()]
    if not ready:
        _stop(console, "No notebook is ready, so there is nothing to open; the reason is above.")
    if open_:
        raise typer.Exit(run_server(jupyter_command(work, chosen or ready[0], browser, port, ctx.args)))
    console.print(f"{len(ready)} of {len(labs)} labs ready in {work}.", highlight=False, soft_wrap=True)


def _look_around(console: Console) -> tuple[Path, list[str]]:
    """The repository and its labs; without one of the things that are needed, one sentence ends the command."""
    missing = missing_packages()
    if missing:
        install = f'{sys.executable} -m pip install -e ".[lab]"'
        _stop(console, f"Not installed: {', '.join(missing)}. In the repository's folder run  {install}")
    repository = find_repository(Path.cwd())
    if repository is None:
        _stop(
            console,
            "No folder with labs/ and gpulab/ here or above: run this inside a copy of the repository.",
        )
    labs = lab_names(repository)
    if not labs:
        _stop(
            console,
            f"{repository / 'labs'} has no NAME/NAME.ipynb: the copy of the repository is not complete.",
        )
    return repository, labs


def missing_packages(find: Callable[[str], object] = find_spec) -> list[str]:
    """The packages of the extra ``lab`` that cannot be found, without importing any."""
    return [name for name in ("jupyterlab", "nbgrader") if find(name) is None]


def find_repository(start: Path, package: Path = Path(__file__).resolve().parents[1]) -> Path | None:
    """The first of ``start``, its parents and the package's parent with ``labs/`` and ``gpulab/``, or None."""
    places = (start, *start.parents, package.parent)
    return next(
        (place for place in places if (place / "labs").is_dir() and (place / "gpulab").is_dir()), None
    )


def lab_names(repository: Path) -> list[str]:
    """The names of the labs, in order: each folder ``labs/NAME`` that holds ``NAME.ipynb``."""
    folders = (repository / "labs").iterdir()
    return sorted(folder.name for folder in folders if (folder / f"{folder.name}.ipynb").is_file())


def match_lab(wanted: str, labs: list[str]) -> str | None:
    """The lab called ``wanted``, with or without ``.ipynb``, or the only one that begins with it; else None."""
    name = wanted.removesuffix(".ipynb")
    if name in labs:
        return name
    found = [lab_name for lab_name in labs if name and lab_name.startswith(name)]
    return found[0] if len(found) == 1 else None


def prepare(
    repository: Path, labs: list[str], *, fresh: str | None, release: ModuleType, console: Console
) -> Iterator[str]:
    """Sentences for the learner while ``work/`` is brought up to date, lab by lab.

    ``release`` has ``is_stale(lab) -> bool`` and ``build(lab) -> Path`` (the folder of the built lab). A
    lab that cannot be built is reported and the others go on: a learner with a notebook can still work.
    """
    for name in labs:
        try:
            if release.is_stale(name):
                yield f"Building the learner's notebook of {name}, a few seconds ..."
            with console.status(f"Building {name}"):
                built = release.build(name)
        except (
            Exception
        ) as error:  # whatever a builder raises, it must not keep a learner from their notebook
            yield f"The notebook of {name} could not be built: {type(error).__name__}: {error}"
            continue
        yield from hand_out(built, repository / "work", fresh=name == fresh)


def jupyter_command(
    work: Path, name: str, browser: bool, port: int | None, passed_on: list[str]
) -> list[str]:
    """The command line of a JupyterLab with root ``work`` that opens the notebook of lab ``name``.

    What the user passed on comes last, so that it wins over ours.
    """
    command = [
        *(sys.executable, "-c", _SERVER),
        f"--ServerApp.root_dir={work}",
        f"--LabApp.default_url=/lab/tree/{name}/{name}.ipynb",
    ]
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command.append(f"--ServerApp.port={port}")
    # In a container everybody is root, and JupyterLab refuses to start for root unless told.
    if getattr(os, "geteuid", lambda: 1)() == 0:
        command.append("--allow-root")
    return command + passed_on


def run_server(command: list[str]) -> int:
    """The exit status of ``command`` once it has ended; Ctrl-C and SIGTERM end it in its own time."""
    found = [str(_SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    settings = {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, found))}
    with subprocess.Popen(command, env={**os.environ, **settings}) as server:
        before = signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        try:
            while True:
                try:
                    return server.wait()
                except KeyboardInterrupt:
                    # The terminal sends Ctrl-C to both: JupyterLab asks its question, we wait for its answer.
                    continue
        finally:
            signal.signal(signal.SIGTERM, before)


def _release(console: Console) -> ModuleType:
    """The builder of releases; imported late, and only by this command."""
    try:
        from autograder import release
    except ImportError as error:
        _stop(
            console, f"The builder of the labs cannot be loaded ({error}); make a new .venv or a new clone."
        )
    return release


def _stop(console: Console, sentence: str, code: int = 1) -> NoReturn:
    """End the command with one sentence."""
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(code)
