"""04.convoy: what one long request in front costs, by theory on a drawn mix and on a timeline (F12)."""

from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04.convoy_words import HINTS, QUESTIONS, RULE
from autograder.checks.lab04.server import Request, ends, first_come, in_turns, latencies, ledger_of, waits
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.waiting import Waiting
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

BAND = 0.10  # a mean is right within this much of theory
WEIGHTS = {"fifo_ms": 0.3, "ps_ms": 0.3, "convoy": 0.2, "worse_off": 0.2}
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
    def unit_ns(self) -> int:
        return self.mix.short_ms * MS

    def text(self) -> str:
        """The mix, then the requests of the timeline."""
        rows = [
            f"{request.id:>4}  {request.tenant:7}  comes at {request.arrival_ns // MS:>7,} ms, "
            f"takes {request.alone_ns(self.unit_ns) // MS:>6,} ms"
            for request in self.requests
        ]
        return "\n".join([self.mix.text(), "The timeline:", *rows])

    def first_come(self) -> Ledger:
        """One at a time, in order of arrival."""
        return ledger_of(self.requests, first_come(self.requests, 1, self.unit_ns), self.unit_ns)

    def shared(self) -> Ledger:
        """Everybody who is there in turns of one unit."""
        return ledger_of(self.requests, in_turns(self.requests, 1, self.unit_ns), self.unit_ns)


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
    return Key(head, frozenset(behind[head]), frozenset(_worse_off(task)))


def convoys(ledger: Ledger) -> dict[int, set[int]]:
    """Request to the requests that were behind while it ran."""
    waiting = Waiting(ledger)
    number = {waited.owner: waited.request for waited in waiting.requests}
    found: dict[int, set[int]] = {request: set() for request in number.values()}
    for request in number.values():
        for row in waiting.behind(request):
            found[number[row.owner]].add(request)
    return found


