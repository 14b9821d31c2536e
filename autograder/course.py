"""A course: its public name, its secret, and everything that is drawn from the two.

Marked inputs of builds come from HMAC(secret, course, exercise): equal code earns equal marks, in every
regrade. Reading tasks come from SHA-256(course, exercise, learner), so a learner's machine draws the same
one without the secret. The constants of a twist come from the secret too, but are public: they are
printed in the lab and handed to the learner's object as ``rules``.
"""

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

CARD = "course.json"


@dataclass(frozen=True, slots=True)
class Course:
    """``course_id`` is public; ``secret`` never leaves the instructor's machine.

    ``rules`` are the twist constants by exercise. On a learner's machine the secret is empty and the rules
    are those on the card that came with the release.
    """

    course_id: str
    secret: bytes
    rules: dict[str, dict[str, int]]

    @classmethod
    def self_study(cls) -> "Course":
        """The open door: the repository as it is, whose answers anybody can read."""
        return cls.of("self", b"self")

    @classmethod
    def of(cls, course_id: str, secret: bytes) -> "Course":
        """The course with this name and secret, its twist constants drawn."""
        from autograder.checks import exercises

        rules = {}
        for name, exercise in exercises().items():
            drawn = exercise.twist(_random(hmac.new(secret, f"{course_id}/{name}/rules".encode(), "sha256")))
            if drawn:
                rules[name] = drawn
        return cls(course_id, secret, rules)

    @classmethod
    def load(cls, folder: str | Path) -> "Course":
        """The course of an instructor's ``folder``: its ``secret`` file, made on first use (mode 0600).

        Without the folder's ``secret`` but with ``GPULAB_COURSE_SECRET`` set, that is the secret. The public
        ``course_id`` is a digest of the secret, so two courses never draw the same tasks; the secret "self"
        is the open course of self-study.
        """
        path = Path(folder) / "secret"
        given = os.environ.get("GPULAB_COURSE_SECRET", "").strip()
        if not path.is_file() and not given:
            _make_secret(path)
        secret = path.read_text(encoding="utf-8").strip() if path.is_file() else given
        if not secret:
            raise ValueError(
                f"{path} is empty. Put the course's secret back into it, or remove the file for a new secret: "
                f"then every learner's tasks and all graded inputs are new ones."
            )
        if secret == "self":
            return cls.self_study()
        public = hashlib.sha256(b"course/" + secret.encode()).hexdigest()[:12]
        return cls.of(public, secret.encode())

    @classmethod
    def at_hand(cls, folder: str | Path = ".") -> "Course":
        """The learner's view: the card beside the notebook, or self-study when there is none."""
        path = Path(folder) / CARD
        if not path.is_file():
            return cls.self_study()
        card = json.loads(path.read_text(encoding="utf-8"))
        return cls(card["course_id"], b"", card["rules"])

    def card(self) -> dict:
        """What a release says about its course, for ``course.json``."""
        return {"course_id": self.course_id, "rules": self.rules}

    def graded(self, exercise: str, case: int) -> Random:
        """The draws of graded case number ``case``. Only a machine with the secret can make them."""
        if not self.secret:
            raise ValueError("graded inputs are drawn from the course secret, which is not on this machine")
        return _random(hmac.new(self.secret, f"{self.course_id}/{exercise}/{case}".encode(), "sha256"))

    def of_learner(self, exercise: str, learner: str) -> Random:
        """The draws of ``learner``'s own task; no secret needed."""
        return _random(hashlib.sha256(f"{self.course_id}/{exercise}/{learner}".encode()))

    def public(self, exercise: str, case: int) -> Random:
        """The draws of public case number ``case``: visible checks, practice and feedback."""
        return _random(hashlib.sha256(f"public/{exercise}/{case}".encode()))


def _make_secret(path: Path) -> None:
    """Write a new secret to ``path``, for its owner's eyes only, unless somebody else was first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(secrets.token_hex(32) + "\n")


def _random(digest) -> Random:
    return Random(digest.hexdigest())  # seeded with text: the same numbers on every Python since 3.2
