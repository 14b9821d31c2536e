"""An allocator in two halves: what every allocator must do is final, what makes one different is a hook.

``allocate`` and ``free`` round, check and record. A learner writes ``place`` (where do these bytes go?) and
``reclaim`` (these bytes came back); a fault is reported at the answer that made it, before anything is
granted, so the arena's own books are never wrong. What a fault says is in ``explain``.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from typing import final

from gpulab.memory import explain
from gpulab.memory.extent import ALIGNMENT, Extent
from gpulab.memory.hooks import prepare_safely, refuse_taken_names
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Free
from gpulab.units import whole

_HOOKS = ("prepare", "place", "reclaim", "alignment_of")


class Allocator(ABC):
    """Places claims in an arena of ``capacity`` bytes. Subclass it and write ``place`` and ``reclaim``.

    Args:
        capacity: bytes of the arena, a multiple of ``alignment``.
        alignment: every claim is rounded up to it and every offset must be a multiple of it.
        rules: constants of an exercise, for the hooks to read as ``self.rules``.
        clock, ledger: share them between parts of one run; fresh ones otherwise. Whoever shares a ledger
            shares its claim serials, so one ledger takes one arena or one pool.
        unit: what the ledger calls a unit of it, where that is not a byte (a slot for one token).

    Raises:
        AllocatorFault: a capacity or alignment that is none, or ``prepare`` took a name that every allocator
            has. A subclass that does so in its class body is refused where it is defined.
    """

    def __init__(
        self,
        capacity: int,
        *,
        alignment: int = ALIGNMENT,
        rules: dict | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
        resource: str = "arena",
        unit: str = "B",
    ) -> None:
        others = set(vars(self))
        self.alignment = explain.positive_bytes("An arena", "an alignment", alignment)
        self.capacity = explain.positive_bytes("An arena", "a capacity", capacity)
        if self.capacity % self.alignment:
            raise explain.uneven(self.capacity, self.alignment)
        self.resource = resource
        self.rules = dict(rules or {})
        self.clock = clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self._held: dict[int, Extent] = {}  # by offset
        self._offsets: list[int] = []  # keys of _held, sorted, so that a neighbour is one bisection away
        self._wanted: dict[int, tuple[int, str]] = {}  # waiting claims: asked bytes and owner
        self._claims = 0
        self._free_bytes = self.capacity
        self.ledger.append(Opened(self.clock.now_ns, resource, self.capacity, unit))
        prepare_safely(self, Allocator, others, "allocator")

    # -- what a subclass writes ------------------------------------------------------------------

    def prepare(self) -> None:
        """Called once while the arena is empty; set up your own books here."""

    @abstractmethod
    def place(self, size: int) -> int | None:
        """The offset at which ``size`` free bytes start, or None when they fit nowhere.

        ``size`` is already a multiple of the alignment. Take the bytes off your books; if the answer is
        refused with ``AllocatorFault`` nothing was granted.
        """

    @abstractmethod
    def reclaim(self, offset: int, size: int) -> None:
        """Bytes ``[offset, offset + size)``, placed earlier, are free again; put them on your books."""

    def alignment_of(self, size: int) -> int:
        """What the offset of a claim of ``size`` bytes must be a multiple of; the same for all here."""
        return self.alignment

    # -- what every allocator does ---------------------------------------------------------------

    @final
    def allocate(self, size: int, owner: str = "", *, claim: int | None = None) -> Extent:
        """Reserve ``size`` bytes for ``owner`` and say where they are.

        Records ``Claimed`` (not for a retry: ``claim`` names a refused claim that still waits), then
        ``Granted``, and ``Used`` when rounding grants more than was asked; or ``Refused``.
        Cost: one bisection over the held extents, plus your ``place``.

        Raises:
            OutOfMemory: ``place`` found nothing. The claim waits: retry it or ``withdraw`` it.
            AllocatorFault: a size that is no positive whole number, or an answer of ``place`` that is no
                offset, misaligned, out of bounds or held. The ledger keeps all facts up to there.
        """
        if claim is None:
            claim = self.queue(size, owner)
        asked, owner = self._waiting(claim)
        size = self._round(asked)
        offset = self._placed(size, claim) if size <= self.capacity else None
        if offset is None:
            largest = max((length for _, length in self.gaps()), default=0)
            self.ledger.append(Refused(self.clock.now_ns, claim, self._free_bytes, largest))
            raise explain.no_place(self, claim, size, largest)
        extent = Extent(claim, offset, size, asked, owner)
        self._held[offset] = extent
        insort(self._offsets, offset)
        self._free_bytes -= size
        del self._wanted[claim]
        self.ledger.append(Granted(self.clock.now_ns, claim, offset, size))
        if asked < size:
            self.ledger.append(Used(self.clock.now_ns, claim, asked))
        return extent

    @final
    def queue(self, size: int, owner: str = "") -> int:
        """Let a claim wait without asking ``place`` yet (others are before it); its serial, for a retry."""
        asked = whole(size)
        if asked is None or asked <= 0:
            raise explain.bad_size(self, size)
        if type(owner) is not str:
            raise explain.bad_owner(self, owner)
        claim, self._claims = self._claims, self._claims + 1
        self._wanted[claim] = asked, owner
        rounded = self._round(asked)
        shape = Contiguous(rounded, self.alignment_of(rounded))
        self.ledger.append(Claimed(self.clock.now_ns, claim, self.resource, asked, shape, owner))
        return claim

    @final
    def free(self, extent: Extent) -> None:
        """Give ``extent`` back; records ``Freed``, then calls ``reclaim``.

        Raises:
            AllocatorFault: it is not held (freed twice, or not granted by this arena), or ``reclaim`` raised.
        """
        # The very object that allocate returned: an equal one may come from another arena.
        if type(extent) is not Extent or self._held.get(whole(extent.offset)) is not extent:
            raise explain.not_held(self, extent)
        del self._held[extent.offset]
        del self._offsets[bisect_left(self._offsets, extent.offset)]
        self._free_bytes += extent.size
        self.ledger.append(Freed(self.clock.now_ns, extent.claim))
        try:
            self.reclaim(extent.offset, extent.size)
        except Exception as wrong:
            given = (extent.offset, extent.size)
            raise explain.hook_raised(self, "reclaim", given, wrong, extent.claim) from wrong

    @final
    def withdraw(self, claim: int) -> None:
        """Give up waiting for a refused claim; records ``Withdrawn``. ``AllocatorFault`` if none waits."""
        self._waiting(claim)
        del self._wanted[claim]
        self.ledger.append(Withdrawn(self.clock.now_ns, claim))

    @final
    def could_hold(self, size: int) -> bool:
        """Whether ``size`` bytes would fit if nothing else were held."""
        return self._round(size) <= self.capacity

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody holds, wherever they lie."""
        return self._free_bytes

    def held(self) -> tuple[Extent, ...]:
        """The granted extents in order of their offsets. Cost: O(held)."""
        return tuple(self._held[offset] for offset in self._offsets)

    def gaps(self) -> Free:
        """The free stretches ``((offset, size), ...)`` between the granted extents. Cost: O(held)."""
        holes, end = [], 0
        for offset in self._offsets:
            if offset > end:
                holes.append((end, offset - end))
            end = offset + self._held[offset].size
        if end < self.capacity:
            holes.append((end, self.capacity - end))
        return tuple(holes)

    # -- checks ----------------------------------------------------------------------------------

    def __init_subclass__(cls) -> None:
        """Refuse a subclass of a final class, one that writes what is final, or a helper under such a name."""
        refuse_taken_names(cls, Allocator, _HOOKS, "allocator")

    def _waiting(self, claim: int) -> tuple[int, str]:
        if type(claim) is not int or claim not in self._wanted:
            raise explain.not_waiting(self, claim)
        return self._wanted[claim]

    def _round(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def _placed(self, size: int, claim: int) -> int | None:
        """What ``place`` answers, as a plain int; a fault unless it may be granted."""
        try:
            answer = self.place(size)
        except Exception as wrong:
            raise explain.hook_raised(self, "place", (size,), wrong, claim) from wrong
        if answer is None:
            return None
        offset = whole(answer)
        if offset is None:
            raise explain.no_offset(self, size, claim, answer)
        if offset < 0 or offset + size > self.capacity:
            expected = f"an offset from 0 to {self.capacity - size:,}"
            raise explain.bad_offset(self, size, claim, "bounds", offset=offset, expected=expected)
        multiple = self.alignment_of(size)
        if offset % multiple:
            expected = f"a multiple of {multiple:,}"
            raise explain.bad_offset(self, size, claim, "alignment", offset=offset, expected=expected)
        other = self._overlapped(offset, size)
        if other is not None:
            raise explain.overlap(self, size, claim, offset, other)
        return offset

    def _overlapped(self, offset: int, size: int) -> Extent | None:
        index = bisect_left(self._offsets, offset)
        if index < len(self._offsets) and self._offsets[index] < offset + size:
            return self._held[self._offsets[index]]
        if index and self._held[self._offsets[index - 1]].end > offset:
            return self._held[self._offsets[index - 1]]
        return None
