"""A policy of somebody's own, watched: what goes wrong in it is told with its line, request and time."""

import threading
import traceback
from _thread import interrupt_main
from pathlib import Path
from time import perf_counter, sleep
from typing import final

from gpulab.errors import PolicyFault, shown
from gpulab.serving.answers import fault
from gpulab.serving.policy import Policy, View

_PACKAGE = Path(__file__).parents[1]
PATIENCE_S = 5.0  # of one answer; the shipped policies take some microseconds


@final
class Watch:
    """Interrupts an answer that takes longer than ``patience_s``; use it as a context around a run.

    It is a thread beside the main one. In a run that is not in the main thread nothing can be interrupted: there
    an answer that is late is told when it comes.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self.lock, self.since, self.late = threading.Lock(), None, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        if threading.current_thread() is threading.main_thread():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(self.patience_s / 4):
            with self.lock:
                if self.since is not None and perf_counter() - self.since > self.patience_s:
                    self.late, self.since = True, None
                    interrupt_main()


@final
class Watched(Policy):
    """``policy``, whose faults name the line of its file and who was first in line; it answers the same."""

    def __init__(self, policy: Policy, watch: Watch) -> None:
        self.policy, self.watch = policy, watch
        self.mixes, self.reserves = policy.mixes, policy.reserves

    def decide(self, view: View) -> dict:
        watch, began = self.watch, perf_counter()
        try:
            watch.since = began
            answer = self.policy.decide(view)
            with watch.lock:
                watch.since = None
            while watch.late:  # the interrupt is on its way
                sleep(0.01)
        except KeyboardInterrupt:
            if watch.late:
                raise self._slow(view) from None
            raise
        except PolicyFault:
            raise
        except Exception as wrong:
            what = f"decide raised {type(wrong).__name__}: {shown(str(wrong), 200)} ({_place(wrong)})"
            raise self._fault(what, "raised", view) from wrong
        finally:
            watch.since = None
        if perf_counter() - began > watch.patience_s:
            raise self._slow(view)
        return answer

    def _slow(self, view: View) -> PolicyFault:
        what = f"decide took more than {self.watch.patience_s:g} s for one answer"
        return self._fault(what, "slow", view)

    def _fault(self, what: str, law: str, view: View) -> PolicyFault:
        first = next(iter(view.waiting), None) or next(iter(view.running), None)
        numbers = {} if first is None else {"request": first.id}
        about = "" if first is None else f", with request {first.id} first in line"
        return fault(what + about, law, view.now_ns, numbers)


def _place(wrong: Exception) -> str:
    """The line at which ``wrong`` was raised: the last one outside this package, if it came through one."""
    frames = traceback.extract_tb(wrong.__traceback__)
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(_PACKAGE)]
    last = (theirs or frames)[-1]
    return f"{last.filename}, line {last.lineno}: {last.line}"
