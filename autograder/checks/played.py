"""What builds share: cases played through the channel, laws before bands, and the fault on a small case.

A case is whatever an exercise draws. Playing it gives an ``Outcome``: how far the answers equalled the
rule's, whether a safety law broke, and the first fault with its tag.
"""

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from autograder.channel import AnswerFault
from autograder.checks.shrink import shrunk
from autograder.judge import share_of_way
from autograder.verdict import Feedback
from gpulab.telemetry.ledger import Ledger

CASES = 12  # graded cases of a build
CAP = 0.20  # of the build, when a safety law was broken anywhere
LAWFUL = 0.30
STANDARD = (
    (0.0, LAWFUL),
    (0.25, 0.50),
    (0.50, 0.70),
    (0.75, 0.85),
    (0.95, 1.0),
)  # way from naive to reference
BROKEN = ("gone", "silent", "oversized", "out-of-turn", "not-json")  # no further question is worth asking
ENDLESS = 2  # cases that met the net of time: the rest are not asked, each would cost seconds
PLAYS = 300  # public cases looked through for one that shows the same fault, and plays to make it small
GRADED_EVENTS = 12  # a longer part of a graded case is not shown
PUBLIC = "A practice case on which your code breaks the same rule (no graded input is shown)."
GRADED = "A graded case, cut down to the events that matter."
FAULTS = {  # tag -> (the rule, the question), for answers that never were one
    "raised": ("Your code answers; it does not raise.", "Which line raised, and on which input?"),
    "too-long": (
        "Every answer comes within a second or two.",
        "Which loop does not end, and what should end it?",
    ),
    "unsendable": ("Answers are plain numbers, text, lists or None.", "What type is it that you return?"),
    "silent": (
        "Every answer comes in time.",
        "Which call takes long, and longer the more there was before?",
    ),
    "not-solved": ("This is yours to write.", "What is the first thing the rule asks for?"),
}
_ASKED = ("new", "place", "reclaim", "take", "give", "trim", "missing", "grow", "slots", "reads", "drop")
_ASKED += ("admit", "append", "fork", "finish")  # names of the judge's own, which hold nothing that was asked
_CELL_LINES = 999  # more than any cell that somebody wrote has
_CHANNEL = ("Each question gets one answer, in turn.", "Does your code talk to anything but its caller?")


@dataclass(slots=True)
class Outcome:
    """What became of one case: how long the answers equalled the rule's, and the first fault if any.

    ``asked`` and ``equal`` count answers for bands of equality; ``way`` is the way from naive to reference
    (0 to 1) for standard bands. An exercise uses one of the two.
    """

    asked: int = 0
    equal: int = 0
    way: float = 0.0
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


def judged(cases: Iterable, play: Callable[[object], Outcome]) -> list[Outcome]:
    """Each case played once, drawn when its turn comes.

    A channel that broke ends the rest unasked, and so does code that did not come to an end ``ENDLESS`` times.
    """
    outcomes: list[Outcome] = []
    cases = iter(cases)
    for case in cases:
        outcomes.append(play(case))
        tag = outcomes[-1].tag
        if tag in BROKEN or [outcome.tag for outcome in outcomes].count("too-long") == ENDLESS:
            outcomes += [Outcome(lawful=False, tag=tag) for _ in cases]
    return outcomes


def unanswered(outcome: Outcome, fault: AnswerFault) -> Outcome:
    """``outcome`` of a case that ended because no usable answer came."""
    outcome.lawful = False
    outcome.tag = "not-solved" if fault.detail.get("type") == "NotImplementedError" else fault.tag
    outcome.event = len(outcome.ledger) - 1 if outcome.ledger else -1
    outcome.expected = outcome.got = ""  # of an earlier difference in the same case
    outcome.numbers = {"text": str(fault), **fault.detail}
    return outcome


def capped(outcomes: list[Outcome]) -> tuple[float, str] | None:
    """Share and note of a build that broke a safety law somewhere; None when all laws were kept."""
    lawful = sum(outcome.lawful for outcome in outcomes) / len(outcomes)
    if lawful == 1:
        return None
    if all(outcome.tag == "not-solved" for outcome in outcomes):
        return CAP * lawful, "Build: not solved yet."
    return CAP * lawful, f"Build: a safety law was broken; {lawful:.0%} of the cases kept all laws."


def share_of_equal(
    outcomes: list[Outcome], bands: tuple[tuple[float, float], ...], what: str
) -> tuple[float, str]:
    """The build's share, 0 to 1, by the mean share of answers that equal the rule's, and the line on it."""
    share = sum(outcome.share for outcome in outcomes) / len(outcomes)
    note = f"Build: all laws kept; {share:.0%} of the {what} are the rule's."
    return capped(outcomes) or (share_of_way(share, bands), note)


