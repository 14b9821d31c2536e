"""How the judge asks and the learner's object answers: JSON text, one question at a time.

A question is ``[serial, method, arguments, told]``: ``told`` are calls whose answers nobody needs, made first
(a ``reclaim`` rides with the next ``place``). An answer is ``[serial, status, value]``. ``Answerer`` turns one
into the other in the learner's process; the judge talks to it directly in the learner's own notebook
(``InProcess``) or over a Unix socket when grading (``OverSocket``): same messages, same checks.
Nothing that the learner's process says is trusted beyond its form, which ``Asker.ask`` checks.
"""

import _thread
import json
import math
import operator
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import final

PACKET_BYTES = 64 * 1024
ASK_SECONDS = 5.0  # three nets of time, none of which marks: this one protects the judge ...
TICK_SECONDS = 0.75  # ... and two ticks inside one call interrupt the learner's own process first
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_STATUSES = {"ok", "raised", "too-long", "unsendable"}


class AnswerFault(Exception):
    """The learner's side gave no usable answer.

    Attributes:
        tag: raised, too-long, unsendable, silent, gone, oversized, not-json, out-of-turn or wrong-type.
        detail: what the learner's side said of it: type, text, line, method; all of it only to be shown.
    """

    def __init__(self, tag: str, text: str, detail: dict | None = None) -> None:
        super().__init__(text)
        self.tag, self.detail = tag, detail or {}


class Asker(ABC):
    """The judge's end. ``new`` makes a fresh object there, ``ask`` calls a method of it."""

    def __init__(self) -> None:
        self._serial = 0

    @final
    def new(self, settings: dict) -> None:
        """A fresh object of the learner's class, made with ``settings``. Raises ``AnswerFault``."""
        self.ask("new", [settings])

    @final
    def ask(self, method: str, arguments: list, told: list = ()) -> object:
        """The answer of ``method(*arguments)`` after the calls in ``told``, as JSON values.

        Raises:
            AnswerFault: there was none, or it was not in the form that was asked for.
        """
        self._serial += 1
        try:
            reply = json.loads(
                self._exchange(_ENCODE([self._serial, method, arguments, list(told)])),
                parse_constant=_refuse_constant,
            )
        except (ValueError, RecursionError):
            raise AnswerFault("not-json", f"the answer to {method} was not JSON") from None
        if not (type(reply) is list and len(reply) == 3 and type(reply[0]) is int and reply[1] in _STATUSES):
            raise AnswerFault(
                "out-of-turn", f"the answer to {method} was not of the form [serial, status, value]"
            )
        serial, status, value = reply
        if serial != self._serial:
            raise AnswerFault("out-of-turn", f"question {self._serial} was answered as if it were {serial}")
        if status != "ok":
            detail = value if type(value) is dict else {}
            raise AnswerFault(status, str(detail.get("text", ""))[:300], detail)
        return value

    @abstractmethod
    def _exchange(self, question: str) -> str | bytes:
        """Send one question, return the one answer. Raises ``AnswerFault`` when none comes."""


class Answerer:
    """The learner's end: answers JSON questions with a learner's class. Never raises on a learner's fault."""

    def __init__(self, make: Callable) -> None:
        self._make = make
        self._object: object = None
        self._net = _TimeNet()

    def answer(self, question: str) -> str:
        """The JSON answer to a JSON question."""
        serial, method, arguments, told = json.loads(question)
        try:
            with self._net.around(serial):
                for name, values in told:
                    method_now = name
                    getattr(self._object, name)(*values)
                method_now = method
                if method == "new":
                    settings = arguments[0]
                    self._object, value = self._make(**settings), None
                else:
                    value = getattr(self._object, method)(*arguments)
            return _ENCODE([serial, "ok", plain(value)])
        except Unsendable as wrong:
            return _ENCODE([serial, "unsendable", {"method": method, "text": str(wrong)}])
        except KeyboardInterrupt as stop:
            if not self._net.fired(serial):
                raise  # the learner pressed stop
            return _ENCODE([serial, "too-long", _described(stop, method_now)])
        except BaseException as wrong:  # SystemExit too: whatever a learner's method does is an answer
            return _ENCODE([serial, "raised", _described(wrong, method_now)])

    def close(self) -> None:
        """Stop the net of time."""
        self._net.close()


