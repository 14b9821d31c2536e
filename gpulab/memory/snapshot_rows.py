"""The parts of a PyTorch memory snapshot, checked one by one; each refusal names its place in the file.

Source: pytorch, ``torch/cuda/memory.py`` (``_snapshot``), ``torch/csrc/cuda/memory_snapshot.cpp``, and for
the older form ``torch/cuda/_memory_viz.py``.
"""

from dataclasses import dataclass
from pathlib import Path

from gpulab.errors import TraceFault

MOST_PARTS = 20_000_000  # segments, blocks and events together: shared lists can pretend to be more
_LARGEST = (1 << 63) - 1
# The second name of the first state is that of PyTorch's pages, the third that of its code.
STATES = {
    "active_allocated": "held",
    "active_awaiting_free": "awaiting",
    "active_pending_free": "awaiting",
    "inactive": "free",
}
ACTIONS = {"alloc", "free_requested", "free_completed", "oom", "snapshot"}
ACTIONS |= {"segment_alloc", "segment_free", "segment_map", "segment_unmap"}
NO_STACK = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes ``[address, address + size)``: ``held`` (of which ``asked`` were asked for), ``awaiting`` or ``free``."""

    address: int
    size: int
    asked: int
    state: str
    owner: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Device memory that the allocator has. ``lender`` says to whom it lends: ``'pool'`` is the usual."""

    address: int
    size: int
    device: int
    lender: str
    expandable: bool
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a history. ``address`` is -1 and ``device_free`` set for ``oom``; ``time_us`` is -1 where old."""

    action: str
    address: int
    size: int
    stream: int
    time_us: int
    device_free: int
    owner: str


@dataclass(frozen=True)
class Snapshot:
    """Everything that is read of a snapshot. ``traces`` holds one list of events a device, in order.

    ``max_split_size`` is None where PyTorch cuts blocks of every size. ``unknown`` counts the events with an
    action that this reader does not know, by action; they are left out.
    """

    segments: tuple[Segment, ...]
    traces: tuple[tuple[Event, ...], ...]
    max_split_size: int | None
    unknown: dict[str, int]

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers of the devices of which anything is said, in order."""
        traced = {device for device, trace in enumerate(self.traces) if trace}
        return tuple(sorted({segment.device for segment in self.segments} | traced))


def snapshot_from(plain: object, path: str | Path = "snapshot") -> Snapshot:
    """The snapshot that ``plain`` (dicts and lists, as PyTorch returns them) describes.

    A bare list of segments, as ``torch.cuda.memory_snapshot()`` returns, is a snapshot without history.

    Raises:
        TraceFault: something is missing, of another type or contradicts itself; names it by its place.
    """
    if isinstance(plain, list):
        plain = {"segments": plain}
    if not isinstance(plain, dict) or "segments" not in plain:
        found = (
            f"one {type(plain).__name__}" if not isinstance(plain, dict) else f"a dict of {len(plain)} keys"
        )
        raise fault(
            path, f"it holds {found} without 'segments': no memory snapshot, or one of another version"
        )
    parts = _Parts(path)
    traces = tuple(
        parts.trace(trace, f"device_traces[{device}]")
        for device, trace in parts.rows(plain.get("device_traces") or [], "device_traces")
    )
    segments = tuple(
        parts.segment(row, f"segments[{at}]") for at, row in parts.rows(plain["segments"], "segments")
    )
    if not segments and not any(traces):
        raise fault(
            path, "it has no segments and no history: nothing was allocated, or history was switched off"
        )
    settings = plain.get("allocator_settings")
    split = settings.get("max_split_size") if isinstance(settings, dict) else None
    split = split if type(split) is int and 0 < split < _LARGEST else None
    return Snapshot(segments, traces, split, parts.unknown)


def fault(path: str | Path, why: str, place: str = "", value: object = None) -> TraceFault:
    """The error for a file that is no readable snapshot: what is wrong, where, and what is read instead."""
    return TraceFault(
        f"{path}: {why}. The file is as it was. Read are pickles and JSON of torch.cuda.memory._dump_snapshot or "
        f"_snapshot(), also gzipped, and the JSON Lines of gpulab.memory.record or a ledger.",
        rows=[(0, 0, place or value)],
        good=[],
    )


