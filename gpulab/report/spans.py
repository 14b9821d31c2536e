"""How long each claim had which value: intervals made of changes, and sums over windows of them."""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, final


class Span(NamedTuple):
    """From ``start_ns`` to before ``end_ns``, ``claim`` had ``value``."""

    claim: int
    start_ns: int
    end_ns: int
    value: Hashable

    def within(self, t0: int, t1: int) -> int:
        """Nanoseconds of it in ``[t0, t1)``."""
        return max(0, min(self.end_ns, t1) - max(self.start_ns, t0))


@final
class Spans:
    """The spans of a value that changes, claim by claim. None is no value; no span is empty."""

    def __init__(self) -> None:
        self.over: list[Span] = []
        self._open: dict[int, tuple[int, Hashable]] = {}

    def __contains__(self, claim: int) -> bool:
        return claim in self._open

    def set(self, claim: int, time_ns: int, value: Hashable) -> None:
        """From ``time_ns`` on ``claim`` has ``value``."""
        since, before = self._open.get(claim, (time_ns, None))
        if before == value:
            return
        if before is not None and since < time_ns:
            self.over.append(Span(claim, since, time_ns, before))
        if value is None:
            del self._open[claim]
        else:
            self._open[claim] = time_ns, value

    def replace(self, time_ns: int, values: dict[int, Hashable]) -> None:
        """From ``time_ns`` on ``values`` are all that there are."""
        for claim in [claim for claim in self._open if claim not in values]:
            self.set(claim, time_ns, None)
        for claim, value in values.items():
            self.set(claim, time_ns, value)

    def end(self, time_ns: int) -> list[Span]:
        """All spans, those that are open up to ``time_ns``, in order of their ends."""
        self.replace(time_ns, {})
        return self.over


def without(t0: int, t1: int, holes: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is left of ``[t0, t1)`` when ``holes``, in order and apart, are cut out."""
    for start, end in holes:
        if start >= t1:
            break
        if start > t0:
            yield t0, start
        t0 = max(t0, end)
    if t0 < t1:
        yield t0, t1


def covered(spans: Iterable[tuple]) -> int:
    """Nanoseconds that at least one of ``spans``, each from its first number to its second, covers."""
    total, until = 0, None
    for start, end, *_ in sorted(spans):
        begins = start if until is None else max(start, until)
        if end > begins:
            total += end - begins
            until = end
    return total
