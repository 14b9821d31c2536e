"""How a case of 02.first-fit is played and judged: laws on every answer, then the share that equals the rule's."""

from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks import played
from autograder.checks.lab02 import first_fit_words as words
from autograder.checks.lab02.cases import Case, boundary, play
from autograder.checks.lab02.pieces import Pieces
from autograder.checks.played import Outcome, unanswered
from gpulab.errors import AllocatorFault
from gpulab.memory.allocator import ALIGNMENT, Allocator
from gpulab.telemetry.events import Granted, Refused
from gpulab.telemetry.shape import Contiguous

BANDS = ((0.0, 0.30), (0.5, 0.50), (0.8, 0.70), (0.95, 0.85), (1.0, 1.0))


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
    """Each case played once, to one new object."""
    proved: set = set()
    return played.judged(cases, lambda case: play_case(case, rules, asker, proved))


def play_case(case: Case, rules: dict, asker: Asker, proved: set) -> Outcome:
    """One case through the channel: laws on every answer, equality with the rule to the first difference.

    ``proved`` collects what the answers have shown the code can do; the cases of a check share it.
    """
    outcome = Outcome(asked=len(case.claims) + 1, proved=proved)
    try:
        arena = AskedArena(case, rules, asker)
    except AnswerFault as fault:
        return unanswered(outcome, fault)
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
            return unanswered(outcome, fault.__cause__)
        pieces.catch_up(arena.ledger)
        size = fault.numbers["size"]
        outcome.tag = pieces.fault(fault, arena.gaps(), boundary(rules, size))
        outcome.lawful, outcome.event = False, len(arena.ledger) - 1
        outcome.expected, outcome.got = fault.numbers["expected"], fault.numbers["got"]
        outcome.numbers = {"size": size}
    return outcome


def build_share(outcomes: list[Outcome]) -> tuple[float, str]:
    """The build's share, 0 to 1, and the line that says how it came about."""
    return played.share_of_equal(outcomes, BANDS, "offsets, to the first difference,")