def share_of_standard(
    outcomes: list[Outcome], bands: tuple[tuple[float, float], ...] = STANDARD
) -> tuple[float, str]:
    """The build's share by the mean way from naive (0) to reference (1), and the line on it."""
    way = sum(min(max(outcome.way, 0.0), 1.0) for outcome in outcomes) / len(outcomes)
    note = f"Build: all laws kept; {way:.0%} of the way from the naive rule to the reference."
    return capped(outcomes) or (share_of_way(way, bands), note)


def tag_of(outcomes: list[Outcome]) -> str:
    """The misconception that most cases show; laws weigh more than differences, sure more than likely."""
    faults = [o for o in outcomes if not o.lawful] or [o for o in outcomes if o.tag]
    tags = [o.tag for o in faults if o.sure] or [o.tag for o in faults]
    return max(tags, key=lambda tag: (tags.count(tag), -tags.index(tag))) if tags else ""


def shown_small(
    found: Outcome,
    graded: list,
    *,
    public: Callable[[int], object],
    cut: Callable[[object], list],
    joined: Callable[[object, list], object],
    play: Callable[[object], Outcome],
) -> tuple[Outcome, str]:
    """An outcome with the tag of ``found`` that may be shown, and where it comes from; '' when none may.

    First a public case that shows it, else the graded one: either cut down by leaving out items. The score
    stands before this is called: here cases are played again. ``graded`` are the items of ``found``'s own
    case up to the fault, or nothing when they must not be tried.

    Args:
        public: number to public case. cut: case to the list of items that can be left out.
        joined: a case and the items that are left to a case. play: a case to its outcome.
    """
    shown, tag = found, found.tag
    if tag in BROKEN:
        return found, ""
    plays = 0 if tag == "too-long" else PLAYS  # each play of an endless loop costs a second or more

    def shows(case: object) -> bool:
        nonlocal shown
        outcome = play(case)
        shown = outcome if outcome.tag == tag else shown
        return outcome.tag == tag

    for number in range(PLAYS):
        case = public(number)
        if shows(case):
            shrunk(cut(case), lambda items, case=case: shows(joined(case, items)), plays=plays)
            return shown, PUBLIC
    if graded and shows(joined(None, graded)):  # else it showed once and does not show again
        small = shrunk(graded, lambda items: shows(joined(None, items)), plays=plays)
        if 2 * len(small) <= GRADED_EVENTS:
            return shown, GRADED
    return found, ""


def said_of(outcome: Outcome, *, quoting: bool, what: str = "your code") -> str:
    """What the learner's side did instead of answering.

    Not ``quoting``: without a word of the learner's side, whose code has read a graded input, and can raise in a
    line that nobody wrote.
    """
    numbers = outcome.numbers
    at = numbers.get("line", 0)
    line = f", line {at} of your cell" if at and (quoting or at <= _CELL_LINES) else ""
    method = "making your object" if numbers.get("method") == "new" else f"`{numbers.get('method', what)}`"
    if not quoting and numbers.get("method") not in _ASKED:
        method = what
    text = numbers.get("text") if quoting else ""
    if outcome.tag == "not-solved":
        return f"{method} is not solved yet{line}"
    kind = str(numbers.get("type", ""))
    if not quoting and not isinstance(getattr(builtins, kind, None), type):
        kind = ""
    if outcome.tag == "raised":
        return f"{method} raised {kind or 'an exception'}{f': {text}' if text else ''}{line}"
    if outcome.tag == "too-long":
        return f"{method} went on until it was interrupted{line}"
    text = numbers.get("text") if outcome.tag in BROKEN else text  # those are the judge's own words
    return f"{outcome.tag}: {text or 'no usable answer'}{line}"


def told(
    outcome: Outcome,
    rules: dict[str, tuple[str, str]],
    where: str,
    *,
    event: str,
    picture: object = None,
    named: dict | None = None,
) -> Feedback:
    """The feedback of one outcome. ``rules``: tag to (rule, question), with places for ``named`` to fill.

    With ``where`` '' the outcome belongs to a graded case that must not be shown: no event, no number, no
    text of an exception (it may quote one), no picture; ``named`` must hold no graded number then.
    """
    rule, question = rules.get(outcome.tag) or FAULTS.get(outcome.tag, _CHANNEL)
    got = outcome.got or said_of(outcome, quoting=bool(where))
    expected = outcome.expected or "an answer"
    if not where:
        event, picture = "in a graded case, which is not shown", None
        expected, got = "the rule's answer", "another" if outcome.got else got
    named = named or {}
    return Feedback(
        rule.format(**named), event, expected[:400], got[:400], question.format(**named), picture, where
    )
