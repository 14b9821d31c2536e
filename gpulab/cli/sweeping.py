"""Where the runs of a sweep are done: here, in processes of this machine, or on a Dask cluster."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpulab.cli.patience import patience
from gpulab.errors import GpulabError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from gpulab.serving.sweep import Sweep


@dataclass(frozen=True)
class Sweeping:
    """The options that say where runs are done."""

    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; 1 works in this one.", show_default="one a core")
    ] = None
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler: its cluster does the runs.")
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option(help="Remember each run in this JSON Lines file, and do not repeat those in it."),
    ] = None

    @contextmanager
    def open(self) -> Iterator["Sweep"]:
        """How runs are done, while the context is open. After two seconds, a line says how many are.

        Raises:
            GpulabError: a cluster is asked for and ``distributed`` is not installed.
        """
        from gpulab.serving.sweep import Sweep

        with patience(Console(stderr=True, emoji=False)) as say, self._executor() as executor:
            yield Sweep(
                executor, self.journal, lambda done, of: say(f"{done} of {of} runs are done", done, of)
            )

    @contextmanager
    def _executor(self) -> Iterator["Executor | None"]:
        if self.scheduler is not None:
            try:
                from distributed import Client
            except ImportError:
                raise GpulabError(
                    "--scheduler needs Dask's package distributed: pip install 'gpulab[dask]'."
                ) from None
            with Client(self.scheduler) as client:
                yield client.get_executor()
            return
        count = self.workers or os.cpu_count() or 1
        if count == 1:
            yield None
            return
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        # Spawned, on every system: a fork beside a thread (the line that says what is being done) may hang.
        with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
            yield pool