class _Parts:
    """Turns rows of plain data into parts of a snapshot, counting them; every refusal names its place."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.left = path, MOST_PARTS
        self.unknown: dict[str, int] = {}
        self._owners: dict[int, str] = {}  # by identity: a pickle shares the stacks of equal places

    def rows(self, rows: object, place: str) -> list[tuple[int, object]]:
        if not isinstance(rows, list | tuple):
            raise fault(self.path, f"{place} is of type {type(rows).__name__}, not a list", place)
        self.left -= len(rows)
        if self.left < 0:
            raise fault(self.path, f"{place} brings it above {MOST_PARTS:,} parts", place)
        return list(enumerate(rows))

    def segment(self, row: object, place: str) -> Segment:
        address, size = self.number(row, "address", place), self.number(row, "total_size", place)
        blocks, at = [], address
        for index, item in self.rows(row.get("blocks"), f"{place}.blocks"):
            block = self.block(item, f"{place}.blocks[{index}]", at)
            blocks.append(block)
            at += block.size
        if at != address + size or size == 0:
            raise fault(
                self.path,
                f"the blocks of {place} are {at - address:,} B, its total_size is {size:,} B",
                place,
            )
        stream, pool = self.number(row, "stream", place, 0), row.get("segment_pool_id", (0, 0))
        lender = "pool" if stream == 0 else f"pool, stream {stream}"
        if isinstance(pool, list | tuple) and any(type(part) is int and part for part in pool[:2]):
            lender = f"{lender}, private"
        device = self.number(row, "device", place, 0)
        return Segment(address, size, device, lender, row.get("is_expandable") is True, tuple(blocks))

    def block(self, row: object, place: str, at: int) -> Block:
        size = self.number(row, "size", place)
        if self.number(row, "address", place, at) != at or size == 0:
            raise fault(
                self.path, f"{place} does not start where the block before it ends, or is empty", place
            )
        state = STATES.get(row.get("state") if isinstance(row.get("state"), str) else None)
        if state is None:
            raise fault(self.path, f"the state of {place} is none of {', '.join(STATES)}", place)
        old = row.get("history")  # until PyTorch 2.0: what was asked and by whom, newest first
        old = old[0] if isinstance(old, list) and old and isinstance(old[0], dict) else {}
        asked = self.number(row, "requested_size", place, self.number(old, "real_size", place, size))
        owner = self.owner(row.get("frames") or old.get("frames"))
        return Block(at, size, min(asked, size) or size, state, owner)

    def trace(self, rows: object, place: str) -> tuple[Event, ...]:
        events = (self.event(row, f"{place}[{at}]") for at, row in self.rows(rows, place))
        return tuple(event for event in events if event is not None)

    def event(self, row: object, place: str) -> Event | None:
        action = row.get("action") if isinstance(row, dict) else None
        if not isinstance(action, str):
            raise fault(self.path, f"{place} has no action", place)
        if action not in ACTIONS:
            if len(self.unknown) < 100:
                self.unknown[printable(action)] = self.unknown.get(printable(action), 0) + 1
            return None
        oom = action == "oom"
        return Event(
            action,
            -1 if oom else self.number(row, "addr", place, 0 if action == "snapshot" else None),
            self.number(row, "size", place, 0 if action == "snapshot" else None),
            self.number(row, "stream", place, 0),
            self.number(row, "time_us", place, -1),
            self.number(row, "device_free", place, 0) if oom else 0,
            self.owner(row.get("frames")),
        )

    def number(self, row: object, key: str, place: str, default: int | None = None) -> int:
        if not isinstance(row, dict):
            raise fault(self.path, f"{place} is of type {type(row).__name__}, not a dict", place)
        value = row.get(key, default)
        if type(value) is not int or (value != default and not 0 <= value <= _LARGEST):
            found = (
                "missing"
                if value is None
                else f"{value:,}"
                if type(value) is int
                else f"of type {type(value).__name__}"
            )
            raise fault(self.path, f"{key} of {place} is {found}, not a whole number of 0 or more", place)
        return value

    def owner(self, frames: object) -> str:
        if not isinstance(frames, list | tuple) or not frames:
            return NO_STACK
        known = self._owners.get(id(frames))
        if known is None:
            known = self._owners[id(frames)] = owner_of(frames)
        return known


def owner_of(frames: list) -> str:
    """Who allocated, from a stack with the innermost frame first: ``'load (model.py:40)'``.

    The first frame of Python code outside PyTorch itself; else the first of Python code, else the innermost.
    """
    shown = [(frame, _file(frame)) for frame in frames[:256] if isinstance(frame, dict)]
    if not shown:
        return NO_STACK
    python = [(frame, file) for frame, file in shown if file.endswith(".py")]
    own = [(frame, file) for frame, file in python if "/torch/" not in file]
    frame, file = (own or python or shown)[0]
    name, line = printable(frame.get("name")), frame.get("line")
    place = printable(file.rpartition("/")[2])
    return f"{name} ({place}:{line if type(line) is int else '?'})" if file else name


def printable(text: object) -> str:
    """``text`` in at most 80 characters, without what could steer a terminal; ``'?'`` if it is none."""
    if not isinstance(text, str):
        return "?"
    return "".join(sign if sign.isprintable() else "?" for sign in text[-80:])


def _file(frame: dict) -> str:
    file = frame.get("filename")
    return file.replace("\\", "/") if isinstance(file, str) else ""
