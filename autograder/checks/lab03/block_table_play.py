"""How a case of 03.block-table is played: a kernel reads what the learner's tables say, and must read right."""

from autograder.channel import AnswerFault, Asker
from autograder.checks import played
from autograder.checks.lab03.block_table_books import Books, Case
from autograder.checks.played import Outcome, unanswered
from gpulab.telemetry.ledger import Ledger

BANDS = ((0.0, 0.30), (0.5, 0.50), (0.85, 0.70), (0.95, 0.85), (1.0, 1.0))


def judged(cases: list[Case], rules: dict, asker: Asker) -> list[Outcome]:
    """Each case played once, to one new object."""
    return played.judged(cases, lambda case: play_case(case, rules, asker))


def build_share(outcomes: list[Outcome]) -> tuple[float, str]:
    """The build's share, 0 to 1, and the line that says how it came about."""
    return played.share_of_equal(outcomes, BANDS, "steps, to a sequence's first difference,")


def rule_ledger(case: Case, rules: dict) -> Ledger:
    """The ledger that the rule itself writes."""
    books = Books(case, rules)
    for name, length in case.steps:
        books.grow(name, length)
        books.give_back(name, books.drop(name))
    return books.ledger


def play_case(case: Case, rules: dict, asker: Asker) -> Outcome:
    """One case through the channel. Laws end it; a block kept too long counts from there on."""
    books = Books(case, rules)
    outcome = Outcome(asked=len(case.steps), ledger=books.ledger)
    try:
        asker.new({"block_tokens": case.block_tokens, "rules": rules})
        for name, length in case.steps:
            _step(books, name, length, asker, outcome)
            if not outcome.lawful:
                return outcome
            outcome.equal += not books.of(name).off
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    return outcome


def _step(books: Books, name: str, length: int, asker: Asker, outcome: Outcome) -> None:
    sequence, start = books.of(name), books.of(name).length
    outcome.numbers = {"name": name, "length": length, "b": books.b, "window": books.window}
    right, got = books.missing(name, length), asker.ask("missing", [name, length])
    if type(got) is not int or got != right:
        tag = _miscounted(books, name, right, got) if type(got) is int else "type"
        return _broke(outcome, tag, f"missing({name!r}, {length}) is {right}", repr(got))
    new = books.grow(name, length)
    right = books.slots(name, start, length)
    got = asker.ask("slots", [name, start, length], [["grow", [name, length, new]]])
    if (
        not _numbers(got)
        or len(got) != len(right)
        or any(slot // books.b not in sequence.live for slot in got)
    ):
        tag = _misplaced(books, name, right, got, start)
        return _broke(outcome, tag, f"slots({name!r}, {start}, {length}) is {_few(right)}", _few(got))
    if got != right and not sequence.off:
        sequence.off = True
        outcome.tag = outcome.tag or _misplaced(books, name, right, got, start)
        _note(outcome, f"slots({name!r}, {start}, {length}) is {_few(right)}", _few(got))
    books.write(name, start, got)
    for other in books.sequences:
        right, got = books.reads(other), asker.ask("reads", [other])
        fits = _numbers(got) and 0 < len(got) == len(set(got))  # twice the same tokens attend to the same
        fits = fits and all(0 <= slot < books.pool.shape[1] for slot in got)
        if not fits or not books.attended(other, got):
            tag = _misread(books, other, right, got, name)
            return _broke(outcome, tag, f"reads({other!r}) is {_few(right)}", _few(got))
    return _dropped(books, name, asker.ask("drop", [name]), outcome)


def _dropped(books: Books, name: str, got: object, outcome: Outcome) -> None:
    sequence, right = books.of(name), books.drop(name)
    expected = f"drop({name!r}) is {right}"
    if not _numbers(got):
        return _broke(outcome, "type", expected, _few(got))
    if len(set(got)) < len(got) or any(block not in sequence.live for block in got):
        return _broke(outcome, "drops-twice", expected, _few(got))
    if any(block not in right for block in got):
        return _broke(outcome, "drops-early", expected, _few(got))
    if got != right and not sequence.off:
        sequence.off = True
        outcome.tag = outcome.tag or "keeps-unread"
        _note(outcome, expected, _few(got))
    return books.give_back(name, got)


def _miscounted(books: Books, name: str, right: int, got: int) -> str:
    """The misconception behind a wrong number of blocks."""
    others = sum(len(s.blocks) for seq, s in books.sequences.items() if seq != name)
    if others and got in (right - others, max(0, right - others)):
        return "shared-list"
    return "late-at-boundary" if got < right else "early-block"


def _misplaced(books: Books, name: str, right: list[int], got: object, start: int) -> str:
    """The misconception behind slots that are not those of the positions from ``start`` on."""
    if not _numbers(got):
        return "type"
    if got == list(range(start, start + len(right))):
        return "identity"
    if got == [slot // books.b + slot % books.b * books.b for slot in right]:
        return "div-mod-swapped"
    others = {block for seq, s in books.sequences.items() if seq != name for block in s.live}
    if any(slot // books.b in others for slot in got):
        return "shared-list"
    return "other-slot"


def _misread(books: Books, name: str, right: list[int], got: object, grown: str) -> str:
    """The misconception behind a read that does not give the tokens of the window."""
    if not _numbers(got):
        return "type"
    sequence = books.of(name)
    whole = books.slots(name, 0, len(sequence.blocks) * books.b)
    if name != grown:
        return "shared-list"  # it was right before another one grew
    if set(got) & set(whole[sequence.length :]):
        return "reads-past-end"
    if got == whole[: sequence.length] and len(got) > len(right):
        return "reads-everything"
    return "other-slot"


def _numbers(value: object) -> bool:
    return type(value) is list and all(type(item) is int for item in value)


def _few(value: object) -> str:
    """A list by its first and last items: slots come in long rows."""
    if _numbers(value) and len(value) > 8:
        return f"[{', '.join(map(str, value[:3]))}, ..., {', '.join(map(str, value[-3:]))}] ({len(value)} of them)"
    return str(value)[:120]


def _broke(outcome: Outcome, tag: str, expected: str, got: str) -> None:
    outcome.lawful, outcome.tag = False, tag
    outcome.expected = ""
    _note(outcome, expected, got)


def _note(outcome: Outcome, expected: str, got: str) -> None:
    if not outcome.expected:
        outcome.expected, outcome.got, outcome.event = expected, got, len(outcome.ledger) - 1
