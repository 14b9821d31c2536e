"""A caching pool in two halves: what every pool does is final, what a published rule decides is a hook.

A pool keeps freed memory instead of giving it back to the device, because asking the device is slow. Here
the device is a byte budget: it grants any amount that is left, at an address of its own. So two things
are recorded at each growth: the segment as a claim on the device, the tensor as a claim on the pool.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, final

from gpulab.memory.explain import bad_owner, bad_size, not_held, not_waiting, positive_bytes, refused
from gpulab.memory.extent import ALIGNMENT, Extent
from gpulab.memory.segments import Chunk, Segment, Segments
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Free, Units
from gpulab.units import whole

if TYPE_CHECKING:
    from sortedcontainers import SortedList


class Pool(ABC):
    """A cache of device memory. ``CuPyPool`` and ``PyTorchPool`` follow two published rules.

    Args:
        capacity: bytes of the device.
        limit: most bytes that the pool may take of it; None for all.
        clock, ledger: share them between parts of one run; fresh ones otherwise. Whoever shares a ledger
            shares its claim serials, so one ledger takes one pool or one arena.
    """

    device, resource = "device", "pool"

    def __init__(
        self,
        capacity: int,
        *,
        limit: int | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.capacity = positive_bytes("A pool", "a capacity", capacity)
        self.limit = None if limit is None else positive_bytes("A pool", "a limit", limit)
        self.alignment = ALIGNMENT
        self.clock = clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self.segments = Segments()
        self._held: dict[int, Chunk] = {}  # by offset
        self._wanted: dict[int, tuple[int, str]] = {}  # waiting claims: asked bytes and owner
        self._growths: dict[int, int] = {}  # waiting claim -> the claim on the device that waits for it
        self._claims = 0
        self.ledger.append(Opened(self.clock.now_ns, self.device, self.capacity, "B"))
        self.ledger.append(Opened(self.clock.now_ns, self.resource, 0, "B", self.device))
        self.prepare()

    # -- what a rule decides; sizes are already rounded up to 512 B -------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Called once while the pool is empty: make the shelves."""

    @abstractmethod
    def shelf_for(self, size: int) -> "SortedList":
        """The shelf on which a claim of ``size`` bytes looks for a free chunk."""

    @abstractmethod
    def take(self, size: int) -> Chunk | None:
        """The free chunk that serves ``size`` bytes, or None: then the pool must grow."""

    @abstractmethod
    def segment_size(self, size: int) -> int:
        """Bytes to ask the device for when no free chunk serves ``size``."""

    @abstractmethod
    def splits(self, chunk: Chunk, size: int) -> bool:
        """True if the rest of ``chunk`` behind ``size`` bytes becomes a chunk of its own."""

    @abstractmethod
    def trim(self, size: int) -> Iterator[list[Chunk]]:
        """What to hand back to the device, one list before each further try to grow for ``size``."""

    @abstractmethod
    def largest_cached(self) -> int:
        """The largest claim that a free chunk serves now, 0 when none does."""

    @abstractmethod
    def largest_grown(self, room: int) -> int:
        """The largest claim whose segment is at most ``room`` bytes, 0 when there is none."""

    # -- what every pool does --------------------------------------------------------------------

    @final
    def allocate(self, size: int, owner: str = "", *, claim: int | None = None) -> Extent:
        """Hold ``size`` bytes for ``owner``, from the cache if the rule finds some there.

        Records ``Claimed`` (not for a retry: ``claim`` names a refused claim that still waits), what the
        device was asked and said, then ``Granted``, and ``Used`` when more was granted than asked; or
        ``Refused``. Cost: O(log free chunks); a growth that is refused hands back whole segments.

        Raises:
            OutOfMemory: neither cache nor device has it. The claim waits: retry it or ``withdraw`` it.
            AllocatorFault: a size that is no positive whole number, or a claim that does not wait.
        """
        if claim is None:
            claim = self.queue(size, owner)
        asked, owner = self._waiting(claim)
        rounded = _round(asked)
        chunk = self.take(rounded)
        if chunk is None:
            chunk = self._grow(claim, rounded)
        elif claim in self._growths:
            self.ledger.append(Withdrawn(self.clock.now_ns, self._growths.pop(claim)))
        self.segments.hold(chunk, rounded if self.splits(chunk, rounded) else chunk.size)
        extent = Extent(claim, chunk.start, chunk.size, asked, owner)
        chunk.extent, chunk.since_ns = extent, self.clock.now_ns
        self._held[chunk.start] = chunk
        del self._wanted[claim]
        self.ledger.append(Granted(self.clock.now_ns, claim, chunk.start, chunk.size))
        if asked < chunk.size:
            self.ledger.append(Used(self.clock.now_ns, claim, asked))
        self._tell(chunk.segment)
        return extent

    @final
    def queue(self, size: int, owner: str = "") -> int:
        """Let a claim wait without asking for memory yet (others are before it); its serial, for a retry."""
        asked = whole(size)
        if asked is None or asked <= 0:
            raise bad_size(self, size)
        if type(owner) is not str:
            raise bad_owner(self, owner)
        claim = self._next_claim()
        self._wanted[claim] = asked, owner
        shape = Contiguous(_round(asked), ALIGNMENT)
        self.ledger.append(Claimed(self.clock.now_ns, claim, self.resource, asked, shape, owner))
        return claim

    @final
    def free(self, extent: Extent) -> None:
        """Give ``extent`` back to the cache, where it joins the free chunks it touches; records ``Freed``.

        Raises:
            AllocatorFault: it is not held: freed twice, or never granted here.
        """
        chunk = None
        if isinstance(extent, Extent) and type(extent.offset) is int and type(extent.claim) is int:
            chunk = self._held.get(extent.offset)
        if chunk is None or chunk.extent.claim != extent.claim:
            raise not_held(self, extent)
        del self._held[chunk.start]
        segment = chunk.segment
        self.segments.release(chunk)
        self.ledger.append(Freed(self.clock.now_ns, extent.claim))
        self._tell(segment)

    @final
    def could_hold(self, size: int) -> bool:
        """Whether ``size`` bytes would fit if nothing else were held: their segment within device and limit."""
        most = self.capacity if self.limit is None else min(self.capacity, self.limit)
        return self.segment_size(_round(size)) <= most

    @final
    def withdraw(self, claim: int) -> None:
        """Give up waiting for a refused claim; records ``Withdrawn``, also for its claim on the device."""
        self._waiting(claim)
        del self._wanted[claim]
        self.ledger.append(Withdrawn(self.clock.now_ns, claim))
        if claim in self._growths:
            self.ledger.append(Withdrawn(self.clock.now_ns, self._growths.pop(claim)))

    @final
    def free_all_blocks(self) -> int:
        """Hand every whole free segment back to the device; the bytes that went.

        CuPy's name; PyTorch calls it ``empty_cache``. A segment of which anything is held stays.
        """
        before = self.total_bytes
        self._hand_back(self.segments.whole_chunks())
        return before - self.total_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes of the held extents, rounding included."""
        return self.segments.held_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes that the pool holds of the device: PyTorch's *reserved*."""
        return self.segments.reserved_bytes

    @property
    def free_bytes(self) -> int:
        """Cached bytes: held of the device, by nobody of the pool."""
        return self.segments.reserved_bytes - self.segments.held_bytes

    @property
    def n_free_blocks(self) -> int:
        """Free chunks in the cache."""
        return self.segments.free_chunks

    @property
    def room_bytes(self) -> int:
        """The largest segment that the device, and the limit, would grant now."""
        return min(self.capacity, self.limit or self.capacity) - self.total_bytes

    def holes(self) -> Free:
        """The free chunks ``((offset, size), ...)`` in order of their offsets. O(n log n) in their number."""
        return self.segments.holes()

    def held(self) -> tuple[Extent, ...]:
        """The held extents in order of their offsets. O(n log n) in their number."""
        return tuple(self._held[offset].extent for offset in sorted(self._held))

    # -- the device, and the words for it --------------------------------------------------------

    def _grow(self, claim: int, rounded: int) -> Chunk:
        """A new segment for the waiting ``claim``; each further try comes after something was handed back."""
        need = self.segment_size(rounded)
        growth = self._growths.pop(claim, None)
        if growth is None:
            growth = self._next_claim()
            shape = Units(need)
            self.ledger.append(Claimed(self.clock.now_ns, growth, self.device, need, shape, self.resource))
        if need > self.room_bytes:
            self._refuse_growth(growth)
            for chunks in self.trim(rounded):
                self._hand_back(chunks)
                if need <= self.room_bytes:
                    break
                self._refuse_growth(growth)
            else:
                self._growths[claim] = growth
                free, largest = self.capacity - self.used_bytes, max(self.segments.largest(), self.room_bytes)
                self.ledger.append(Refused(self.clock.now_ns, claim, free, largest))
                raise refused(self, claim, rounded, need)
        chunk = self.segments.add(need, self.shelf_for(rounded), growth)
        self.ledger.append(Granted(self.clock.now_ns, growth, chunk.start, need))
        return chunk

    def _refuse_growth(self, growth: int) -> None:
        left = self.capacity - self.total_bytes
        self.ledger.append(Refused(self.clock.now_ns, growth, left, self.room_bytes))

    def _hand_back(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self.ledger.append(Freed(self.clock.now_ns, self.segments.remove(chunk).claim))

    def _tell(self, segment: Segment) -> None:
        """Record how many bytes of ``segment`` are held, if that is not what was recorded last."""
        if segment.live != segment.told:
            segment.told = segment.live
            self.ledger.append(Used(self.clock.now_ns, segment.claim, segment.live))

    def _waiting(self, claim: int) -> tuple[int, str]:
        if type(claim) is not int or claim not in self._wanted:
            raise not_waiting(self, claim)
        return self._wanted[claim]

    def _next_claim(self) -> int:
        self._claims += 1
        return self._claims - 1


def _round(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
