"""An allocator in two halves: what every allocator must do is final, what makes one different is a hook.

``allocate`` and ``free`` round, check and record. A learner writes ``place`` (where do these bytes go?) and
``reclaim`` (these bytes came back); a fault is reported at the answer that made it, before anything is
granted, so the arena's own books are never wrong.
"""

import operator
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import final

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Free
from gpulab.units import format_bytes, format_ns

# CUDA's own pools round to this: CuPy memory.pyx ALLOCATION_UNIT_SIZE, PyTorch kMinBlockSize.
ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes ``[offset, offset + size)`` granted to claim ``claim``; ``asked`` of them are used."""

    claim: int
    offset: int
    size: int
    asked: int
    owner: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.size


class Allocator(ABC):
    """Places claims in an arena of ``capacity`` bytes. Subclass it and write ``place`` and ``reclaim``.

    Args:
        capacity: bytes of the arena, a multiple of ``alignment``.
        alignment: every claim is rounded up to it and every offset must be a multiple of it.
        rules: constants of an exercise, for the hooks to read as ``self.rules``.
        clock, ledger: share them between parts of one run; fresh ones otherwise.
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
    ) -> None:
        if whole(capacity) is None or capacity <= 0 or capacity % alignment:
            raise AllocatorFault(
                f"An arena of {capacity!r} bytes cannot be opened: its capacity is a positive whole number of "
                f"bytes and a multiple of the alignment, {alignment:,}.",
                law="size",
                capacity=capacity,
            )
        self.capacity, self.alignment, self.resource = capacity, alignment, resource
        self.rules = dict(rules or {})
        self.clock = clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self._held: dict[int, Extent] = {}  # by offset
        self._offsets: list[int] = []  # keys of _held, sorted, so that a neighbour is one bisection away
        self._wanted: dict[int, tuple[int, str]] = {}  # waiting claims: asked bytes and owner
        self._claims = 0
        self._free_bytes = capacity
        self.ledger.append(Opened(self.clock.now_ns, resource, capacity, "B"))
        self.prepare()
        hidden = sorted(set(vars(self)) & {name for name in dir(Allocator) if not name.startswith("_")})
        if hidden:
            raise AllocatorFault(
                f"{type(self).__name__}.prepare set self.{hidden[0]}, which hides the method `{hidden[0]}` that every "
                f"allocator has. Choose another name, for example self.holes.",
                law="name",
                name=hidden[0],
            )

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
        size, owner = self._opened(size, owner, claim)
        claim = self._claims - 1 if claim is None else claim
        rounded = self._round(size)
        offset = self._placed(rounded, claim) if rounded <= self.capacity else None
        if offset is None:
            raise self._refuse(claim, rounded)
        extent = Extent(claim, offset, rounded, size, owner)
        self._held[offset] = extent
        insort(self._offsets, offset)
        self._free_bytes -= rounded
        del self._wanted[claim]
        self.ledger.append(Granted(self.clock.now_ns, claim, offset, rounded))
        if size < rounded:
            self.ledger.append(Used(self.clock.now_ns, claim, size))
        return extent

    @final
    def queue(self, size: int, owner: str = "") -> int:
        """Let a claim wait without asking ``place`` yet (others are before it); its serial, for a retry."""
        self._opened(size, owner, None)
        return self._claims - 1

    @final
    def free(self, extent: Extent) -> None:
        """Give ``extent`` back; records ``Freed``, then calls ``reclaim``.

        Raises:
            AllocatorFault: it is not held (freed twice, or never granted here), or ``reclaim`` raised.
        """
        held = self._held.get(extent.offset) if isinstance(extent, Extent) else None
        if held is None or held.claim != extent.claim:
            raise self._not_held(extent)
        del self._held[extent.offset]
        del self._offsets[bisect_left(self._offsets, extent.offset)]
        self._free_bytes += extent.size
        self.ledger.append(Freed(self.clock.now_ns, extent.claim))
        try:
            self.reclaim(extent.offset, extent.size)
        except Exception as wrong:
            raise self._hook_raised("reclaim", (extent.offset, extent.size), wrong, extent.claim) from wrong

    @final
    def withdraw(self, claim: int) -> None:
        """Give up waiting for a refused claim; records ``Withdrawn``. ``AllocatorFault`` if none waits."""
        self._waiting(claim)
        del self._wanted[claim]
        self.ledger.append(Withdrawn(self.clock.now_ns, claim))

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

    def _opened(self, size: int, owner: str, claim: int | None) -> tuple[int, str]:
        if claim is not None:
            return self._waiting(claim)
        number = whole(size)
        if number is None or number <= 0:
            raise AllocatorFault(
                f"allocate was asked for {shown(size)} bytes at {self._now()}. "
                f"Ask for a whole number of bytes, 1 or more.",
                law="size",
                size=shown(size),
            )
        claim, self._claims = self._claims, self._claims + 1
        self._wanted[claim] = number, owner
        rounded = self._round(number)
        shape = Contiguous(rounded, self.alignment_of(rounded))
        self.ledger.append(Claimed(self.clock.now_ns, claim, self.resource, number, shape, owner))
        return number, owner

    def _waiting(self, claim: int) -> tuple[int, str]:
        if claim not in self._wanted:
            raise AllocatorFault(
                f"Claim {claim!r} does not wait at {self._now()}: it was granted, withdrawn or never made. "
                f"Retry and withdraw take the `claim` of an OutOfMemory. {self._story(claim)}",
                law="waiting",
                claim=claim,
            )
        return self._wanted[claim]

    def _round(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def _placed(self, size: int, claim: int) -> int | None:
        try:
            answer = self.place(size)
        except Exception as wrong:
            raise self._hook_raised("place", (size,), wrong, claim) from wrong
        if answer is None:
            return None
        offset = whole(answer)
        if offset is None:
            self._fault(
                "type", f"a {type(answer).__name__}, {shown(answer)}", "a whole number or None", size, claim
            )
        if offset < 0 or offset + size > self.capacity:
            expected = f"an offset from 0 to {self.capacity - size:,}"
            self._fault("bounds", f"{offset:,}", expected, size, claim, offset=offset)
        multiple = self.alignment_of(size)
        if offset % multiple:
            self._fault("alignment", f"{offset:,}", f"a multiple of {multiple:,}", size, claim, offset=offset)
        other = self._overlapped(offset, size)
        if other is not None:
            granted = next((s, f) for s, f in self.ledger.story(other.claim) if isinstance(f, Granted))
            expected = (
                f"bytes nobody holds; claim {other.claim} holds [{other.offset:,}, {other.end:,}) "
                f"since #{granted[0]} at {format_ns(granted[1].time_ns)}"
            )
            self._fault("overlap", f"{offset:,}", expected, size, claim, offset=offset, other=other.claim)
        return offset

    def _overlapped(self, offset: int, size: int) -> Extent | None:
        index = bisect_left(self._offsets, offset)
        if index < len(self._offsets) and self._offsets[index] < offset + size:
            return self._held[self._offsets[index]]
        if index and self._held[self._offsets[index - 1]].end > offset:
            return self._held[self._offsets[index - 1]]
        return None

    def _refuse(self, claim: int, size: int) -> OutOfMemory:
        largest = max((length for _, length in self.gaps()), default=0)
        self.ledger.append(Refused(self.clock.now_ns, claim, self._free_bytes, largest))
        if size > self.capacity:
            why = "That is more than the whole arena: no freeing would help; ask for less."
        elif self._free_bytes < size:
            why = "Too little is free in all: wait until something is freed, or ask for less."
        elif largest < size:
            why = "Enough is free in all, but not in one stretch."
        else:
            why = "A stretch that long is free: `place` refused although it could have been placed."
        return OutOfMemory(
            f"{format_bytes(size)} were refused at {self._now()} (#{len(self.ledger) - 1}): "
            f"{format_bytes(self._free_bytes)} of {format_bytes(self.capacity)} are free, the longest stretch is "
            f"{format_bytes(largest)}. {why} Claim {claim} waits until it is retried or withdrawn.",
            claim=claim,
            size=size,
            free=self._free_bytes,
            largest=largest,
        )

    def _fault(self, law: str, got: str, expected: str, size: int, claim: int, **numbers: object) -> None:
        raise AllocatorFault(
            f"{type(self).__name__}.place({size:,}) answered {got} at {self._now()}; expected {expected}. "
            f"Nothing was granted. {self._story(claim)}",
            law=law,
            size=size,
            claim=claim,
            got=got,
            expected=expected,
            **numbers,
        )

    def _hook_raised(self, hook: str, given: tuple, wrong: Exception, claim: int) -> AllocatorFault:
        place, trace = "", wrong.__traceback__
        while trace is not None:  # the innermost line of the hook's own file is what its author must see
            place, trace = f" in line {trace.tb_lineno}", trace.tb_next
        arguments = ", ".join(f"{value:,}" for value in given)
        return AllocatorFault(
            f"{type(self).__name__}.{hook}({arguments}) raised {type(wrong).__name__}: {shown(wrong)}{place} at "
            f"{self._now()}. Mend `{hook}`; the ledger up to here is kept. {self._story(claim)}",
            law="raised",
            hook=hook,
            claim=claim,
            error=type(wrong).__name__,
        )

    def _not_held(self, extent: object) -> AllocatorFault:
        if not isinstance(extent, Extent):
            return AllocatorFault(
                f"free was given {shown(extent)} at {self._now()}; give it the Extent that allocate returned.",
                law="not-held",
            )
        return AllocatorFault(
            f"free was given [{extent.offset:,}, {extent.end:,}) of claim {extent.claim} at {self._now()}, which "
            f"nobody holds: free each extent once, in the arena that granted it. {self._story(extent.claim)}",
            law="not-held",
            claim=extent.claim,
            offset=extent.offset,
        )

    def _story(self, claim: int) -> str:
        told = [
            f"#{serial} {format_ns(fact.time_ns)} {type(fact).__name__.lower()}"
            for serial, fact in self.ledger.story(claim)
        ]
        return f"Story of claim {claim}: " + (" · ".join(told) or "never seen here") + "."

    def _now(self) -> str:
        return format_ns(self.clock.now_ns)


def whole(value: object) -> int | None:
    """``value`` as a plain int, or None when it is no whole number. NumPy integers are; bools are not."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except Exception:  # a learner's object may raise anything from __index__
        return None


def shown(value: object) -> str:
    """``repr(value)`` in at most 60 characters, for a message; never raises."""
    try:
        text = repr(value)
    except Exception as wrong:
        return f"an object whose repr raises {type(wrong).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
