"""Writes the facts of a pool that another program runs: it decides nothing, it tells what was seen.

What it writes reads like the ledger of `pool.Pool`: segments as claims on the device, blocks as claims on
the pool. Addresses are its own: an allocated segment gets the next free place with one page between, as in
`segments`, since two segments that happen to touch are no stretch. Mapped pages keep their address, because
pages of one range that touch do serve one block.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpulab.memory.extent import ALIGNMENT
from gpulab.memory.segments import SEGMENT_PAGE
from gpulab.telemetry.events import Claimed, Closed, Fact, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.shape import Contiguous, Units


@dataclass(slots=True)
class Piece:
    """Device memory that the watched pool has, at ``start`` in the ledger. ``told``: its used bytes there."""

    address: int
    size: int
    start: int
    claim: int
    mapped: bool
    live: int = 0
    told: int = 0

    @property
    def end(self) -> int:
        return self.address + self.size


class Witness:
    """The books of a pool that is only watched. ``write`` takes each fact, in order of time.

    What is reported may contradict what was reported before: then the newer is believed, the older ended as
    if that had been reported, and ``mended`` counts it. So the facts keep every law of a ledger. Allocated
    segments get places from ``first_place`` on, which must lie behind all mapped pages.
    """

    device, resource = "device", "pool"

    def __init__(self, write: Callable[[Fact], object], capacity: int, *, first_place: int = 0) -> None:
        self.capacity, self.mended = capacity, 0
        self.reserved_bytes = self.held_bytes = self.most_reserved_bytes = 0
        self.blocks: dict[int, tuple[int, int, int]] = {}  # address -> size, claim, asked bytes
        self._write = write
        self._pieces: dict[int, Piece] = {}
        self._piece_starts: list[int] = []
        self._block_starts: list[int] = []
        self._next_place = -(-first_place // SEGMENT_PAGE) * SEGMENT_PAGE
        self._claims = 0
        self._failed: tuple[int, ...] = ()  # claims that wait since the last failure
        self._failed_size = 0
        write(Opened(0, self.device, capacity, "B"))
        write(Opened(0, self.resource, 0, "B", self.device))

    @property
    def pieces(self) -> list[Piece]:
        """What the pool has of the device, in order of address."""
        return [self._pieces[address] for address in self._piece_starts]

    def grow(
        self, now_ns: int, address: int, size: int, lender: str = "pool", *, mapped: bool = False
    ) -> None:
        """The pool got ``size`` bytes of the device."""
        for piece in list(self._over(address, size)):
            self.mended += 1
            self._drop(now_ns, piece)
        start = address if mapped else self._next_place
        if not mapped:
            self._next_place = (-(-(start + size) // SEGMENT_PAGE) + 1) * SEGMENT_PAGE
        claim = self._next_claim()
        self._write(Claimed(now_ns, claim, self.device, size, Units(size), lender))
        self._write(Granted(now_ns, claim, start, size))
        self._write(Used(now_ns, claim, 0))
        self._pieces[address] = Piece(address, size, start, claim, mapped)
        insort(self._piece_starts, address)
        self.reserved_bytes += size
        self.most_reserved_bytes = max(self.most_reserved_bytes, self.reserved_bytes)

    def shrink(self, now_ns: int, address: int, size: int) -> None:
        """All pieces inside these ``size`` bytes went back to the device."""
        found = [
            piece
            for piece in self._over(address, size)
            if address <= piece.address and piece.end <= address + size
        ]
        if sum(piece.size for piece in found) != size:
            self.mended += 1
        for piece in found:
            self._drop(now_ns, piece)

    def allocate(self, now_ns: int, address: int, asked: int, size: int, owner: str) -> bool:
        """``owner`` holds ``size`` bytes from ``address`` on; False, and nothing told, if the pool has no such bytes."""
        room = self.run_end(address, size) - address
        if room <= 0:
            self.mended += 1
            return False
        size = min(size, room)
        for other in list(self._blocks_over(address, size)):
            self.mended += 1
            self.free(now_ns, other)
        if self._failed and size >= self._failed_size:
            self.give_up(now_ns)
        claim, asked = self._next_claim(), min(asked, size)
        start = self._start(address)
        unit = ALIGNMENT if start % ALIGNMENT == 0 and size % ALIGNMENT == 0 else 1
        self._write(Claimed(now_ns, claim, self.resource, asked, Contiguous(size, unit), owner))
        self._write(Granted(now_ns, claim, start, size))
        if asked < size:
            self._write(Used(now_ns, claim, asked))
        self.blocks[address] = size, claim, asked
        insort(self._block_starts, address)
        self._hold(now_ns, address, size)
        return True

    def idle(self, now_ns: int, address: int) -> None:
        """The owner of the block gave it up, but other streams may still read it: held, and used by nobody."""
        if address in self.blocks:
            self._write(Used(now_ns, self.blocks[address][1], 0))

    def free(self, now_ns: int, address: int) -> None:
        """The block at ``address`` is free again."""
        if address not in self.blocks:
            self.mended += 1
            return
        size, claim, _ = self.blocks.pop(address)
        del self._block_starts[bisect_left(self._block_starts, address)]
        self._write(Freed(now_ns, claim))
        self._hold(now_ns, address, -size, size)

    def refuse(self, now_ns: int, size: int, need: int | None, owner: str, asked: int | None = None) -> None:
        """``owner`` was refused ``size`` bytes, for which the pool asked the device for ``need`` (None: it did not).

        The claim waits until the next failure, or until somebody is given as much.
        """
        self.give_up(now_ns)
        left, claim = self.capacity - self.reserved_bytes, self._next_claim()
        self._failed, self._failed_size = (claim,), size
        shape = Contiguous(size, ALIGNMENT)
        self._write(Claimed(now_ns, claim, self.resource, asked or size, shape, owner))
        if need:
            self._failed = claim, self._next_claim()
            self._write(Claimed(now_ns, claim + 1, self.device, need, Units(need), self.resource))
            self._write(Refused(now_ns, claim + 1, left, left))
        free = self.capacity - self.held_bytes
        self._write(Refused(now_ns, claim, free, max([left, *(length for _, length in self.holes())])))

    def give_up(self, now_ns: int) -> None:
        """Nobody waits any longer for what was refused last."""
        for claim in self._failed:
            self._write(Withdrawn(now_ns, claim))
        self._failed = ()

    def close(self, now_ns: int) -> None:
        """The watching ends."""
        self._write(Closed(now_ns))

    # -- what is where ---------------------------------------------------------------------------

    def run_end(self, address: int, enough: int = 1 << 62) -> int:
        """Where the stretch of the pool's memory that holds ``address`` ends; ``address`` if none does.

        Pages that touch are one stretch; the walk over them stops after ``enough`` bytes.
        """
        piece = self._piece_at(address)
        if piece is None:
            return address
        after = self._pieces.get(piece.end)
        while piece.mapped and after is not None and after.mapped and piece.end < address + enough:
            piece, after = after, self._pieces.get(after.end)
        return piece.end

    def room(self, address: int) -> int:
        """Bytes from ``address`` to the next held block, or to the end of the pool's memory there."""
        index = bisect_left(self._block_starts, address)
        end = self.run_end(address)
        return (min(end, self._block_starts[index]) if index < len(self._block_starts) else end) - address

    def holes(self) -> Iterator[tuple[int, int]]:
        """The free stretches ``(address, size)`` in order of address. Cost: one walk over pieces and blocks."""
        at = end = -1
        for start in self._piece_starts:
            if start >= end:
                at, end = start, self.run_end(start)
                for index in range(
                    bisect_left(self._block_starts, start), bisect_left(self._block_starts, end)
                ):
                    block = self._block_starts[index]
                    if block > at:
                        yield at, block - at
                    at = block + self.blocks[block][0]
                if end > at:
                    yield at, end - at

    def is_mapped(self, address: int) -> bool:
        """Whether the pool's memory there is made of mapped pages (an expandable segment)."""
        piece = self._piece_at(address)
        return piece is not None and piece.mapped

    def _piece_at(self, address: int) -> Piece | None:
        index = bisect_right(self._piece_starts, address) - 1
        piece = self._pieces[self._piece_starts[index]] if index >= 0 else None
        return piece if piece is not None and address < piece.end else None

    def _over(self, address: int, size: int) -> Iterator[Piece]:
        """The pieces that share a byte with ``[address, address + size)``."""
        index = max(0, bisect_right(self._piece_starts, address) - 1)
        while index < len(self._piece_starts) and self._piece_starts[index] < address + size:
            piece = self._pieces[self._piece_starts[index]]
            if piece.end > address:
                yield piece
            index += 1

    def _blocks_over(self, address: int, size: int) -> Iterator[int]:
        index = max(0, bisect_right(self._block_starts, address) - 1)
        while index < len(self._block_starts) and self._block_starts[index] < address + size:
            block = self._block_starts[index]
            if block + self.blocks[block][0] > address:
                yield block
            index += 1

    def _start(self, address: int) -> int:
        piece = self._piece_at(address)
        return piece.start + address - piece.address

    def _hold(self, now_ns: int, address: int, change: int, size: int | None = None) -> None:
        """``change`` more bytes from ``address`` on are held; tell it for each piece that has some of them."""
        self.held_bytes += change
        end = address + (size or change)
        for piece in self._over(address, size or change):
            part = min(end, piece.end) - max(address, piece.address)
            piece.live += part if change > 0 else -part
            if piece.live != piece.told:
                piece.told = piece.live
                self._write(Used(now_ns, piece.claim, piece.live))

    def _drop(self, now_ns: int, piece: Piece) -> None:
        for block in list(self._blocks_over(piece.address, piece.size)):
            self.mended += 1
            self.free(now_ns, block)
        self._write(Freed(now_ns, piece.claim))
        del self._pieces[piece.address]
        del self._piece_starts[bisect_left(self._piece_starts, piece.address)]
        self.reserved_bytes -= piece.size

    def _next_claim(self) -> int:
        self._claims += 1
        return self._claims - 1
