"""Submissions over workers: any ``concurrent.futures.Executor``, a few at a time, each retried once.

A worker that dies takes nobody's mark with it: what it had in hand is done again, one by one, so that the
submission that kills workers is found and the others go on.
"""

import contextvars
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import final

from autograder.grading import Graded, Task, grade_alone, load

ATTEMPTS = 2
"""How often a submission is tried when *we* fail; a learner's failure is a mark and no reason to try again."""
_CONNECT_SECONDS = 10


@final
class Workers:
    """``count`` workers, or with 1 and no ``scheduler`` this process itself.

    Args:
        scheduler: the address of a Dask scheduler; its workers need this package.
        play: what grades one task.

    Raises (from ``graded``):
        ModuleNotFoundError: ``scheduler`` without ``distributed`` (the extra ``dask``). OSError: nobody answers there.
    """

    def __init__(
        self, count: int = 1, scheduler: str = "", play: Callable[[Task], Graded] = grade_alone
    ) -> None:
        self.count, self.scheduler, self._play = max(1, count), scheduler, play
        self._careful = False  # a worker died: one submission at a time until all that it had are done

    @property
    def here(self) -> bool:
        """Does this process itself do the work?"""
        return self.count == 1 and not self.scheduler

    def graded(self, tasks: Iterable[Task]) -> Iterator[Graded]:
        """A result for each task, in the order in which they are done; tasks are made when their turn comes."""
        if self.here:
            with on_one_core():
                yield from map(self._here, tasks)
            return
        open_executor = _dask(self.scheduler) if self.scheduler else lambda: _processes(self.count)
        executor = open_executor()
        tasks, again = iter(tasks), deque()  # again: (task, how often it failed, how often it died alone)
        pending: dict[Future, tuple[Task, int, int]] = {}
        try:
            while True:
                whole = self._fill(executor, tasks, again, pending)
                if whole and not pending:
                    return
                done = wait(pending, return_when=FIRST_COMPLETED)[0] if whole else ()
                if not whole or any(isinstance(one.exception(), BrokenProcessPool) for one in done):
                    executor.shutdown(
                        wait=True, cancel_futures=True
                    )  # its thread ends, so that the next can fork
                    yield from self._lost(pending, again)
                    executor = open_executor()
                    continue
                for future in done:
                    yield from self._ended(future, *pending.pop(future), again)
        finally:
            if (
                pending
            ):  # stopped, for example with Ctrl-C: nobody takes what is in hand, so nobody waits for it
                _end(executor)
            executor.shutdown(wait=False, cancel_futures=True)

    def _here(self, task: Task) -> Graded:
        result = self._play(task)
        for _ in range(ATTEMPTS - 1):
            result = self._play(task) if result.fault else result
        return result

    def _fill(self, executor: Executor, tasks: Iterator, again: deque, pending: dict) -> bool:
        """Hand over as many tasks as there is room for; False when a worker has died, and with it the pool."""
        self._careful = self._careful and bool(again or pending)
        room = 1 if self._careful else 2 * self.count
        while len(pending) < room:
            task, *tries = again.popleft() if again else (next(tasks, None), 0, 0)
            if task is None:
                return True
            try:
                handed = (self._play, task) if self.scheduler else (_apart, self._play, task)
                pending[executor.submit(*handed)] = (task, *tries)
            except BrokenProcessPool:
                again.appendleft((task, *tries))
                return False
        return True

    def _ended(
        self, future: Future, task: Task, failures: int, deaths: int, again: deque
    ) -> Iterator[Graded]:
        wrong = future.exception()
        result = (
            future.result() if wrong is None else Graded(task.student, fault=_told(wrong), log=_told(wrong))
        )
        if result.fault and failures + 1 < ATTEMPTS:
            again.append((task, failures + 1, deaths))
        else:
            yield result

    def _lost(self, pending: dict, again: deque) -> Iterator[Graded]:
        """A worker has died, and with it the pool: what was in hand goes back; who died alone twice has failed."""
        alone = self._careful and len(pending) == 1  # else another one may have been the cause
        for task, failures, deaths in pending.values():
            if alone and deaths + 1 == ATTEMPTS:
                died = f"the process that graded it died {ATTEMPTS} times (killed, or out of memory)"
                yield Graded(task.student, fault=died, log=died)
            else:
                again.append((task, failures, deaths + alone))
        pending.clear()
        self._careful = True


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def on_one_core() -> Iterator[None]:
    """This thread, and what it starts, on one processor: judge and kernel take turns, and waking the other core costs more."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[os.getpid() % len(before)]})  # two commands side by side differ
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _processes(count: int) -> Executor:
    """Processes of our own, each on a core of its own where there are enough: judge and kernel share a core (README).

    Where this thread is the only one, they are forked: nothing is imported anew, and one warm process serves them all.
    """
    forked = sys.platform == "linux" and threading.active_count() == 1
    if forked:
        load()
    context = multiprocessing.get_context("fork" if forked else "spawn")
    return ProcessPoolExecutor(
        count, context, initializer=_settle, initargs=(os.getpid(), context.Value("i", 0))
    )


def _end(executor: Executor) -> None:
    """End the processes of ``executor`` at once; their kernels go with them. Workers elsewhere go on."""
    for process in list((getattr(executor, "_processes", None) or {}).values()):
        process.kill()


def _settle(parent: int, counter) -> None:
    """A new worker ends with its parent, leaves Ctrl-C to it, and takes the next core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # what was wrong with a notebook, intake has told
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it was gone before we asked
        os.kill(os.getpid(), signal.SIGKILL)
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def _dask(address: str) -> Callable[[], Executor]:
    return lambda: _Cluster(address)


@final
class _Cluster(Executor):
    """The workers behind a Dask scheduler."""

    def __init__(self, address: str) -> None:
        from distributed import Client

        self._client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        self._executor = self._client.get_executor(pure=False)

    def submit(self, play: Callable, /, *arguments: object, **named: object) -> Future:
        return self._executor.submit(play, *arguments, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait)
        self._client.close()


_APART = contextvars.Context()


def _apart(play: Callable[[Task], Graded], task: Task) -> Graded:
    """``task`` played where an event loop of the process that this one was forked from is not seen."""
    return _APART.run(play, task)


def _told(wrong: BaseException) -> str:
    return f"{type(wrong).__name__}: {wrong}"
