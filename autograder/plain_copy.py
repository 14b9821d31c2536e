"""A copy of a folder that somebody else may be changing meanwhile: plain files and folders, and never what a link leads to."""

import os
import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import final

from autograder.channel import printable

_DEEPEST = 40  # folders in folders; each holds one file descriptor, and later steps walk down as well
_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def kind(look: os.stat_result) -> str:
    """What ``look`` was taken of, in a word."""
    return _KINDS.get(stat.S_IFMT(look.st_mode), "device")


@final
class PlainCopy:
    """Copies what is plain in one folder of the account ``uid``; ``left_out`` says what is not, and why.

    ``course``: nbgrader's ``CourseDirectory``; what it says of names, sizes and shared groups holds.
    """

    def __init__(self, course, uid: int) -> None:
        self.course, self.uid = course, uid
        self.left_out: list[str] = []
        self._room = 1000 * course.max_dir_size

    def folder(self, source: str, dest: Path) -> None:
        """Copy ``source`` as ``dest``, which must not be there.

        Raises:
            OSError: it cannot be read or written, is too large, or is no longer what it was. Part of ``dest`` may be there.
        """
        opened = self._open(source, None)
        try:
            look = os.fstat(opened)
            if kind(look) != "folder" or look.st_uid != self.uid:
                raise OSError("it was exchanged while it was collected")
            self._inside(opened, dest, "")
        finally:
            os.close(opened)

    def _open(self, name: str, folder: int | None) -> int:
        # Without waiting, as for a pipe that nobody writes to.
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)

    def _inside(self, folder: int, dest: Path, inner: str) -> None:
        dest.mkdir()
        if self.course.groupshared:
            dest.chmod(0o2770 | dest.stat().st_mode)
        for name in sorted(os.listdir(folder)):
            if any(fnmatchcase(name, pattern) for pattern in self.course.ignore):
                continue
            fault = self._fault(name, os.stat(name, dir_fd=folder, follow_symlinks=False), inner)
            if not fault:
                opened = self._open(name, folder)
                try:
                    look = os.fstat(opened)  # of what is open, whatever the name leads to by now
                    fault = self._fault(name, look, inner)
                    if not fault and kind(look) == "folder":
                        self._inside(opened, dest / name, f"{inner}{name}/")
                    elif not fault:
                        self._write(opened, dest / name, look)
                finally:
                    os.close(opened)
            if fault:
                self.left_out.append(f"{printable(inner + name, 80)!r} ({fault})")

    def _fault(self, name: str, look: os.stat_result, inner: str) -> str:
        """Why this is not copied; '' when it is."""
        what, most = kind(look), self.course.max_file_size
        if what == "folder":
            return "it lies too deep" if inner.count("/") >= _DEEPEST else ""
        if what != "file":
            return f"it is a {what}"
        if look.st_nlink > 1 and look.st_uid != self.uid:  # a hard link to a file that its maker may not read
            return "it is another account's file"
        if not any(fnmatchcase(name, pattern) for pattern in self.course.include):
            return "the course does not collect such files"
        return f"it has {look.st_size:,} bytes" if most and look.st_size > 1000 * most else ""

    def _write(self, opened: int, dest: Path, look: os.stat_result) -> None:
        with open(dest, "xb") as file:
            while part := os.read(opened, 1 << 20):
                self._room -= len(part)
                if self._room < 0:
                    raise OSError(f"it has more than {self.course.max_dir_size:,} kB")
                file.write(part)
        os.utime(dest, ns=(look.st_atime_ns, look.st_mtime_ns))
        if self.course.groupshared:
            dest.chmod(0o660 | dest.stat().st_mode)