@final
class ConvoyExercise(Exercise):
    """Two means by theory, one convoy and who pays for its end, read from a personal timeline."""

    id = "04.convoy"
    points = 2.0
    fields = ("fifo_ms", "ps_ms", "head", "behind", "worse_off")
    predicts = ("ratio",)
    hints = HINTS

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Convoy:
        """This learner's mix and timeline, or fresh ones for practice."""
        if variant is None:
            return drawn(course.of_learner(self.id, learner))
        return drawn(course.public(self.id + "/variant", variant), tiny=size == "tiny")

    def watched(self, puzzle: Convoy, part: str = "a") -> Ledger:
        """The timeline first come, first served (``a``), or shared in turns (``b``)."""
        return puzzle.shared() if part == "b" else puzzle.first_come()

    def reference(self, course: Course, puzzle: Convoy) -> Ledger:
        """The timeline first come, first served."""
        return puzzle.first_come()

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Convoy, answered: dict) -> Score:
        right = _right(puzzle, answered)
        share = sum(WEIGHTS[name] for name in right if right[name])
        tag = "not-answered" if not answered else "" if all(right.values()) else _tag(puzzle, answered, right)
        note = "Right: " + (", ".join(name for name in right if right[name]) or "none") + "."
        said_of = _feedback(puzzle, answered, tag) if tag and answered else None
        return Score(self.id, 0.0, 0.0, tag, (note,), said_of, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        means = {"fifo_ms", "ps_ms"}
        answered = {n: _whole(value) if n in means else value for n, value in said.answered.items()}
        kinds = {"fifo_ms": int, "ps_ms": int, "head": int, "behind": list, "worse_off": list}
        return answered_form(self, replace(said, answered=answered), kinds)


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
        found.append(Request(place + 1, now, units, tenant))
        now += draw.randrange(1, 6) * unit_ns + draw.randrange(1, 10) * unit_ns // 10
    return tuple(found)


def _telling(task: Convoy) -> bool:
    """Is one convoy clearly the longest, and is every misreading of the timeline wrong?"""
    runs = first_come(task.requests, 1, task.unit_ns)
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
    found, worse = key(task), _worse_off(task)
    misread = [frozenset(wrong(task, found.head)) for wrong in _BEHIND.values()]
    others = [frozenset(wrong(task)) for wrong in _WORSE.values()]
    return (
        2 <= len(worse) <= len(task.requests) // 2
        and found.head not in (_longest_waiter(task), 1)
        and found.behind not in misread
        and frozenset(worse) not in others
    )


def _worse_off(task: Convoy) -> set[int]:
    """Who is answered later when the server is shared."""
    alone, shared = (ends(run(task.requests, 1, task.unit_ns)) for run in (first_come, in_turns))
    return {request for request in alone if shared[request] > alone[request]}


def _waits(task: Convoy) -> dict[int, int]:
    return waits(first_come(task.requests, 1, task.unit_ns), task.unit_ns)


def _longest_waiter(task: Convoy) -> int:
    found = _waits(task)
    return max(found, key=lambda request: found[request])


def _arrived_while(task: Convoy, head: int) -> set[int]:
    """Who came while ``head`` ran, without those who were there before."""
    runs = [turn for turn in first_come(task.requests, 1, task.unit_ns) if turn.request.id == head]
    return {r.id for r in task.requests if runs and runs[0].start_ns < r.arrival_ns < runs[-1].end_ns}


# Misreadings of the timeline: of the convoy (with its head), and of who loses.
_BEHIND = {
    "arrived-while-it-ran": _arrived_while,
    "everybody-who-waited": lambda task, head: {request for request, ns in _waits(task).items() if ns},
    "chats-only": lambda task, head: {
        r.id for r in task.requests if r.tenant == "chat" and r.id in convoys(task.first_come())[head]
    },
}
_WORSE = {
    "summaries-only": lambda task: {r.id for r in task.requests if r.tenant == "summary"},
    "better-for-worse": lambda task: {r.id for r in task.requests} - _worse_off(task),
    "everybody-slower": lambda task: {r.id for r in task.requests},
    "waits-at-all": lambda task: {
        request for request, ns in waits(in_turns(task.requests, 1, task.unit_ns), task.unit_ns).items() if ns
    },
}


def _misread_means(mix: Mix) -> dict[str, dict[str, float]]:
    """What each misreading of the theory gives."""
    return {
        "it-is-idle-time": {"fifo_ms": mix.mean_ms, "ps_ms": mix.mean_ms},
        "wait-without-service": {"fifo_ms": mix.fifo_ms() - mix.mean_ms, "ps_ms": mix.ps_ms - mix.mean_ms},
        "mean-only": {"fifo_ms": mix.fifo_ms(mix.mean_ms**2)},
        "mm1": {"fifo_ms": mix.ps_ms},
        "constant-lengths": {"fifo_ms": mix.fifo_ms(mix.square / 2)},
        "ps-needs-variance": {"ps_ms": mix.fifo_ms()},
    }


def _right(task: Convoy, answered: dict) -> dict[str, bool]:
    found = key(task)
    return {
        "fifo_ms": _near(answered.get("fifo_ms"), task.mix.fifo_ms()),
        "ps_ms": _near(answered.get("ps_ms"), task.mix.ps_ms),
        "convoy": _whole_number(answered.get("head")) == found.head
        and _set(answered.get("behind")) == found.behind,
        "worse_off": _set(answered.get("worse_off")) == found.worse_off,
    }


def _tag(task: Convoy, answered: dict, right: dict[str, bool]) -> str:
    wrong = [name for name in ("fifo_ms", "ps_ms") if not right[name]]
    if wrong:
        guesses = _misread_means(task.mix)
        fits = (
            tag
            for tag, values in guesses.items()
            if all(name in values and _near(answered.get(name), values[name], 0.02) for name in wrong)
        )
        return next(fits, "other-mean")
    if not right["convoy"]:
        head = _whole_number(answered.get("head"))
        if head != key(task).head:
            return "longest-waiter-is-head" if head == _longest_waiter(task) else "other-head"
        given = _set(answered.get("behind"))
        return next((tag for tag, wrong in _BEHIND.items() if wrong(task, head) == given), "other-convoy")
    given = _set(answered.get("worse_off"))
    return next((tag for tag, wrong in _WORSE.items() if wrong(task) == given), "other-losers")


def _near(value: object, wanted: float, band: float = BAND) -> bool:
    return type(value) in (int, float) and abs(value - wanted) <= band * wanted


def _set(value: object) -> frozenset | None:
    """The numbers of a list, in any order; None when it is no list of whole numbers."""
    known = type(value) is list and all(type(item) is int for item in value)
    return frozenset(value) if known else None


def _whole_number(value: object) -> int | None:
    return value if type(value) is int else None


def _whole(value: object) -> object:
    """A mean may be typed with decimals; its form is looked at as if it were whole."""
    return round(value) if type(value) is float else value


def _feedback(task: Convoy, answered: dict, tag: str) -> Feedback:
    named = _named(task, answered)
    return Feedback(
        RULE,
        "your mix and your timeline",
        "both means within 10 % of theory, the longest convoy, and who is answered later when the server is shared",
        ", ".join(f"{name}={value!r}" for name, value in answered.items())[:300],
        QUESTIONS[tag].format(**named),
        _picture(task),
        "Your timeline, first come, first served.",
    )


def _named(task: Convoy, answered: dict) -> dict:
    """Numbers for the question: of what was typed and of what the picture shows anyway."""
    waited, alone = _waits(task), latencies(first_come(task.requests, 1, task.unit_ns))
    waiter = _longest_waiter(task)
    return {
        "waiter": waiter,
        "waited": f"{waited[waiter] // MS:,}",
        "short": task.mix.short_ms,
        "long": f"{task.mix.ratio * task.mix.short_ms:,}",
        "mean": f"{task.mix.mean_ms:,.0f}",
        "head": _whole_number(answered.get("head")),
        "response": f"{alone[waiter] // MS:,}",
    }


def _picture(task: Convoy) -> object:
    from gpulab.report.charts import lanes

    return lanes(task.first_come(), by="request", title="First come, first served")
