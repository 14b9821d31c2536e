"""How a case of 03.block-pool is played and judged, and what feedback on it says.

Beside the judge's pool stand the orders of known misreadings; the first answer that is not the rule's is
theirs or nobody's, since up to there all answers were equal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab03.pool_cases import Case, Operation, play, returned, takes_of
from autograder.checks.played import Outcome, told, unanswered
from autograder.verdict import Feedback
from gpulab.errors import AllocatorFault
from gpulab.memory.blocks import BlockPool
from gpulab.telemetry.events import Granted, Refused

BANDS = ((0.0, 0.30), (0.5, 0.50), (0.8, 0.70), (0.95, 0.85), (1.0, 1.0))
_LAWS = {
    "all-or-nothing": "partial-answer",
    "bounds": "grows",
    "overlap": "granted-twice",
    "twice": "granted-twice",
}
_NEVER = 1 << 30  # more blocks than there are


@dataclass
class Reading:
    """One way to read the rule: where blocks that come back go, and how many a take must leave.

    Attributes:
        back: (order, blocks, kept) -> order; all are taken from its head.
        least: (watermark, urgent) -> blocks that must be left. drops: a refused take loses what it looked at.
    """

    back: Callable[[list[int], list[int], int], list[int]] = returned
    least: Callable[[int, bool], int] = lambda watermark, urgent: 0 if urgent else watermark
    drops: bool = False
    order: list[int] = field(default_factory=list)

    def answer(self, op: Operation, watermark: int) -> list[int] | None:
        """What ``take`` answers under this reading; its order is as it was afterwards."""
        least = self.least(watermark, op.urgent)
        if len(self.order) - op.n >= least:
            return self.order[: op.n]
        if self.drops:
            del self.order[: max(0, len(self.order) - least)]
        return None


def readings(n_blocks: int) -> dict[str, Reading]:
    """The rule and all known misreadings of it, each with every block free; of two that answer alike the first is told."""
    found = {
        "rule": Reading(),
        "all-to-tail": Reading(lambda order, blocks, kept: order + blocks[::-1]),
        "stack-order": Reading(lambda order, blocks, kept: blocks + order),
        "forward": Reading(lambda order, blocks, kept: blocks[kept:] + order + blocks[:kept]),
        "forward-to-tail": Reading(lambda order, blocks, kept: order + blocks),
        "ends-swapped": Reading(
            lambda order, blocks, kept: blocks[:kept][::-1] + order + blocks[kept:][::-1]
        ),
        "keeps-the-last": Reading(
            lambda order, blocks, kept: returned(order, blocks, max(0, len(blocks) - kept))
        ),
        "lowest-first": Reading(lambda order, blocks, kept: sorted(order + blocks)),
        "watermark-off-by-one": Reading(least=lambda watermark, urgent: 0 if urgent else watermark + 1),
        "watermark-one-less": Reading(least=lambda watermark, urgent: 0 if urgent else watermark - 1),
        "watermark-ignored": Reading(least=lambda watermark, urgent: 0),
        "ignores-urgent": Reading(least=lambda watermark, urgent: watermark),
        "always-refuses": Reading(least=lambda watermark, urgent: _NEVER),
        "partial-take": Reading(drops=True),
    }
    for reading in found.values():
        reading.order = list(range(n_blocks))
    return found


_ORDER_RULE = (
    "Blocks are taken from the head. They come back in reverse: the first {kept} of what came back to the tail, "
    "all behind them to the head."
)
_WATERMARK_RULE = "Without `urgent`, a take that would leave fewer than {watermark} blocks free is refused."
RULES = {  # tag -> (the rule in a sentence, the question)
    "partial-answer": (
        "A take gives all the blocks that were asked for, or none.",
        "What do you do when there are too few?",
    ),
    "partial-take": (
        "A refused take leaves the pool as it was.",
        "You refused before, and now blocks are missing. How many left your books at a refusal?",
    ),
    "grows": ("There are {blocks} blocks, from 0 on.", "Where does the number you gave come from?"),
    "granted-twice": (
        "No block is held twice.",
        "Which block of the answer is still held, and when did it leave your books?",
    ),
    "ignores-urgent": (
        "An urgent take is served as long as there are blocks: the watermark is kept for it.",
        "Who may take the last {watermark} blocks?",
    ),
    "watermark-off-by-one": (_WATERMARK_RULE, "{left} blocks would be left. May this take go on?"),
    "watermark-ignored": (_WATERMARK_RULE, "{left} blocks would be left. For whom are they kept?"),
    "watermark-one-less": (_WATERMARK_RULE, "{left} blocks would be left. May this take go on?"),
    "always-refuses": (
        "A take is refused only when it would leave too few.",
        "{left} blocks would be left. Which condition refused?",
    ),
    "all-to-tail": (_ORDER_RULE, "A request of more than {kept} blocks ended. Where do its last ones go?"),
    "stack-order": (_ORDER_RULE, "Which came back last and left first, though others may ask for it again?"),
    "forward": (_ORDER_RULE, "Of one request's blocks behind the first {kept}, which leaves first?"),
    "forward-to-tail": (
        _ORDER_RULE,
        "Of one request's blocks, which is likelier to be asked for again, the first or the last?",
    ),
    "ends-swapped": (_ORDER_RULE, "The beginning of a request may be asked for again. Which end is safer?"),
    "keeps-the-last": (_ORDER_RULE, "Which {kept} blocks of a request do other requests share?"),
    "lowest-first": (_ORDER_RULE, "Does the number of a block say when it came back?"),
    "other-order": (_ORDER_RULE, "A set has no order. In which order do your books hold the free blocks?"),
    "type": ("`take` answers with a list of whole numbers, or None.", "What do you return on this path?"),
    "not-solved": ("`take` and `give` are yours to write.", "Which blocks are free before the first take?"),
}


@final
class AskedPool(BlockPool):
    """The judge's pool: it asks the learner's object which blocks come next, and checks every answer itself."""

    def __init__(self, case: Case, rules: dict, asker: Asker) -> None:
        self._asker = asker
        self._told: list = []  # gives ride with the next take: they have no answer of their own
        self.readings = readings(case.n_blocks)
        asker.new({"n_blocks": case.n_blocks, "rules": rules})
        super().__init__(case.n_blocks, rules=rules)

    def take(self, n: int, urgent: bool = False) -> object:
        told, self._told = self._told, []
        return self._asker.ask("take", [n, urgent], told)

    def give(self, blocks: list[int]) -> None:
        self._told.append(["give", [blocks]])
        for reading in self.readings.values():
            reading.order = reading.back(reading.order, blocks, self.rules["kept_blocks"])

    def compare(self, op: Operation, blocks: list[int] | None) -> list[int] | None:
        """The rule's answer; of the readings only those stay that answer as the learner's code did."""
        answers = {
            tag: reading.answer(op, self.rules["watermark_blocks"]) for tag, reading in self.readings.items()
        }
        for tag, answer in answers.items():
            if answer != blocks:
                del self.readings[tag]
            elif blocks:
                del self.readings[tag].order[: op.n]
        return answers.get("rule", blocks)


def play_case(case: Case, rules: dict, asker: Asker, likely: str = "") -> Outcome:
    """One case through the channel: laws on every answer, equality with the rule to the first difference.

    ``likely`` is the tag to be told if several misreadings answer as this case was answered.
    """
    outcome = Outcome(asked=takes_of(case, rules))
    try:
        pool = AskedPool(case, rules, asker)
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    outcome.ledger, outcome.numbers = pool.ledger, {"blocks": case.n_blocks}
    try:
        for op, free, blocks in play(case, pool):
            expected = pool.compare(op, blocks)
            if blocks != expected:
                _describe(outcome, pool, op, free, (expected, blocks))
            outcome.equal += "rule" in pool.readings
            if blocks is None and op.urgent and free >= op.n:
                outcome.lawful = False
                break
    except AllocatorFault as fault:
        if isinstance(fault.__cause__, AnswerFault):
            return unanswered(outcome, fault.__cause__)
        outcome.tag, outcome.lawful, outcome.event = (
            _LAWS.get(fault.law, fault.law),
            False,
            len(pool.ledger) - 1,
        )
        n, got = fault.numbers["n"], fault.numbers["got"]
        outcome.expected, outcome.got = f"{n:,} free blocks, or None", str(got)
        outcome.numbers |= {"asked": f"take({n})"}
        return outcome
    if "rule" not in pool.readings:
        tags = list(pool.readings) or [_by_what_differs(outcome)]
        outcome.tag, outcome.sure = likely if likely in tags else tags[0], len(tags) == 1
    return outcome


def _by_what_differs(outcome: Outcome) -> str:
    """The tag when no one misreading answers so: two at once are told by the first difference alone."""
    if outcome.expected.startswith("None"):
        return "watermark-ignored"
    return "always-refuses" if outcome.got.startswith("None") else "other-order"


def feedback(outcome: Outcome, rules: dict, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    numbers, picture = outcome.numbers, None
    named = {
        "kept": rules["kept_blocks"],
        "watermark": rules["watermark_blocks"],
        "blocks": numbers.get("blocks", "n_blocks") if where else "n_blocks",
        "left": numbers.get("left", "Some") if where else "Some",
    }
    event = "before the first take, when your object was made"
    if where and outcome.event >= 0 and outcome.ledger is not None:
        event = f"#{outcome.event}" + (f", {numbers['asked']}" if "asked" in numbers else "")
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _describe(
    outcome: Outcome, pool: AskedPool, op: Operation, free: int, answers: tuple[object, object]
) -> None:
    """Fill in the event, what was expected and what came: ``answers`` of the rule and of the learner."""
    outcome.event = pool.ledger.serials(Granted if answers[1] else Refused)[-1]
    outcome.expected, outcome.got = (
        "None (refused)" if blocks is None else f"blocks {blocks}" for blocks in answers
    )
    asked = f"take({op.n}{', urgent=True' if op.urgent else ''}) with {free} blocks free"
    outcome.numbers |= {"left": free - op.n, "asked": asked}


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import use_over_time

    return use_over_time(outcome.ledger, title="Blocks in use, up to the first fault")
