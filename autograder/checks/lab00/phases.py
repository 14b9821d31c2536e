"""What 00.trap plays: a board that is watched through two counters while three phases of work go by."""

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from gpulab.device.spec import Spec, load
from gpulab.telemetry.counters import LONG_WINDOW_NS, SHORT_WINDOW_NS, Sample, sample
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.nvml import read
from gpulab.units import GiB, format_bytes

MS = 1_000_000
BOARDS = ("t4", "l4", "a100-80", "h100-80")  # 40, 58, 108 and 132 multiprocessors
START_NS = 100 * MS  # the first phase begins here: the model is loaded by then
WARP_THREADS = 32
HELD = "bytes-for-memory-util"


@dataclass(frozen=True, slots=True)
class Phase:
    """``blocks`` blocks of one warp spin for ``busy_ms``, each on a multiprocessor of its own; then nothing runs."""

    blocks: int
    busy_ms: int
    idle_ms: int

    @property
    def lasts_ns(self) -> int:
        return (self.busy_ms + self.idle_ms) * MS


@dataclass(frozen=True, slots=True)
class Readings:
    """One reading at the end of each phase: percent and permille, rounded down."""

    util: list[int]
    sm_active_permille: list[int]


@dataclass(frozen=True, slots=True)
class Watched:
    """Three phases on a board of ``spec``, on which ``model_bytes`` are held throughout."""

    spec: Spec
    window_ns: int
    model_bytes: int
    phases: tuple[Phase, Phase, Phase]

    @property
    def spinner(self) -> int:
        """The number of the phase in which one block spins throughout, from 0."""
        return next(n for n, phase in enumerate(self.phases) if phase.blocks == 1)

    @property
    def full(self) -> int:
        """The number of the phase in which every multiprocessor has a block, from 0."""
        return next(n for n, phase in enumerate(self.phases) if phase.blocks == self.spec.sms)

    @property
    def held_percent(self) -> int:
        return self.model_bytes * 100 // self.spec.memory_bytes

    def edges_ns(self) -> list[int]:
        """When the phases begin, and when the last one ends."""
        edges = [START_NS]
        for phase in self.phases:
            edges.append(edges[-1] + phase.lasts_ns)
        return edges

    def run(self) -> tuple[Ledger, Readings]:
        """The ledger, and what the simulated device's NVML read at the end of each phase."""
        from gpulab.device.device import open_device  # here: who only lists the exercises needs no NumPy
        from gpulab.device.kernels.spin import SPIN

        device = open_device("sim", spec=self.spec)
        device.empty(self.model_bytes, "uint8", "model")
        done, stream = device.empty(device.spec.sms, "int32", "flags"), device.stream("work")
        readings, edges = Readings([], []), self.edges_ns()
        for number, edge_ns in enumerate(edges):
            if number < len(self.phases):  # handed over a little early, so that it starts at the edge
                phase = self.phases[number]
                device.wait_until(edge_ns - device.spec.launch_ns)
                stream.launch(SPIN, [done], blocks=phase.blocks, spin_ns=phase.busy_ms * MS)
            device.wait_until(edge_ns)
            if number > 0:
                values = read(device, self.window_ns).values
                readings.util.append(values["utilization_gpu_percent"])
                readings.sm_active_permille.append(values["sm_active_permille"])
        return device.ledger, readings

    def spans_ns(self) -> list[tuple[int, int]]:
        """Begin and end of each phase."""
        edges = self.edges_ns()
        return list(pairwise(edges))

    def text(self) -> str:
        """The task in words; times count from the begin of the first phase."""
        spec, window_ms = self.spec, self.window_ns / MS
        lines = [
            f"{spec.name}: {spec.sms} multiprocessors. A model of {format_bytes(self.model_bytes)} "
            f"({self.held_percent} % of the memory) is held throughout.",
            f"Both counters look back over a window of {window_ms:.2f} ms.",
        ]
        for number, (phase, (start_ns, end_ns)) in enumerate(
            zip(self.phases, self.spans_ns(), strict=True), 1
        ):
            blocks = (
                "one block"
                if phase.blocks == 1
                else f"{phase.blocks} blocks, each on its own multiprocessor,"
            )
            idle = f", then nothing for {phase.idle_ms} ms" if phase.idle_ms else ""
            span = f"{(start_ns - START_NS) // MS} to {(end_ns - START_NS) // MS} ms"
            lines.append(f"phase {number}, {span}: {blocks} for {phase.busy_ms} ms{idle}; then both are read")
        return "\n".join(lines)

    def guesses(self) -> dict[str, list[Readings]]:
        """Misconception to the readings that it leads to."""
        ledger, right = self.run()
        util, active = right.util, right.sm_active_permille
        idle = replace(self, phases=tuple(Phase(p.blocks, p.busy_ms + p.idle_ms, 0) for p in self.phases))
        sms = self.spec.sms
        filled = replace(
            self, phases=tuple(replace(p, blocks=sms) if p.blocks == 1 else p for p in self.phases)
        )
        since_start = [sample(ledger, end_ns, end_ns - START_NS) for _, end_ns in self.spans_ns()]
        of_phase = [sample(ledger, end_ns, end_ns - start_ns) for start_ns, end_ns in self.spans_ns()]
        return {
            "util-is-sm-share": [Readings([permille // 10 for permille in active], active)],
            "spinner-fills": [Readings(util, filled.run()[1].sm_active_permille)],
            "whole-run-average": [_averages(since_start), _averages(of_phase)],
            "occupancy-for-active": [Readings(util, self._warps_permille(ledger))],
            HELD: [Readings([self.held_percent] * 3, active)],
            "idle-forgotten": [idle.run()[1]],
        }

    def _warps_permille(self, ledger: Ledger) -> list[int]:
        """Resident warps of those that fit, for who takes occupancy for SM-active."""
        room = self.spec.max_threads_per_sm // WARP_THREADS
        seen = [sample(ledger, end_ns, self.window_ns) for _, end_ns in self.spans_ns()]
        return [each.sm_ns * 1000 // (self.window_ns * self.spec.sms * room) for each in seen]


def drawn(draw: Random) -> Watched:
    """Three phases in any order: one block throughout, every multiprocessor, and some of them for a part."""
    spec, window_ns = load(draw.choice(BOARDS)), draw.choice((SHORT_WINDOW_NS, LONG_WINDOW_NS))
    window_ms = window_ns // MS
    some = draw.randrange(spec.sms // 4, spec.sms * 3 // 4)
    phases = [
        Phase(1, draw.randrange(window_ms + 10, 2 * window_ms), 0),
        Phase(spec.sms, *_parts(draw, window_ms)),
        Phase(some, *_parts(draw, window_ms)),
    ]
    draw.shuffle(phases)
    if phases[0].blocks > 1:  # the first window must not reach back before the first phase
        phases[0] = replace(phases[0], busy_ms=phases[0].busy_ms + window_ms)
    model_gib = draw.randrange(spec.memory_bytes * 4 // 10, spec.memory_bytes * 9 // 10) // GiB
    return Watched(spec, window_ns, model_gib * GiB, tuple(phases))


def _parts(draw: Random, window_ms: int) -> tuple[int, int]:
    """Milliseconds busy and idle, together less than a window: the window reaches into the phase before."""
    busy = draw.randrange(window_ms * 2 // 10, window_ms * 6 // 10)
    return busy, draw.randrange(window_ms // 10, window_ms * 3 // 10)


def _averages(seen: list[Sample]) -> Readings:
    return Readings(
        [each.utilization_gpu_percent for each in seen], [each.sm_active_permille for each in seen]
    )
