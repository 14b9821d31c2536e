"""Temporary folders that do not outlive their makers for long: what ``kill -9`` leaves, the next run removes.

Each is locked (``flock``) as long as the process that made it lives, and one whose lock is free has lost its maker. No
number of a process is looked at, since another container on the same temporary folder counts its own.
"""

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import final

_PREFIX = "gpulab-tmp-"
_OURS = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")


@final
class Scratch:
    """A folder in the temporary folder that nobody else may enter, until ``end()`` or the end of the block: ``path``."""

    def __init__(self) -> None:
        self.path, self._lock = _made()

    def end(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.end()


def clear_left_over() -> list[str]:
    """Remove every folder of a ``Scratch`` whose process is gone; their names. Others' folders are not looked into."""
    removed, place = [], Path(tempfile.gettempdir())
    for name in sorted(filter(_OURS.fullmatch, os.listdir(place) if os.name == "posix" else ())):
        try:
            lock = _opened(place / name)
        except OSError:  # a file or a link, another user's, or gone by now
            continue
        try:
            found = os.fstat(lock)
            # Jupyter adds the sticky bit to the folder of a kernel's sockets.
            mine = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
            if mine and _locked(lock, wait=False):
                shutil.rmtree(place / name, ignore_errors=True)  # its maker would see that it is gone
                removed.append(name)
        finally:
            os.close(lock)
    return removed


def _made() -> tuple[Path, int]:
    """A new folder and its lock; -1 where there are none (Windows), and nothing is cleared away."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if os.name != "posix":
            return path, -1
        with suppress(FileNotFoundError):
            lock = _opened(path)
            _locked(lock, wait=True)
            if path.is_dir():  # else another run took it for left over, in the moment before it was locked
                return path, lock
            os.close(lock)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _locked(lock: int, *, wait: bool) -> bool:
    """Is it locked now? Not where a file system has no such locks: nothing is removed there."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
