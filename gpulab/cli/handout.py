"""Hand a lab out to the learner's folder without ever writing over what the learner typed.

Three rules. A notebook that exists is never written again: a changed release lands beside it under a
new name. What was handed out is remembered by digest in ``.handed-out.json``; losing that file costs
one spare copy, never a line of work. Every other file of a release (data, the course card) is refreshed.
"""

import hashlib
import json
import os
from itertools import count
from pathlib import Path

STATE = ".handed-out.json"


def hand_out(release: Path, work: Path, *, fresh: bool = False) -> list[str]:
    """One sentence for each thing the learner should know; empty when nothing changed.

    Copies the folder ``release`` (one lab, ``NAME/NAME.ipynb`` and its files) to ``work / NAME``.
    ``fresh`` first moves the learner's notebooks aside to ``NAME.old-1.ipynb`` (``-2``, ...), so that
    the release's own can take their place. Cost: one read of each file.

    Raises:
        OSError: ``work`` cannot be read or written. What was there before is still there.
    """
    lab = work / release.name
    lab.mkdir(parents=True, exist_ok=True)
    handed = _Handed(work, release.name)
    said = []
    for source in sorted(path for path in release.rglob("*") if path.is_file()):
        target = lab / source.relative_to(release)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".ipynb":
            said += _hand_out_notebook(source, target, handed, fresh=fresh)
        elif not target.is_file() or target.read_bytes() != source.read_bytes():
            _write(target, source.read_bytes())
    handed.save()
    return said


def _hand_out_notebook(source: Path, target: Path, handed: "_Handed", *, fresh: bool) -> list[str]:
    """Copy one notebook where nothing can be lost; the sentences that say what happened."""
    content = source.read_bytes()
    said = []
    if fresh and os.path.lexists(target):
        aside = _first_free(target, "old-{}")
        os.rename(target, aside)
        said.append(f"Your {target.name} is kept as {aside.name}.")
    if not os.path.lexists(target):
        _write(target, content)
        handed.remember(target, content)
        return [*said, f"{target.name} is ready in {target.parent}."]
    if handed.newest(target) == _digest(content) or target.read_bytes() == content:
        handed.remember_newest(target, content)
        return said
    beside = _place_beside(target, handed)
    _write(beside, content)
    handed.remember(beside, content, of=target)
    return [
        *said,
        f"{target.name} has changed since it was handed out: your own is untouched, "
        f"the new one is beside it as {beside.name}.",
    ]


def _place_beside(target: Path, handed: "_Handed") -> Path:
    """``NAME.new.ipynb``, or the first of ``NAME.new-2.ipynb``, ... that the learner has not touched."""
    for number in count(1):
        path = target.with_name(f"{target.stem}.new{'' if number == 1 else f'-{number}'}.ipynb")
        if not os.path.lexists(path):
            return path
        if path.is_file() and handed.digest(path) == _digest(path.read_bytes()):
            return path
    raise AssertionError("count() never ends")


def _first_free(target: Path, pattern: str) -> Path:
    """The first ``NAME.<pattern>.ipynb``, counted from 1, that does not exist."""
    names = (target.with_name(f"{target.stem}.{pattern.format(n)}.ipynb") for n in count(1))
    return next(path for path in names if not os.path.lexists(path))


def _write(path: Path, content: bytes) -> None:
    """Write all of ``content`` or nothing: a full disk leaves no half notebook under the real name."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Handed:
    """What was handed out, by file: the digest at that moment, and the newest release of each notebook.

    The file is a convenience: missing, cut short or edited into nonsense it reads as empty.
    """

    def __init__(self, work: Path, lab: str) -> None:
        self._path, self._lab, self._work = work / STATE, lab, work
        self._all = self._read()

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {part: dict(found[part]) for part in ("files", "newest")}
        except (OSError, ValueError, KeyError, TypeError):
            return {"files": {}, "newest": {}}

    def _key(self, path: Path) -> str:
        return path.relative_to(self._work).as_posix()

    def digest(self, path: Path) -> str | None:
        """SHA-256 of ``path`` when it was handed out; None when that is not known."""
        return self._all["files"].get(self._key(path))

    def newest(self, notebook: Path) -> str | None:
        """SHA-256 of the newest release that was handed out for ``notebook``, under any name."""
        return self._all["newest"].get(self._key(notebook))

    def remember(self, path: Path, content: bytes, *, of: Path | None = None) -> None:
        """``content`` now stands in ``path`` and is the newest release of ``of`` (default: of itself)."""
        self._all["files"][self._key(path)] = _digest(content)
        self.remember_newest(of or path, content)

    def remember_newest(self, notebook: Path, content: bytes) -> None:
        """``content`` is the newest release of ``notebook``, whether or not it had to be copied."""
        self._all["newest"][self._key(notebook)] = _digest(content)

    def save(self) -> None:
        """Write the state, all or nothing, in one order of keys."""
        text = json.dumps(self._all, indent=1, sort_keys=True) + "\n"
        if not self._path.is_file() or self._path.read_text(encoding="utf-8", errors="replace") != text:
            _write(self._path, text.encode())
