"""The runs of 04.batching: jobs of unlike lengths for a few slots, step by step, and who fills the slots."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from autograder.channel import AnswerFault, Asker
from autograder.checks.played import Outcome, unanswered
from gpulab.mixes import exponential_lengths

MEAN = 40  # tokens of an answer
LENGTHS = tuple(exponential_lengths(MEAN, 240))  # the equally likely ones
FULL = 0.95  # of the way; who goes further hears of no fault


@dataclass(frozen=True, slots=True)
class Crowd:
    """``jobs``: (number, the step before which it comes, tokens that it makes), in order of arrival, for ``slots``."""

    slots: int
    jobs: tuple[tuple[int, int, int], ...]

    def text(self) -> str:
        """The task in words."""
        lines = [f"{self.slots} slots; every step takes as long, whoever is in it"]
        lines += [
            f"job {name}: comes before step {step}, makes {tokens} tokens" for name, step, tokens in self.jobs
        ]
        return "\n".join(lines)


def crowd(draw: Random, slots: int, *, times: int = 4) -> Crowd:
    """Jobs for ``times`` full batches, exponential lengths: half of them are there at once, the others come later.

    The last third comes so slowly that slots stand empty before somebody comes.
    """
    count, at, jobs = times * slots, 0, []
    for name in range(count):
        if name >= count // 2:
            at += draw.randrange(2 * MEAN // slots + 1) * (1 if name < count * 2 // 3 else 5)
        jobs.append((name + 1, at, draw.choice(LENGTHS)))
    return Crowd(slots, tuple(jobs))


@dataclass(frozen=True, slots=True)
class Asked:
    """What was known before ``step``: who ran, who of them made the last token, who waits in order of arrival."""

    step: int
    running: list[int]
    waiting: list[int]
    slots: int
    finished: list[int]

    @property
    def arguments(self) -> list:
        return [self.running, self.waiting, self.slots, self.finished]

    @property
    def kept(self) -> list[int]:
        """Who goes on."""
        return [name for name in self.running if name not in self.finished]


Refill = Callable[[Asked], list[int]]


@dataclass(slots=True)
class Run:
    """What happened: steps in which somebody waited, those of them in which a slot stood empty; each decision."""

    queued: int = 0
    idle: int = 0
    steps: int = 0
    decisions: list[tuple[Asked, list[int]]] = field(default_factory=list)

    @property
    def idle_share(self) -> float:
        """Of the steps in which somebody waited, those in which a slot stood empty."""
        return self.idle / self.queued if self.queued else 0.0


def played_out(crowd: Crowd, refill: Refill, run: Run) -> Run:
    """``crowd`` served to its end, with ``refill`` asked before the first step and whenever a job came or ended."""
    left = {name: tokens for name, _, tokens in crowd.jobs}
    coming = list(crowd.jobs[::-1])
    batch: list[int] = []
    waiting: list[int] = []
    while coming or waiting or batch:
        while coming and coming[-1][1] <= run.steps:
            waiting.append(coming.pop()[0])
        asked = Asked(
            run.steps, batch, list(waiting), crowd.slots, [name for name in batch if not left[name]]
        )
        if batch or waiting:
            batch = refill(asked)
            run.decisions.append((asked, batch))
        waiting = [name for name in waiting if name not in batch]
        ends = [left[name] for name in batch] + [job[1] - run.steps for job in coming[-1:]]
        if not ends:
            break
        steps = min(ends)
        run.queued += steps * bool(waiting)
        run.idle += steps * (len(batch) < crowd.slots and bool(waiting))
        run.steps += steps
        for name in batch:
            left[name] -= steps
    return run


def filled(asked: Asked) -> list[int]:
    """The rule: who is not done goes on, and the first who wait get the slots that are empty."""
    return (asked.kept + asked.waiting)[: asked.slots]


def batch_wise(asked: Asked) -> list[int]:
    """The naive rule: a batch ends whole before the next one begins."""
    return asked.kept or asked.waiting[: asked.slots]


class Broken(Exception):
    """An answer broke a safety law; nothing of it was done."""

    def __init__(self, tag: str, asked: Asked, got: object, **numbers: int) -> None:
        super().__init__(tag)
        self.tag, self.asked, self.got, self.numbers = tag, asked, str(got)[:200], numbers


def lawful(asked: Asked, got: object) -> list[int]:
    """``got`` as the next batch. Raises ``Broken``."""
    if type(got) is not list or any(type(name) is not int for name in got):
        raise Broken("form", asked, got)
    if len(set(got)) < len(got):
        raise Broken("twice", asked, got, job=next(name for name in got if got.count(name) > 1))
    for name in got:
        if name in asked.finished:
            raise Broken("drops-finished", asked, got, job=name)
        if name not in asked.running and name not in asked.waiting:
            raise Broken("not-here", asked, got)
    for name in asked.kept:
        if name not in got:
            raise Broken("puts-out", asked, got, job=name)
    if len(got) > asked.slots:
        raise Broken("one-too-many", asked, got, slots=asked.slots, count=len(got))
    new = [name for name in got if name not in asked.running]
    passed = [name for name in asked.waiting[: len(new)] if name not in new]
    if passed:
        later = next(name for name in new if name not in asked.waiting[: len(new)])
        raise Broken("newest-first", asked, got, job=passed[0], later=later)
    if not got and asked.waiting:
        raise Broken("stands-still", asked, got, job=asked.waiting[0])
    return got


def play_crowd(crowd: Crowd, asker: Asker) -> Outcome:
    """One crowd through the channel; a broken law ends it."""
    outcome, run = Outcome(), Run()
    try:
        asker.new({})
        played_out(crowd, lambda asked: lawful(asked, asker.ask("refill", asked.arguments)), run)
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    except Broken as broken:
        outcome.lawful, outcome.tag, outcome.got = False, broken.tag, broken.got
        _note(outcome, broken.asked, broken.numbers)
        return outcome
    naive = played_out(crowd, batch_wise, Run())
    outcome.way = 1 - run.idle_share / naive.idle_share if naive.idle else 1.0
    if outcome.way < FULL:
        _diagnose(outcome, crowd, run)
    return outcome


def _note(outcome: Outcome, asked: Asked, numbers: dict) -> None:
    outcome.expected = f"for example {filled(asked)}"[:200]
    outcome.numbers = {"asked": asked, **numbers}


def _diagnose(outcome: Outcome, crowd: Crowd, run: Run) -> None:
    """Which habit left slots empty while somebody waited."""
    let_in = [(asked, batch) for asked, batch in run.decisions if len(batch) > len(asked.kept)]
    short = [(asked, batch) for asked, batch in run.decisions if len(batch) < len(filled(asked))]
    crowded = [asked for asked, _ in let_in if len(asked.waiting) >= crowd.slots - len(asked.kept)]
    if all(len(batch) - len(asked.kept) == len(asked.finished) for asked, batch in short):
        outcome.tag = "slot-for-slot"
    elif all(not asked.kept for asked, _ in let_in if asked.step):
        outcome.tag = "waits-for-batch"
    elif max(len(batch) for _, batch in run.decisions) < crowd.slots:
        outcome.tag = "slot-left"
    elif crowded and min(crowd.slots - len(asked.kept) for asked in crowded) > 1:
        outcome.tag = "refills-at-half"
    else:
        outcome.tag = "other-gap"
    asked, batch = short[0]
    outcome.got = f"{batch}"
    numbers = {"free": crowd.slots - len(batch), "slots": crowd.slots, "job": filled(asked)[len(batch)]}
    later = next((after.step for after, _ in run.decisions if after.step > asked.step), asked.step)
    _note(outcome, asked, {**numbers, "steps": later - asked.step})
