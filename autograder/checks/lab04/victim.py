"""04.victim: blocks run out; who gives its own back, and how does it come back?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab04 import victim_words as words
from autograder.checks.lab04.victim_cases import Load, drawn
from autograder.checks.lab04.victim_pinch import pinched
from autograder.checks.lab04.victim_play import BANDS, play_load
from autograder.checks.lab04.victim_pool import Pool, shortages
from autograder.checks.lab04.victim_rules import Shortage, Victim, oldest_first, rule
from autograder.checks.played import CASES, Outcome, judged, share_of_standard, shown_small, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.ledger import Ledger

REQUESTS, BLOCKS = 90, 930  # of a graded case: some 17 shortages, of up to 35 blocks
OWN, OWN_BLOCKS = 30, 360
SMALL, SMALL_BLOCKS = 14, 190


@dataclass(frozen=True, slots=True)
class Task:
    """A load, the first shortage in it that says something, and two who could end that: ``a`` and ``b``."""

    load: Load
    shortage: Shortage
    a: int
    b: int

    def text(self) -> str:
        """The task in words."""
        lines = [f"{self.shortage.need} blocks are lacking. Two who could be put out:"]
        for letter, number in (("a", self.a), ("b", self.b)):
            job = self.shortage.job(number)
            stays = ", which others hold, too" if self.shortage.shares(job) else ", which nobody else holds"
            lines.append(
                f"  {letter}: {job.asked.owner}, {job.own_blocks} blocks of its own, its beginning has {job.asked.prefix_blocks}"
                f"{stays}; {job.asked.prompt_tokens} tokens asked, {job.made} made"
            )
        return "\n".join([*lines, self.load.text()])


@final
class VictimExercise(Exercise):
    """Victims of a small pool, with a twist: beginnings are shared, and a job has some tokens of grace between two evictions."""

    id = "04.victim"
    points = 4.0
    instead_of = "04.deadline"
    builds = True
    function = "victim"
    constant = "view.{}"
    predicts = ("cheaper",)
    choices = ("a", "b")
    causes = ("chat", "code", "night")
    hints = words.HINTS
    blocks = words.BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """Two to five blocks of tokens."""
        return {"grace_tokens": 16 * draw.randrange(2, 6)}

    def example(self, course: Course) -> tuple[list, Callable]:
        load = small(course.public(self.id + "/example", 0), course.rules[self.id]["grace_tokens"])
        now = shortages(load)[0]
        few = replace(now, running=now.running[:3])
        view = now.view(640_000_000) | {"running": few.view(0)["running"]}
        asked = [[1, "new", [{}, "objects"], []], [2, "victim", [view], []]]
        number = now.running[0].asked.id
        return asked, lambda: SimpleNamespace(victim=lambda view: [number, "recompute"])

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Task:
        """A load in a pool that is too small for it."""
        grace = course.rules[self.id]["grace_tokens"]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return _task(draw, small(draw, grace, 8, 110) if size == "tiny" else small(draw, grace))
        draw = course.of_learner(self.id, learner)
        while True:
            load = drawn(draw, grace, OWN, OWN_BLOCKS)
            prices, shows = evidence(self._run(load, oldest_first))
            first, second, _ = sorted(prices.values(), reverse=True)
            most = shows[max(prices, key=lambda name: prices[name])]
            if 5 * first >= 6 * second and len(most) >= 2 and _telling(load):
                return _task(draw, load)

    def watched(self, puzzle: Task, part: str = "") -> Ledger:
        """Oldest first on the load of ``puzzle``, everybody computed again."""
        return self._run(puzzle.load, oldest_first).ledger

    def reference(self, course: Course, puzzle: Task) -> Ledger:
        """The rule's run on the load of ``puzzle``."""
        return self._run(puzzle.load, rule).ledger

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Whose being put out cost most under oldest first, and the facts with which these gave their blocks back."""
        prices, shows = evidence(self._run(self.puzzle(course, learner).load, oldest_first))
        cause = max(self.causes, key=lambda name: prices[name])
        return cause, shows[cause]

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        grace = course.rules[self.id]["grace_tokens"]
        outcomes = judged(
            range(CASES), lambda n: play_load(graded_case(course.graded(self.id, n), grace), asker)
        )
        share, note = share_of_standard(outcomes, BANDS)
        predicted, noted = committed(said, self.predicts, self.choices)
        key = self.key(course, said.learner) if said.reconciled else ("", set())
        reconciled, shown = reconciliation(said, *key)
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes) if share < 1 else "", (noted, shown, note)
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        grace = course.rules[self.id]["grace_tokens"]
        outcomes = judged(range(2), lambda n: play_load(graded_case(course.public(self.id, n), grace), asker))
        share, note = share_of_standard(outcomes, BANDS)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        said_of = feedback(course, outcomes, tag, asker)
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)

    def _run(self, load: Load, choose: Callable[[Shortage], Victim]) -> Pool:
        pool = Pool(load)
        pool.play(lambda pool: choose(pool.shortage))
        return pool


def graded_case(draw: Random, grace_tokens: int) -> Load:
    """A load that begins with a trap, with ten shortages or more, which the rule ends for at least a tenth less than oldest first."""
    while True:
        load = pinched(draw, drawn(draw, grace_tokens, REQUESTS, BLOCKS))
        found = shortages(load)
        naive, best = (sum(now.price(choose) for now in found) for choose in (oldest_first, rule))
        if len(found) >= 10 and 10 * best <= 9 * naive:
            return load


def small(draw: Random, grace_tokens: int, count: int = SMALL, blocks: int = SMALL_BLOCKS) -> Load:
    """A short load with a shortage that tells the rule from oldest first."""
    while True:
        load = drawn(draw, grace_tokens, count, blocks)
        if _telling(load):
            return load


def _small_pinched(draw: Random, grace_tokens: int) -> Load:
    """A short load that begins as a graded one."""
    return pinched(draw, small(draw, grace_tokens))


def evidence(pool: Pool) -> tuple[dict[str, int], dict[str, set[int]]]:
    """Of each tenant: what its being put out cost, and the facts with which it gave its blocks back."""
    prices: dict[str, int] = {"chat": 0, "code": 0, "night": 0}
    shows: dict[str, set[int]] = {name: set() for name in prices}
    for serial, job, _, cost_ns in pool.put_out:
        prices[job.asked.tenant] += cost_ns
        shows[job.asked.tenant].add(serial)
    return prices, shows


def _telling(load: Load) -> Shortage | None:
    """The first shortage that the rule ends with one victim, and oldest first with another that costs more; None without any."""
    for now in shortages(load):
        old, new = (now.job(choose(now)[0]) for choose in (oldest_first, rule))
        if now.meets(new) and now.cheapest(old)[1] > now.cheapest(new)[1]:
            return now
    return None


def _task(draw: Random, load: Load) -> Task:
    """``load``, its telling shortage, and whom oldest first and the rule would put out, in any order."""
    now = _telling(load)
    pair = [oldest_first(now)[0], rule(now)[0]]
    draw.shuffle(pair)
    return Task(load, now, *pair)


def feedback(course: Course, outcomes: list[Outcome], tag: str, asker: Asker) -> Feedback | None:
    """The fault ``tag`` on a small public load; nothing of a graded one is shown."""
    if not tag:
        return None
    grace = course.rules[VictimExercise.id]["grace_tokens"]
    shown, where = shown_small(
        next(outcome for outcome in outcomes if outcome.tag == tag),
        [],
        public=lambda n: _small_pinched(course.public(VictimExercise.id + "/small", n), grace),
        cut=lambda load: list(load.requests),
        joined=lambda load, requests: replace(load, requests=tuple(requests)),
        play=lambda load: play_load(load, asker),
    )
    return words.feedback(shown, where)
