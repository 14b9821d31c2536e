"""One submission graded, alone: bytes in, bytes out. A worker needs nothing else, on this machine or another.

nbgrader's own steps run in a course folder made for this one submission, which is gone afterwards.
"""

import gc
import importlib
import os
import shutil
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import final
from unittest.mock import patch

from autograder import checks, gradebook
from autograder.gradebook import Rows
from autograder.places import Places
from autograder.scratch import Scratch
from autograder.walk import entries

FOLDERS = ("autograded", "feedback")
_NEEDED = ("nbgrader.converters", "IPython", "ipykernel.kernelspec")
_NEEDED += tuple(f"autograder.{name}" for name in ("execute", "feedback", "frame", "judge", "restore"))
_NEEDED += ("autograder.sandbox_client", "autograder.sandbox_kernel")
MOST_FILES = 1_000  # beside a notebook; a lab hands out none


@final
@dataclass(frozen=True, slots=True)
class Task:
    """Everything that grading one submission depends on.

    Attributes:
        files: what was handed in, by its path below the submission's folder. beside: what the release holds
            beside its notebook. blank: the gradebook without a learner. rows: this learner's rows in it.
        secret: the course's secret file. unsafe: without a sandbox.
    """

    lab: str
    student: str
    files: dict[str, bytes]
    beside: dict[str, bytes]
    blank: bytes
    rows: Rows
    secret: bytes
    unsafe: bool = False


@final
@dataclass(frozen=True, slots=True)
class Graded:
    """What grading one submission made.

    Attributes:
        rows: the learner's rows of the gradebook, to be stored. folders: ``autograded`` and ``feedback`` to their
            files by path. fault: why there is none of it: our failure, never the learner's; log: all that is
            known of it.
    """

    student: str
    rows: Rows = field(default_factory=dict)
    folders: dict[str, dict[str, bytes]] = field(default_factory=dict)
    fault: str = ""
    log: str = ""


def load() -> None:
    """Import what ``grade_alone`` needs, before processes are forked that will all need it."""
    from gpulab.startup import skip_slow_grammar

    skip_slow_grammar()
    gc.disable()  # none of it will go, and looking through it took a tenth of a second now and then
    for name in _NEEDED:
        importlib.import_module(name)
    checks.exercises()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def grade_alone(task: Task, record: tuple[str, str] = ("", "")) -> Graded:
    """``task`` graded, with its feedback page. Whatever goes wrong here is the result's ``fault``.

    ``record``: an exercise whose conversation with the judge is kept, and the file for it.
    """
    from gpulab.startup import skip_slow_grammar

    skip_slow_grammar()
    from autograder.frame import NbgraderFailed, autograde, generate_feedback, open_nbgrader

    try:
        with Scratch() as folder, _course_of(task, folder), one_engine():
            nbgrader = open_nbgrader(task.unsafe, record)
            autograde(nbgrader, task.lab, task.student)
            generate_feedback(nbgrader, task.lab, task.student)
            rows = gradebook.rows_of(folder / "gradebook.db", task.lab, task.student)
            made = {step: read_files(folder / step / task.student / task.lab, most=None) for step in FOLDERS}
        if f"{task.lab}.html" not in made["feedback"]:
            return Graded(
                task.student, fault="no feedback page was written", log="no feedback page was written"
            )
        return Graded(task.student, rows, made)
    except NbgraderFailed as failure:
        return Graded(task.student, fault=str(failure), log=failure.log)
    except Exception as error:
        return Graded(task.student, fault=f"{type(error).__name__}: {error}", log=traceback.format_exc())


@contextmanager
def _course_of(task: Task, folder: Path) -> Iterator[None]:
    """A course of one submission in ``folder``; meanwhile the process's course is this one."""
    write_files(folder / "submitted" / task.student / task.lab, task.files)
    write_files(folder / "labs" / task.lab, task.beside)
    (folder / "gradebook.db").write_bytes(task.blank)
    gradebook.fill(folder / "gradebook.db", task.rows)
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(task.secret)
    ours = {"GPULAB_COURSE": str(folder), "GPULAB_LABS": str(folder / "labs")}
    before = {name: os.environ.get(name) for name in (*ours, "GPULAB_EXCHANGE")}
    os.environ.update(ours)
    os.environ.pop("GPULAB_EXCHANGE", None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def one_engine() -> Iterator[None]:
    """Meanwhile every gradebook that nbgrader opens is that of the course in force, over one engine of SQLAlchemy.

    nbgrader opens ten a submission, each with an engine of its own that looks whether all tables and the course
    are there and compiles every question anew. And nobody waits for the disk: what is lost with the machine lies in a folder
    that is gone in a moment anyway.
    """
    from nbgrader import api

    engine = _engine()

    def nothing(*_, **__) -> None:
        """Not done: the slice has its tables and its course, and the connection is needed again."""

    made = {
        "create_engine": lambda url, **named: engine,
        "inspect": lambda engine: SimpleNamespace(get_table_names=lambda: list(api.Base.metadata.tables)),
    }
    spared = ((api.Base.metadata, "create_all"), (api.Gradebook, "check_course"), (engine, "dispose"))
    try:
        with ExitStack() as meanwhile:
            meanwhile.enter_context(patch.multiple(api, **made))
            for owner, step in spared:
                meanwhile.enter_context(patch.object(owner, step, nothing))
            yield
    finally:
        engine.dispose()


@lru_cache(maxsize=1)
def _engine():
    from sqlalchemy import create_engine
    from sqlalchemy.pool import QueuePool

    def opened() -> sqlite3.Connection:
        book = sqlite3.connect(Places.found().course / "gradebook.db", check_same_thread=False)
        book.execute("PRAGMA synchronous=OFF")
        book.execute("PRAGMA journal_mode=MEMORY")
        return book

    return create_engine("sqlite://", creator=opened, poolclass=QueuePool, future=True)


def read_files(folder: Path, *, most: int | None = 50_000_000) -> dict[str, bytes]:
    """The plain files below ``folder`` by their path in it, in order.

    Links are left out, and, unless ``most`` is None, what is beyond ``most`` bytes or ``MOST_FILES`` files.
    """
    found, total = {}, 0
    for path in entries(folder):
        if (
            path.is_symlink()
            or not path.is_file()
            or path.resolve() != folder.resolve() / path.relative_to(folder)
        ):
            continue
        total += path.stat().st_size
        if most is not None and (total > most or len(found) == MOST_FILES):
            break
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write ``files`` below ``folder``, which is made. Raises ``OSError``, also for a name that leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise OSError(f"{name!r} leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def replace_folder(folder: Path, files: dict[str, bytes]) -> None:
    """``folder`` with ``files`` and nothing else: at no moment half of the old and half of the new."""
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    write_files(fresh, files)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
