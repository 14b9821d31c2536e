"""The judge's end of the channel: it asks, one question at a time, and trusts no more than an answer's form.

The learner's object answers in the same process (``InProcess``, the learner's own notebook) or at the other
end of a Unix socket (``OverSocket``, grading): same messages, same checks, same time.
"""

import json
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

from autograder.answerer import ENCODE, PACKET_BYTES, Answerer
from autograder.walk import nesting

# Nets of time, none of which marks. The learner's process interrupts a call first (answerer.TICK_SECONDS).
ASK_SECONDS = 10
CHECK_SECONDS = 45.0
DEEPEST = 50  # lists and mappings in an answer, one in the other
_STATUSES = ("ok", "raised", "too-long", "unsendable")


class AnswerFault(Exception):
    """The learner's side gave no usable answer.

    Attributes:
        tag: raised, too-long, unsendable, silent, gone, oversized, not-json or out-of-turn.
        detail: what the learner's side said of it: text by ``type``, ``text`` and ``method``, a number by
            ``line``; each may be missing. Only to be shown.
    """

    def __init__(self, tag: str, text: str, detail: dict | None = None) -> None:
        super().__init__(text)
        self.tag, self.detail = tag, detail or {}


class Asker(ABC):
    """``new`` makes a fresh object at the learner's end, ``ask`` calls a method of it."""

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self.asked = 0  # questions so far; the serial of the last one
        self.overheard: Callable[[str, str], None] | None = (
            None  # each question and its answer, as they travelled
        )
        self._until = time.monotonic() + seconds

    @final
    def new(self, settings: dict, reads: str = "") -> None:
        """A fresh object of the learner's class, made with ``settings``. Raises ``AnswerFault``.

        ``reads="objects"``: what it is asked about comes as objects (``job.generated``), not as mappings;
        ``reads="view"``: it is made an engine and sees a ``View`` (``autograder.asked``).
        """
        self.ask("new", [settings, reads] if reads else [settings])

    @final
    def ask(self, method: str, arguments: list, told: list = ()) -> object:
        """The answer of ``method(*arguments)`` after the calls in ``told``, as JSON values.

        Raises:
            AnswerFault: there was none, or it was not in the form that was asked for.
        """
        if time.monotonic() > self._until:
            raise AnswerFault("silent", "the whole check took longer than its time")
        self.asked += 1
        question = ENCODE([self.asked, method, arguments, list(told)])
        reply = self._exchange(question)
        if self.overheard is not None:
            self.overheard(question, reply if isinstance(reply, str) else reply.decode(errors="replace"))
        if len(reply) > PACKET_BYTES:
            raise AnswerFault("oversized", f"the answer was longer than {PACKET_BYTES:,} bytes")
        try:
            reply = json.loads(reply, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise AnswerFault("not-json", f"the answer to {method} was not JSON") from None
        form = [type(part) for part in reply] if type(reply) is list else []
        if form[:2] != [int, str] or len(form) != 3 or reply[1] not in _STATUSES:
            text = f"the answer to {method} was not of the form [serial, status, value]"
            raise AnswerFault("out-of-turn", text)
        serial, status, value = reply
        if serial != self.asked:
            raise AnswerFault("out-of-turn", f"question {self.asked} was answered as if it were another one")
        if status != "ok":
            detail = _shown(value)
            raise AnswerFault(status, detail.get("text", ""), detail)
        if nesting(value) > DEEPEST:  # a check compares what is in it, and goes deeper at each level
            raise AnswerFault(
                "not-json", f"the answer to {method} had more than {DEEPEST} lists in each other"
            )
        return value

    @abstractmethod
    def _exchange(self, question: str) -> str | bytes:
        """Send one question, return the one answer. Raises ``AnswerFault`` when none comes."""


@final
class InProcess(Asker):
    """The learner's own notebook: judge and object in one process, still only JSON between them."""

    def __init__(self, make: Callable, seconds: float = CHECK_SECONDS) -> None:
        super().__init__(seconds)
        self._answerer = Answerer(make)

    def _exchange(self, question: str) -> str:
        return self._answerer.answer(question)

    def close(self) -> None:
        """Stop the net of time."""
        self._answerer.close()


@final
class OverSocket(Asker):
    """Grading: the object lives in another process, at the other end of a SEQPACKET Unix socket."""

    def __init__(self, connection: socket.socket, seconds: float = CHECK_SECONDS) -> None:
        super().__init__(seconds)
        self._connection = connection
        self._buffer = bytearray(PACKET_BYTES + 1)  # one byte more: a longer packet is cut, and shows
        timeval = struct.pack("ll", ASK_SECONDS, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)

    def _exchange(self, question: str) -> bytes:
        try:
            self._connection.send(question.encode())
            size = self._connection.recv_into(self._buffer)
        except BlockingIOError:
            raise AnswerFault("silent", f"no answer came within {ASK_SECONDS} s") from None
        except OSError:
            raise AnswerFault("gone", "the notebook's process ended") from None
        if size == 0:
            raise AnswerFault("gone", "the notebook's process ended")
        return bytes(self._buffer[:size])


def printable(text: str, limit: int) -> str:
    """``text`` cut to ``limit`` characters; line ends, control characters and half characters are '?'."""
    return "".join(c if c.isprintable() else "?" for c in text[:limit])


def _shown(value: object) -> dict:
    """The parts of ``value`` that may be shown, each of its own type and cut."""
    value = value if type(value) is dict else {}
    said = {name: value[name] for name in ("type", "text", "method") if type(value.get(name)) is str}
    shown: dict = {name: printable(text, 300 if name == "text" else 60) for name, text in said.items()}
    line = value.get("line")
    return shown | ({"line": line} if type(line) is int and 0 < line < 1_000_000 else {})


def _refuse_constant(text: str) -> None:
    raise ValueError(text)
