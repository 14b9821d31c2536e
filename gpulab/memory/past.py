"""What was there when a history began: found from the last state by undoing each event, last first."""

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import pairwise

from gpulab.memory.snapshot_rows import Block, Event, Snapshot

MAPS = {"segment_map", "segment_unmap"}


class Past:
    """The start of a history, found from its end: pieces ``(size, lender, mapped)`` and blocks by address.

    ``sizes`` holds, by number of an ``alloc`` event, the size of the block that it made and that is still there.
    ``end_pieces`` and ``end_blocks`` are the last state, which the snapshot holds.
    """

    def __init__(self, snapshot: Snapshot, device: int, trace: tuple[Event, ...]) -> None:
        self.trace, self.max_split = trace, snapshot.max_split_size
        segments = [segment for segment in snapshot.segments if segment.device == device]
        maps = [event for event in trace if event.action in MAPS and event.size]
        self._cuts = sorted({edge for event in maps for edge in (event.address, event.address + event.size)})
        self.pieces: dict[int, tuple[int, str, bool]] = {}
        for segment in segments:
            mapped = segment.expandable or bool(maps and self._cut(segment.address, segment.size)[1:])
            for at, size in (
                self._cut(segment.address, segment.size) if mapped else [(segment.address, segment.size)]
            ):
                self.pieces[at] = size, segment.lender, mapped
        self.end_pieces = dict(self.pieces)
        ends = [at + size for at, (size, _, mapped) in self.pieces.items() if mapped]
        self.mapped_end = max([*ends, *self._cuts[-1:]], default=0)  # other segments get places behind it
        self.blocks = {
            block.address: block for segment in segments for block in segment.blocks if block.state != "free"
        }
        self.end_blocks = dict(self.blocks)
        self.sizes: dict[int, int] = {}
        self.reserved = self.most_reserved = sum(size for size, *_ in self.pieces.values())
        self.at_failure: tuple[int, int] | None = None  # reserved bytes and the device's free bytes
        for number in range(len(trace) - 1, -1, -1):
            self._undo(number, trace[number])

    def _undo(self, number: int, event: Event) -> None:
        match event.action:
            case "alloc":
                block = self.blocks.pop(event.address, None)
                if block is not None and block.size:  # one of the last state
                    self.sizes[number] = block.size
            case "free_requested" if event.address in self.blocks:
                self.blocks[event.address] = replace(self.blocks[event.address], state="held")
            case "free_completed":
                held = Block(event.address, 0, max(event.size, 1), "held", event.owner)
                self.blocks.setdefault(event.address, held)
            case "segment_alloc" | "segment_map":
                for at, _ in self.parts(event):
                    if at in self.pieces:
                        self.reserved -= self.pieces.pop(at)[0]
            case "segment_free" | "segment_unmap":
                for at, size in self.parts(event):
                    if at not in self.pieces:
                        self.pieces[at] = size, lender_of(event), event.action in MAPS
                        self.reserved += size
            case "oom":
                self.at_failure = self.at_failure or (self.reserved, event.device_free)
        self.most_reserved = max(self.most_reserved, self.reserved)

    def parts(self, event: Event) -> list[tuple[int, int]]:
        """The pieces of a segment event, ``(address, size)``: pages are cut wherever any event cuts them."""
        if event.action in MAPS:
            return self._cut(event.address, event.size)
        return [(event.address, event.size)] if event.size else []

    def _cut(self, address: int, size: int) -> list[tuple[int, int]]:
        first, last = bisect_right(self._cuts, address), bisect_left(self._cuts, address + size)
        edges = [address, *self._cuts[first:last], address + size]
        return [(start, end - start) for start, end in pairwise(edges) if end > start]


def lender_of(event: Event) -> str:
    """To whom the segment of a segment event lends its blocks."""
    return "pool" if event.stream == 0 else f"pool, stream {event.stream}"
