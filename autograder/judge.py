"""The judge: it owns inputs, arena, ledger and verdict; the learner's process only answers questions.

A *sitting* is one notebook being graded. While the locked cell of an exercise runs, the sitting takes the one
conversation that cell opens, plays the graded cases through it and keeps the score. The learner's process
hears "received", never a verdict.
"""

import json
import os
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import final

from autograder.answerer import PACKET_BYTES
from autograder.channel import CHECK_SECONDS, Asker, OverSocket
from autograder.course import Course
from autograder.sandbox_tree import belongs
from autograder.scratch import Scratch
from autograder.verdict import Commitments, Score
from gpulab.telemetry.ledger import Ledger


class Exercise(ABC):
    """What the judge must know of one exercise. Reading tasks (no code) never touch the ``asker``."""

    id: str
    points: float
    instead_of: str = ""  # the exercise in whose place it may be done: the better counts, and stands there
    builds: bool = False  # does the learner hand in a class, or the function that ``function`` names?
    function: str = ""
    seconds: float = CHECK_SECONDS  # that all questions of one check may take together
    fields: tuple[str, ...] = ()  # names that ``answer`` takes
    predicts: tuple[str, ...] = ()  # names that ``predict`` takes
    choices: tuple[str, ...] = ()  # what a prediction is chosen from; without them it is a number
    causes: tuple[str, ...] = ()  # what ``reconcile`` takes as cause
    constant: str = 'self.rules["{}"]'  # how the learner's code names a constant of the twist
    hints: tuple[str, ...] = ()  # gentlest first: a question about the picture, the sub-goals, the blocks
    blocks: tuple[dict[str, str], str] = ({}, "")  # lettered lines, two of them wrong, and the right order

    def twist(self, draw: Random) -> dict[str, int]:
        """The constants of this course's twist, drawn once a course; public, printed in the lab."""
        return {}

    def example(self, course: Course) -> tuple[list, Callable] | None:
        """The judge's first questions, as they travel, and a maker of an object that answers them somehow."""
        return None

    @abstractmethod
    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> object:
        """This learner's own task, or with ``variant`` a fresh one for practice."""

    @abstractmethod
    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """The score. Every graded input is drawn from ``course``; each is played once."""

    @abstractmethod
    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """The learner's own check: public inputs for builds, form only for answers."""

    def watched(self, puzzle: object, part: str = "") -> Ledger:
        """The naive rule on ``puzzle``, to be looked at."""
        raise NotImplementedError(f"{self.id} has nothing to watch")

    def reference(self, course: Course, puzzle: object) -> Ledger:
        """The reference's run on ``puzzle``, to step through in practice."""
        return self.watched(puzzle)

    def kept(self, course: Course) -> object | None:
        """What the visible check must know of the reference's runs, for machines without it; JSON values."""
        return None

    def practise(self, course: Course, puzzle: object, answered: dict) -> Score:
        """Full feedback on answers to a practice puzzle; no points."""
        raise NotImplementedError(
            f"{self.id} is a build: check() plays it, variant() shows the reference's run"
        )


def share_of_way(share: float, cuts: tuple[tuple[float, float], ...]) -> float:
    """The credit of the highest cut that ``share`` reaches; ``cuts`` are (at least, credit), ascending.

    A mean of shares may miss by a rounding error what it reaches; a cut forgives that much.
    """
    return max((credit for least, credit in cuts if share >= least - 1e-9), default=0.0)


def as_points(share: float, points: float) -> float:
    """``share`` of ``points``, to a hundredth of a point, never outside 0 to ``points``."""
    return round(min(max(share, 0.0), 1.0) * points + 1e-9, 2)


def build_points(points: float, predicted: bool, reconciled: float, build: float) -> float:
    """10 % for a committed prediction, 20 % for the reconciling, 70 % for the build (each 0 to 1)."""
    return as_points(0.1 * predicted + 0.2 * reconciled + 0.7 * build, points)


def foreseen(value: object, choices: tuple[str, ...]) -> bool:
    """Is ``value`` a prediction: one of ``choices``, or a number where there are none?"""
    return type(value) is str and value in choices if choices else type(value) in (int, float)


def committed(said: Commitments, names: tuple[str, ...], choices: tuple[str, ...] = ()) -> tuple[bool, str]:
    """Is there a prediction for each of ``names``? And the line that says so."""
    found = all(foreseen(said.predicted.get(name), choices) for name in names)
    return found, "Prediction: " + ("committed." if found else "not committed.")


