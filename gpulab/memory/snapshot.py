"""A memory snapshot of PyTorch: what ``torch.cuda.memory._dump_snapshot`` wrote, read as plain data.

A snapshot holds the *segments* that the allocator has of each device, cut into *blocks*, and, where the
history was recorded, a *trace* of events. It is a pickle, or the same as JSON; either may be gzipped.
"""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

from gpulab.memory.plain_pickle import NotPlain, read_plain_pickle
from gpulab.memory.snapshot_rows import Snapshot, fault, snapshot_from
from gpulab.units import format_bytes

MOST_BYTES = 1 << 30  # of a file, unpacked; a history of a million events takes a tenth of it
Tick = Callable[[str, int, int], object]  # what is being done, how much of it, of how much


def read_snapshot(path: str | Path, tick: Tick | None = None) -> Snapshot:
    """The snapshot in ``path``; ``tick`` is told how far the reading is. The file is only read.

    Raises:
        TraceFault: no snapshot, cut off, another version, hostile, or nothing in it; says where.
        OSError: the file cannot be read.
    """
    data = unpacked(path)
    try:
        if data[:1] in (b"{", b"["):
            plain = json.loads(data)
        else:
            size = len(data)
            plain = read_plain_pickle(data, tick and (lambda at: tick("reading", at, size)))
    except NotPlain as wrong:
        raise fault(path, f"{wrong}") from None
    except RecursionError:
        raise fault(path, "its lists lie too deep in each other; a snapshot needs seven levels") from None
    except ValueError as wrong:
        raise fault(path, f"it is cut off or no JSON ({wrong})") from None
    return snapshot_from(plain, path)


def unpacked(path: str | Path) -> bytes:
    """The bytes of ``path``, gunzipped if it is a gzip file, without the white space around JSON."""
    with open(path, "rb") as file:
        opener = gzip.open if file.read(2) == b"\x1f\x8b" else open
    try:
        with opener(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as wrong:
        raise fault(path, f"the gzip file is cut off or damaged ({wrong})") from None
    if len(data) > MOST_BYTES:
        raise fault(path, f"it holds more than {format_bytes(MOST_BYTES)}; record fewer events (max_entries)")
    if data[:4] == b"PK\x03\x04":
        raise fault(path, "it is a zip archive, as torch.save writes; _dump_snapshot writes a pickle")
    if not data.strip():
        raise fault(path, "it is empty")
    return data if data[0] == 0x80 else data.strip()
