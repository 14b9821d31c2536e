"""The learner's end of the channel: answers the judge's JSON questions with an object of the learner's class.

A question is ``[serial, method, arguments, told]``: ``told`` are calls whose answers nobody needs, made first
(a ``reclaim`` rides with the next ``place``). ``new`` may say how the object reads what it is told: with
``"objects"`` as its second argument the mappings of later questions come as objects (``job.generated``), with
``"view"`` it is a policy that sees an engine (``autograder.mirror``). An answer is ``[serial, status, value]``.
Nothing here is trusted by the judge: delete or patch it, and the worst outcome is one's own verdict.
"""

import _thread
import ctypes
import json
import math
import operator
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import final

PACKET_BYTES = 64 * 1024  # the most that one question or answer may take
TICK_SECONDS = 0.75  # between two looks at the call that is running
COMPUTED_TICKS = 2  # as much processor time since the first look as these take interrupts it: 1.5 s
STALLED_TICKS = (
    10  # looks at one call that interrupt it even if it did not compute: under channel.ASK_SECONDS
)
ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # one encoder: making it costs 10 µs
_LONGEST_BITS = 4096  # of a whole number; Python itself writes no more than 4,300 digits
_TEXT = 300  # characters of an exception that travel
_OURS = ("gpulab", "autograder.answerer", "autograder.learner", "autograder.mirror")


class Unsendable(Exception):
    """A value that JSON cannot carry exactly."""


@final
class Answerer:
    """Answers JSON questions with an object made by ``make``. Whatever a learner's code does is an answer."""

    def __init__(self, make: Callable) -> None:
        self._make = make
        self._object: object = None
        self._read: Callable = _as_told
        self._doing = "new"
        self._net = TimeNet()

    def answer(self, question: str) -> str:
        """The JSON answer to a JSON question; ``KeyboardInterrupt`` only if it was not the net of time's."""
        serial, method, arguments, told = json.loads(question)
        try:
            status, value = self._net.limit(self._outcome, method, arguments, told)
        except TookTooLong as late:
            status, value = "too-long", _described(late.__cause__, self._doing)
        reply = ENCODE([serial, status, value])
        if len(reply) <= PACKET_BYTES:
            return reply
        text = f"the answer is {len(reply):,} bytes long; at most {PACKET_BYTES:,} can be sent"
        return ENCODE([serial, "unsendable", {"method": method, "text": text}])

    def close(self) -> None:
        """Stop the net of time."""
        self._net.close()

    def _outcome(self, method: str, arguments: list, told: list) -> tuple[str, object]:
        try:
            for self._doing, values in told:
                getattr(self._object, self._doing)(*map(self._read, values))
            self._doing = method
            if method == "new":
                self._read = opened if arguments[1:] == ["objects"] else _as_told
                self._object = self._made(*arguments)
                return "ok", None
            return "ok", plain(getattr(self._object, method)(*map(self._read, arguments)))
        except KeyboardInterrupt:
            raise
        except Unsendable as wrong:
            return "unsendable", _described(wrong, self._doing)
        except BaseException as wrong:  # SystemExit too
            return "raised", _described(wrong, self._doing)

    def _made(self, settings: dict, reads: str = "") -> object:
        if reads != "view":
            return self._make(**settings)
        from autograder.mirror import Mirrors  # serving takes 40 ms to import: only where it is asked for

        return Mirrors(self._make, settings)


