"""The program whose ledger is read in 00.read: three services, a copy in, a kernel and a copy out each."""

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from autograder.checks.lab00 import reading
from autograder.checks.lab00.reading import Run
from gpulab.device.spec import Spec, load
from gpulab.telemetry.events import Claimed, Freed, Granted, Marked, Waited
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB, format_bytes

if TYPE_CHECKING:
    from gpulab.device.device import Device

SERVICES = ("chat", "code", "summary")
MICROSECOND = 1_000


def small_board() -> Spec:
    """An H100 in all but its memory, 64 MiB: grants of some MiB can be seen on its map."""
    spec = load("h100-80")
    name = f"{spec.name}, but 64 MiB"
    return replace(spec, name=name, memory_bytes=spec.reserved_bytes + 64 * MiB)


@dataclass(frozen=True, slots=True)
class Keys:
    """What the ledger says: the four answers."""

    peak_bytes: int
    overlap_ns: int
    waited_for: int
    last_copy: int


@dataclass(frozen=True, slots=True)
class Round:
    """One service's round: its array, how long its kernel runs and on how many blocks."""

    stream: str
    size_mib: int
    kernel_us: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Program:
    """Three rounds on three streams. The third waits for the first: its kernel, or also its copy out.

    ``order`` is that of the hand-over, the first before the third. ``setup_mib`` are held until the third
    claims its array. ``idle_marks`` of the second's stream are waited for by nobody.
    """

    rounds: tuple[Round, Round, Round]
    order: tuple[int, ...]
    setup_mib: int
    after_copy: bool
    idle_marks: int

    def run(self) -> Ledger:
        """The ledger of this program on the simulated device."""
        import numpy as np  # here, as the device: who only lists the exercises needs neither

        from gpulab.device.device import open_device
        from gpulab.device.kernels.spin import SPIN

        device = open_device("sim", spec=small_board())
        setup = _array(device, self.setup_mib, "setup")
        arrays = [_array(device, each.size_mib, each.stream) for each in self.rounds[:2]]
        device.free(setup)
        arrays.append(_array(device, self.rounds[2].size_mib, self.rounds[2].stream))
        streams = [device.stream(each.stream) for each in self.rounds]
        mark = None
        for number in self.order:
            each, stream, array = self.rounds[number], streams[number], arrays[number]
            stream.copy_in(array, np.zeros(array.shape, array.dtype))
            if number == 2:
                stream.wait(mark)
            stream.launch(SPIN, [array], blocks=each.blocks, spin_ns=each.kernel_us * MICROSECOND)
            if number == 0 and not self.after_copy:
                mark = stream.mark()
            stream.copy_out(array)
            if number == 0 and self.after_copy:
                mark = stream.mark()
            for _ in range(self.idle_marks if number == 1 else 0):
                stream.mark()
        device.synchronize()
        return device.ledger


@dataclass(frozen=True, slots=True)
class Story:
    """A ledger to be read."""

    ledger: Ledger
    runs: list[Run]

    def text(self) -> str:
        """The grants and the work of the ledger, a line each, with the number and the time of each event."""
        lines = ["bytes on the device"]
        owners = {fact.claim: fact.owner for fact in self.ledger.of(Claimed)}
        for serial in self.ledger.serials(Granted, Freed):
            fact = self.ledger[serial]
            what = f"to {owners[fact.claim]}" if type(fact) is Granted else f"by {owners[fact.claim]}"
            size = f" {fact.size:,} B ({format_bytes(fact.size)})" if type(fact) is Granted else ""
            lines.append(f"  #{serial:<3} {fact.time_ns:>9,} ns  {type(fact).__name__} {what}{size}")
        lines.append("work: handed over, started, ended")
        for run in self.runs:
            times = "  ".join(
                f"#{serial:<2} {self.ledger[serial].time_ns:>9,} ns"
                for serial in (run.handed_over, run.started, run.ended)
            )
            lines.append(f"  {run.stream:<8} {run.what:<8} {times}")
        (waited,) = self.ledger.of(Waited)
        (mark,) = (fact for fact in self.ledger.of(Marked) if fact.work == waited.mark)
        lines.append(f"  {waited.stream} waits, before its kernel, for a mark of {mark.stream}")
        return "\n".join(lines)

    def keys(self) -> Keys:
        """The four answers, by reading the ledger."""
        last = reading.last_kernel(self.runs)
        return Keys(
            max(reading.held_over_time(self.ledger)),
            reading.overlap_ns(self.runs),
            reading.released(self.ledger, self.runs, last).ended,
            reading.last_copy(self.runs).ended,
        )

    def guesses(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Misconception to the answers that it leads to, by field."""
        runs, last = self.runs, reading.last_kernel(self.runs)
        key = self.keys()
        by_end = {run.ended: run for run in runs}
        early = {name: by_end[getattr(key, name)] for name in ("waited_for", "last_copy")}
        lengths = [run.length_ns for run in runs]
        copies = [run.length_ns for run in runs if run.copies]
        return {
            "final-not-peak": {"peak_bytes": (reading.held_over_time(self.ledger)[-1],)},
            "sum-of-allocs": {"peak_bytes": (reading.granted_in_all(self.ledger),)},
            "overlap-twice": {"overlap_ns": (reading.overlap_of_pairs_ns(runs),)},
            "serial-thinking": {"overlap_ns": (sum(lengths), sum(copies), sum(lengths) - sum(copies))},
            "launch-is-end": {name: (run.handed_over,) for name, run in early.items()},
            "same-stream-only": {"waited_for": (reading.before_on_stream(runs, last).ended,)},
        }


def drawn(draw: Random, *, tiny: bool = False) -> Story:
    """A ledger in which every misconception leads to another answer than the ledger's."""
    while True:
        story = _story(draw, tiny)
        (waited,) = story.ledger.of(Waited)
        if reading.last_kernel(story.runs).stream != waited.stream:
            continue  # the second service's kernel came so late that it starts last
        key, guesses = story.keys(), story.guesses()
        apart = all(
            getattr(key, field) not in values
            for answers in guesses.values()
            for field, values in answers.items()
        )
        if apart:  # so the last kernel did not wait for its own stream, but for the other one's mark
            return story


def _story(draw: Random, tiny: bool) -> Story:
    names = draw.sample(SERVICES, 3)
    setup = draw.randrange(20, 41)
    sizes = draw.randrange(4, 11), draw.randrange(3, 9), draw.randrange(9, 17)
    kernels = draw.randrange(50, 91), draw.randrange(30, 61), draw.randrange(10, 31)
    rounds = tuple(
        Round(name, size, 10 * tens, draw.choice((2, 8, 16, 32)))
        for name, size, tens in zip(names, sizes, kernels, strict=True)
    )
    order = (0, 1, 2) if tiny else draw.choice(((0, 1, 2), (0, 2, 1), (1, 0, 2)))
    after_copy = draw.randrange(2) == 1 and not tiny
    ledger = Program(rounds, order, setup, after_copy, draw.randrange(3)).run()
    return Story(ledger, reading.runs_of(ledger))


def _array(device: "Device", size_mib: int, owner: str):
    return device.empty(size_mib * MiB // 4, "int32", owner)
