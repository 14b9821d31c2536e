"""What has been graded: a line for each submission begun and ended, so that an interruption costs nothing.

A submission is known by a *key*: everything its mark depends on. While the key stays, it need not be graded again.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, final

BEGUN, ENDED = "begun", "ended"


class Busy(Exception):
    """Another command grades this lab now."""


_HELD: set[IO] = set()


def _let_go() -> None:
    """In a process that was just forked: its copy of a lock would hold it for as long as it lives."""
    for lock in _HELD:
        lock.close()
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go)


@final
class Journal:
    """The journal of one lab. One process at a time holds it (``Busy`` for a second one)."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._keys: dict[str, str] = {}  # student to the key of the last grading that ended
        if file.is_file():
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                self._read(line)

    @classmethod
    @contextmanager
    def held(cls, file: Path) -> Iterator["Journal"]:
        """The journal in ``file``, held until the block ends."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Busy(f"another command grades {file.stem} now; wait for it, or stop it first") from None
            _HELD.add(lock)
            try:
                yield cls(file)
            finally:
                _HELD.discard(lock)

    def done(self, student: str, key: str) -> bool:
        """Has this very submission been graded to its end?"""
        return self._keys.get(student) == key

    def begin(self, student: str, key: str) -> None:
        """Note that it is being graded."""
        self._write({"student": student, "key": key, "state": BEGUN})

    def end(self, student: str, key: str) -> None:
        """Note that its marks and pages are written."""
        self._keys[student] = key
        self._write({"student": student, "key": key, "state": ENDED})

    def forget(self, students: list[str]) -> None:
        """Note that these are to be graded again, whatever is known of them."""
        for student in students:
            self._keys.pop(student, None)
        self._write(*({"student": student, "key": "", "state": BEGUN} for student in students))

    def _read(self, line: str) -> None:
        try:
            noted = json.loads(line)
            if noted["state"] == ENDED:
                self._keys[noted["student"]] = noted["key"]
            elif self._keys.get(noted["student"]) != noted["key"]:
                self._keys.pop(noted["student"], None)
        except (ValueError, KeyError, TypeError):
            return  # a line that was cut off

    def _write(self, *noted: dict) -> None:
        with open(self.file, "a+b") as out:
            if out.tell() and not _ends_a_line(out):
                out.write(b"\n")
            out.write(b"".join(json.dumps(one).encode() + b"\n" for one in noted))
            out.flush()
            os.fsync(out.fileno())


def _ends_a_line(file) -> bool:
    file.seek(-1, os.SEEK_END)
    last = file.read(1)
    file.seek(0, os.SEEK_END)
    return last == b"\n"


def digest(*parts: object) -> str:
    """SHA-256 over ``parts``: text, bytes, and mappings and lists of them."""
    made = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else _canonical(part).encode()
        made.update(f"{len(content)}\n".encode() + content)
    return made.hexdigest()


def _canonical(part: object) -> str:
    return json.dumps(part, sort_keys=True, default=lambda value: hashlib.sha256(value).hexdigest())


def of_the_code(*folders: Path) -> str:
    """A digest of the Python files and data below ``folders``: marks may differ when it does."""
    made = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".toml") and path.is_file():
                content = path.read_bytes()
                made.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return made.hexdigest()
