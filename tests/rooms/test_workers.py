"""Submissions over workers: all come back, whoever dies, and our own failures are tried again."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from autograder import workers
from autograder.grading import Graded, Task
from autograder.journal import Busy, Journal, digest
from autograder.workers import ATTEMPTS, Workers

REPO = Path(__file__).parents[2]


def tasks(*students: str, folder: Path = Path()) -> list[Task]:
    return [Task("90-tiny", student, {}, {}, b"", {}, str(folder).encode()) for student in students]


def note_try(task: Task) -> int:
    """How often this one has been tried, this time included."""
    file = Path(task.secret.decode()) / task.student
    with open(file, "a") as out:
        out.write(".")
    return len(file.read_text())


def well(task: Task) -> Graded:
    note_try(task)
    return Graded(task.student, log=task.lab)


def kills_its_worker(task: Task) -> Graded:
    note_try(task)
    if task.student == "eve":
        os.kill(os.getpid(), signal.SIGKILL)
    return Graded(task.student)


def kills_its_worker_once(task: Task) -> Graded:
    if note_try(task) == 1 and task.student in ("bob", "dan"):
        os.kill(os.getpid(), signal.SIGKILL)
    return Graded(task.student, log="FORKED" if hasattr(workers, "FORKED") else "")


def fails_once(task: Task) -> Graded:
    first = note_try(task) == 1 and task.student == "bob"
    return Graded(task.student, fault="OSError: no socket" if first else "")


def fails(task: Task) -> Graded:
    note_try(task)
    return Graded(task.student, fault="OSError: no socket")


def raises(task: Task) -> Graded:
    raise RuntimeError("a fault of the grader itself")


def takes_long(task: Task) -> Graded:
    if note_try(task) and task.student != "ann":
        time.sleep(60)
    return Graded(task.student)


NAMES = ("ann", "bob", "cyd", "dan", "eve", "fay", "gus")


def faults(results) -> dict[str, str]:
    return {result.student: result.fault for result in results}


@pytest.mark.parametrize("count", [1, 2])
def test_every_submission_comes_back_once(count, tmp_path):
    found = list(Workers(count, play=well).graded(tasks(*NAMES, folder=tmp_path)))
    assert sorted(result.student for result in found) == list(NAMES)
    assert {result.log for result in found} == {"90-tiny"}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(NAMES, ".")


def test_who_kills_the_worker_fails_alone(tmp_path):
    found = faults(Workers(2, play=kills_its_worker).graded(tasks(*NAMES, folder=tmp_path)))
    assert found.pop("eve") == "the process that graded it died 2 times (killed, or out of memory)"
    assert found == dict.fromkeys(set(NAMES) - {"eve"}, "")


def test_a_worker_that_is_killed_from_outside_costs_nobody_anything(tmp_path):
    found = faults(Workers(2, play=kills_its_worker_once).graded(tasks(*NAMES, folder=tmp_path)))
    assert found == dict.fromkeys(NAMES, "")


def test_a_worker_that_died_before_the_next_submission_is_handed_over_costs_nobody_anything(
    tmp_path, monkeypatch
):
    pools, open_pool = [], workers._processes
    monkeypatch.setattr(workers, "_processes", lambda count: pools.append(open_pool(count)) or pools[-1])

    def in_turn():
        for task in tasks("ann", "bob", "cyd", folder=tmp_path):
            while task.student == "cyd" and not pools[0]._broken:
                time.sleep(0.01)
            yield task

    found = list(Workers(2, play=kills_its_worker_once).graded(in_turn()))
    assert faults(found) == {"ann": "", "bob": "", "cyd": ""}
    assert max(len(path.read_text()) for path in tmp_path.iterdir()) == 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_failure_of_ours_is_tried_once_more_and_then_told(count, tmp_path):
    assert faults(Workers(count, play=fails_once).graded(tasks("ann", "bob", folder=tmp_path))) == {
        "ann": "",
        "bob": "",
    }
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert faults(Workers(count, play=fails).graded(tasks("ann", folder=fresh))) == {
        "ann": "OSError: no socket"
    }
    assert (fresh / "ann").read_text() == "." * ATTEMPTS


def test_an_exception_in_a_worker_is_a_failure_and_not_the_end():
    assert faults(Workers(2, play=raises).graded(tasks("ann", "bob"))) == dict.fromkeys(
        ("ann", "bob"), "RuntimeError: a fault of the grader itself"
    )


def test_who_stops_a_run_does_not_wait_for_what_is_in_hand(tmp_path):
    results = Workers(2, play=takes_long).graded(tasks(*NAMES, folder=tmp_path))
    assert next(results).student == "ann"
    children = multiprocessing.active_children()
    results.close()  # what Ctrl-C does, too: nobody takes the other results
    until = time.monotonic() + 10
    while time.monotonic() < until and any(Path(f"/proc/{child.pid}/exe").exists() for child in children):
        time.sleep(0.01)  # `is_alive` may say yes of a process that the executor's thread has waited for
    assert children and not any(Path(f"/proc/{child.pid}/exe").exists() for child in children)


def test_tasks_are_made_when_their_turn_comes(tmp_path):
    made = []

    def lazily():
        for task in tasks(*map(str, range(40)), folder=tmp_path):
            made.append(task.student)
            yield task

    results = Workers(2, play=well).graded(lazily())
    next(results)
    assert len(made) <= 8  # a window of two a worker, and those that were done meanwhile
    assert len(list(results)) == 39


def test_a_journal_knows_what_ended_and_survives_a_line_that_was_cut_off(tmp_path):
    file = tmp_path / "90-tiny.jsonl"
    with Journal.held(file) as journal:
        journal.begin("ann", "1")
        journal.end("ann", "1")
        journal.begin("bob", "2")
    file.write_bytes(file.read_bytes() + b'{"student": "ann", "ke')
    with Journal.held(file) as journal:
        assert [journal.done("ann", "1"), journal.done("ann", "2"), journal.done("bob", "2")] == [
            True,
            False,
            False,
        ]
        journal.begin("ann", "3")  # handed in again, and cut off
        journal.end("bob", "2")
    again = Journal(file)
    assert [again.done("ann", "1"), again.done("bob", "2")] == [False, True]
    states = [json.loads(line)["state"] for line in file.read_text().splitlines() if line.endswith("}")]
    assert states == ["begun", "ended", "begun", "begun", "ended"]


def test_two_commands_do_not_grade_one_lab_at_a_time(tmp_path):
    with (
        Journal.held(tmp_path / "90-tiny.jsonl"),
        pytest.raises(Busy, match="another command grades 90-tiny now"),
        Journal.held(tmp_path / "90-tiny.jsonl"),
    ):
        pass
    with Journal.held(tmp_path / "91-other.jsonl"), Journal.held(tmp_path / "90-tiny.jsonl"):
        pass


def in_a_process_without_threads(source: str, folder: Path) -> str:
    """What ``source`` prints in a process of its own: pytest's own may have threads, and is not forked then."""
    head = f"import os, sys\nsys.path.insert(0, {str(REPO)!r})\nos.chdir({str(folder)!r})\n"
    command = [sys.executable, "-c", head + textwrap.dedent(source)]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
