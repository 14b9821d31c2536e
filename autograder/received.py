"""A learning platform's download, or a folder, put where submissions are graded from: ``submitted/STUDENT/LAB``.

Nothing is extracted blindly: names that lead elsewhere, links and what is too large are refused, each by name.
"""

import json
import re
import shutil
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import final

from autograder.grading import write_files
from autograder.walk import MOST_FOLDERS, entries

MOST_FILE_BYTES = 200_000_000
MOST_STUDENT_BYTES = 300_000_000
MOST_BYTES = 4_000_000_000  # of one download, unpacked
_LONGEST_NAME = 120  # bytes; a file system takes 255, and a number may come behind
_NBGRADERS = ("timestamp.txt", "submission_secret.txt")  # the exchange writes these, not a learner
MOST_RATIO = 1000  # unpacked to packed: beyond it a zip is made to fill a disk

_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)

# Moodle, one folder or one file each: "Ada Byron_123456_assignsubmission_file_/02-allocate.ipynb"
_MOODLE = re.compile(r"(?P<who>[^/]+)_(?P<id>\d+)_assignsubmission_file_?/?(?P<rest>.*)", re.DOTALL)
_ONLINE_TEXT = re.compile(r"(?:.*/)?([^/]+)_\d+_assignsubmission_onlinetext.*", re.DOTALL)
# Canvas: "byronada_LATE_123456_789012_02-allocate-1.ipynb"
_CANVAS = re.compile(r"(?P<who>[^/_]+)(?P<late>_LATE)?_(?P<id>\d+)_\d+_(?P<rest>[^/]+)")


class Unfit(Exception):
    """This download cannot be taken; the text says why and what to do."""


@final
@dataclass(slots=True)
class Received:
    """What one learner handed in: what reads each file, by its name. ``given`` and ``id`` are the platform's."""

    given: str
    id: str = ""
    files: dict[str, Callable[[], bytes]] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """The student's name as a folder can have it."""
        return _plain(self.given.removesuffix(".ipynb"))


def take(source: Path, submitted: Path, lab: str, say: Callable[[str], None]) -> list[str]:
    """Put what is in ``source`` (a zip of Moodle or Canvas, or a folder) below ``submitted``; the students, sorted.

    A folder holds a folder, or one notebook, for each student. What lay there for this lab and differs moves to
    ``submitted.before/STUDENT/LAB/N``: nothing is lost. Two students of one name are told apart by the platform's number, also
    when they come in two downloads. ``say`` hears what was left out and what was replaced.

    Raises:
        Unfit: it is no such thing, or nothing in it is a submission.
    """
    if source.is_dir():
        taken = _kept(_of_folder(source, lab, _there(submitted), say), submitted, lab, say)
    elif zipfile.is_zipfile(source):
        try:
            with zipfile.ZipFile(source) as packed:
                taken = _kept(_of_zip(packed, lab, _there(submitted), say), submitted, lab, say)
        except zipfile.BadZipFile as error:
            raise Unfit(f"{source} cannot be read as a zip ({error}). Download it again.") from None
    else:
        raise Unfit(f"{source} is neither a folder nor a zip. Give what the learning platform downloads.")
    if not taken:
        raise Unfit(f"{source} holds no submission: no folder or notebook of a student was found in it.")
    return sorted(taken)


def _kept(found: list[Received], submitted: Path, lab: str, say: Callable[[str], None]) -> list[str]:
    """The students of ``found``, each written below ``submitted``; one at a time is in memory."""
    students, numbers = [], submitted.with_name("submitted.numbers.json")
    known = json.loads(numbers.read_text(encoding="utf-8")) if numbers.is_file() else {}
    of_lab = known.setdefault(lab, {})
    for student, received in _named(found, of_lab).items():
        files = _read(received, say)
        if student not in (received.given, received.given.removesuffix(".ipynb")) and not received.id:
            say(f"  {student}: called {received.given[:80]!r} there")
        try:
            if not files:
                continue
            aside = submitted.with_name("submitted.before") / student / lab
            if _keep(submitted / student / lab, files, aside):
                say(f"  {student}: replaced; what lay there is in {aside.parent.parent.name}/{student}/{lab}")
        except OSError as error:  # a name that is too long here, or a file and a folder of one name
            say(f"  left out: everything of {student}: it cannot be written ({error.strerror or error})")
            continue
        if received.id:
            of_lab[student] = received.id
        students.append(student)
    submitted.mkdir(parents=True, exist_ok=True)
    numbers.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return students


