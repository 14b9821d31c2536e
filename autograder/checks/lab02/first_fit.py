"""02.first-fit: the learner's ``place`` and ``reclaim``, asked by an arena that the judge owns."""

from dataclasses import dataclass, field, replace
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab02 import first_fit_words as words
from autograder.checks.lab02.cases import Case, RuleArena, boundary, chats, graded_case, play, small_case
from autograder.checks.lab02.pieces import Pieces
from autograder.checks.shrink import shrunk
from autograder.course import Course
from autograder.judge import (
    Commitments,
    Exercise,
    Feedback,
    Score,
    as_points,
    build_points,
    reconciliation,
    share_of_way,
)
from gpulab.errors import AllocatorFault
from gpulab.memory.allocator import ALIGNMENT, Allocator
from gpulab.memory.arena import Bump
from gpulab.memory.replay import replay
from gpulab.report.account import Account
from gpulab.telemetry.events import Granted, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous
from gpulab.units import GiB

CASES, CLAIMS = 12, 400  # 12 x 401 asks, under the 5,000 of an exercise
BANDS = ((0.0, 0.30), (0.5, 0.50), (0.8, 0.70), (0.95, 0.85), (1.0, 1.0))
CAP = 0.20  # of the build, when a safety law was broken anywhere
PLAYS = 300  # public cases looked through for one that shows the same fault


@dataclass(slots=True)
class Outcome:
    """What became of one case: how long the answers equalled the rule's, and the first fault if any."""

    asked: int = 0
    equal: int = 0
    lawful: bool = True
    tag: str = ""
    sure: bool = True  # False: an earlier answer would be needed to tell this misconception from another
    event: int = -1  # serial in ``ledger`` of the first fact that shows the fault
    expected: str = ""
    got: str = ""
    numbers: dict = field(default_factory=dict)
    proved: set = field(default_factory=set)
    ledger: Ledger | None = None

    @property
    def share(self) -> float:
        return self.equal / self.asked if self.asked else 0.0


@final
class AskedArena(Allocator):
    """The judge's arena: it asks the learner's object where to place, and checks every answer itself."""

    def __init__(self, case: Case, rules: dict, asker: Asker) -> None:
        self._asker = asker
        self._told: list = []  # reclaims ride with the next place: they have no answer of their own
        asker.new({"capacity": case.capacity, "alignment": ALIGNMENT, "rules": rules})
        super().__init__(case.capacity, rules=rules)

    def place(self, size: int) -> object:
        told, self._told = self._told, []
        return self._asker.ask("place", [size], told)

    def reclaim(self, offset: int, size: int) -> None:
        self._told.append(["reclaim", [offset, size]])

    def alignment_of(self, size: int) -> int:
        return boundary(self.rules, size)


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
        predicted = type(said.predicted.get("refusals")) is int
        reconciled, shown = reconciliation(said, *self.key(course, said.learner))
        notes = ("Prediction: " + ("committed." if predicted else "not committed."), shown, note)
        said_of = feedback(course, outcomes, cases, asker)
        return Score(
            self.id,
            build_points(self.points, predicted, reconciled, share),
            self.points,
            tag_of(outcomes),
            notes,
            said_of,
            said.learner,
            share,
        )

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


def judged(cases: list[Case], rules: dict, asker: Asker) -> list[Outcome]:
    """Each case played once, to one new object. A channel that broke ends the rest unasked."""
    outcomes, proved = [], set()
    for case in cases:
        outcomes.append(play_case(case, rules, asker, proved))
        if outcomes[-1].tag in ("gone", "silent", "out-of-turn", "not-json"):
            outcomes += [Outcome(lawful=False, tag=outcomes[-1].tag) for _ in cases[len(outcomes) :]]
            break
    return outcomes


