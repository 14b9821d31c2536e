"""A CuPy without a GPU: its pool, hooks and runtime as far as `gpulab.memory.record` looks at them.

Tests load this file under the name ``cupy.fake``, so that its frames count as CuPy's own.
"""

from types import SimpleNamespace
from typing import ClassVar

from gpulab.errors import OutOfMemory
from gpulab.memory.pools import CuPyPool
from gpulab.telemetry.events import Claimed, Granted

BASE = 0x7F00_0000_0000


class FakeHook:
    """CuPy's ``MemoryHook``: registered while its ``with`` lasts; methods that a hook lacks do nothing."""

    active: ClassVar[dict] = {}

    def __enter__(self):
        FakeHook.active[self.name] = self
        return self

    def __exit__(self, *_):
        del FakeHook.active[self.name]


def tell(event, **told):
    for hook in list(FakeHook.active.values()):
        getattr(hook, event, lambda **_: None)(**told)


class FakePool:
    """CuPy's ``MemoryPool`` over gpulab's rule, with its events in the order of ``cupy/cuda/memory.pyx``.

    ``total_bytes`` counts a segment before the device was asked for it, as CuPy does.
    """

    def __init__(self, capacity, limit=None):
        self.pool, self.pending = CuPyPool(capacity, limit=limit), 0

    def malloc(self, size):
        if size == 0:
            tell("malloc_postprocess", device_id=0, size=0, mem_size=0, mem_ptr=0, pmem_id=1)
            return None
        rounded = -(-size // 512) * 512
        extent, before = None, len(self.pool.ledger)
        try:
            extent = self.pool.allocate(size)
            facts = self.pool.ledger[before:]
            growths = {
                fact.claim for fact in facts if isinstance(fact, Claimed) and fact.resource == "device"
            }
            for start in [
                fact.start for fact in facts if isinstance(fact, Granted) and fact.claim in growths
            ]:
                tell("alloc_postprocess", device_id=0, mem_size=rounded, mem_ptr=BASE + start)
            return extent
        except OutOfMemory as full:
            self.pool.withdraw(full.claim)
            self.pending = rounded
            for _ in range(3):
                tell("alloc_postprocess", device_id=0, mem_size=rounded, mem_ptr=0)
            self.pending = 0
            raise MemoryError from None
        finally:
            address = BASE + extent.offset if extent else 0
            tell("malloc_postprocess", device_id=0, size=size, mem_size=rounded, mem_ptr=address, pmem_id=7)

    def free(self, extent):
        self.pool.free(extent)
        tell("free_postprocess", device_id=0, mem_size=extent.size, mem_ptr=BASE + extent.offset, pmem_id=7)

    def total_bytes(self):
        return self.pool.total_bytes + self.pending

    def used_bytes(self):
        return self.pool.used_bytes


def fake_cupy(capacity, limit=None):
    pool = FakePool(capacity, limit)
    runtime = SimpleNamespace(
        memGetInfo=lambda: (capacity - pool.pool.total_bytes, capacity), getDevice=lambda: 0
    )
    cuda = SimpleNamespace(
        runtime=runtime, MemoryHook=FakeHook, MemoryPool=FakePool, get_allocator=lambda: pool.malloc
    )
    return SimpleNamespace(cuda=cuda, pool=pool, __version__="14.2.0")
