"""Where a real device's arrays lie: at what the driver gives, in a slab, or in a pool's segments.

The allocator's and the pool's addresses count from 0; here they become pointers. ``cupy`` is handed in, so that
this page is tested without one.
"""

from collections.abc import Callable
from typing import final

from gpulab.errors import GpulabError, OutOfMemory, StreamFault
from gpulab.memory.allocator import Allocator
from gpulab.memory.explain import bad_size
from gpulab.memory.extent import Extent
from gpulab.memory.pool import Pool
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Refused, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units
from gpulab.units import format_bytes, whole


@final
class DriverMemory:
    """The driver's own memory, behind ``allocate``, ``free`` and ``withdraw`` as an allocator has them.

    An extent's ``offset`` is a pointer. The driver tells no layout, so grants have no address in the ledger.
    """

    resource = "device"

    def __init__(self, cupy: object, capacity: int, clock: Clock, ledger: Ledger) -> None:
        self._cupy, self.capacity, self.clock, self.ledger = cupy, capacity, clock, ledger
        self.free_bytes = capacity
        self._held: dict[int, object] = {}  # claim -> CuPy's memory, which lives as long as it is kept
        self._wanted: dict[int, tuple[int, str]] = {}
        self._claims = 0
        ledger.append(Opened(clock.now_ns, self.resource, capacity, "B"))

    def allocate(self, size: int, owner: str = "", *, claim: int | None = None) -> Extent:
        """``size`` bytes; ``OutOfMemory`` if the driver has none, and then the claim waits."""
        if claim is None:
            if whole(size) is None or size <= 0:
                raise bad_size(self, size)
            claim, self._claims = self._claims, self._claims + 1
            self._wanted[claim] = size, owner
            self.ledger.append(Claimed(self.clock.now_ns, claim, self.resource, size, Units(size), owner))
        size, owner = self._wanted[claim]
        try:
            memory = self._cupy.cuda.Memory(size) if size <= self.free_bytes else None
        except Exception as error:
            if "MemoryAllocation" not in str(error):
                raise
            memory = None
        if memory is None:
            self.ledger.append(Refused(self.clock.now_ns, claim, self.free_bytes, self.free_bytes))
            raise OutOfMemory(
                f"The device has no {format_bytes(size)} for {owner or 'this claim'}: about {format_bytes(self.free_bytes)} "
                f"of {format_bytes(self.capacity)} are left, other programs' memory not counted. Free something and "
                f"retry with claim={claim}, or withdraw it.",
                claim=claim,
                size=size,
                free=self.free_bytes,
                largest=self.free_bytes,
            )
        del self._wanted[claim]
        self._held[claim], self.free_bytes = memory, self.free_bytes - size
        self.ledger.append(Granted(self.clock.now_ns, claim, -1, size))
        return Extent(claim, memory.ptr, size, size, owner)

    def free(self, extent: Extent) -> None:
        """Give ``extent`` back; the driver waits until the device is idle."""
        del self._held[extent.claim]
        self.free_bytes += extent.size
        self.ledger.append(Freed(self.clock.now_ns, extent.claim))

    def withdraw(self, claim: int) -> None:
        """Give up waiting for ``claim``."""
        del self._wanted[claim]
        self.ledger.append(Withdrawn(self.clock.now_ns, claim))


@final
class RealMemory:
    """The memory of one real device, as extents with pointers."""

    def __init__(
        self,
        cupy: object,
        opens: Callable[..., Allocator | Pool] | None,
        capacity: int,
        clock: Clock,
        ledger: Ledger,
    ) -> None:
        self._cupy, self._ledger = cupy, ledger
        self._segments: dict[int, tuple[int, object]] = {}  # a pool's: start -> size, CuPy's memory
        self._starts: dict[int, int] = {}  # a pool's claims on the device -> start
        self._outer: set[int] = set()
        self._slab, self._seen = None, 0
        if opens is None:
            self.memory = DriverMemory(cupy, capacity, clock, ledger)
        else:
            self.memory = opens(capacity, clock=clock, ledger=ledger)
            if not isinstance(self.memory, Pool):
                self._slab = cupy.cuda.Memory(self.memory.capacity)

    @property
    def taken_bytes(self) -> int:
        """What is taken of the device."""
        if isinstance(self.memory, Pool):
            return self.memory.total_bytes
        return self.memory.capacity - (0 if self._slab is not None else self.memory.free_bytes)

    def allocate(self, size: int, owner: str, claim: int | None) -> tuple[Extent, int]:
        """``size`` bytes and the pointer to them; raises what the allocator or pool raises."""
        try:
            extent = self.memory.allocate(size, owner, claim=claim)
        finally:
            self._follow()
        return extent, self.pointer(extent.offset)

    def free(self, extent: Extent) -> None:
        """Give ``extent`` back; raises what the allocator or pool raises."""
        try:
            self.memory.free(extent)
        finally:
            self._follow()

    def pointer(self, offset: int) -> int:
        """Where the byte at ``offset`` of the allocator or pool really lies."""
        if self._slab is not None:
            return self._slab.ptr + offset
        for start, (size, memory) in self._segments.items():
            if start <= offset < start + size:
                return memory.ptr + offset - start
        return offset

    def cupy_allocator(self, faults: list, tick: Callable[[], None]) -> object:
        """CuPy's allocator over this slab. Faults of a free, where none may be raised, go to ``faults``."""
        if self._slab is None:
            raise StreamFault(
                "CuPy's own arrays can be placed only by an allocator over a slab. Open the device with memory=YourAllocator.",
                law="slab",
            )
        held: dict[int, Extent] = {}

        def malloc(size: int, device_id: int) -> int:
            tick()
            extent, pointer = self.allocate(size, "cupy", None)
            held[pointer] = extent
            return pointer

        def free(pointer: int, device_id: int) -> None:
            tick()
            try:
                self.free(held.pop(pointer))
            except GpulabError as fault:
                faults.append(fault)

        return self._cupy.cuda.PythonFunctionAllocator(malloc, free)

    def _follow(self) -> None:
        """Take from the driver what a pool was granted of the device since, and give back what it handed back."""
        facts, self._seen = self._ledger[self._seen :], len(self._ledger)
        if not isinstance(self.memory, Pool):
            return
        for fact in facts:
            match fact:
                case Claimed(resource=self.memory.device):
                    self._outer.add(fact.claim)
                case Granted() if fact.claim in self._outer:
                    self._starts[fact.claim] = fact.start
                    self._segments[fact.start] = fact.size, self._cupy.cuda.Memory(fact.size)
                case Freed() if fact.claim in self._outer:
                    self._outer.remove(fact.claim)
                    del self._segments[self._starts.pop(fact.claim)]
