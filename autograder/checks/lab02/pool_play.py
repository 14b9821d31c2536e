"""How a program of 02.pool is played through the channel: laws on every answer, then the time it took."""

from collections import Counter
from functools import partial
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab02.pool_cases import times
from autograder.checks.lab02.pool_run import Program, Tensor, calls_ns, opened, play, settings
from autograder.checks.played import STANDARD, Outcome, unanswered
from gpulab.errors import AllocatorFault, StreamFault
from gpulab.memory.chunks import Chunk
from gpulab.memory.extent import Extent
from gpulab.memory.pool import Pool
from gpulab.telemetry.events import Freed, Granted, Refused
from gpulab.units import format_bytes, format_ns

FULL = STANDARD[-1][0]  # way from naive to reference at which nothing is left to say
LAWS = {  # law of the pool that was broken -> tag
    "size": "too-small",
    "held": "held-twice",
    "chunk": "unknown-chunk",
    "twice": "unknown-chunk",
    "race": "other-stream-race",
}


@final
class AskedPool(Pool):
    """The judge's pool: it asks the learner's object, and notes what each answer passed over.

    ``grown`` and ``reached`` ride with the next question: they have no answer of their own.
    """

    def __init__(self, asker: Asker, **parts: object) -> None:
        self._asker = asker
        self._told: list = []
        self.growths: list[tuple[int, int]] = []  # bytes wanted, bytes asked of the device
        self.passed: dict[str, list[tuple[int, int, int]]] = {"near": [], "cross": []}  # event, wanted, chunk
        self.early: list[int] = []  # events of frees that went to the device although the cache had room
        self.gives = 0
        super().__init__(**parts)

    def take(self, size: int, stream: int) -> object:
        answer = self._ask("take", size, stream)
        if type(answer) is list and len(answer) == 2 and answer[0] == "grow" and type(answer[1]) is int:
            self.growths.append((size, answer[1]))
            self._note_passed(size, stream)
        return answer

    def give(self, chunk: int, stream: int) -> object:
        self.gives += 1
        answer = self._ask("give", chunk, stream)
        if answer and self.free_bytes <= self.rules["cache_bytes"]:
            self.early.append(self.ledger.serials(Freed)[-1])
        return answer

    def trim(self, need: int) -> object:
        return self._ask("trim", need)

    def grown(self, chunk: int, size: int, stream: int) -> None:
        self._told.append(["grown", [chunk, size, stream]])

    def reached(self, chunk: int) -> None:
        self._told.append(["reached", [chunk]])

    def _ask(self, method: str, *arguments: int) -> object:
        told, self._told = self._told, []
        return self._asker.ask(method, list(arguments), told)

    def _note_passed(self, size: int, stream: int) -> None:
        """A free chunk would have served these ``size`` bytes within the limit of what may be stranded."""
        fitting = [
            chunk
            for chunk in self.segments.returnable()
            if chunk.size >= size and not self.strands(size, chunk.size) and self._may(chunk, stream)
        ]
        own = [chunk for chunk in fitting if chunk.stream == stream]
        if fitting:
            best = min(own or fitting, key=lambda chunk: chunk.size)
            self.passed["near" if own else "cross"].append((len(self.ledger) - 1, size, best.size))

    def _may(self, chunk: Chunk, stream: int) -> bool:
        return chunk.stream == stream or self.backing.may_cross(chunk)

    def strands(self, asked: int, granted: int) -> bool:
        """Is more of ``granted`` bytes stranded than the twist allows?"""
        return 100 * (granted - asked) > self.rules["stranded_percent"] * granted


def play_case(program: Program, rules: dict, asker: Asker, *known_ns: int) -> Outcome:
    """One program through the channel; its way from the naive plan's time to the reference's.

    ``known_ns`` are those two times, where they are known already.
    """
    outcome = Outcome()
    try:
        asker.new(settings(program, rules))
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    pool = opened(partial(AskedPool, asker), program, rules)
    outcome.ledger = pool.ledger
    try:
        granted = _served(program, pool, outcome)
    except (AllocatorFault, StreamFault) as fault:
        if isinstance(fault.__cause__, AnswerFault):
            return unanswered(outcome, fault.__cause__)
        return _fault(outcome, pool, fault)
    if outcome.tag:
        return outcome
    asked, held = (sum(getattr(extent, name) for extent in granted) for name in ("asked", "size"))
    if pool.strands(asked, held):
        return _stranded(outcome, pool, granted)
    naive_ns, best_ns = known_ns or times(program, rules)
    ours_ns = calls_ns(pool.ledger)
    outcome.way = (naive_ns - ours_ns) / max(1, naive_ns - best_ns)
    if ours_ns <= best_ns:  # on a short program the reference may take longer than the naive plan
        outcome.way = 1.0
    return outcome if outcome.way >= FULL else _slow(outcome, pool, ours_ns, best_ns)