def serve(path: str | Path, hello: list, make: Callable) -> bool:
    """Answer the judge that listens at ``path`` until it is done; False when it does not want ``hello`` now.

    Raises:
        OSError: no judge listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(path))
        connection.send(ENCODE(hello).encode())
        buffer = bytearray(PACKET_BYTES)
        answerer = Answerer(make)
        try:
            while True:
                question = buffer[: connection.recv_into(buffer)].decode()
                if question in ("", "received", "not open"):
                    return question == "received"
                connection.send(answerer.answer(question).encode())
        except OSError:  # the judge has ended the conversation
            return False
        finally:
            answerer.close()


def _as_told(value: object) -> object:
    return value


class Told(SimpleNamespace):
    """A mapping that is read by name; a name that is not in it is answered with those that are."""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"there is no {name!r} here; there are {', '.join(vars(self))}")


def opened(value: object) -> object:
    """``value`` with its mappings as objects: ``job["generated"]`` is read as ``job.generated``."""
    if type(value) is dict:
        return Told(**{name: opened(item) for name, item in value.items()})
    return [opened(item) for item in value] if type(value) is list else value


def plain(value: object, depth: int = 8) -> object:
    """``value`` as exact JSON types; NumPy numbers become numbers, what has an order a list, mappings objects.

    A ``Counter`` or a ``deque`` says the same as a dict or a list. A set has no order and is ``Unsendable``.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        if value.bit_length() > _LONGEST_BITS:
            raise Unsendable(f"a whole number of {value.bit_length():,} bits is too long")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise Unsendable(f"{value} is no finite number")
        return value
    if depth == 0:
        raise Unsendable("the answer is nested more than 8 deep")
    if isinstance(value, (list, tuple, deque)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise Unsendable("the keys of an answer must be text")
        return {key: plain(item, depth - 1) for key, item in value.items()}
    return _number(value, kind, depth)


def _number(value: object, kind: type, depth: int) -> object:
    """A whole number of another type (NumPy's, or anything with ``__index__``), or one of NumPy's floats."""
    try:
        whole = operator.index(value)
    except Exception:
        if kind.__module__ == "numpy" and kind.__name__.startswith("float"):
            return plain(float(value), depth)
        text = f"a {kind.__name__} cannot be sent; answer with plain numbers, text or lists"
        raise Unsendable(text) from None
    return plain(int.__index__(whole), depth)


def _described(wrong: BaseException, method: str) -> dict:
    """What to show of an exception: its type, its text, and the line of the learner's own cell or file.

    That is the innermost line of the first file on the way that belongs to neither of our packages.
    """
    file = line = None
    trace = wrong.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code.co_filename
        if file is None and _package(trace.tb_frame) not in _OURS:
            file = code
        line = trace.tb_lineno if code == file else line
        trace = trace.tb_next
    kind = _shown(lambda: type(wrong).__name__, 60)
    return {"type": kind, "text": _shown(lambda: str(wrong), _TEXT), "line": line, "method": method}


def _package(frame) -> str:
    name = str(frame.f_globals.get("__name__", ""))
    return "gpulab" if name.startswith("gpulab.") else name


def _shown(say: Callable[[], str], limit: int) -> str:
    """What ``say`` says, cut to ``limit`` as exact text; '' when a learner's own ``__str__`` fails."""
    try:
        return str.__getitem__(say(), slice(limit))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


class TookTooLong(Exception):
    """The net of time interrupted a call; the cause is the ``KeyboardInterrupt`` that ended it."""


@final
class TimeNet:
    """Interrupts a call on the main thread that does not end; a call in time pays one lock.

    It does not end when the process has computed through it for ``COMPUTED_TICKS``, or when ``STALLED_TICKS`` have seen
    it: several times what any answer needs, so neither a busy machine nor the moment of a look costs a mark.
    On another thread nothing is interrupted: Python can only stop the main one.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._inside: int | None = None  # number of the call that is running
        self._fired: int | None = None  # number of the last call that was interrupted
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if threading.current_thread() is threading.main_thread():
            self._thread.start()

    def limit(self, call: Callable, *arguments: object) -> object:
        """``call(*arguments)``.

        Raises:
            TookTooLong: it was interrupted, and let itself be.
            KeyboardInterrupt: somebody else interrupted it; the learner pressed stop.
        """
        self._calls += 1
        number = self._calls
        try:
            try:
                self._inside = number
                return call(*arguments)
            finally:
                self._inside = None
                with self._lock:  # an interrupt for this call has been sent by now, or never will be
                    late = self._fired == number
                if late:
                    time.sleep(0.05)  # and arrives here at the latest, not in somebody else's code
        except KeyboardInterrupt as stop:
            self._inside = None
            if self._fired != number:
                raise
            raise TookTooLong from stop

    def close(self) -> None:
        """End the watching thread."""
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        seen, ticks, spent = None, 0, 0.0
        while not self._done.wait(TICK_SECONDS):
            with self._lock:
                if self._inside is None or self._inside != seen:
                    seen, ticks, spent = self._inside, 1, time.process_time()
                    continue
                ticks += 1
                computed = time.process_time() - spent >= COMPUTED_TICKS * TICK_SECONDS
                if computed or ticks >= STALLED_TICKS:
                    self._fired = seen
                    _interrupt_main()


def _interrupt_main() -> None:
    """As if the learner had pressed stop. A real signal, where it is heard, also ends a ``sleep``."""
    main = threading.main_thread().ident
    if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as in whatever a shell started with "&"
        stop = ctypes.py_object(KeyboardInterrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), stop)
    elif hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
