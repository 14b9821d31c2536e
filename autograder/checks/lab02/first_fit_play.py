"""How a case of 02.first-fit is played and judged: laws on every answer, then the share that equals the rule's."""

from dataclasses import dataclass, field
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab02 import first_fit_words as words
from autograder.checks.lab02.cases import Case, boundary, play
from autograder.checks.lab02.pieces import Pieces
from autograder.judge import share_of_way
from gpulab.errors import AllocatorFault
from gpulab.memory.allocator import ALIGNMENT, Allocator
from gpulab.telemetry.events import Granted, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous

BANDS = ((0.0, 0.30), (0.5, 0.50), (0.8, 0.70), (0.95, 0.85), (1.0, 1.0))
CAP = 0.20  # of the build, when a safety law was broken anywhere
BROKEN = ("gone", "silent", "oversized", "out-of-turn", "not-json")  # no further question is worth asking


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


def judged(cases: list[Case], rules: dict, asker: Asker) -> list[Outcome]:
    """Each case played once, to one new object. A channel that broke ends the rest unasked."""
    outcomes, proved = [], set()
    for case in cases:
        outcomes.append(play_case(case, rules, asker, proved))
        if outcomes[-1].tag in BROKEN:
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
            if got != lowest and (unlawful or not differs):  # where the rule finds nothing, nothing is lawful
                differs = True
                outcome.tag, outcome.sure = pieces.missed(lowest, claim.size)
                outcome.event = arena.ledger.serials(Granted if extent else Refused)[-1]
                words.describe(outcome, pieces, lowest, got, claim.size)
            if unlawful:
                outcome.lawful = False
                return outcome
            outcome.equal += not differs
            if extent:
                pieces.grant(extent, boundary(rules, claim.size))
    except AllocatorFault as fault:
        if isinstance(fault.__cause__, AnswerFault):
            return _unanswered(outcome, fault.__cause__)
        pieces.catch_up(arena.ledger)
        size = fault.numbers["size"]
        outcome.tag = pieces.fault(fault, arena.gaps(), boundary(rules, size))
        outcome.lawful, outcome.event = False, len(arena.ledger) - 1
        outcome.expected, outcome.got = fault.numbers["expected"], fault.numbers["got"]
        outcome.numbers = {"size": size}
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


def _unanswered(outcome: Outcome, fault: AnswerFault) -> Outcome:
    outcome.lawful = False
    outcome.tag = "not-solved" if fault.detail.get("type") == "NotImplementedError" else fault.tag
    outcome.event = len(outcome.ledger) - 1 if outcome.ledger else -1
    outcome.expected = outcome.got = ""  # of an earlier difference in the same case
    outcome.numbers = {"text": str(fault), **fault.detail}
    return outcome
