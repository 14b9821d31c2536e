"""What 02.pool runs: a program of tensors on two streams, and the two rules that its time lies between."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from gpulab.errors import OutOfMemory
from gpulab.memory.costs import Costs
from gpulab.memory.extent import ALIGNMENT, Extent
from gpulab.memory.pool import Pool
from gpulab.memory.streams import Streams
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Freed, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import US

LAUNCH_NS = 5 * US  # the host hands one kernel to a stream
COSTS = Costs()


@dataclass(frozen=True, slots=True)
class Tensor:
    """``size`` bytes from tick ``start`` until tick ``end``; a kernel works on them for ``work_ns`` on ``stream``."""

    name: str
    size: int
    stream: int
    start: int
    end: int
    work_ns: int


@dataclass(frozen=True, slots=True)
class Program:
    """Tensors on a device of ``capacity`` bytes. At most ``cache_bytes`` may lie free in the pool.

    Every ``step_ticks`` the host waits for both streams, as a program does that reads its result.
    """

    capacity: int
    cache_bytes: int
    step_ticks: int
    tensors: tuple[Tensor, ...]

    def text(self) -> str:
        """The program as a table."""
        head = (
            f"device: {self.capacity:,} B, at most {self.cache_bytes:,} B of it free in the pool; "
            f"every {self.step_ticks} ticks the host waits for both streams"
        )
        rows = [
            f"ticks {t.start:>3} to {t.end:>3}, stream {t.stream}  {t.name}: {t.size:,} B, work {t.work_ns:,} ns"
            for t in self.tensors
        ]
        return "\n".join([head, *rows])


@final
class Waiting:
    """Two streams that note how long the pool let the host wait, and before which fact of ``ledger``."""

    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        self.streams, self.clock, self.ledger = Streams(clock), clock, ledger
        self.waited_ns = 0
        self.events: set[int] = set()

    def mark(self, stream: int) -> int:
        return self.streams.mark(stream)

    def done(self, mark: int) -> bool:
        return self.streams.done(mark)

    def wait_for(self, mark: int) -> None:
        before_ns = self.clock.now_ns
        self.streams.wait_for(mark)
        self._note(before_ns)

    def wait_until_idle(self) -> None:
        before_ns = self.clock.now_ns
        self.streams.wait_until_idle()
        self._note(before_ns)

    def _note(self, before_ns: int) -> None:
        if self.clock.now_ns > before_ns:
            self.waited_ns += self.clock.now_ns - before_ns
            self.events.add(len(self.ledger))  # the free that comes next


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the host's time went: in the pool's calls, by kind, and in all until the last kernel ended."""

    hits_ns: int
    growths_ns: int
    frees_ns: int
    waits_ns: int
    whole_ns: int

    @property
    def calls_ns(self) -> int:
        """What allocating and freeing took; bands go by it."""
        return self.hits_ns + self.growths_ns + self.frees_ns + self.waits_ns


@final
class DevicePool(Pool):
    """The naive plan: every tensor from the device and back to it."""

    def take(self, size: int, stream: int) -> list:
        return ["grow", size]

    def give(self, chunk: int, stream: int) -> list[int]:
        return [chunk]

    def trim(self, need: int) -> list[int]:
        return []


@final
class StepPool(Pool):
    """The reference: four sizes a doubling, so that near sizes share chunks; the oldest free chunk goes first.

    It reads the books of the pool itself, which are empty at the learner's end of the channel.
    """

    def prepare(self) -> None:
        self.idle: dict[int, None] = {}  # free chunks, oldest first

    def take(self, size: int, stream: int) -> list:
        wanted = stepped(size)
        for start in self.idle:
            chunk = self.segments.chunks[start]
            if chunk.size == wanted and (chunk.stream == stream or self.backing.may_cross(chunk)):
                del self.idle[start]
                return ["chunk", start]
        return ["grow", wanted]

    def give(self, chunk: int, stream: int) -> list[int]:
        self.idle[chunk] = None
        return self._oldest(self.free_bytes - self.rules["cache_bytes"])

    def trim(self, need: int) -> list[int]:
        return self._oldest(need - self.room_bytes)

    def _oldest(self, surplus: int) -> list[int]:
        back = []
        while surplus > 0 and self.idle:
            back.append(next(iter(self.idle)))
            del self.idle[back[-1]]
            surplus -= self.segments.chunks[back[-1]].size
        return back


def stepped(size: int) -> int:
    """``size`` rounded up to one of four sizes a doubling, and to 512 B."""
    step = max(ALIGNMENT, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def settings(program: Program, rules: dict) -> dict:
    """What a learner's pool is made with."""
    return {"capacity": program.capacity, "rules": {**rules, "cache_bytes": program.cache_bytes}}


def opened(kind: Callable[..., Pool], program: Program, rules: dict) -> Pool:
    """An empty pool of ``kind`` for ``program``, whose clock moves by what its calls cost."""
    clock, ledger = Clock(), Ledger()
    parts = {"costs": COSTS, "progress": Waiting(clock, ledger), "clock": clock, "ledger": ledger}
    return kind(**settings(program, rules), **parts)


def play(program: Program, pool: Pool) -> Iterator[tuple[str, Tensor, Extent | None]]:
    """Yield what became of each tensor: ``"granted"`` with its extent or ``"refused"``, later ``"freed"``.

    At one tick frees come first. What a refused tensor would have worked is left out. Faults come out.
    """
    ends = sorted(range(len(program.tensors)), key=lambda n: (program.tensors[n].end, n))
    held: dict[int, Extent] = {}
    clock, streams, tick = pool.clock, pool.progress.streams, 0
    for number, tensor in enumerate(program.tensors):
        while ends and program.tensors[ends[0]].end <= tensor.start:
            over = ends.pop(0)
            if over in held:
                pool.free(held.pop(over))
                yield "freed", program.tensors[over], None
        if tensor.start // program.step_ticks > tick // program.step_ticks:
            streams.wait_until_idle()
        tick = tensor.start
        try:
            held[number] = pool.allocate(tensor.size, tensor.name, stream=tensor.stream)
        except OutOfMemory as full:
            pool.withdraw(full.claim)
            yield "refused", tensor, None
            continue
        yield "granted", tensor, held[number]
        streams.run(tensor.stream, tensor.work_ns)
        clock.advance_to(clock.now_ns + LAUNCH_NS)


def spent(pool: Pool) -> Spent:
    """Where the time of a played program went, read off its ledger."""
    device = {fact.claim for fact in pool.ledger.of(Claimed) if fact.resource == pool.device}
    grants, waits = pool.ledger.of(Granted), pool.progress
    growths = [COSTS.growth_ns(fact.size) for fact in grants if fact.claim in device]
    back = sum(fact.claim in device for fact in pool.ledger.of(Freed))
    return Spent(
        hits_ns=(len(grants) - 2 * len(growths)) * COSTS.hit_ns,
        growths_ns=sum(growths),
        frees_ns=back * COSTS.free_ns,
        waits_ns=waits.waited_ns,
        whole_ns=max(pool.clock.now_ns, waits.mark(0), waits.mark(1)),
    )


def ran(kind: type[Pool], program: Program, rules: dict) -> Pool:
    """A pool of ``kind`` after ``program``."""
    pool = opened(kind, program, rules)
    for _ in play(program, pool):
        pass
    return pool