def play_case(case: Case, rules: dict, asker: Asker, proved: set) -> Outcome:
    """One case through the channel: laws on every answer, equality with the rule to the first difference.

    ``proved`` collects what the answers have shown the code can do; the cases of a check share it.
    """
    outcome = Outcome(asked=len(case.claims) + 1, proved=proved)
    try:
        arena = AskedArena(case, rules, asker)
    except AnswerFault as fault:
        return _unanswered(outcome, fault)
    outcome.ledger = arena.ledger
    pieces = Pieces(case.capacity, proved)
    differs = False
    try:
        for claim, holes, extent in play(case, arena):
            pieces.catch_up(arena.ledger)
            rule = Contiguous(claim.size, boundary(rules, claim.size)).take(holes)
            lowest = rule[0][0][0] if rule else None
            got = extent.offset if extent else None
            unlawful = extent is None and lowest is not None
            if got != lowest and (unlawful or not differs):
                differs = True
                outcome.tag, outcome.sure = pieces.missed(lowest, claim.size)
                outcome.event = arena.ledger.serials(Granted if extent else Refused)[-1]
                words.describe(outcome, pieces, lowest, got, claim.size)
            if unlawful:
                outcome.lawful = False
                return outcome
            outcome.equal += not differs
            if extent:
                pieces.grant(extent)
    except AllocatorFault as fault:
        cause = fault.__cause__
        if isinstance(cause, AnswerFault):
            return _unanswered(outcome, cause)
        pieces.catch_up(arena.ledger)
        outcome.lawful, outcome.event = False, len(arena.ledger) - 1
        outcome.tag = pieces.fault(fault, holes=arena.gaps())
        outcome.expected, outcome.got = str(fault.numbers["expected"]), str(fault.numbers["got"])
        outcome.numbers = dict(fault.numbers)
    return outcome


def build_share(outcomes: list[Outcome]) -> tuple[float, str]:
    """The build's share, 0 to 1, and the line that says how it came about."""
    lawful = sum(outcome.lawful for outcome in outcomes) / len(outcomes)
    if lawful < 1:
        return CAP * lawful, f"Build: a safety law was broken; {lawful:.0%} of the cases kept all laws."
    share = sum(outcome.share for outcome in outcomes) / len(outcomes)
    credit = share_of_way(share, BANDS)
    return (
        credit,
        f"Build: all laws kept; {share:.0%} of the offsets, to the first difference, are the rule's.",
    )


def tag_of(outcomes: list[Outcome]) -> str:
    """The misconception that most cases show; laws weigh more than differences, sure more than likely."""
    faults = [o for o in outcomes if not o.lawful] or [o for o in outcomes if o.tag]
    tags = [o.tag for o in faults if o.sure] or [o.tag for o in faults]
    return max(tags, key=lambda tag: (tags.count(tag), -tags.index(tag))) if tags else ""


def feedback(course: Course, outcomes: list[Outcome], cases: list[Case], asker: Asker) -> Feedback | None:
    """The fault on a small trace: a public one with the same tag, else the graded one cut to 12 events."""
    tag = tag_of(outcomes)
    if not tag:
        return None
    rules = course.rules[FirstFitExercise.id]
    found = next(o for o in outcomes if o.tag == tag)
    if tag not in words.RULES or tag in ("gone", "silent", "out-of-turn", "not-json", "never-asked"):
        return words.feedback(found, rules, "")
    proved = set().union(*(o.proved for o in outcomes))

    def shows(claims: list) -> bool:
        return play_case(Case(case.capacity, tuple(claims)), rules, asker, set(proved)).tag == tag

    for number in range(PLAYS):
        case = small_case(course.public(FirstFitExercise.id + "/small", number), rules)
        if shows(list(case.claims)):
            where = "A practice trace on which your code breaks the same rule (no graded input is shown)."
            limit = None
            break
    else:
        case, limit = cases[outcomes.index(found)], 12
        where = "A graded trace, cut down to the events that matter."
    claims = shrunk(list(case.claims), shows, plays=PLAYS)
    outcome = play_case(Case(case.capacity, tuple(claims)), rules, asker, set(proved))
    if limit is not None and 2 * len(claims) > limit:
        return words.feedback(found, rules, "")
    return words.feedback(outcome, rules, where)


def _unanswered(outcome: Outcome, fault: AnswerFault) -> Outcome:
    outcome.lawful = False
    outcome.tag = "not-solved" if fault.detail.get("type") == "NotImplementedError" else fault.tag
    outcome.event = len(outcome.ledger) - 1 if outcome.ledger else -1
    outcome.numbers = {"text": str(fault), **fault.detail}
    return outcome