def reconciliation(said: Commitments, cause: str, shows: set[int]) -> tuple[float, str]:
    """Half for the right ``cause``, half for events that are all among ``shows``; and the line that says so."""
    named = said.reconciled.get("cause") == cause
    events = said.reconciled.get("events")
    cited = [event for event in events if type(event) is int] if type(events) is list else []
    shown = bool(cited) and all(event in shows for event in cited)
    if said.reconciled.get("cause") is None and not cited:
        return 0.0, "Reconciled: not yet."
    return 0.5 * named + 0.5 * shown, (
        f"Reconciled: the term is {'right' if named else 'not right'}, "
        f"the events cited {'show' if shown else 'do not show'} it."
    )


def answered_form(exercise: Exercise, said: Commitments, kinds: dict[str, type]) -> Score:
    """For tasks whose answer the learner's notebook must not tell: is it complete and of the right kind?"""
    problems = []
    for name in exercise.fields:
        value = said.answered.get(name)
        if value is None:
            problems.append(f"{name}: not answered yet")
        elif type(value) is not kinds[name] or (
            type(value) is list and any(type(n) is not int for n in value)
        ):
            wanted = {int: "a whole number", list: "a list of whole numbers"}.get(kinds[name], "a name")
            problems.append(f"{name}: {value!r} is not {wanted}")
    note = "Complete; it is graded when you hand in." if not problems else "; ".join(problems) + "."
    return Score(exercise.id, 0.0, 0.0, "not-answered" if problems else "", (note,), None, said.learner)


@final
class Sitting:
    """One notebook being graded, on the instructor's side.

    ``path`` goes into the kernel's environment as ``GPULAB_JUDGE``. ``open(exercise)`` before the locked cell
    runs, ``close()`` after it ended: the score, 0 if the cell never asked. ``end()`` removes the socket.
    """

    def __init__(self, course: Course, student: str) -> None:
        if not hasattr(socket, "SOCK_SEQPACKET") or os.name != "posix":
            raise OSError("Grading needs Linux (Unix SEQPACKET sockets); learners' notebooks run anywhere.")
        self.course, self.student = course, student
        self._folder = Scratch()
        self.path = str(self._folder.path / "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o666)  # in a folder that is ours alone: a sandbox reaches it as another user
        self._listener.listen(8)
        self.overheard: Callable[[str, str], None] | None = (
            None  # what travels, for whoever looks into one mark
        )
        self._root = 0
        self._lock = threading.Lock()
        self._open: Exercise | None = None
        self._score: Score | None = None
        self._failure: BaseException | None = None
        self._judged: set[str] = set()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def expect(self, root: int) -> None:
        """From now on whoever is not the process ``root`` or of its descent is not listened to."""
        self._root = root

    def open(self, exercise: str) -> None:
        """From now on one conversation about ``exercise`` is taken, the first that says its name."""
        from autograder.checks import exercises

        with self._lock:
            self._open, self._score, self._failure = exercises()[exercise], None, None

    @property
    def heard(self) -> bool:
        """Has the cell of the open exercise asked the judge? Waits for a conversation that is under way."""
        with self._lock:
            return self._open is None or self._open.id in self._judged

    def close(self) -> Score:
        """The score of the exercise that was open; waits for a conversation that is under way.

        Raises:
            Exception: the judge itself failed. That is an infrastructure failure, never a 0.
        """
        with self._lock:
            exercise, self._open = self._open, None
            if self._failure is not None:
                raise self._failure
            if self._score is not None:
                return self._score
        why = "The locked check cell never asked the judge: it did not run, or it was changed."
        return Score(exercise.id, 0.0, exercise.points, "never-asked", (why,))

    def end(self) -> None:
        """Stop listening and remove the socket."""
        with suppress(OSError):  # wakes the thread out of its accept
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._folder.end()
        self._thread.join(timeout=5)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        if self._root and not belongs(_peer(connection), self._root):
            return
        hello = _hello(connection)
        if hello is None:
            return
        name, said = hello
        with self._lock:  # held to the end: close() waits here for the verdict
            exercise = self._open
            if exercise is None or name != exercise.id or name in self._judged:
                _send(connection, "not open")
                return
            self._judged.add(name)
            try:
                asker = OverSocket(connection, exercise.seconds) if exercise.builds else None
                if asker is not None:
                    asker.overheard = self.overheard
                self._score = exercise.grade(self.course, said, asker)
            except Exception as failure:
                self._failure = failure
            _send(connection, "received")


def _hello(connection: socket.socket) -> tuple[str, Commitments] | None:
    """What the first packet says: the exercise and what was typed for it; None if it is no such thing."""
    connection.settimeout(2.0)
    try:
        name, said = json.loads(connection.recv(PACKET_BYTES))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    connection.settimeout(None)
    return (name, Commitments.read(said)) if type(name) is str else None


def _peer(connection: socket.socket) -> int:
    """The process that connected, as numbered here."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid


def _send(connection: socket.socket, word: str) -> None:
    with suppress(OSError):  # the notebook may be gone; the score stands
        connection.send(word.encode())
