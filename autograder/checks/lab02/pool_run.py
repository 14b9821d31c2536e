"""What 02.pool runs: a program of tensors on two streams, and the two rules that its time lies between."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from gpulab.errors import OutOfMemory
from gpulab.memory.costs import Costs
from gpulab.memory.extent import ALIGNMENT, Extent
from gpulab.memory.pool import Pool
from gpulab.memory.streams import Streams
from gpulab.report.host_time import host_time
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Closed
from gpulab.telemetry.ledger import Ledger
from gpulab.units import US, format_bytes

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
            f"device: {format_bytes(self.capacity)}, at most {format_bytes(self.cache_bytes)} of it free in the pool; "
            f"every {self.step_ticks} ticks the host waits for both streams"
        )
        rows = [
            f"ticks {t.start:>2} to {t.end:>2}, stream {t.stream}, work {t.work_ns // US:>3} us: {format_bytes(t.size)}"
            for t in self.tensors
        ]
        return "\n".join([head, *rows])

    def run(self, kind: Callable[..., Pool], rules: dict | None = None) -> Ledger:
        """The ledger of this program on a pool of ``kind``; it ends when the last kernel has."""
        pool = opened(kind, self, rules or {})
        for _ in play(self, pool):
            pass
        pool.progress.wait_until_idle()
        pool.ledger.write(Closed, pool.clock.now_ns)
        return pool.ledger


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
    clock = Clock()
    return kind(**settings(program, rules), costs=COSTS, progress=Streams(clock), clock=clock)


def play(program: Program, pool: Pool) -> Iterator[tuple[str, Tensor, Extent | None]]:
    """Yield what became of each tensor: ``"granted"`` with its extent or ``"refused"``, later ``"freed"``.

    At one tick frees come first. What a refused tensor would have worked is left out. Faults come out.
    """
    ends = sorted(range(len(program.tensors)), key=lambda n: (program.tensors[n].end, n))
    held: dict[int, Extent] = {}
    clock, streams, tick = pool.clock, pool.progress, 0
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


def calls_ns(ledger: Ledger) -> int:
    """What the pool's calls took; the bands go by it."""
    return host_time(ledger, free_ns=COSTS.free_ns).calls_ns
