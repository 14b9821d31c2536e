"""One question of lab 01: lists of rows and numbers, as they are handed to the learner's function."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Case:
    """``lists``: name -> rows, ``numbers``: name -> number; both in the order of the function's arguments.

    ``answer`` is the rule's answer, for practice; () when it is not shown.
    """

    lists: dict[str, tuple[dict, ...]]
    numbers: dict[str, int]
    answer: object = ()

    def arguments(self) -> list:
        """What the function is called with."""
        return [*(list(rows) for rows in self.lists.values()), *self.numbers.values()]

    def items(self) -> list[tuple[str, dict]]:
        """All rows, each with the name of its list: what can be left out."""
        return [(name, row) for name, rows in self.lists.items() for row in rows]

    def of_items(self, items: list[tuple[str, dict]]) -> "Case":
        """This case with only these rows."""
        lists = {name: tuple(row for of, row in items if of == name) for name in self.lists}
        return replace(self, lists=lists)

    def text(self) -> str:
        """The case as tables of plain text, with the rule's answer under a practice case."""
        parts = [f"{name} = {number:,}" for name, number in self.numbers.items()]
        for name, rows in self.lists.items():
            parts.append(f"{name}:" if rows else f"{name}: none")
            parts += _table(rows)
        if self.answer != ():
            parts.append(f"the rule's answer: {self.answer}")
        return "\n".join(parts)


def _table(rows: tuple[dict, ...]) -> list[str]:
    if not rows:
        return []
    cells = [list(rows[0]), *([_said(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells
    ]


def _said(value: object) -> str:
    return "-" if value is None else f"{value:,}" if type(value) is int else str(value)
