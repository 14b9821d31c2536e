"""What a pool has of the device: asking for more, handing back, and what the ledger says of both."""

from typing import TYPE_CHECKING, final

from gpulab.memory import answers
from gpulab.memory.chunks import Chunk
from gpulab.memory.explain import hook_raised
from gpulab.memory.explain_pool import refused
from gpulab.telemetry.events import Claimed, Freed, Granted, Refused, Withdrawn
from gpulab.telemetry.shape import Units

if TYPE_CHECKING:
    from gpulab.memory.pool import Pool


@final
class Backing:
    """The device side of one ``pool``. A claim whose growth was refused waits at the device, too."""

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        # A waiting claim -> the claim on the device that waits for it, and its bytes.
        self.waiting: dict[int, tuple[int, int]] = {}
        self.marks: dict[int, object] = {}  # free chunk, never cut -> where its stream was at the free
        self.untold: dict[int, None] = {}  # those of which the rule has not heard that the mark is reached

    def grow(self, claim: int, rounded: int, wanted: int, stream: int) -> Chunk:
        """``wanted`` bytes more for the waiting ``claim``, in one free chunk; what ``trim`` names goes back for it.

        Raises:
            OutOfMemory: ``trim`` had nothing more to give. The claim and its claim on the device wait.
        """
        pool, books = self.pool, self.pool.segments
        self.hand_back(answers.collected(pool, books.growth(wanted, stream), claim))
        growth = self._ask(claim, books.growth(wanted, stream))
        while growth[1] > pool.room_bytes:
            self._write(Refused, growth[0], pool.capacity - pool.total_bytes, pool.room_bytes)
            chunks = answers.trimmed(pool, growth[1], claim)
            if not chunks and pool.holdings.wait_for_users():
                chunks = answers.trimmed(pool, growth[1], claim)
            if not chunks:
                free, largest = pool.capacity - pool.used_bytes, max(books.largest(), pool.room_bytes)
                self._write(Refused, claim, free, largest)
                raise refused(pool, claim, rounded, growth[1])
            self.hand_back(chunks)
            growth = self._ask(claim, books.growth(wanted, stream))
        self.waiting.pop(claim, None)
        chunk = self._take(growth, rounded, wanted, stream)
        try:
            pool.grown(chunk.start, chunk.size, stream)
        except Exception as wrong:
            raise hook_raised(pool, "grown", (chunk.start, chunk.size, stream), wrong, claim) from wrong
        return chunk

    def spend(self, host_ns: int) -> None:
        """Move the clock on by ``host_ns``: what a call costs."""
        clock = self.pool.clock
        clock.advance_to(clock.now_ns + host_ns)

    def leave(self, claim: int) -> None:
        """``claim`` waits for the device no more."""
        if claim in self.waiting:
            self._write(Withdrawn, self.waiting.pop(claim)[0])

    def may_cross(self, chunk: Chunk) -> bool:
        """True if another stream than that of the free ``chunk`` may use it: what it was freed behind is done.

        Of a chunk that was cut or joined: everything that its stream has to do by now.
        """
        progress = self.pool.progress
        mark = self.marks[chunk.start] if chunk.start in self.marks else progress.mark(chunk.stream)
        return progress.done(mark)

    def tell_reached(self) -> None:
        """Tell the rule which free chunks any stream may take now. O(chunks it has not heard of)."""
        pool = self.pool
        for start in [start for start in self.untold if pool.progress.done(self.marks[start])]:
            del self.untold[start]
            try:
                pool.reached(start)
            except Exception as wrong:
                raise hook_raised(pool, "reached", (start,), wrong, None) from wrong

    def hand_back(self, chunks: list[Chunk]) -> None:
        """Give the free ``chunks`` to the device, as far as they can go, when nothing may use them any more.

        With costs the host waits first until the device is idle, or the chunk's stream where pages are unmapped.
        """
        pool = self.pool
        for chunk in chunks:
            if pool.costs is not None and pool.segments.paged:
                pool.progress.wait_for(pool.progress.mark(chunk.stream))
            elif pool.costs is not None:
                pool.progress.wait_until_idle()
            self.marks.pop(chunk.start, None)
            self.untold.pop(chunk.start, None)
            for claim in pool.segments.hand_back(chunk):
                if pool.costs is not None:
                    self.spend(pool.costs.unmap_ns if pool.segments.paged else pool.costs.free_ns)
                self._write(Freed, claim)

    def _take(self, growth: tuple[int, int], rounded: int, wanted: int, stream: int) -> Chunk:
        """Have what the device grants: ``growth`` as one piece, or each page by a claim of its own."""
        pool, unmet = self.pool, [growth[0]] if growth[1] else []

        def granted(start: int, size: int) -> int:
            if size != growth[1] and unmet:
                self._write(Withdrawn, unmet.pop())
            claim = unmet.pop() if unmet else self._claim(size)
            if pool.costs is not None:
                self.spend(pool.costs.map_ns if pool.segments.paged else pool.costs.growth_ns(size))
            self._write(Granted, claim, start, size)
            return claim

        shelf = pool.shelf_for(rounded, stream)
        if shelf is None:
            shelf = pool.segments.uncut
        return pool.segments.grow(wanted, stream, shelf, granted)

    def _ask(self, claim: int, need: int) -> tuple[int, int]:
        """The claim on the device that waits for ``claim``, if it still asks for ``need`` bytes; or a new one.

        Pages that are mapped and free may be all that is needed: then nothing is claimed.
        """
        if claim in self.waiting and self.waiting[claim][1] != need:
            self.leave(claim)
        if need and claim not in self.waiting:
            self.waiting[claim] = self._claim(need), need
        return self.waiting.get(claim, (-1, 0))

    def _claim(self, size: int) -> int:
        serial, pool = self.pool.next_claim(), self.pool
        self._write(Claimed, serial, pool.device, size, Units(size), pool.resource)
        return serial

    def _write(self, kind: type, *values) -> None:
        self.pool.ledger.write(kind, self.pool.clock.now_ns, *values)
