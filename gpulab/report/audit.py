"""Which facts of a ledger break a law, and the story of the claims in it."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from gpulab.errors import BrokenLaw
from gpulab.report.account import Account, levels
from gpulab.report.laws import LAWS, Books
from gpulab.report.waiting import Waiting
from gpulab.telemetry.events import Arrived, Fact, Stepped
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

_LAST = 6  # facts of a story, as in Ledger.story


@dataclass(frozen=True)
class Violation:
    """Fact #``event`` breaks ``law`` (a key of ``laws.LAWS``). ``story``: last facts about the claims and the request in it."""

    law: str
    event: int
    message: str
    story: tuple[tuple[int, Fact], ...]


def audit(ledger: Iterable[Fact]) -> list[Violation]:
    """Every fact that breaks a law, in order; none for a sound ledger.

    Each fact is told once, with the first law it breaks, and a claim that was granted wrongly is not
    judged again; of the laws of requests the first that is broken is told. Both gauges are read from a ledger in
    which nothing else is wrong. ``ledger`` may be any facts in order. Cost: O(n log n), and the gauges'.
    """
    facts, books, broken = list(ledger), Books(), []
    for serial, fact in enumerate(facts):
        found = books.note(serial, fact)
        if found is not None:
            broken.append((serial, *found))
    if not broken:
        broken = _unaccounted(facts)
    stories: dict[object, list[tuple[int, Fact]]] = {key: [] for *_, keys in broken for key in keys}
    for serial, fact in enumerate(facts):
        for key in (getattr(fact, "claim", None), ("request", getattr(fact, "request", None))):
            if key in stories:
                stories[key].append((serial, fact))
    return [
        Violation(law, serial, _message(serial, facts[serial], law, words), _story(stories, claims, serial))
        for serial, law, words, claims in broken
    ]


def check(ledger: Iterable[Fact]) -> None:
    """Nothing, when ``ledger`` keeps every law.

    Raises:
        BrokenLaw: the first violation: ``law``, ``numbers['event']``, and in the message its story.
    """
    broken = audit(ledger)
    if broken:
        first = broken[0]
        told = "".join(f"\n  #{serial} {fact}" for serial, fact in first.story)
        more = f" Facts that break a law after it: {len(broken) - 1:,}." if len(broken) > 1 else ""
        raise BrokenLaw(
            f"{first.message} Look at what wrote this fact: the ledger before it is sound.{more}{told}",
            law=first.law,
            event=first.event,
        )


def _unaccounted(facts: list[Fact]) -> list[tuple]:
    """What the gauges find wrong in facts that keep all other laws."""
    ledger = Ledger(facts)
    try:
        for level in levels(ledger):
            Account(ledger, level).steps()
        if ledger.serials(Arrived, Stepped):
            Waiting(ledger)
    except BrokenLaw as broken:
        law = broken.law if broken.law in LAWS else "identity"
        return [(broken.numbers.get("event", len(facts) - 1), law, str(broken), ())]
    return []


def _message(serial: int, fact: Fact, law: str, words: str) -> str:
    when = format_ns(fact.time_ns)
    return f"Fact #{serial}, {type(fact).__name__} at {when}, breaks a law: {words}. The law: {LAWS[law]}."


def _story(stories: dict, claims: tuple, serial: int) -> tuple[tuple[int, Fact], ...]:
    told: list[tuple[int, Fact]] = []
    for claim in claims:
        until = bisect_right(stories[claim], serial, key=lambda told: told[0])
        told += stories[claim][max(0, until - _LAST) : until]
    return tuple(sorted(told, key=lambda told: told[0])[-_LAST:])
