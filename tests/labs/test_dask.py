"""A cluster does what a process does: the same marks from two Dask workers, and a sweep's results."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from autograder.__main__ import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a scheduler with two workers, each a process of its own, as somebody starts them by hand."""
    folder = tmp_path_factory.mktemp("dask")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    file = folder / "scheduler.json"
    run = [sys.executable, "-m"]
    local = ["--no-dashboard", "--scheduler-file", str(file)]
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *local]
    worker = ["distributed.cli.dask_worker", *local, "--no-nanny", "--nthreads", "1", "--memory-limit", "0"]
    worker += ["--local-directory", str(folder)]
    started = []
    try:
        for command in (scheduler, worker, worker):
            log = open(folder / f"{len(started)}.log", "w")  # noqa: SIM115 (closed with the process)
            started.append(
                subprocess.Popen([*run, *command], env=environment, stdout=log, stderr=log, cwd=folder)
            )
            log.close()
        for _ in range(600):
            if file.is_file() and file.stat().st_size:
                break
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(started):
            process.kill()
        for process in started:
            process.wait()


def marks(course: Path) -> list[tuple]:
    with closing(sqlite3.connect(course / "gradebook.db")) as book:
        return book.execute(
            "SELECT s.student_id, g.auto_score FROM grade g JOIN submitted_notebook n ON g.notebook_id = n.id "
            "JOIN submitted_assignment s ON n.assignment_id = s.id ORDER BY s.student_id"
        ).fetchall()


def test_two_dask_workers_give_the_same_marks(built, cluster):
    codes = {
        "ann": "def double(number): return 2 * number",
        "bob": "def double(number): return 1 / 0",
        "cyd": "def double(number): return number",
    }
    for student, code in codes.items():
        nb = nbformat.read(built.released, as_version=4)
        nb.cells[2].source = code
        built.hand_in(student, nb)
    told = CliRunner().invoke(app, ["grade", built.name, "--no-collect", "--scheduler", cluster])
    assert told.exit_code == 0, told.output
    found = marks(built.places.course)
    assert found == [("ann", 3.0), ("bob", 0.0), ("cyd", 0.0)]
    pages = {path: path.read_bytes() for path in (built.places.course / "feedback").rglob("*.html")}
    shutil.rmtree(built.places.course / "journal")
    assert CliRunner().invoke(app, ["grade", built.name, "--no-collect", "--workers", "1"]).exit_code == 0
    assert (marks(built.places.course), {path: path.read_bytes() for path in pages}) == (found, pages)


def test_nobody_at_the_address_is_one_sentence(built):
    told = CliRunner().invoke(app, ["grade", built.name, "--no-collect", "--scheduler", "tcp://127.0.0.1:9"])
    assert (told.exit_code, "127.0.0.1:9" in told.output) == (2, True)
