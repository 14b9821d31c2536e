"""Mixes and timelines of 04.convoy, what is right on them, and what each misreading gives."""

from dataclasses import dataclass
from random import Random

from autograder.checks.lab04.server import Pace, ends, first_come, in_turns, ledger_of, waits
from gpulab.report.waiting import Waiting
from gpulab.serving.request import Request
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

REQUESTS, LONGS = 14, 3  # on the timeline
LEAST = 4  # requests behind the head of the convoy


@dataclass(frozen=True, slots=True)
class Mix:
    """One request in ``every`` is long; each class is exponential, the long ones ``ratio`` times ``short_ms`` in mean."""

    every: int
    ratio: int
    load_percent: int
    short_ms: int

    @property
    def mean_ms(self) -> float:
        """E[S]."""
        return self.short_ms * (self.every - 1 + self.ratio) / self.every

    @property
    def square(self) -> float:
        """E[S²], in ms²: an exponential's is twice the square of its mean."""
        return 2 * self.short_ms**2 * (self.every - 1 + self.ratio**2) / self.every

    def fifo_ms(self, square: float | None = None) -> float:
        """The mean response first come, first served (Pollaczek and Khinchine); with another E[S²] if given."""
        load = self.load_percent / 100
        rate = load / self.mean_ms
        return rate * (self.square if square is None else square) / (2 * (1 - load)) + self.mean_ms

    @property
    def ps_ms(self) -> float:
        """The mean response when the server is shared: load and mean are all it takes."""
        return self.mean_ms / (1 - self.load_percent / 100)

    def text(self) -> str:
        """The mix in one sentence."""
        return (
            f"Two exponentials mixed: of {self.every} requests {self.every - 1} take {self.short_ms} ms in mean and one "
            f"takes {self.ratio * self.short_ms:,} ms in mean; requests come at random (Poisson) at load 0.{self.load_percent}."
        )


@dataclass(frozen=True, slots=True)
class Convoy:
    """A mix for the theory, and a timeline: requests of one server that takes ``unit_ms`` for each unit of work."""

    mix: Mix
    requests: tuple[Request, ...]

    @property
    def pace(self) -> Pace:
        """A token is a unit of work; prompts take no time."""
        return Pace(self.mix.short_ms * MS)

    def text(self) -> str:
        """The mix, then the requests of the timeline."""
        rows = [
            f"{request.id:>4}  {request.tenant:7}  comes at {request.arrival_ns // MS:>7,} ms, "
            f"takes {self.pace.alone_ns(request) // MS:>6,} ms"
            for request in self.requests
        ]
        return "\n".join([self.mix.text(), "The timeline:", *rows])

    def first_come(self) -> Ledger:
        """One at a time, in order of arrival."""
        return ledger_of(self.requests, first_come(self.requests, 1, self.pace), self.pace)

    def shared(self) -> Ledger:
        """Everybody who is there in turns of one unit."""
        return ledger_of(self.requests, in_turns(self.requests, 1, self.pace), self.pace)


@dataclass(frozen=True, slots=True)
class Key:
    """What the timeline shows."""

    head: int
    behind: frozenset[int]
    worse_off: frozenset[int]


def key(task: Convoy) -> Key:
    """The head of the longest convoy, who stood behind it, and who is answered later when the server is shared.

    Convoys are read from the second gauge of the first ledger: behind whom each request waited.
    """
    behind = convoys(task.first_come())
    head = max(behind, key=lambda request: len(behind[request]))
    return Key(head, frozenset(behind[head]), frozenset(worse_off(task)))


def convoys(ledger: Ledger) -> dict[int, set[int]]:
    """Request to the requests that were behind while it ran."""
    waiting = Waiting(ledger)
    number = {waited.owner: waited.request for waited in waiting.requests}
    found: dict[int, set[int]] = {request: set() for request in number.values()}
    for request in number.values():
        for row in waiting.behind(request):
            found[number[row.owner]].add(request)
    return found


def drawn(draw: Random, *, tiny: bool = False) -> Convoy:
    """A mix of F12's kind, and a timeline with one longest convoy on which each misreading is wrong."""
    mix = Mix(
        draw.randrange(5, 21), draw.randrange(10, 41), draw.randrange(60, 86), 10 * draw.randrange(4, 31)
    )
    while True:
        task = Convoy(mix, _timeline(draw, mix.short_ms * MS, 6 if tiny else REQUESTS, 1 if tiny else LONGS))
        if tiny or _telling(task):
            return task