def _served(program: Program, pool: AskedPool, outcome: Outcome) -> list[Extent]:
    """The grants of ``program``, up to the first that was refused or the first free that was kept too long."""
    granted: list[Extent] = []
    for what, tensor, extent in play(program, pool):
        if what == "granted":
            granted.append(extent)
        elif what == "refused":
            _refused(outcome, pool, tensor, granted)
            break
        elif pool.free_bytes > program.cache_bytes:
            outcome.lawful, outcome.tag, outcome.event = False, "over-limit", pool.ledger.serials(Freed)[-1]
            outcome.expected = f"at most {format_bytes(program.cache_bytes)} free in the pool"
            outcome.got = f"{format_bytes(pool.free_bytes)}"
            outcome.numbers = {"size": tensor.size}
            break
    return granted


def _fault(outcome: Outcome, pool: AskedPool, fault: AllocatorFault | StreamFault) -> Outcome:
    outcome.lawful, outcome.event = False, len(pool.ledger) - 1
    outcome.tag = LAWS.get(fault.law, fault.law)
    numbers = fault.numbers
    if fault.law == "race":
        chunk = pool.segments.chunks[numbers["chunk"]]
        later_ns = pool.progress.mark(chunk.stream) - pool.clock.now_ns
        outcome.expected = f"a chunk of stream {numbers['stream']}, or one whose own stream is done with it"
        outcome.got = f"chunk {chunk.start:,}, freed on stream {chunk.stream}"
        outcome.numbers = {"stream": chunk.stream, "later": format_ns(later_ns)}
    else:
        outcome.expected, outcome.got = numbers["expected"], numbers["got"]
    return outcome


def _refused(outcome: Outcome, pool: AskedPool, tensor: Tensor, granted: list[Extent]) -> None:
    """The program fits: the reference serves it. So a refusal is the pool's own doing."""
    if not pool.free_bytes:
        asked, held = (sum(getattr(extent, name) for extent in granted) for name in ("asked", "size"))
        if pool.strands(asked, held):
            _stranded(outcome, pool, granted)
            return
    outcome.tag = "never-trims" if pool.free_bytes else "refused"
    outcome.event = pool.ledger.serials(Refused)[-1]
    outcome.expected = "a place: it fits once free chunks have gone back"
    outcome.got = f"refused, with {format_bytes(pool.free_bytes)} free in the pool"
    outcome.numbers = {
        "size": tensor.size,
        "cached": format_bytes(pool.free_bytes),
        "wanted": format_bytes(pool.growths[-1][1]),
    }


def _stranded(outcome: Outcome, pool: AskedPool, granted: list[Extent]) -> Outcome:
    """Too much is stranded: by growing in coarse steps, or by taking whatever is long enough?"""
    worst = max(granted, key=lambda extent: extent.size - extent.asked)
    asked, held = (sum(getattr(extent, name) for extent in granted) for name in ("asked", "size"))
    wanted, grown = (sum(pair[side] for pair in pool.growths) for side in (0, 1))
    if all(size & (size - 1) == 0 for _, size in pool.growths):
        outcome.tag = "power-of-two"
    else:
        outcome.tag = "coarse-steps" if pool.strands(wanted, grown) else "any-bigger"
    outcome.way = 0.0
    outcome.event = next(s for s in pool.ledger.serials(Granted) if pool.ledger[s].claim == worst.claim)
    percent = 100 * (held - asked) // held
    outcome.expected = f"at most {pool.rules['stranded_percent']} % of the granted bytes stranded"
    outcome.got = f"{percent} %: {format_bytes(held - asked)} of {format_bytes(held)}; most of it here"
    outcome.numbers = {
        "size": worst.asked,
        "asked": format_bytes(worst.asked),
        "held": format_bytes(worst.size),
        "percent": percent,
    }
    return outcome


def _slow(outcome: Outcome, pool: AskedPool, ours_ns: int, best_ns: int) -> Outcome:
    """All laws kept, but the device is asked more often than it must be: what was passed over?"""
    near, cross = pool.passed["near"], pool.passed["cross"]
    exact = Counter(wanted == size for wanted, size in pool.growths)
    outcome.tag, outcome.event = "slow", pool.ledger.serials(Granted)[-1]
    if pool.early and 2 * len(pool.early) >= pool.gives:
        outcome.tag, outcome.event = "frees-at-once", pool.early[0]
    elif len(cross) > len(near):
        outcome.tag = "own-stream-only"
        _note(outcome, cross[0])
    elif near and exact[True] > 9 * exact[False]:
        outcome.tag = "exact-size-only"
        _note(outcome, near[0])
    outcome.expected = f"{format_ns(best_ns)} in the pool's calls, as the reference takes"
    outcome.got = format_ns(ours_ns)
    return outcome


def _note(outcome: Outcome, passed: tuple[int, int, int]) -> None:
    outcome.event, wanted, chunk = passed
    outcome.numbers = {"size": wanted, "near": format_bytes(chunk), "wanted": format_bytes(wanted)}