def _plain(name: str) -> str:
    """``name`` as a folder's name and a cell of a table: no control character, no comma, no formula, no way out, not too long."""
    text = "".join(char if char.isprintable() and char not in ',"' else "_" for char in name)
    text = re.sub(r"^[=+\-@. ]+", lambda begins: "_" * len(begins[0]), text) or "nameless"
    while len(text.encode()) > _LONGEST_NAME:
        text = text[:-1]
    return text


def _read(received: Received, say: Callable[[str], None]) -> dict[str, bytes]:
    files = {}
    for name, read in received.files.items():
        if PurePosixPath(name).name in _NBGRADERS:
            say(f"  left out: {name!r} of {received.who}: only the exchange writes it")
            continue
        try:
            files[name] = read()
        except _UNREADABLE as error:
            say(f"  left out: {name!r} of {received.who}: it cannot be read ({error})")
    return files


def _of_zip(
    packed: zipfile.ZipFile, lab: str, students: set[str], say: Callable[[str], None]
) -> list[Received]:
    found: dict[tuple[str, str], Received] = {}
    total, spent = 0, Counter()
    names = [entry.filename for entry in packed.infolist() if not entry.is_dir()]
    wrapped = _wrapped(names, students, say)
    for entry in packed.infolist():
        inner = entry.filename.replace("\\", "/").removeprefix(wrapped)
        fault = _fault(entry, total) or _nobodys(inner, lab)
        if fault:
            say(f"  left out: {entry.filename[:80]!r}: {fault}")
        elif not entry.is_dir():
            who, number, name = _whose(inner)
            spent[who, number] += entry.file_size
            if fault := _astray(name):
                say(f"  left out: {entry.filename[:80]!r}: {fault}")
            elif spent[who, number] > MOST_STUDENT_BYTES:
                say(
                    f"  left out: {entry.filename[:80]!r}: beyond {MOST_STUDENT_BYTES:,} bytes of {_plain(who)}"
                )
            elif who and name:  # else the platform's own list, or a file of nobody
                total += entry.file_size
                read = partial(packed.read, entry)
                found.setdefault((who, number), Received(who, number)).files[name] = read
    return list(found.values())


def _fault(entry: zipfile.ZipInfo, total: int) -> str:
    """Why this entry is not unpacked; '' when it is."""
    if fault := _astray(entry.filename):
        return fault
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a link"
    if entry.flag_bits & 1:
        return "it is encrypted"
    if entry.file_size > MOST_FILE_BYTES or total + entry.file_size > MOST_BYTES:
        return f"it has {entry.file_size:,} bytes unpacked"
    if entry.file_size > 1_000_000 and entry.file_size > MOST_RATIO * max(1, entry.compress_size):
        return f"{entry.compress_size:,} bytes that unpack to {entry.file_size:,}"
    return ""


def _astray(name: str) -> str:
    """Why a file of this name is put nowhere; '' when it may be."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
        return "its name leads out of the folder"
    return f"it lies more than {MOST_FOLDERS} folders deep" if len(path.parts) > MOST_FOLDERS else ""


def _nobodys(name: str, lab: str) -> str:
    """Why a file of this name is nobody's submission; '' when it may be one."""
    text = _ONLINE_TEXT.fullmatch(name.replace("\\", "/"))
    if text:
        return f"what {text[1]} typed into the platform's page"
    if name == f"{lab}.ipynb":
        return "it does not say whose it is: put it into a folder with the student's name"
    return ""