def test_a_forked_process_does_not_hold_the_lab_when_the_command_has_ended(tmp_path):
    told = in_a_process_without_threads(
        """
        import signal, time
        from pathlib import Path
        from autograder.journal import Journal
        with Journal.held(Path("90-tiny.jsonl")):
            lives = os.fork()
            if lives == 0:
                time.sleep(30)
                os._exit(0)
            time.sleep(0.1)
        with Journal.held(Path("90-tiny.jsonl")):
            print("held again")
        os.kill(lives, signal.SIGKILL)
        """,
        tmp_path,
    )
    assert told == "held again\n"


def loops(task: Task) -> Graded:
    """Whether the event loop here is one that came with the fork; and that this process is a fork."""
    from jupyter_core.utils import ensure_event_loop

    return Graded(
        task.student,
        log=f"{hasattr(ensure_event_loop(), 'of_the_parent')} {getattr(workers, 'FORKED', None)}",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
def test_a_forked_worker_has_an_event_loop_of_its_own(tmp_path):
    told = in_a_process_without_threads(
        """
        from jupyter_core.utils import ensure_event_loop
        from autograder import workers
        from tests.rooms import test_workers
        ensure_event_loop().of_the_parent = workers.FORKED = True
        for one in workers.Workers(2, play=test_workers.loops).graded(test_workers.tasks("ann", "bob", "cid")):
            print(one.fault or one.log)
        """,
        tmp_path,
    )
    assert told == "False True\n" * 3


@pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
def test_a_process_with_threads_is_not_forked_and_after_a_death_workers_are_forked_again(tmp_path):
    told = in_a_process_without_threads(
        """
        import threading
        from pathlib import Path
        from autograder import workers
        from tests.rooms import test_workers
        workers.FORKED = True
        for task in test_workers.kills_its_worker_once, test_workers.loops:
            if task is test_workers.loops:
                threading.Thread(target=threading.Event().wait, daemon=True).start()
            for one in workers.Workers(2, play=task).graded(test_workers.tasks("ann", "bob", folder=Path())):
                print(one.fault or one.log)
        """,
        tmp_path,
    )
    assert told == "FORKED\n" * 2 + "False None\n" * 2


def test_a_digest_tells_apart_what_is_cut_in_other_places():
    assert (
        len({digest(b"ab", b"c"), digest(b"a", b"bc"), digest(b"abc"), digest({"a": b"bc"}), digest()}) == 5
    )
    assert digest({"a": b"x", "b": 1}) == digest({"b": 1, "a": b"x"})


def where(task: Task) -> Graded:
    return Graded(task.student, log=str(len(os.sched_getaffinity(0))))


def test_one_worker_stays_on_one_core_while_it_works_and_no_longer():
    before = os.sched_getaffinity(0)
    assert [one.log for one in Workers(1, play=where).graded(tasks("ann", "bob"))] == ["1", "1"]
    assert os.sched_getaffinity(0) == before
    with pytest.raises(RuntimeError), workers.on_one_core():
        raise RuntimeError
    assert os.sched_getaffinity(0) == before
