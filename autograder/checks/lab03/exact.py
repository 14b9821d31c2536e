"""What the functions of this lab share: questions with one right answer, and misreadings that give another.

A case is a list of questions. Each belongs to a part (a plan, or the whole case); a part counts when all of
its answers are the rule's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autograder.channel import AnswerFault, Asker
from autograder.checks import played
from autograder.checks.played import PUBLIC, Outcome, tag_of, told, unanswered
from autograder.verdict import Feedback

OTHER = "other-number"
_TYPE = ("Answers are whole numbers.", "What type is it that you return?")


@dataclass(frozen=True)
class Reading:
    """A function that the judge asks, what it must answer, and what it answers when misread.

    Attributes:
        function: its name. arguments: question to what travels. rule: question to the right answer.
        misread: tag to (question to answer, what to ask whoever answers so; ``{got}`` and the names that
            ``named`` gives may stand in it). Of two that answer alike the first is told.
        sentence: the rule in words. open: what to ask whoever answers as no misreading does.
        part: question to the part of its case. lawful: may this number be answered at all? ``law`` is the
            tag, (sentence, question) of one that may not.
    """

    function: str
    arguments: Callable[[object], list]
    rule: Callable[[object], int]
    misread: dict[str, tuple[Callable[[object], int], str]]
    sentence: str
    open: str
    named: Callable[[object], dict] = lambda question: {}
    part: Callable[[object], str] = lambda question: ""
    lawful: Callable[[object, int], bool] = lambda question, number: True
    picture: Callable[[object, list], object] = lambda question, answers: None

    def sentences(self) -> dict[str, tuple[str, str]]:
        """Tag to (rule, question), as feedback says it."""
        said = {tag: (self.sentence, question) for tag, (_, question) in self.misread.items()}
        return said | {OTHER: (self.sentence, self.open), "type": _TYPE}

    def tag(self, wrong: list[tuple[object, object]]) -> str:
        """The misreading that explains the most of ``wrong`` (question, answer), if it explains most parts."""
        if any(type(answer) is not int for _, answer in wrong):
            return "type"
        hits = {tag: sum(f(q) == answer for q, answer in wrong) for tag, (f, _) in self.misread.items()}
        best = max(hits, key=lambda tag: hits[tag])
        return best if 2 * hits[best] > len(wrong) else OTHER


def play(reading: Reading, case: list, asker: Asker) -> Outcome:
    """One case through the channel: how many of its parts equal the rule, and the misreading if any."""
    parts = dict.fromkeys(map(reading.part, case), True)
    outcome = Outcome(asked=len(parts))
    wrong = []
    try:
        asker.new({})
        for question in case:
            answer = asker.ask(reading.function, reading.arguments(question))
            if type(answer) is not int or answer != reading.rule(question):
                wrong.append((question, answer))
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    for question, answer in wrong:
        parts[reading.part(question)] = False
        outcome.lawful &= type(answer) is int and reading.lawful(question, answer)
    outcome.equal = sum(parts.values())
    outcome.tag = reading.tag(wrong) if wrong else ""
    return outcome


def feedback(
    reading: Reading, outcomes: list[Outcome], asker: Asker, public: Callable[[int], list]
) -> Feedback | None:
    """The first public question on which the same misreading shows; the score stands before this is called."""
    tag = tag_of(outcomes)
    if not tag:
        return None
    found = next(outcome for outcome in outcomes if outcome.tag == tag)
    if tag in played.BROKEN or tag == "too-long":
        return told(found, {}, "", event="")
    for number in range(played.PLAYS // 10):
        case = public(number)
        for question, outcome in _wrong(reading, case, asker):
            if _same(reading, question, outcome, tag):
                named = {"got": outcome.got} | reading.named(question)
                picture = reading.picture(question, case) if outcome.got else None
                outcome.tag = tag
                return told(
                    outcome,
                    reading.sentences(),
                    PUBLIC,
                    event=question.text(),
                    picture=picture,
                    named=named,
                )
    unnamed = {name: (sentence, reading.open) for name, (sentence, _) in reading.sentences().items()}
    return told(found, unnamed, "", event="")  # no question may be quoted, so no number is at hand


def _wrong(reading: Reading, case: list, asker: Asker) -> Iterable[tuple[object, Outcome]]:
    """The questions of ``case`` that are not answered by the rule, each with what was expected and got."""
    for question in case:
        outcome = Outcome(expected=f"{reading.rule(question):,}")
        try:
            asker.new({})
            answer = asker.ask(reading.function, reading.arguments(question))
        except AnswerFault as fault:
            yield question, unanswered(outcome, fault)
            continue
        if type(answer) is not int or answer != reading.rule(question):
            outcome.got = f"{answer:,}" if type(answer) is int else repr(answer)[:80]
            outcome.numbers = {"answer": answer}
            yield question, outcome


def _same(reading: Reading, question: object, outcome: Outcome, tag: str) -> bool:
    """Does this wrong answer show ``tag``?"""
    answer = outcome.numbers.get("answer")
    if outcome.tag:
        return outcome.tag == tag
    if tag in reading.misread:
        return type(answer) is int and reading.misread[tag][0](question) == answer
    return reading.tag([(question, answer)]) == tag
