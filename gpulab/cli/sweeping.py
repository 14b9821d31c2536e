"""Where the runs of a sweep are done: here, in processes of this machine, or on a Dask cluster."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from gpulab.serving.sweep import Sweep

Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes; 1 works in this one.", show_default="one a core"),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler: its cluster does the runs.")
]
Journal = Annotated[
    Path | None,
    typer.Option(help="Remember each run in this JSON Lines file, and do not repeat those in it."),
]


@contextmanager
def sweeping(
    workers: int | None, scheduler: str | None, journal: Path | None, tell: Callable[[int, int], None]
) -> Iterator["Sweep"]:
    """How the runs of a sweep are done, while the context is open.

    Raises:
        GpulabError: a cluster is asked for and ``distributed`` is not installed.
    """
    from gpulab.serving.sweep import Sweep

    if scheduler is not None:
        try:
            from distributed import Client
        except ImportError:
            raise GpulabError(
                "--scheduler needs Dask's package distributed: pip install 'gpulab[dask]'."
            ) from None
        with Client(scheduler) as client:
            yield Sweep(client.get_executor(), journal, tell)
        return
    count = workers or os.cpu_count() or 1
    if count == 1:
        yield Sweep(None, journal, tell)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Spawned, on every system: a fork beside a thread (the line that says what is being done) may hang.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield Sweep(pool, journal, tell)
