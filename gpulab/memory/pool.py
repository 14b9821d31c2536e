"""A caching pool in two halves: what every pool does is final, what a rule decides is a hook.

A pool keeps freed memory instead of giving it back to the device, because asking the device is slow. Here
the device is a byte budget: it grants any amount that is left, at an address of its own. So two things
are recorded at each growth: the segment as a claim on the device, the tensor as a claim on the pool.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

from gpulab.memory import answers
from gpulab.memory.backing import Backing
from gpulab.memory.chunks import Chunks
from gpulab.memory.costs import Costs
from gpulab.memory.explain import bad_owner, bad_size, not_waiting, positive_bytes
from gpulab.memory.extent import ALIGNMENT, Extent
from gpulab.memory.holdings import Holdings
from gpulab.memory.hooks import prepare_safely, refuse_taken_names
from gpulab.memory.segments import Segments
from gpulab.memory.streams import Progress, Streams, stream_number
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Opened, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Free
from gpulab.units import whole

if TYPE_CHECKING:
    from sortedcontainers import SortedList

_HOOKS = ("prepare", "take", "give", "trim", "grown", "reached", "collect")
_HOOKS += ("segment_size", "shelf_for", "keep")


class Pool(ABC):
    """A cache of device memory. Subclass it and write ``take``, ``give`` and ``trim``.

    ``CuPyPool`` and ``PyTorchPool`` follow two published rules. A *chunk* is known by its id, a whole number.

    Args:
        capacity: bytes of the device.
        limit: most bytes that the pool may take of it; None for all.
        rules: constants of an exercise, for the hooks to read as ``self.rules``.
        costs: what calls cost; the clock moves by them. None: nothing, and the caller moves the clock.
        progress: how far the device's streams have got; None: they never have anything to do.
        books: of the chunks; None for ``Segments``.
        clock, ledger: share them between parts of one run; fresh ones otherwise. One ledger takes one pool.
    """

    device, resource = "device", "pool"

    def __init__(
        self,
        capacity: int,
        *,
        limit: int | None = None,
        rules: dict | None = None,
        costs: Costs | None = None,
        progress: Progress | None = None,
        books: Chunks | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        others = set(vars(self))
        self.capacity = positive_bytes("A pool", "a capacity", capacity)
        self.limit = None if limit is None else positive_bytes("A pool", "a limit", limit)
        self.alignment = ALIGNMENT
        self.rules, self.clock = dict(rules or {}), clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self.costs, self.progress, self.segments = costs, progress or Streams(self.clock), books or Segments()
        self._wanted: dict[int, tuple[int, str, int]] = {}  # waiting claims: asked bytes, owner, stream
        self.backing, self.holdings = Backing(self), Holdings(self)
        self._shapes: dict[int, Contiguous] = {}  # of the sizes seen: equal claims share one
        self._claims = 0
        self.ledger.write(Opened, self.clock.now_ns, self.device, self.capacity, "B", "")
        self.ledger.write(Opened, self.clock.now_ns, self.resource, 0, "B", self.device)
        prepare_safely(self, Pool, others, "pool")

    def __init_subclass__(cls) -> None:
        """Refuse a subclass that writes what is final, or a helper of its own under such a name."""
        refuse_taken_names(cls, Pool, _HOOKS, "pool")

    # -- what a rule decides; sizes are already rounded up to 512 B -------------------------------

    def prepare(self) -> None:
        """Called once while the pool is empty; set up your own books here."""

    @abstractmethod
    def take(self, size: int, stream: int) -> list:
        """``["chunk", id]``: this free chunk, of ``size`` bytes or more; or ``["grow", bytes]``: ask the device.

        A chunk that was freed on another stream may be taken once that stream is done with it.
        """

    @abstractmethod
    def give(self, chunk: int, stream: int) -> list[int]:
        """``chunk``, held on ``stream`` until now, is free; the chunks to hand back to the device for it, or [].

        Of a cut chunk: what it is now, with the free chunks that touched it.
        """

    @abstractmethod
    def trim(self, need: int) -> list[int]:
        """The device has refused ``need`` bytes: the chunks to hand back. Asked again until it fits, or []."""

    def grown(self, chunk: int, size: int, stream: int) -> None:
        """The device gave ``chunk``, of ``size`` bytes; what ``take`` wanted it for holds it next, on ``stream``."""

    def reached(self, chunk: int) -> None:
        """The stream that gave the free, never cut ``chunk`` back has come to that point: any may take it now."""

    def collect(self, need: int) -> list[int]:
        """The chunks to hand back before the device is asked for ``need`` bytes; none here."""
        return []

    def segment_size(self, size: int) -> int:
        """Bytes that the device must give an empty pool for a claim of ``size``: as many here."""
        return size

    def shelf_for(self, size: int, stream: int) -> "SortedList | None":
        """Where the free chunks of a segment stand that is grown for ``size`` bytes. None: they are never cut."""
        return None

    def keep(self, held: int, size: int) -> int:
        """How much of a chunk of ``held`` bytes a claim of ``size`` holds; the rest, if any, stays on the shelf."""
        return held

    # -- what every pool does --------------------------------------------------------------------

    @final
    def allocate(self, size: int, owner: str = "", *, claim: int | None = None, stream: int = 0) -> Extent:
        """Hold ``size`` bytes for ``owner`` to use on ``stream``, from the cache if the rule finds some there.

        Records ``Claimed`` (not for a retry: ``claim`` names a refused claim that waits), what the device was
        asked and said, then ``Granted``, and ``Used`` when more was granted than asked; or ``Refused``.
        Cost: O(log free chunks); a growth that is refused hands back chunks.

        Raises:
            OutOfMemory: neither cache nor device has it. The claim waits: retry it or ``withdraw`` it.
            AllocatorFault: a size that is no positive whole number, a claim that does not wait, or a hook
                that answered what cannot be. StreamFault: no stream, or a chunk that another still uses.
        """
        if claim is None:
            claim = self.queue(size, owner, stream=stream)
        elif type(claim) is not int or claim not in self._wanted:
            raise not_waiting(self, claim)
        wanted = self._wanted[claim]
        asked, _, stream = wanted
        rounded = -(-asked // ALIGNMENT) * ALIGNMENT
        if self.holdings.awaiting.counts or self.backing.untold:
            self.holdings.settle()
        chunk = answers.taken(self, rounded, stream, claim)
        if type(chunk) is int:
            chunk = self.backing.grow(claim, rounded, chunk, stream)
        else:
            if self.backing.waiting:
                self.backing.leave(claim)
            if self.costs is not None:
                self.backing.spend(self.costs.hit_ns)
        extent = self.holdings.hold(chunk, claim, rounded, wanted)
        del self._wanted[claim]
        return extent

    @final
    def queue(self, size: int, owner: str = "", *, stream: int = 0) -> int:
        """Let a claim wait without asking for memory yet (others are before it); its serial, for a retry."""
        asked = size if type(size) is int else whole(size)
        if asked is None or asked <= 0:
            raise bad_size(self, size)
        if type(owner) is not str:
            raise bad_owner(self, owner)
        if type(stream) is not int or stream < 0:
            stream = stream_number(stream)
        claim, self._claims = self._claims, self._claims + 1
        self._wanted[claim] = asked, owner, stream
        rounded = -(-asked // ALIGNMENT) * ALIGNMENT
        shape = self._shapes.get(rounded)
        if shape is None:
            shape = self._shapes[rounded] = Contiguous(rounded, ALIGNMENT)
        self.ledger.write(Claimed, self.clock.now_ns, claim, self.resource, asked, shape, owner)
        return claim

    @final
    def free(self, extent: Extent) -> None:
        """Give ``extent`` back to the cache, where it joins the free chunks it touches; records ``Freed``.

        If other streams were told to use it (``record_use``), it is only ``Used`` no more until they have
        reached what was handed over to them by now; a later ``allocate`` sees that and frees it.

        Raises:
            AllocatorFault: it is not held: freed twice, or never granted here; or ``give`` answered wrongly.
        """
        self.holdings.free(extent)

    @final
    def record_use(self, extent: Extent, stream: int) -> None:
        """Work on ``stream`` uses ``extent``, too: a free will wait for what that stream has to do by then.

        PyTorch's ``Tensor.record_stream``. CuPy has no such call: there its caller must wait.

        Raises:
            AllocatorFault: ``extent`` is not held. StreamFault: ``stream`` is no stream.
        """
        self.holdings.record_use(extent, stream_number(stream))

    @final
    def could_hold(self, size: int) -> bool:
        """Whether ``size`` bytes would fit if nothing else were held: their segment within device and limit."""
        most = min(self.capacity, self.limit or self.capacity)
        return self.segment_size(-(-size // ALIGNMENT) * ALIGNMENT) <= most

    @final
    def withdraw(self, claim: int) -> None:
        """Give up waiting for a refused claim; records ``Withdrawn``, also for its claim on the device."""
        if type(claim) is not int or claim not in self._wanted:
            raise not_waiting(self, claim)
        del self._wanted[claim]
        self.ledger.write(Withdrawn, self.clock.now_ns, claim)
        self.backing.leave(claim)

    @final
    def free_all_blocks(self) -> int:
        """Hand back to the device all that ``trim`` gives up; the bytes that went.

        CuPy's name; PyTorch calls it ``empty_cache``. A segment of which anything is held stays. The host
        waits for the streams that freed chunks wait for.
        """
        before = self.total_bytes
        self.holdings.wait_for_users()
        while chunks := answers.trimmed(self, self.capacity, None):
            self.backing.hand_back(chunks)
        return before - self.total_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes of the held extents, rounding included, and of those that were freed but must wait."""
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
        return min(self.capacity, self.limit or self.capacity) - self.segments.reserved_bytes

    def holes(self) -> Free:
        """The free chunks ``((offset, size), ...)`` in order of their offsets. O(n log n) in the number of chunks."""
        return self.segments.holes()

    def held(self) -> tuple[Extent, ...]:
        """The held extents in order of their offsets. O(n log n) in the number of chunks."""
        return self.holdings.held()

    @final
    def next_claim(self) -> int:
        """A new serial, for a claim on the pool or, by the pool, on the device."""
        self._claims += 1
        return self._claims - 1