def _whose(name: str) -> tuple[str, str, str]:
    """Who handed this in, as it is written there, the platform's number, and the file's own name; '' for nobody's.

    Only the beginning of ``name`` is looked at: what a learner calls a file says nothing of whose it is.
    """
    name = name.replace("\\", "/")
    parts = PurePosixPath(name).parts
    moodle, canvas = _MOODLE.fullmatch(name), _CANVAS.fullmatch(name)
    if moodle and moodle["rest"]:
        return moodle["who"], moodle["id"], moodle["rest"]
    if canvas:
        return canvas["who"], canvas["id"], canvas["rest"]
    if len(parts) > 1 and not parts[0].startswith((".", "__")):
        return parts[0], "", "/".join(parts[1:])
    return ("", "", "") if not name.endswith(".ipynb") else (name, "", name)


def _there(submitted: Path) -> set[str]:
    """Who has handed in something."""
    return {path.name for path in submitted.iterdir()} if submitted.is_dir() else set()


def _wrapped(names: list[str], students: set[str], say: Callable[[str], None]) -> str:
    """The one folder, with its slash, that a platform has put everything into; '' if there is none.

    A student's own folder is not it, whatever it holds: the folders in it would be other students'.
    """
    names = [name.replace("\\", "/") for name in names if not name.startswith("__MACOSX")]
    tops = {name.partition("/")[0] for name in names}
    inner = [name.partition("/")[2] for name in names]
    top = min(tops, default="")
    if len(tops) != 1 or not any(inner) or _plain(top) in students or _MOODLE.fullmatch(f"{top}/-"):
        return ""
    known = any(_MOODLE.fullmatch(name) or _CANVAS.fullmatch(name) for name in inner)
    several = len({name.partition("/")[0] for name in inner if "/" in name and name.endswith(".ipynb")}) > 1
    if not (known or several):
        return ""
    say(f"  everything lies in the folder {top[:80]!r}: the folders in it are taken as the students'")
    return f"{top}/"


def _of_folder(source: Path, lab: str, students: set[str], say: Callable[[str], None]) -> list[Received]:
    found: dict[tuple[str, str], Received] = {}
    paths = entries(source)
    names = [path.relative_to(source).as_posix() for path in paths if path.is_file()]
    wrapped = _wrapped(names, students, say)
    for path in paths:
        name = path.relative_to(source).as_posix().removeprefix(wrapped)
        if path.is_symlink():
            say(f"  left out: {name!r}: it is a link")
        elif path.is_file() and path.stat().st_size > MOST_FILE_BYTES:
            say(f"  left out: {name!r}: it has {path.stat().st_size:,} bytes")
        elif _nobodys(name, lab):
            say(f"  left out: {name!r}: {_nobodys(name, lab)}")
        elif path.is_file():
            who, number, rest = _whose(name)
            if fault := _astray(rest):
                say(f"  left out: {name[:80]!r}: {fault}")
            elif who and rest:
                found.setdefault((who, number), Received(who, number)).files[rest] = path.read_bytes
    return list(found.values())


def _named(found: list[Received], known: dict[str, str]) -> dict[str, Received]:
    """Students by a name of their own: the platform's, with its number where two share one. ``known``: name to number so far."""
    names = Counter(received.who for received in found)

    taken: dict[str, Received] = {}

    def name(received: Received) -> str:
        numbered = f"{received.who} {received.id}"
        free = received.who not in known and numbered not in known and names[received.who] == 1
        return received.who if not received.id or free or known.get(received.who) == received.id else numbered

    # Whose name needed no change comes first: nobody gets it by a name that becomes it.
    for received in sorted(found, key=lambda one: one.given != one.who):
        own = name(received)
        while own in taken:  # "Ada B 2" may be somebody's whole name
            own += "_"
        taken[own] = received
    return taken


def _keep(folder: Path, files: dict[str, bytes], before: Path) -> bool:
    """Write ``files`` as the submission in ``folder``; True when what lay there differs, which goes to a numbered folder.

    With an ``OSError`` what lay there stays, and nothing of ``files`` does.
    """
    replaced = folder.is_dir()
    if replaced:
        if {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)} == files:
            return False
        before.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        write_files(fresh, files)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if replaced:
        number = 1 + sum(path.is_dir() for path in before.iterdir())
        shutil.move(folder, before / str(number))
    fresh.rename(folder)
    return replaced


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in entries(folder) if path.is_file() and not path.is_symlink())
