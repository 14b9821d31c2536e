"""For commands that may take longer than two seconds: a line that says what is being done, and no looking for garbage."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

AFTER_S = 2.0


@contextmanager
def patience(
    console: Console, *, after_s: float = AFTER_S, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[..., None]]:
    """Inside ``with``: a function to call with what is being done, and how much of it of how much.

    Nothing shows before ``after_s`` seconds, and the line is gone afterwards. On what is no terminal, nothing.
    """
    from rich.status import Status

    started, status = clock(), None

    def say(what: str, done: int = 0, of: int = 0) -> None:
        nonlocal status
        if clock() - started < after_s:
            return
        text = f"{what} … {100 * done // of} %" if of else f"{what} …"
        if status is None:
            status = Status(text, console=console)
            status.start()
        status.update(text)

    try:
        yield say
    finally:
        if status is not None:
            status.stop()


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside ``with`` nobody looks for garbage: what a run keeps, it keeps to its end, and looking costs a tenth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
