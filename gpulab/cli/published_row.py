"""One published value beside the one that came out here."""

from dataclasses import dataclass

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Row:
    """One published value: what it is, who published it, and what came out here."""

    row: str
    what: str
    source: str
    expected: Value
    got: Value
    tolerance: float = 0

    @property
    def holds(self) -> bool:
        """True if ``got`` is ``expected``, or no further from it than ``tolerance``."""
        if not self.tolerance:
            return self.got == self.expected
        return abs(self.got - self.expected) <= self.tolerance
