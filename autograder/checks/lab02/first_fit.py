"""02.first-fit: the learner's ``place`` and ``reclaim``, asked by an arena that the judge owns."""

from dataclasses import replace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab02 import first_fit_words as words
from autograder.checks.lab02.cases import Case, RuleArena, chats, graded_case, play, small_case
from autograder.checks.lab02.first_fit_play import BROKEN, Outcome, build_share, judged, play_case, tag_of
from autograder.checks.shrink import shrunk
from autograder.course import Course
from autograder.judge import Exercise, as_points, build_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.memory.arena import Bump
from gpulab.memory.replay import replay
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB

CASES, CLAIMS = 12, 400  # 12 x 401 asks, under the 5,000 of an exercise
PLAYS = 300  # public cases looked through for one that shows the same fault, and plays to make it small
GRADED_EVENTS = 12  # a longer part of a graded trace is not shown
PUBLIC = "A practice trace on which your code breaks the same rule (no graded input is shown)."
GRADED = "A graded trace, cut down to the events that matter."


@final
class FirstFitExercise(Exercise):
    """First fit with a twist: claims of at least a threshold start on a boundary."""

    id = "02.first-fit"
    points = 6.0
    builds = True
    predicts = ("refusals",)
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Case:
        """The learner's own trace of 40 chats, on which the bump allocator is watched."""
        if variant is not None:
            draw = course.public(self.id + "/variant", variant)
            return small_case(draw, course.rules[self.id], 3 if size == "tiny" else 12)
        draw = course.of_learner(self.id, learner)
        while True:  # a trace on which the bump allocator does refuse what a hole would hold
            case = replace(chats(draw, 40), capacity=4 * GiB)
            cause, shows = evidence(self.watched(case))
            if cause == "unscheduled" and 3 <= len(shows) <= 25:
                return case

    def watched(self, puzzle: Case, part: str = "") -> Ledger:
        """The bump allocator on ``puzzle``; refused claims leave at once."""
        return replay(puzzle.claims, Bump(puzzle.capacity), wait=False)

    def reference(self, course: Course, puzzle: Case) -> Ledger:
        """The ledger the rule itself would write."""
        arena = RuleArena(puzzle.capacity, rules=course.rules[self.id])
        for _ in play(puzzle, arena):
            pass
        return arena.ledger

    def key(self, course: Course, learner: str) -> tuple[str, set[int]]:
        """Cause and evidence, computed: the term that held the refused bytes, and the refusals that show it."""
        ledger = self.watched(self.puzzle(course, learner))
        return evidence(ledger)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        cases = [graded_case(course.graded(self.id, n), rules, n, CLAIMS) for n in range(CASES)]
        outcomes = judged(cases, rules, asker)
        share, note = build_share(outcomes)
        predicted, noted = committed(said, self.predicts)
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        points = build_points(self.points, predicted, reconciled, share)
        tag, notes = tag_of(outcomes), (noted, shown, note)
        said_of = feedback(course, outcomes, cases, asker)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        rules = course.rules[self.id]
        cases = [graded_case(course.public(self.id, n), rules, n, 100) for n in range(4)]
        outcomes = judged(cases, rules, asker)
        share, note = build_share(outcomes)
        points = as_points(share * 0.7, self.points)
        said_of = feedback(course, outcomes, cases, asker)
        return Score(
            self.id, points, self.points * 0.7, tag_of(outcomes), (note,), said_of, said.learner, share
        )


def evidence(ledger: Ledger) -> tuple[str, set[int]]:
    """The term that held most of what was refused, and the refusals at which that term was not 0."""
    account = Account(ledger)
    steps = {}
    for serial, fact in enumerate(ledger):
        if isinstance(fact, Refused):
            until = Account(Ledger(ledger[: serial + 1])).at(fact.time_ns)  # before the claim leaves again
            steps[serial] = {term: getattr(until, term) for term in ("fragmented", "unscheduled")}
    if not steps:
        return account().largest_loss(), set()
    cause = max(("fragmented", "unscheduled"), key=lambda term: sum(s[term] for s in steps.values()))
    return cause, {serial for serial, terms in steps.items() if terms[cause]}


def feedback(course: Course, outcomes: list[Outcome], cases: list[Case], asker: Asker) -> Feedback | None:
    """The fault on a small trace: a public one with the same tag, else the graded one cut to 12 events.

    The score stands before this is called: here a case may be played again.
    """
    tag = tag_of(outcomes)
    if not tag:
        return None
    rules = course.rules[FirstFitExercise.id]
    found = next(o for o in outcomes if o.tag == tag)
    if tag in BROKEN:
        return words.feedback(found, rules, "")
    proved = set().union(*(o.proved for o in outcomes))
    shown = found

    def shows(claims: list) -> bool:
        nonlocal shown
        outcome = play_case(Case(case.capacity, tuple(claims)), rules, asker, set(proved))
        shown = outcome if outcome.tag == tag else shown
        return outcome.tag == tag

    plays = 0 if tag == "too-long" else PLAYS  # each play of an endless loop costs a second or more
    for number in range(PLAYS):
        case = small_case(course.public(FirstFitExercise.id + "/small", number), rules)
        if shows(list(case.claims)):
            shrunk(list(case.claims), shows, plays=plays)
            return words.feedback(shown, rules, PUBLIC)
    case = cases[outcomes.index(found)]
    small = list(case.claims[: len(found.ledger.of(Claimed))] if found.ledger else ())
    if small and shows(small):  # else it showed once and does not show again
        small = shrunk(small, shows, plays=plays)
        if 2 * len(small) <= GRADED_EVENTS:
            return words.feedback(shown, rules, GRADED)
    return words.feedback(found, rules, "")
