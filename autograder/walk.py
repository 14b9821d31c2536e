"""Folders and values that somebody else has made, however deep: no step here goes deeper at each level."""

import os
from pathlib import Path

MOST_FOLDERS = 20  # of folders in folders; a thousand are more than Python's own walks can do


def entries(folder: Path) -> list[Path]:
    """What lies below ``folder`` and is no folder, in order; links are such entries and are not followed.

    What lies more than ``MOST_FOLDERS`` deep is left out, and so is a folder that cannot be read.
    """
    found, todo = [], [(folder, 0)]
    while todo:
        place, depth = todo.pop()
        try:
            with os.scandir(place) as inside:
                for entry in inside:
                    if not entry.is_dir(follow_symlinks=False):
                        found.append(place / entry.name)
                    elif depth < MOST_FOLDERS:
                        todo.append((place / entry.name, depth + 1))
        except OSError:
            continue
    return sorted(found)


def nesting(value: object) -> int:
    """How deep the lists and mappings in ``value`` lie in each other; 0 for anything else."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, list | dict)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth
