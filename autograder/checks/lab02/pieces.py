"""What every free stretch of an arena is made of, so that a wrong answer can be told apart from another.

A free byte was never granted, or was freed by some event, or lies in front of an aligned grant (padding).
Stretches freed at different times are kept as separate pieces: an allocator that forgets to join them can
place only what fits a single piece, and that is how its misconception shows.
"""

from dataclasses import dataclass
from itertools import pairwise

from gpulab.errors import AllocatorFault
from gpulab.memory.allocator import Extent
from gpulab.telemetry.events import Freed, Granted
from gpulab.telemetry.ledger import Ledger

PADDING = ("alone", True)  # proved by a claim that lay wholly in a padding


@dataclass(frozen=True, slots=True)
class Piece:
    """Free bytes ``[start, start + size)``, so since event ``since``; ``kind`` fresh, freed or padding."""

    start: int
    size: int
    kind: str
    since: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Pieces:
    """The free pieces of one arena, and what the answers so far have proved the learner's code can do."""

    def __init__(self, capacity: int, proved: set) -> None:
        self._free = [Piece(0, capacity, "fresh", 0)]
        self._read = 0  # facts of the ledger that are in already
        self._granted: dict[int, Granted] = {}
        self._event: dict[int, int] = {}  # claim -> serial of its grant
        self._exact: set[int] = set()  # offsets at which some claim filled a hole to its last byte
        self._proved = proved  # joins that some answer needed, shared by all cases of one check
        self.covering: list[Piece] = []  # the pieces of the place that was missed

    def catch_up(self, ledger: Ledger) -> None:
        """Take in the facts since the last time; the newest grant is cut out by ``grant``."""
        for serial in range(self._read, len(ledger)):
            fact = ledger[serial]
            if isinstance(fact, Freed) and fact.claim in self._granted:
                grant = self._granted.pop(fact.claim)
                self._free.append(Piece(grant.start, grant.size, "freed", serial))
            elif isinstance(fact, Granted):
                self._granted[fact.claim] = fact
                self._event[fact.claim] = serial
        self._read = len(ledger)
        self._free.sort(key=lambda piece: piece.start)

    def grant(self, extent: Extent, multiple: int) -> None:
        """Cut the newest grant out of the pieces; it had to start on a ``multiple``.

        What is left in front is padding, if no earlier start was legal there; else a hole passed over.
        """
        start, end = extent.offset, extent.end
        self._proved |= self._joins(self._covering(start, extent.size))
        if self._hole_end(start) == end:
            self._exact.add(start)
        after = []
        for piece in self._free:
            if piece.end <= start or piece.start >= end:
                after.append(piece)
                continue
            front = start - piece.start
            if 0 < front < multiple:
                after.append(Piece(piece.start, front, "padding", self._event[extent.claim]))
            elif front > 0:
                after.append(Piece(piece.start, front, piece.kind, piece.since))
            if piece.end > end:
                after.append(Piece(end, piece.end - end, piece.kind, piece.since))
        self._free = after

    def missed(self, lowest: int, size: int) -> tuple[str, bool]:
        """Why ``size`` bytes did not go to ``lowest``, the rule's place: the misconception's tag, and is it sure?

        Sure means that earlier answers proved the rest: who joins to the right and missed a place that needs a
        join to the left does not look left; who never joined anything may miss either.
        """
        self.covering = self._covering(lowest, size)
        if len(self.covering) == 1:
            lost = self.covering[0].kind == "padding" and PADDING not in self._proved
            return ("padding-lost" if lost else "higher-hole"), True
        missing = self._joins(self.covering) - self._proved
        if not missing:
            return "higher-hole", False
        ways = {way for way, padded in missing if not padded}
        if not ways:
            known = all((way, False) in self._proved for way, _ in missing)
            return "padding-lost", known and PADDING not in self._proved
        if ways == {"left"}:
            right = ("right", False) in self._proved
            return ("joins-right-only" if right else "no-coalescing"), right
        if ways == {"right"}:
            left = ("left", False) in self._proved
            return ("joins-left-only" if left else "no-coalescing"), True
        return "no-coalescing", True

    def fault(self, fault: AllocatorFault, holes: tuple, multiple: int) -> str:
        """The tag of an answer that broke a law of the arena; the claim had to start on a ``multiple``."""
        if fault.law not in ("overlap", "bounds"):
            return fault.law
        offset, size = fault.numbers["offset"], fault.numbers["size"]
        other = fault.numbers.get("other")
        if other is not None and {offset, self._granted[other].start} & self._exact:
            return "exact-fit-kept"
        for start, length in holes:
            if offset == -(-start // multiple) * multiple < start + length and length >= size:
                return "fits-before-aligning"
        return fault.law

    def _covering(self, start: int, size: int) -> list[Piece]:
        return [piece for piece in self._free if piece.start < start + size and piece.end > start]

    def _joins(self, pieces: list[Piece]) -> set:
        """The joins that a claim over these pieces needs: ``(way, does it involve padding)``.

        The piece that came later found its *left* or its *right* neighbour free already.
        """
        if len(pieces) == 1:
            return {PADDING} if pieces[0].kind == "padding" else set()
        return {
            ("right" if left.since > right.since else "left", "padding" in (left.kind, right.kind))
            for left, right in pairwise(pieces)
        }

    def _hole_end(self, start: int) -> int:
        end = start
        for piece in self._free:
            if piece.start <= end < piece.end:
                end = piece.end
        return end
