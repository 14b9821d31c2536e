"""Fields to fill in, and the line of code that says the same. Only that line counts, in a code cell."""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from gpulab.report.control import bundle

_LABEL = {"description_width": "160px"}


class Form:
    """Fields for numbers and the ``line`` made of them. It commits nothing and keeps nothing.

    ``line`` is text of code; a field without a number is ``None`` in it. ``lock`` shows what was committed and
    shuts the fields. ``widget`` is None where ipywidgets is missing; the line is there all the same.
    """

    def __init__(self, widgets, fields: Sequence[str], code: Callable[[Mapping[str, object]], str]) -> None:
        self._code = code
        self._values: dict[str, object] = dict.fromkeys(fields)
        self.said = "Type your numbers, then put this line into the code cell below and run it there:"
        self.widget, self.fields = None, {}
        if widgets is not None:
            self._make(widgets)

    @property
    def line(self) -> str:
        """The line of code with the values of now."""
        return self._code(self._values)

    def lock(self, values: Mapping[str, object]) -> None:
        """Show ``values`` as committed; nothing can be typed any more."""
        self._values |= values
        self.said = "Committed. It stays until the kernel restarts:"
        for name, field in self.fields.items():
            field.disabled = True
            field.value = repr(self._values[name])
        self._show()

    def _make(self, widgets) -> None:
        wide = {"width": "420px"}
        for name in self._values:
            field = widgets.Text(description=name, placeholder="a number", style=_LABEL, layout=wide)
            field.observe(self._typed, "value")
            self.fields[name] = field
        self.shown = widgets.HTML()
        self.widget = widgets.VBox([*self.fields.values(), self.shown])
        self._show()

    def _typed(self, change) -> None:
        if change.owner.disabled:
            return  # the lock writes into the fields, too
        name = change.owner.description
        self._values[name] = number_in(change.new)
        odd = [
            name for name, field in self.fields.items() if field.value.strip() and self._values[name] is None
        ]
        self._show(f"Not a number: {', '.join(odd)}." if odd else "")

    def _show(self, trouble: str = "") -> None:
        if self.widget is not None:
            code = f'<pre tabindex="0" role="region" aria-label="line of code" style="padding:6px">{escape(self.line)}</pre>'
            self.shown.value = f"{escape(self.said)}{code}{escape(trouble)}"

    def __repr__(self) -> str:
        return f"{self.said}\n{self.line}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """The widget, and its line as text. Nothing is filtered."""
        return bundle(self.widget, repr(self))


def number_in(text: str) -> int | float | None:
    """The number that ``text`` is in Python, None when it is none; ``'5_905'`` and ``'0.5'`` are some."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    fits = type(value) is int or (type(value) is float and math.isfinite(value))
    return value if fits else None