def _timeline(draw: Random, unit_ns: int, count: int, longs: int) -> tuple[Request, ...]:
    long, now, found = set(draw.sample(range(count), longs)), 0, []
    for place in range(count):
        units = draw.randrange(7, 19) if place in long else draw.randrange(1, 4)
        tenant = "summary" if place in long else "chat"
        found.append(Request(place + 1, now, 1, units, tenant=tenant))
        now += draw.randrange(1, 6) * unit_ns + draw.randrange(1, 10) * unit_ns // 10
    return tuple(found)


def _telling(task: Convoy) -> bool:
    """Is one convoy clearly the longest, and is every misreading of the timeline wrong?"""
    runs = first_come(task.requests, 1, task.pace)
    start = {turn.request.id: turn.start_ns for turn in reversed(runs)}
    end = ends(runs)
    lengths = {
        head.id: sum(
            other.arrival_ns < end[head.id] and start[other.id] > start[head.id] for other in task.requests
        )
        for head in task.requests
    }
    first, second = sorted(lengths.values(), reverse=True)[:2]
    if first < max(LEAST, second + 1) or 2 * first > len(task.requests):
        return False
    if first == sum(other.id > max(lengths, key=lengths.__getitem__) for other in task.requests):
        return False  # everybody after it: to be sorted out before the ledger is written
    worse = worse_off(task)
    if not 2 <= len(worse) <= len(task.requests) // 2:
        return False
    found = key(task)
    misread = [frozenset(wrong(task, found.head)) for wrong in BEHIND.values()]
    others = [frozenset(wrong(task)) for wrong in WORSE.values()]
    return (
        found.head not in (longest_waiter(task), 1)
        and found.behind not in misread
        and frozenset(worse) not in others
    )


def worse_off(task: Convoy) -> set[int]:
    """Who is answered later when the server is shared."""
    alone, shared = (ends(run(task.requests, 1, task.pace)) for run in (first_come, in_turns))
    return {request for request in alone if shared[request] > alone[request]}


def waited_ns(task: Convoy) -> dict[int, int]:
    return waits(first_come(task.requests, 1, task.pace), task.pace)


def longest_waiter(task: Convoy) -> int:
    found = waited_ns(task)
    return max(found, key=lambda request: found[request])


def _arrived_while(task: Convoy, head: int) -> set[int]:
    """Who came while ``head`` ran, without those who were there before."""
    runs = [turn for turn in first_come(task.requests, 1, task.pace) if turn.request.id == head]
    return {r.id for r in task.requests if runs and runs[0].start_ns < r.arrival_ns < runs[-1].end_ns}


# Misreadings of the timeline: of the convoy (with its head), and of who loses.
BEHIND = {
    "arrived-while-it-ran": _arrived_while,
    "everybody-who-waited": lambda task, head: {request for request, ns in waited_ns(task).items() if ns},
    "everybody-after-it": lambda task, head: {request.id for request in task.requests if request.id > head},
    "chats-only": lambda task, head: {
        r.id for r in task.requests if r.tenant == "chat" and r.id in convoys(task.first_come())[head]
    },
}
WORSE = {
    "summaries-only": lambda task: {r.id for r in task.requests if r.tenant == "summary"},
    "better-for-worse": lambda task: {r.id for r in task.requests} - worse_off(task),
    "everybody-slower": lambda task: {r.id for r in task.requests},
    "waits-at-all": lambda task: {
        request for request, ns in waits(in_turns(task.requests, 1, task.pace), task.pace).items() if ns
    },
}


def misread_means(mix: Mix) -> dict[str, dict[str, float]]:
    """What each misreading of the theory gives."""
    return {
        "it-is-idle-time": {"fifo_ms": mix.mean_ms, "ps_ms": mix.mean_ms},
        "wait-without-service": {"fifo_ms": mix.fifo_ms() - mix.mean_ms, "ps_ms": mix.ps_ms - mix.mean_ms},
        "mean-only": {"fifo_ms": mix.fifo_ms(mix.mean_ms**2)},
        "mm1": {"fifo_ms": mix.ps_ms},
        "constant-lengths": {"fifo_ms": mix.fifo_ms(mix.square / 2)},
        "ps-needs-variance": {"ps_ms": mix.fifo_ms()},
    }
