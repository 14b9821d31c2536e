"""Files that commands write: whole, or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` write to a folder beside ``path`` first: a write that fails leaves what was there."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        write(Path(folder) / path.name)
        os.replace(Path(folder) / path.name, path)


def refuse_to_overwrite(source: Path, out: Path, what: str) -> None:
    """Nothing, unless ``out`` is the file that is read.

    Raises:
        ValueError: it is.
    """
    if out.exists() and source.exists() and os.path.samefile(out, source):
        raise ValueError(f"{out} is the {what} itself; give another file to write to.")
