"""A class costs what its learners cost: counted, with one recorded grading standing in for all workers' answers."""

import builtins
import gc
import io
import os
import shutil
import sqlite3
import sqlite3.dbapi2
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from autograder import intake
from autograder.batch import Batch
from autograder.grading import Graded, Task
from autograder.tasks import Tasks
from autograder.workers import Workers
from tests.stand_in import record

STEPS = 10  # of SQLite's machine, between two looks


@pytest.fixture
def counted(monkeypatch) -> Counter:
    """What is done from now on: files opened by suffix and mode, gradebooks opened, questions to them, SQLite's steps."""
    counts = Counter()

    class Counted(sqlite3.Connection):
        def __init__(self, *arguments, **named) -> None:
            super().__init__(*arguments, **named)
            counts["gradebook opened"] += 1
            self.set_trace_callback(lambda question: counts.update(["questions"]))
            self.set_progress_handler(lambda: counts.update(steps=STEPS), STEPS)

    connect, opened, sync = sqlite3.dbapi2.connect, io.open, os.fsync

    def connecting(*arguments, **named):
        return connect(*arguments, **{"factory": Counted, **named})

    def opening(file, mode="r", *arguments, **named):
        if isinstance(file, str | Path):
            counts[f"{Path(file).suffix} {mode}"] += 1
        return opened(file, mode, *arguments, **named)

    for module in (sqlite3, sqlite3.dbapi2):
        monkeypatch.setattr(module, "connect", connecting)
    for module in (io, builtins):
        monkeypatch.setattr(module, "open", opening)
    monkeypatch.setattr(os, "fsync", lambda number: counts.update(["synced"]) or sync(number))
    return counts


def hand_in(built, count: int) -> None:
    """``count`` submissions, none of them graded yet."""
    shutil.rmtree(built.places.course / "submitted", ignore_errors=True)
    for name in ("journal", "autograded", "feedback"):
        shutil.rmtree(built.places.course / name, ignore_errors=True)
    nb = nbformat.read(built.released, as_version=4)
    for number in range(count):
        built.hand_in(f"learner-{number:03}", nb)


@pytest.fixture(scope="module")
def blank(built) -> bytes:
    return (built.places.course / "gradebook.db").read_bytes()


@pytest.fixture(scope="module")
def stand_in(built, blank, tmp_path_factory):
    """One submission, graded for real without a sandbox."""
    hand_in(built, 1)
    tasks = Tasks(built.name, built.places, unsafe=True)
    (one,) = intake.read(built.places.course / "submitted", built.name, tasks.released)
    return record(tasks.task(one), tmp_path_factory.mktemp("recorded") / "grading")


def graded(built, blank: bytes, count: int, workers: Workers, say=lambda line: None) -> list:
    """A class of ``count`` graded from nothing; the outcomes."""
    hand_in(built, count)
    (built.places.course / "gradebook.db").write_bytes(blank)
    return Batch(built.name, say, workers, unsafe_no_sandbox=True).grade(collect=False)


def more(counts: dict[int, Counter], few: int, many: int) -> dict[str, float]:
    """What each learner between a class of ``few`` and one of ``many`` has cost."""
    names = {name for name in counts[many] if counts[many][name] != counts[few][name]}
    return {name: (counts[many][name] - counts[few][name]) / (many - few) for name in sorted(names)}


def test_a_learner_costs_as_much_in_a_large_class_as_in_a_small_one(built, blank, stand_in, counted):
    counts = {}
    graded(built, blank, 1, Workers(play=stand_in))  # whatever a process reads once
    for count in (5, 10, 20):
        counted.clear()
        outcomes = graded(built, blank, count, Workers(play=stand_in))
        assert {outcome.status for outcome in outcomes} == {"graded"}
        counts[count] = Counter(counted)
    first, then = more(counts, 5, 10), more(counts, 10, 20)
    steps = first.pop("steps"), then.pop("steps")
    assert first == then
    assert steps[1] < 1.05 * steps[0]
    assert (first[".jsonl a+b"], first["synced"], first["gradebook opened"] <= 4) == (2, 2, True)


def test_what_workers_made_is_let_go_when_it_is_written(built, blank, stand_in):
    held = []

    def look(line: str) -> None:
        held.append(Counter(type(one) for one in gc.get_objects() if isinstance(one, Task | Graded)))

    workers = Workers(2, play=stand_in)
    assert len(graded(built, blank, 20, workers, look)) == 20
    most = max(one[Task] for one in held), max(one[Graded] for one in held)
    assert (len(held) >= 20, 0 < most[0] <= 6, 0 < most[1] <= 6) == (True, True, True), most
