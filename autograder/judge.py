"""The judge: it owns inputs, arena, ledger and verdict; the learner's process only answers questions.

A *sitting* is one notebook being graded. While the locked cell of an exercise runs, the sitting takes the one
conversation that cell opens, plays the graded cases through it and keeps the score. The learner's process
hears "received", never a verdict.
"""

import html
import json
import os
import shutil
import socket
import tempfile
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from typing import final

from autograder.answerer import PACKET_BYTES, plain
from autograder.channel import Asker, OverSocket
from autograder.course import Course
from gpulab.telemetry.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Commitments:
    """What a learner typed for one exercise: plain JSON values, judged, never run."""

    learner: str = ""
    predicted: dict = field(default_factory=dict)
    reconciled: dict = field(default_factory=dict)  # {"cause": text, "events": [serials]}
    answered: dict = field(default_factory=dict)

    @classmethod
    def read(cls, value: object) -> "Commitments":
        """From the learner's process; anything that is not of this form counts as not committed."""
        found = value if type(value) is dict else {}
        learner = found.get("learner")
        parts = {
            name: {k: v for k, v in found[name].items() if v is not None}
            for name in ("predicted", "reconciled", "answered")
            if type(found.get(name)) is dict
        }
        return cls(learner[:80] if type(learner) is str else "", **parts)


@dataclass(frozen=True, slots=True)
class Feedback:
    """One broken rule, shown: sentence, first event, expected against got, a question, a picture."""

    rule: str
    event: str
    expected: str
    got: str
    question: str
    picture: object = None  # report.charts.Picture of a small failing trace
    where: str = ""  # what the picture shows


@dataclass(frozen=True, slots=True)
class Score:
    """Points of one exercise, and why. ``tag`` names the misconception, '' when nothing was wrong."""

    exercise: str
    points: float
    max_points: float
    tag: str = ""
    notes: tuple[str, ...] = ()  # one line a part: predicted, reconciled, build
    feedback: Feedback | None = None
    typed_name: str = ""
    build_share: float = 0.0  # of the build's part alone, 0 to 1

    @property
    def full(self) -> bool:
        return self.points >= self.max_points

    @property
    def text(self) -> str:
        """The score and the feedback as plain text."""
        lines = [f"{self.exercise}: {self.points:g} of {self.max_points:g} points", *self.notes]
        said = self.feedback
        if said:
            lines += ["", said.rule, f"First event that broke it: {said.event}"]
            lines += [f"Expected: {said.expected}", f"Got:      {said.got}", said.question]
            lines += [said.where] if said.where else []
        return "\n".join(lines)

    @property
    def html(self) -> str:
        """The same as an HTML fragment, escaped, with the picture as inline SVG."""
        rows = [
            f"<p><strong>{html.escape(self.exercise)}: {self.points:g} of {self.max_points:g} points</strong></p>"
        ]
        if self.notes:
            items = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
            rows.append(f"<ul>{items}</ul>")
        said = self.feedback
        if said:
            rows.append(f"<p>{html.escape(said.rule)}</p><dl>")
            for name, value in (
                ("First event that broke it", said.event),
                ("Expected", said.expected),
                ("Got", said.got),
            ):
                rows.append(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>")
            rows.append(f"</dl><p><em>{html.escape(said.question)}</em></p>")
            if said.picture is not None:
                rows.append(
                    f"<figure>{said.picture.svg()}<figcaption>{html.escape(said.where)}</figcaption></figure>"
                )
        return '<div class="gpulab-feedback">' + "\n".join(rows) + "</div>"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text, "text/html": self.html}


class Exercise(ABC):
    """What the judge must know of one exercise. Reading tasks (no code) never touch the ``asker``."""

    id: str
    points: float
    builds: bool = False  # does the learner hand in a class or function?
    fields: tuple[str, ...] = ()  # names that ``answer`` takes
    predicts: tuple[str, ...] = ()  # names that ``predict`` takes
    causes: tuple[str, ...] = ()  # what ``reconcile`` takes as cause

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

    def practise(self, course: Course, puzzle: object, answered: dict) -> Score:
        """Full feedback on answers to a practice puzzle; no points."""
        raise NotImplementedError(
            f"{self.id} is a build: check() plays it, variant() shows the reference's run"
        )


def share_of_way(share: float, cuts: tuple[tuple[float, float], ...]) -> float:
    """The credit of the highest cut that ``share`` reaches; ``cuts`` are (at least, credit), ascending."""
    return max((credit for least, credit in cuts if share >= least), default=0.0)


def as_points(share: float, points: float) -> float:
    """``share`` of ``points``, to a hundredth of a point, never outside 0 to ``points``."""
    return round(min(max(share, 0.0), 1.0) * points + 1e-9, 2)


def build_points(points: float, predicted: bool, reconciled: float, build: float) -> float:
    """10 % for a committed prediction, 20 % for the reconciling, 70 % for the build (each 0 to 1)."""
    return as_points(0.1 * predicted + 0.2 * reconciled + 0.7 * build, points)


def numbers(value: object) -> list[int]:
    """The whole numbers in a learner's list of event ids; anything else is left out."""
    value = plain(value) if type(value) in (list, tuple) else [value]
    return [item for item in value if type(item) is int][:20]


def reconciliation(said: Commitments, cause: str, shows: set[int]) -> tuple[float, str]:
    """Half for the right ``cause``, half for events that are all among ``shows``; and the line that says so."""
    named = said.reconciled.get("cause") == cause
    cited = numbers(said.reconciled.get("events", []))
    shown = bool(cited) and all(event in shows for event in cited)
    return 0.5 * named + 0.5 * shown, (
        f"Reconciled: the term is {'right' if named else 'not right'}, "
        f"the events cited {'show' if shown else 'do not show'} it."
    )


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
        self._folder = tempfile.mkdtemp(prefix="judge-")
        self.path = os.path.join(self._folder, "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._lock = threading.Lock()
        self._open: Exercise | None = None
        self._score: Score | None = None
        self._failure: BaseException | None = None
        self._judged: set[str] = set()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def open(self, exercise: str) -> None:
        """From now on one conversation about ``exercise`` is taken, the first that says its name."""
        from autograder.checks import exercises

        with self._lock:
            self._open, self._score, self._failure = exercises()[exercise], None, None

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
        shutil.rmtree(self._folder, ignore_errors=True)
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
        connection.settimeout(2.0)
        try:
            hello = json.loads(connection.recv(PACKET_BYTES))
            name, said = hello[0], Commitments.read(hello[1])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return
        connection.settimeout(None)
        with self._lock:  # held to the end: close() waits here for the verdict
            exercise = self._open
            if exercise is None or name != exercise.id or name in self._judged:
                _send(connection, "not open")
                return
            self._judged.add(name)
            try:
                asker = OverSocket(connection) if exercise.builds else None
                self._score = exercise.grade(self.course, said, asker)
            except Exception as failure:
                self._failure = failure
            _send(connection, "received")


def _send(connection: socket.socket, word: str) -> None:
    with suppress(OSError):  # the notebook may be gone; the score stands
        connection.send(word.encode())
