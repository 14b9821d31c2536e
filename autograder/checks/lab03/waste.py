"""03.waste: the slots that four plans reserve, and how much of them a run fills (F3)."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab03 import exact
from autograder.checks.lab03.hints import HINTS
from autograder.checks.lab03.waste_plans import (
    MISREAD,
    Lengths,
    Reserving,
    drawn,
    questions,
    reserved,
)
from autograder.checks.played import CASES, capped, judged, tag_of
from autograder.course import Course
from autograder.judge import Exercise, build_points, committed, reconciliation
from autograder.verdict import Commitments, Score
from gpulab.memory.reservation import PLANS
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Freed, Granted, Used
from gpulab.telemetry.ledger import Ledger

REQUESTS = 20  # in a case; 12 of them take at most 3,600 questions
MOST = 3  # requests that strand the most and so show the cause


def _map(question: Reserving, case: list[Reserving]) -> object:
    from gpulab.report.charts import memory_map

    lengths = Lengths.of(case)
    return memory_map(lengths.run(question.plan), title=f"The plan {question.plan} by its rule card")


_READING = exact.Reading(
    function="reserve",
    arguments=Reserving.arguments,
    rule=reserved,
    misread=MISREAD,
    sentence="max, pow2 and oracle make room once, in one stretch of unit, 2 * unit, 4 * unit ... slots; paged holds whole "
    "blocks for the tokens that are there.",
    open="For which tokens does this plan make room, and in which sizes does it get it?",
    named=lambda question: {
        "tokens": question.tokens,
        "block": question.block,
        "unit": question.unit,
        "max_len": question.max_len,
    },
    part=lambda question: question.plan,
    lawful=lambda question, slots: slots >= question.needed,
    picture=_map,
)


@final
class Waste(Exercise):
    """Slots by four plans: three in one stretch of a buddy allocator, one in blocks."""

    id = "03.waste"
    points = 3.0
    builds = True
    function = "reserve"
    constant = 'rules["{}"]'
    predicts = tuple(f"{plan}_percent" for plan in PLANS)
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")
    hints = HINTS["03.waste"]

    def twist(self, draw: Random) -> dict[str, int]:
        """The smallest stretch of this course's buddy allocator; it hands out this times powers of two."""
        return {"unit_tokens": draw.choice((24, 40, 48, 80, 96, 112))}

    def example(self, course: Course) -> tuple[list, Callable]:
        unit = course.rules[self.id]["unit_tokens"]
        request = {"prompt": 1000, "output_so_far": 1, "output": 200}
        rules = {"max_len": 2048, "block": 16, "unit_tokens": unit}
        asked = [[1, "new", [{}], []], [2, "reserve", ["paged", request, rules], []]]
        return asked, lambda: SimpleNamespace(reserve=lambda plan, request, rules: 1008)

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Lengths:
        """The learner's own requests, or fresh ones for practice."""
        unit = course.rules[self.id]["unit_tokens"]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return drawn(draw, unit, 2 if size == "tiny" else 8)
        return drawn(course.of_learner(self.id, learner), unit, REQUESTS)

    def watched(self, puzzle: Lengths, part: str = "max") -> Ledger:
        """The requests of ``puzzle`` under plan ``part``, each starting as it arrives; *max* by default."""
        return puzzle.run(part if part in PLANS else "max")

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """The term that ate most of what *max* granted, and the facts of the three requests it ate most of."""
        return evidence(self.watched(self.puzzle(course, learner)))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes, share, note, said_of = self._built(course, course.graded, CASES, REQUESTS, asker)
        predicted, noted = committed(said, self.predicts)
        cause, shows = self.key(course, said.learner) if said.reconciled else ("", set())
        reconciled, shown = reconciliation(said, cause, shows)
        points = build_points(self.points, predicted, reconciled, share)
        notes = (noted, shown, note)
        return Score(self.id, points, self.points, tag_of(outcomes), notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes, share, note, said_of = self._built(course, course.public, 4, 8, asker)
        points, most = (
            build_points(self.points, False, 0.0, share),
            build_points(self.points, False, 0.0, 1.0),
        )
        return Score(self.id, points, most, tag_of(outcomes), (note,), said_of, said.learner, share)

    def _built(self, course: Course, draws: Callable, count: int, requests: int, asker: Asker) -> tuple:
        unit = course.rules[self.id]["unit_tokens"]
        cases = [questions(drawn(draws(self.id, n), unit, requests)) for n in range(count)]
        outcomes = judged(cases, lambda case: exact.play(_READING, case, asker))
        share = sum(outcome.share for outcome in outcomes) / count
        note = f"Build: {share:.0%} of the plans, over all cases, equal the rule throughout."
        share, note = capped(outcomes) or (share, note)

        def public(number: int) -> list[Reserving]:
            return questions(drawn(course.public(self.id + "/small", number), unit, 3))

        return outcomes, share, note, exact.feedback(_READING, outcomes, asker, public)


def evidence(ledger: Ledger) -> tuple[str, set[int]]:
    """The largest loss among what was granted or waited for, and the facts of the requests that show it most."""
    total = Account(ledger)()
    cause = max(("stranded", "fragmented", "unscheduled"), key=lambda term: getattr(total, term))
    lost: dict[int, int] = {}
    since: dict[int, tuple[int, int, int]] = {}  # claim -> (time, slots granted, slots used)
    for fact in ledger:
        if isinstance(fact, Granted | Used | Freed) and fact.claim in since:
            then, slots, used = since.pop(fact.claim)
            lost[fact.claim] = lost.get(fact.claim, 0) + (fact.time_ns - then) * (slots - used)
            if isinstance(fact, Used):
                since[fact.claim] = fact.time_ns, slots, fact.units
        elif isinstance(fact, Granted):
            since[fact.claim] = fact.time_ns, fact.size, fact.size
    most = sorted(lost, key=lambda claim: -lost[claim])[:MOST]
    serials = ledger.serials(Claimed, Granted, Used, Freed)
    return cause, {serial for serial in serials if ledger[serial].claim in most}
