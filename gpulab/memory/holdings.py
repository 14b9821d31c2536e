"""Who holds which chunk of a pool: granting it, freeing it, and waiting for those who still use it."""

from typing import TYPE_CHECKING, final

from gpulab.memory import answers
from gpulab.memory.awaiting import Awaiting
from gpulab.memory.chunks import Chunk
from gpulab.memory.explain import hook_raised, not_held
from gpulab.memory.extent import Extent, extent_of
from gpulab.telemetry.events import Freed, Granted, Used

if TYPE_CHECKING:
    from gpulab.memory.pool import Pool


@final
class Holdings:
    """The claims' side of one ``pool``, as ``Backing`` is the device's."""

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.awaiting = Awaiting(pool.progress)

    def hold(self, chunk: Chunk, claim: int, rounded: int, wanted: tuple[int, str, int]) -> Extent:
        """``chunk``, or as much of it as the rule keeps, for ``claim``; ``wanted``: bytes asked, owner, stream."""
        pool, (asked, owner, stream) = self.pool, wanted
        books, segment, start, now_ns = pool.segments, chunk.segment, chunk.start, pool.clock.now_ns
        size = chunk.size
        if size > rounded and segment.shelf is not books.uncut:
            size = answers.kept(pool, size, rounded, claim)
        pool.backing.untold.pop(start, None)
        books.hold(chunk, size)
        chunk.extent = extent = extent_of((claim, start, size, asked, owner))
        chunk.stream, chunk.since_ns = stream, now_ns
        used = (Used, now_ns, claim, asked) if asked < size else ()
        pool.ledger.write(Granted, now_ns, claim, start, size, *used, *segment.note(start, size, now_ns))
        return extent

    def free(self, extent: Extent) -> None:
        """Free ``extent`` now, or when the other streams that use it are done."""
        chunk = self._held_as(extent)
        if self.awaiting.uses and self.awaiting.begin(chunk):
            self.pool.ledger.write(Used, self.pool.clock.now_ns, extent.claim, 0)
        else:
            self._release(chunk)

    def record_use(self, extent: Extent, stream: int) -> None:
        """``stream`` uses ``extent``, too."""
        self.awaiting.record(self._held_as(extent), stream)

    def settle(self) -> None:
        """Free what need not wait any more, and tell the rule which chunks no stream has to wait for."""
        for chunk in self.awaiting.reached():
            self._release(chunk)
        self.pool.backing.tell_reached()

    def wait_for_users(self) -> bool:
        """Let the host wait for every stream that a freed chunk waits for; False if none does."""
        if not self.awaiting.counts:
            return False
        self.awaiting.wait()
        self.settle()
        return True

    def held(self) -> tuple[Extent, ...]:
        """The held extents in order of their offsets; not those that were freed and wait."""
        extents = (chunk.extent for chunk in self.pool.segments.held())
        return tuple(extent for extent in extents if extent.claim not in self.awaiting.counts)

    def _release(self, chunk: Chunk) -> None:
        start, size, stream, claim = chunk.start, chunk.size, chunk.stream, chunk.extent.claim
        pool, segment = self.pool, chunk.segment
        books, now_ns = pool.segments, pool.clock.now_ns
        if segment.shelf is books.uncut:
            pool.backing.marks[start] = pool.progress.mark(stream)
            pool.backing.untold[start] = None
        free = books.set_free(chunk).start
        pool.ledger.write(Freed, now_ns, claim, *segment.note(start, -size, now_ns))
        try:
            back = pool.give(free, stream)
        except Exception as wrong:
            raise hook_raised(pool, "give", (free, stream), wrong, claim) from wrong
        if back != []:
            pool.backing.hand_back(answers.returnable(pool, "give", (free, stream), back, claim))

    def _held_as(self, extent: object) -> Chunk:
        try:
            chunk = self.pool.segments.chunks[extent.offset]
        except Exception:  # whatever it is, it is none of ours
            raise not_held(self.pool, extent) from None
        if chunk.extent is not extent or extent.claim in self.awaiting.counts:
            raise not_held(self.pool, extent)
        return chunk
