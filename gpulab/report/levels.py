"""The levels of a ledger, who grants to whom, and the books of one of them through time."""

from collections.abc import Iterator

from gpulab.report.books import OF_CLAIMS, Books
from gpulab.report.joint import Joint
from gpulab.report.looked_through import LookedThrough
from gpulab.telemetry.events import Joined, Opened
from gpulab.telemetry.ledger import Ledger


def levels(ledger: Ledger) -> list[str]:
    """The levels of ``ledger``, outermost first: ``['device→pool', 'pool→extent', 'device→extent']``.

    The capacity of a level is what the one before it granted; the last looks through the pool, or all of
    them: ``['device→a, b', 'a→extent', 'b→extent', 'device→extent']``.
    """
    opened = ledger.of(Opened)
    found = []
    for resource in opened:
        inner = [other.resource for other in opened if other.inside == resource.resource]
        found.append(f"{resource.resource}→{', '.join(inner) or 'extent'}")
    around = {other.inside for other in opened}
    return found + [f"{name}→extent" for name in dict.fromkeys(r.resource for r in opened) if name in around]


def instants(ledger: Ledger, outer: str, inner: str) -> Iterator[tuple[int, "Level", set[int]]]:
    """The books after each instant at which anything of this level changed, and the claims that did."""
    opened = {fact.resource: fact for fact in ledger.of(Opened)}
    books, time_ns, changed, claims = books_of(ledger, outer, inner), opened[outer].time_ns, False, set()
    for serial, fact in ledger.each(OF_CLAIMS):
        if changed and fact.time_ns > time_ns:
            yield time_ns, books, claims
            changed, claims = False, set()
        if books.note(serial, fact):
            time_ns, changed = fact.time_ns, True
            claims.add(getattr(fact, "claim", -1))
    if changed:
        yield time_ns, books, claims


Level = Books | LookedThrough | Joint


def books_of(ledger: Ledger, outer: str, inner: str = "") -> Level:
    """Empty books of the level ``outer→inner``; with ``extent`` a resource with pools inside is looked through."""
    opened = {fact.resource: fact for fact in ledger.of(Opened)}
    pools = [fact.resource for fact in opened.values() if fact.inside == outer]
    if pools and inner == "extent":
        return LookedThrough(outer, pools)
    if ledger.serials(Joined):
        return Joint(outer, {name: _plain_books(opened, name) for name in opened})
    return _plain_books(opened, outer)


def _plain_books(opened: dict[str, Opened], name: str) -> Books:
    inside, pools = opened[name].inside, any(fact.inside == name for fact in opened.values())
    shared = bool(inside) and sum(fact.inside == inside for fact in opened.values()) > 1
    return Books(name, inside, liquid=pools, shared=shared)
