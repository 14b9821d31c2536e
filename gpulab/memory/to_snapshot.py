"""A ledger of a pool in the form of a PyTorch memory snapshot, for tools that read those, and for tests."""

import gzip
import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path

from gpulab.memory.pools import SMALL_SEGMENT
from gpulab.telemetry.events import Claimed, Fact, Freed, Granted, Opened, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import US


def to_snapshot(ledger: Ledger, *, history: bool = True) -> dict:
    """``ledger`` of a pool in a device as the dict that ``torch.cuda.memory._snapshot()`` would return.

    Addresses and order are those of the ledger, times are whole microseconds, and the owner of a claim is its
    only frame. What waits at the end is not in ``segments``; its refusal is the history's ``oom`` (refusals
    before it, too). Of a segment only the size tells whether it is small. Cost: O(n log n).

    Raises:
        ValueError: the ledger has no pool inside a device.
    """
    scene = _Scene(ledger)
    for fact in ledger:
        scene.take(fact)
    return {
        "segments": [
            scene.segment(claim) for claim in sorted(scene.segments, key=lambda c: scene.segments[c][0])
        ],
        "device_traces": [scene.trace if history else []],
        "allocator_settings": {},
    }


def save_snapshot(snapshot: dict, path: str | Path) -> Path:
    """Write ``snapshot`` to ``path`` and return it: ``.json`` as JSON, else a pickle; ``.gz`` behind it packs it."""
    path = Path(path)
    names = path.name.removesuffix(".gz")
    data = json.dumps(snapshot).encode() if names.endswith(".json") else pickle.dumps(snapshot, protocol=4)
    path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)
    return path


@dataclass
class _Scene:
    """What is there after the facts so far, and the events that made it."""

    ledger: Ledger
    claims: dict[int, Claimed] = field(default_factory=dict)
    segments: dict[int, tuple[int, int]] = field(default_factory=dict)  # claim -> start, size
    blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    trace: list[dict] = field(default_factory=list)

    def __post_init__(self) -> None:
        inner = next((fact for fact in self.ledger.of(Opened) if fact.inside), None)
        if inner is None:
            raise ValueError("This ledger has no pool inside a device: there are no segments to write.")
        self.device, self.pool = inner.inside, inner.resource
        self.capacity = next(fact.capacity for fact in self.ledger.of(Opened) if fact.resource == self.device)

    def take(self, fact: Fact) -> None:
        claim = self.claims.get(getattr(fact, "claim", None))
        match fact:
            case Claimed():
                self.claims[fact.claim] = fact
            case Granted() if claim.resource == self.device:
                self.segments[fact.claim] = fact.start, fact.size
                self.note(fact, "segment_alloc", fact.start, fact.size)
            case Granted() if claim.resource == self.pool:
                self.blocks[fact.claim] = fact.start, fact.size
                self.note(fact, "alloc", fact.start, claim.size)
            case Freed() if fact.claim in self.segments:
                self.note(fact, "segment_free", *self.segments.pop(fact.claim))
            case Freed() if fact.claim in self.blocks:
                start, _ = self.blocks.pop(fact.claim)
                self.note(fact, "free_requested", start, claim.size)
                self.note(fact, "free_completed", start, claim.size)
            case Refused() if claim.resource == self.pool:
                self.note(fact, "oom", None, claim.shape.size)

    def note(self, fact: Fact, action: str, address: int | None, size: int) -> None:
        event = {"action": action, "size": size, "stream": 0, "time_us": fact.time_ns // US}
        if address is None:
            event["device_free"] = self.capacity - sum(size for _, size in self.segments.values())
        else:
            event["addr"] = address
        self.trace.append({**event, "frames": frames_of(self.claims[fact.claim].owner)})

    def segment(self, claim: int) -> dict:
        """The segment as PyTorch lists it, with all of its blocks, free ones too."""
        start, size = self.segments[claim]
        inside = sorted((at, n, c) for c, (at, n) in self.blocks.items() if start <= at < start + size)
        blocks, at = [], start
        for address, length, held in [*inside, (start + size, 0, None)]:
            if address > at:
                blocks.append(_block(at, address - at, 0, "inactive", ""))
            if held is not None:
                asked = self.claims[held]
                blocks.append(_block(address, length, asked.size, "active_allocated", asked.owner))
            at = address + length
        live = sum(length for _, length, _ in inside)
        return {
            "device": 0,
            "address": start,
            "total_size": size,
            "allocated_size": live,
            "active_size": live,
            "requested_size": sum(self.claims[held].size for *_, held in inside),
            "stream": 0,
            "segment_type": "small" if size == SMALL_SEGMENT else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }


def frames_of(owner: str) -> list[dict]:
    """The stack of one frame that stands for ``owner``: ``'load (model.py:40)'`` again, or its text as a name."""
    if not owner:
        return []
    name, _, place = owner.removesuffix(")").rpartition(" (")
    file, _, line = place.rpartition(":")
    if name and file and line.isdecimal():
        return [{"name": name, "filename": file, "line": int(line)}]
    return [{"name": owner, "filename": "", "line": 0}]


def _block(address: int, size: int, asked: int, state: str, owner: str) -> dict:
    return {
        "address": address,
        "size": size,
        "requested_size": asked,
        "state": state,
        "frames": frames_of(owner),
    }
