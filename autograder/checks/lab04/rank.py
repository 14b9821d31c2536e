"""04.rank: a function that says who goes first; the judge plays the server."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks import played
from autograder.checks.lab04.rank_cases import REQUESTS, TENANTS, Case, drawn, fast_aging_pays, left
from autograder.checks.lab04.rank_play import SHOWN_BY, job_of, play
from autograder.checks.lab04.rank_words import BLOCKS, HINTS, SENTENCES
from autograder.checks.played import CASES, PUBLIC, Outcome, judged, share_of_standard, tag_of, told
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.waiting import Waiting
from gpulab.serving.request import Request
from gpulab.telemetry.events import Claimed, Freed, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

SHOWN = 8  # public cases looked through for one that shows the same fault
OWN = 20  # requests that a learner watches
MOST = 3  # requests whose facts are evidence


@final
class RankExercise(Exercise):
    """The order of one server that is looked at again after each turn, from what a scheduler can know."""

    id = "04.rank"
    points = 4.0
    builds = True
    function = "rank"
    constant = "rules.{}"
    predicts = ("mean_percent",)
    causes = TENANTS
    hints = HINTS
    blocks = BLOCKS

    def twist(self, draw: Random) -> dict[str, int]:
        """A second of waiting counts like so many tokens less to make; a missing guess like so many tokens."""
        return {"age_tokens": draw.randrange(5, 10), "usual_tokens": draw.randrange(110, 181)}

    def example(self, course: Course) -> tuple[list, Callable]:
        job = job_of(Request(7, 12_400 * MS, 1_020, 1, tenant="code", predicted_tokens=96), 64)
        asked = [[1, "new", [{}, "objects"], []], [2, "rank", [job, course.rules[self.id]], []]]
        return asked, lambda: SimpleNamespace(rank=lambda job, rules: [job.arrival_ns, job.id])

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """This learner's requests, or fresh ones for practice."""
        rules = course.rules[self.id]
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return drawn(draw, rules, starves=None, count=6 if size == "tiny" else OWN)
        draw = course.of_learner(self.id, learner)
        while True:
            case = drawn(draw, rules, starves=None, count=OWN)
            behind = waited_behind(case.ledger(case.first_come()))
            first, second = sorted(behind.values(), reverse=True)[:2] if len(behind) > 1 else (0, 0)
            if first >= 1.3 * second > 0:
                return case

    def watched(self, puzzle: Case, part: str = "a") -> Ledger:
        """The requests in order of arrival (``a``), or by the fewest tokens left, without aging (``b``)."""
        if part != "b":
            return puzzle.ledger(puzzle.first_come())
        return puzzle.ledger(puzzle.ranked(lambda request, made: left(request, made, puzzle.rules)))

    def reference(self, course: Course, puzzle: Case) -> Ledger:
        """The ledger that the rule itself writes."""
        return puzzle.ledger(puzzle.reference())

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """The tenant behind whose requests most was waited, and the facts of the three that were waited for most."""
        return evidence(self.watched(self.puzzle(course, learner)))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes, share, note, said_of = _built(course, course.graded, CASES, asker)
        predicted, noted = committed(said, self.predicts)
        cause, shows = self.key(course, said.learner) if said.reconciled else ("", set())
        reconciled, shown = reconciliation(said, cause, shows)
        points = build_points(self.points, predicted, reconciled, share)
        tag = tag_of(outcomes) if share < 1 else ""
        return Score(self.id, points, self.points, tag, (noted, shown, note), said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        outcomes, share, note, said_of = _built(course, course.public, 4, asker)
        points, tag = as_points(share * 0.7, self.points), tag_of(outcomes) if share < 1 else ""
        return Score(self.id, points, self.points * 0.7, tag, (note,), said_of, said.learner, share)


def graded_case(draw: Random, rules: dict[str, int], number: int) -> Case:
    """In every other case somebody starves when nothing ages; in none may the waiting count for far too much."""
    while True:
        case = drawn(draw, rules, starves=True if number % 2 else None, count=REQUESTS)
        if not fast_aging_pays(case):
            return case


def waited_behind(ledger: Ledger) -> dict[str, int]:
    """Tenant to the ns that all requests together were behind its requests."""
    waiting, found = Waiting(ledger), {}
    for waited in waiting.requests:
        for row in waiting.behind(waited.request):
            found[row.tenant] = found.get(row.tenant, 0) + row.held_ns
    return found


def evidence(ledger: Ledger) -> tuple[str, set[int]]:
    """The tenant behind whom most was waited, and the facts of its requests that were waited for most."""
    tenants = waited_behind(ledger)
    cause = max(tenants, key=lambda tenant: tenants[tenant])
    waiting, held = Waiting(ledger), {}
    for waited in waiting.requests:
        for row in waiting.behind(waited.request):
            if row.tenant == cause:
                held[row.owner] = held.get(row.owner, 0) + row.held_ns
    most = sorted(held, key=lambda owner: -held[owner])[:MOST]
    claims = {fact.claim for fact in ledger.of(Claimed) if fact.owner in most}
    return cause, {n for n in ledger.serials(Claimed, Granted, Freed) if ledger[n].claim in claims}


def _built(course: Course, draws: Callable, count: int, asker: Asker) -> tuple:
    """Outcomes, share, the line on it and the feedback; a case is drawn when its turn comes."""
    exercise, rules = RankExercise.id, course.rules[RankExercise.id]
    outcomes = judged(range(count), lambda n: play(graded_case(draws(exercise, n), rules, n), asker))
    share, note = share_of_standard(outcomes)
    return outcomes, share, note, _feedback(course, outcomes, asker) if share < 1 else None


def _feedback(course: Course, outcomes: list[Outcome], asker: Asker) -> Feedback | None:
    """The same fault on a public case; the score stands before this is called."""
    tag = tag_of(outcomes)
    found = next(outcome for outcome in outcomes if outcome.tag == tag)
    rules = course.rules[RankExercise.id]
    if tag not in played.BROKEN and tag != "too-long":
        for number in range(min(SHOWN, played.PLAYS)):
            case = graded_case(course.public(RankExercise.id + "/shown", number), rules, number)
            shown = play(case, asker)
            if shown.tag == tag:
                event = shown.numbers.get("event", "the first jobs that are asked about")
                return told(shown, SENTENCES, PUBLIC, event=event, picture=_picture(shown))
    return told(found, SENTENCES, "", event="")


def _picture(shown: Outcome) -> object:
    """The run, where the run shows it and not a pair."""
    from gpulab.report.charts import lanes

    if "played" not in shown.numbers or shown.tag in SHOWN_BY:
        return None
    case, turns = shown.numbers["played"]
    return lanes(case.ledger(turns), by="request", title="The requests in your order")