@final
class InProcess(Asker):
    """The learner's own notebook: judge and object in one process, still only JSON between them."""

    def __init__(self, make: Callable) -> None:
        super().__init__()
        self._answerer = Answerer(make)

    def _exchange(self, question: str) -> str:
        return self._answerer.answer(question)

    def close(self) -> None:
        self._answerer.close()


@final
class OverSocket(Asker):
    """Grading: the object lives in another process, at the other end of a SEQPACKET Unix socket."""

    def __init__(self, connection: socket.socket, *, seconds: float = 30.0) -> None:
        super().__init__()
        self._connection = connection
        self._buffer = bytearray(PACKET_BYTES + 1)
        self._until = time.monotonic() + seconds
        timeval = struct.pack("ll", int(ASK_SECONDS), 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)

    def _exchange(self, question: str) -> bytes:
        if time.monotonic() > self._until:
            raise AnswerFault("silent", "the whole check took longer than its time")
        try:
            self._connection.send(question.encode())
            size = self._connection.recv_into(self._buffer)
        except BlockingIOError:
            raise AnswerFault("silent", f"no answer came within {ASK_SECONDS:.0f} s") from None
        except OSError:
            raise AnswerFault("gone", "the notebook's process ended") from None
        if size == 0:
            raise AnswerFault("gone", "the notebook's process ended")
        if size > PACKET_BYTES:
            raise AnswerFault("oversized", f"the answer was longer than {PACKET_BYTES:,} bytes")
        return bytes(self._buffer[:size])


def serve(path: str | Path, hello: list, make: Callable) -> bool:
    """Answer the judge that listens at ``path`` until it is done; False when it does not want ``hello`` now."""
    answerer = Answerer(make)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(path))
        connection.send(_ENCODE(hello).encode())
        buffer = bytearray(1 << 20)
        try:
            while True:
                size = connection.recv_into(buffer)
                question = buffer[:size].decode()
                if question in ("", "received", "not open"):
                    return question == "received"
                reply = answerer.answer(question).encode()
                if len(reply) > PACKET_BYTES:
                    serial = json.loads(question)[0]
                    text = f"the answer is {len(reply):,} bytes long; at most {PACKET_BYTES:,} can be sent"
                    reply = _ENCODE([serial, "unsendable", {"text": text}]).encode()
                connection.send(reply)
        except OSError:
            return False
        finally:
            answerer.close()


class Unsendable(Exception):
    """A value that JSON cannot carry exactly."""


def plain(value: object, depth: int = 8) -> object:
    """``value`` as exact JSON types; NumPy numbers become numbers, tuples lists. Raises ``Unsendable``."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise Unsendable(f"{value} is no finite number")
        return value
    if depth == 0:
        raise Unsendable("the answer is nested more than 8 deep")
    if type(value) in (list, tuple):
        return [plain(item, depth - 1) for item in value]
    if type(value) is dict:
        if not all(type(key) is str for key in value):
            raise Unsendable("the keys of an answer must be text")
        return {key: plain(item, depth - 1) for key, item in value.items()}
    try:
        return operator.index(value)
    except Exception:
        kind = type(value)
        if kind.__module__ == "numpy" and kind.__name__.startswith("float"):
            return plain(float(value), depth)
        raise Unsendable(
            f"a {kind.__name__} cannot be sent; answer with plain numbers, text or lists"
        ) from None


def _described(wrong: BaseException, method: str) -> dict:
    """What to show of an exception: its type, text, and the last line of the learner's own cell or file."""
    line, trace = None, wrong.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            line = trace.tb_lineno if line is None or trace.tb_frame.f_code.co_name == method else line
        trace = trace.tb_next
    try:
        text = str(wrong)[:300]
    except Exception:
        text = ""
    return {"type": type(wrong).__name__, "text": text, "line": line, "method": method}


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


class _TimeNet:
    """Interrupts the main thread when one call is seen by two ticks; no cost per call but two assignments."""

    def __init__(self) -> None:
        self._inside: int | None = None
        self._fired: int | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def around(self, serial: int) -> "_TimeNet":
        self._inside = serial
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        with self._lock:  # once we are out, no interrupt for this call can be sent any more
            self._inside = None

    def fired(self, serial: int) -> bool:
        return self._fired == serial

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        seen = None
        while not self._done.wait(TICK_SECONDS):
            with self._lock:
                if self._inside is not None and self._inside == seen:
                    self._fired = seen
                    _thread.interrupt_main()
                seen = self._inside
