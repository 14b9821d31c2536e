"""How a mix of 03.share is played: laws on every answer, then blocks·ns between no sharing and the rule's."""

from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks import played
from autograder.checks.lab03.share_books import Books, Broken
from autograder.checks.lab03.share_mixes import Mix, alone_blocks
from autograder.checks.played import Outcome, share_of_standard, unanswered
from gpulab.units import MS

__all__ = ["alone_ns", "judged", "play_mix", "rule_books", "share_of_standard"]


def judged(mixes: list[Mix], rules: dict, asker: Asker) -> list[Outcome]:
    """Each mix played once, to one new object."""
    return played.judged(mixes, lambda mix: play_mix(mix, rules, asker))


def alone_ns(mix: Mix) -> int:
    """Blocks·ns of the naive rule: every sequence, every fork too, has blocks of its own."""
    return sum(alone_blocks(mix.events, mix.block_tokens)) * MS


def rule_books(mix: Mix, rules: dict) -> Books:
    """The books after the rule itself answered."""
    books = Books(mix, rules)
    for event in mix.events:
        _answered(books, event, _Rule(books))
    return books


def play_mix(mix: Mix, rules: dict, asker: Asker) -> Outcome:
    """One mix through the channel; laws end it. A short beginning shared makes it count as naive."""
    books = Books(mix, rules)
    outcome = Outcome(ledger=books.pool.ledger)
    learner = _Learner(asker)
    event: list = []
    try:
        asker.new({"n_blocks": mix.n_blocks, "block_tokens": mix.block_tokens, "rules": rules})
        for event in mix.events:
            _answered(books, event, learner)
            if books.short and not outcome.tag:
                _note(outcome, books, event, "short-hit", "no hits, all new", "a shorter beginning shared")
    except AnswerFault as fault:
        unanswered(outcome, fault)
        outcome.numbers |= _named(books, event)
        return outcome
    except Broken as broken:
        outcome.lawful = False
        _note(outcome, books, event, broken.tag, _expected(books, event), broken.got)
        outcome.numbers |= {"block": broken.block, "other": broken.other}
        return outcome
    naive = alone_ns(mix)
    best = rule_books(mix, rules).block_ns if mix.best_ns is None else mix.best_ns
    outcome.way = (naive - books.block_ns) / (naive - best) if naive > best else 1.0
    outcome.way = 0.0 if books.short else outcome.way
    if not outcome.tag and outcome.way < 0.95:
        expected, got = f"{best // MS:,} block·ms", f"{books.block_ns // MS:,} block·ms"
        _note(outcome, books, [], "shares-too-little", expected, got)
    return outcome


def _answered(books: Books, event: list, side: "_Learner | _Rule") -> None:
    """One event: what ``side`` answers, checked and entered."""
    verb, seq, *rest = event
    if verb == "admit":
        books.admitted(seq, *rest, side.ask("admit", [seq, *rest]))
    elif verb == "append":
        books.appended(seq, *rest, side.ask("append", [seq, *rest]))
    elif verb == "fork":
        side.tell("fork", [seq, *rest])
        books.forked(seq, *rest)
    else:
        books.finished(seq, side.ask("finish", [seq]))
    books.tick()


@final
class _Learner:
    """The learner's object; a fork has no answer, so it rides with the next question."""

    def __init__(self, asker: Asker) -> None:
        self._asker, self._told = asker, []

    def ask(self, method: str, arguments: list) -> object:
        told, self._told = self._told, []
        return self._asker.ask(method, arguments, told)

    def tell(self, method: str, arguments: list) -> None:
        self._told.append([method, arguments])


@final
class _Rule:
    """The rule's answers, read off the books."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def ask(self, method: str, arguments: list) -> object:
        return getattr(self._books, method)(*arguments)

    def tell(self, method: str, arguments: list) -> None:
        """Nothing to do: the books know."""


def _named(books: Books, event: list) -> dict:
    seq = event[1] if event else "a sequence"
    tenant = event[3] if event and event[0] == "admit" else books.tenant.get(seq, "a tenant")
    return {"seq": seq, "verb": event[0] if event else "", "tenant": tenant}


def _expected(books: Books, event: list) -> str:
    """One right answer to ``event``, which the books have not entered."""
    verb, *arguments = event
    form = {"admit": "[hits, new]", "append": "[block, copied_from]", "finish": "the blocks"}[verb]
    return f"{form}, for example {getattr(books, verb)(*arguments)}"


def _note(outcome: Outcome, books: Books, event: list, tag: str, *said: str) -> None:
    outcome.tag, (outcome.expected, outcome.got) = tag, said
    outcome.event = len(books.pool.ledger) - 1
    outcome.numbers = _named(books, event) | {"b": books.b, "least": books.least}
