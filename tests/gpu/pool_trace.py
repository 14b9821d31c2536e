"""gpulab's CuPy pool and CuPy's own, side by side, operation by operation.

CuPy's pool gets device memory from an allocator that we hand in. It gives out *addresses* only, by the rule
that gpulab's pool has (each segment above all earlier ones, 2 MiB pages, one page empty between them), so
that best fit breaks ties alike and every address can be compared, not only sizes. Nothing touches that memory.
"""

import random
from dataclasses import dataclass
from itertools import pairwise

from gpulab.errors import OutOfMemory
from gpulab.memory.pools import CuPyPool
from gpulab.memory.segments import SEGMENT_PAGE
from gpulab.units import GiB, MiB

BASE = 1 << 44  # an address that looks like one of a device, so that none is 0
LIMIT = 2 * GiB


@dataclass(frozen=True)
class State:
    """What an operation left: where it placed its bytes (None: out of memory), and the pool's books."""

    offset: int | None
    size: int | None
    used_bytes: int
    total_bytes: int
    free_blocks: int


def random_trace(count: int, seed: int = 1) -> list[tuple[str, int, int]]:
    """``count`` operations ``("malloc", name, bytes)``, ``("free", name, 0)`` and now and then ``("free all", 0, 0)``.

    Sizes from a byte to 256 MiB, most of them repeated, so that chunks are reused, cut, joined and refused.
    """
    draw = random.Random(f"{seed}/pool trace")
    favourites = [draw.randrange(1, 1 << draw.randrange(5, 29)) for _ in range(40)]
    held: list[int] = []
    trace: list[tuple[str, int, int]] = []
    for name in range(count):
        kind = draw.randrange(1000)
        if kind == 0:
            trace.append(("free all", 0, 0))
        elif held and (kind < 440 or len(held) > 400):
            trace.append(("free", held.pop(draw.randrange(len(held))), 0))
        else:
            size = draw.choice(favourites) if kind < 800 else draw.randrange(1, 1 << draw.randrange(5, 29))
            held.append(name)
            trace.append(("malloc", name, size))
    return trace


class Ours:
    """gpulab's pool, as the comparison asks for it."""

    def __init__(self, limit: int) -> None:
        self.pool = CuPyPool(80 * GiB, limit=limit)

    def malloc(self, size: int):
        """A handle, or None when out of memory."""
        try:
            return self.pool.allocate(size)
        except OutOfMemory as full:
            self.pool.withdraw(full.claim)
            return None

    def place(self, handle) -> tuple[int, int]:
        return handle.offset, handle.size

    def free(self, handle) -> None:
        self.pool.free(handle)

    def books(self) -> tuple[int, int, int]:
        return self.pool.used_bytes, self.pool.total_bytes, self.pool.n_free_blocks

    def free_all(self) -> None:
        self.pool.free_all_blocks()


class Theirs:
    """``cupy.cuda.MemoryPool``, over addresses that count up from ``BASE``."""

    def __init__(self, cupy, limit: int) -> None:
        self.cupy, self.next = cupy, BASE
        # It keeps the two functions only as long as it lives itself.
        self.addresses = cupy.cuda.PythonFunctionAllocator(self._address, lambda pointer, device: None)
        self.pool = cupy.cuda.MemoryPool(self.addresses.malloc)
        self.pool.set_limit(size=limit)
        self.sizes: dict[int, int] = {}

    def _address(self, size: int, device: int) -> int:
        start = self.next
        self.next = BASE + (-(-(start - BASE + size) // SEGMENT_PAGE) + 1) * SEGMENT_PAGE
        return start

    def malloc(self, size: int):
        try:
            return [self.pool.malloc(size)]
        except self.cupy.cuda.memory.OutOfMemoryError:
            return None

    def place(self, handle) -> tuple[int, int]:
        return handle[0].ptr - BASE, handle[0].mem.size

    def free(self, handle) -> None:
        handle.clear()  # its only reference: CuPy takes the bytes back at once

    def books(self) -> tuple[int, int, int]:
        return self.pool.used_bytes(), self.pool.total_bytes(), self.pool.n_free_blocks()

    def free_all(self) -> None:
        self.pool.free_all_blocks()


def play(pool, trace: list[tuple[str, int, int]]) -> list[State]:
    """What each operation of ``trace`` left in ``pool``; a ``free`` of what was refused changes nothing."""
    held: dict[int, object] = {}
    states = []
    for kind, name, size in trace:
        place = None, None
        if kind == "malloc":
            handle = pool.malloc(size)
            if handle is not None:
                held[name] = handle
                place = pool.place(handle)
        elif kind == "free" and name in held:
            pool.free(held.pop(name))
        elif kind == "free all":
            pool.free_all()
        states.append(State(*place, *pool.books()))
    return states


def first_difference(trace, ours: list[State], theirs: list[State]) -> str:
    """The first operation after which the two differ, with both states; '' if there is none."""
    for number, (operation, one, other) in enumerate(zip(trace, ours, theirs, strict=True)):
        if one != other:
            return f"operation {number}, {operation}: gpulab {one}, CuPy {other}"
    return ""


def summary(trace, states: list[State]) -> str:
    """What kinds of operation the trace holds, so that an easy trace is seen to be one."""
    mallocs = [state for (kind, _, _), state in zip(trace, states, strict=True) if kind == "malloc"]
    refused = sum(state.offset is None for state in mallocs)
    grown = sum(b.total_bytes > a.total_bytes for a, b in pairwise(states))
    free = max(state.free_blocks for state in states)
    return (
        f"{len(trace):,} operations: {len(mallocs):,} mallocs, {refused:,} refused, {grown:,} growths, "
        f"at most {free:,} free chunks and {max(s.used_bytes for s in states) / MiB:,.0f} MiB used"
    )


# httomo issue 667 on 8 GiB: method A (1 GiB out, 4 GiB temporary), method B (1 GiB out), then what A needs again.
def httomo(pool, *, with_c: bool) -> bool:
    """Whether the last 4 GiB are granted; ``pool`` has a limit of 8 GiB. Handles stay alive in between."""
    a, t = pool.malloc(1 * GiB), pool.malloc(4 * GiB)
    pool.free(t)
    b = pool.malloc(1 * GiB)
    pool.free(a)
    c = pool.malloc(1 * GiB) if with_c else None
    granted = pool.malloc(4 * GiB)
    assert None not in (a, t, b)
    assert c is not None or not with_c
    return granted is not None


SMALLEST = 400, 512  # bytes asked, bytes used: CuPy user guide, memory management
BEFORE_7679 = 1 * GiB, 512 * MiB, 768 * MiB  # limit, freed, asked: cupy issue 7678
