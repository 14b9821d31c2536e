"""Where a device's arrays come from, and what that costs.

Three ways. The device's own memory: each claim asks the driver, and giving back waits until the device is
idle (cupy pull request 2898: cudaFree synchronises, cudaMalloc does not). A pool: a hit costs little; its
growths and what it hands back cost as above. An allocator over a slab: every claim is a hit, no free waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from gpulab.device.spec import Spec
from gpulab.memory.allocator import Allocator
from gpulab.memory.arena import BestFit
from gpulab.memory.extent import Extent
from gpulab.memory.pool import Pool
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted
from gpulab.telemetry.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call keeps the host for: ``host_ns``, after waiting until the device is idle if ``waits``."""

    host_ns: int
    waits: bool


@final
class Heap:
    """The memory of one device. The allocator keeps the books; what it may break is its own answers."""

    def __init__(
        self, spec: Spec, opens: Callable[..., Allocator | Pool] | None, clock: Clock, ledger: Ledger
    ) -> None:
        self._spec, self._ledger = spec, ledger
        self.own = opens is None  # the driver's memory itself
        if opens is None:
            self.memory: Allocator | Pool = BestFit(
                spec.usable_bytes, clock=clock, ledger=ledger, resource="device"
            )
        else:
            self.memory = opens(spec.usable_bytes, clock=clock, ledger=ledger)
        self._outer = self.memory.device if isinstance(self.memory, Pool) else "device" if self.own else None
        self._seen = len(ledger)
        self._segments: dict[int, None] = {}  # claims on the device itself

    def allocate(self, size: int, owner: str, claim: int | None) -> Extent:
        """``size`` bytes for ``owner``; raises what the allocator or pool raises."""
        return self.memory.allocate(size, owner, claim=claim)

    def free(self, extent: Extent) -> None:
        """Give ``extent`` back; raises what the allocator or pool raises."""
        self.memory.free(extent)

    @property
    def taken_bytes(self) -> int:
        """What is taken of the device: the grants, a pool's segments, or the whole slab."""
        if isinstance(self.memory, Pool):
            return self.memory.total_bytes
        return self.memory.capacity - self.memory.free_bytes if self.own else self.memory.capacity

    def settle(self) -> Cost:
        """What the memory did since this was last asked costs, a hit of a pool or a slab included."""
        facts, self._seen = self._ledger[self._seen :], len(self._ledger)
        asked = freed = 0
        for fact in facts:
            match fact:
                case Claimed(resource=self._outer):
                    self._segments[fact.claim] = None
                case Granted() if fact.claim in self._segments:
                    asked += self._spec.alloc_cost_ns(fact.size)
                case Freed() if fact.claim in self._segments:
                    del self._segments[fact.claim]
                    freed += self._spec.free_ns
        hit_ns = 0 if self.own else self._spec.pool_hit_ns
        return Cost(hit_ns + asked + freed, freed > 0 and not self.own)
