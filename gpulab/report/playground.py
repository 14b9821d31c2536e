"""A few sliders around a run: each move runs it again, and the last run stays beside the new one."""

from collections.abc import Mapping
from html import escape

from gpulab.report.compared import Run, Values, in_words, of_runs, played, small_picture, window_of
from gpulab.report.control import bundle, drawn
from gpulab.telemetry.ledger import Ledger

_LABEL, _WIDE = {"description_width": "160px"}, {"width": "560px"}

Choice = tuple | list  # (low, high) or (low, high, step) in numbers, or the list of values to choose from


class Playground:
    """Sliders around ``run``; ``widget`` is None where ipywidgets is missing.

    ``runs`` holds values and ledger of the last run and of the current one, first of the current one alone.
    """

    def __init__(self, widgets, run: Run, choices: Mapping[str, Choice]) -> None:
        start = {name: _start(name, choice) for name, choice in choices.items()}
        self.runs: list[tuple[Values, Ledger]] = [(start, played(run, start))]
        self._run, self._first = run, of_runs(self.runs)
        self._other = {name: choice[1] if len(choice) > 1 else choice[0] for name, choice in choices.items()}
        self._drawn: list[tuple] = []  # ledger, values, window and HTML of what is shown: drawn once
        self.widget, self.controls = None, {}
        if widgets is not None:
            self._make(widgets, choices)

    def _make(self, widgets, choices: Mapping[str, Choice]) -> None:
        for name, choice in choices.items():
            self.controls[name] = _control(widgets, name, choice)
            self.controls[name].observe(lambda _: self._play(), "value")
        self.trouble, self.pictures = widgets.HTML(), widgets.HTML()
        self.pictures.value = self._side_by_side(self.runs)
        self.widget = widgets.VBox([*self.controls.values(), self.trouble, self.pictures])

    def _play(self) -> None:
        """Run with the values of now. What stops a run is said; the pictures stay as they were."""
        values = {name: _tidy(control.value) for name, control in self.controls.items()}
        try:
            runs = [self.runs[-1], (values, played(self._run, values))]
            self.pictures.value = self._side_by_side(runs)
        except Exception as wrong:
            said = f"run({in_words(values)}) stopped: {type(wrong).__name__}: {wrong}"
            self.trouble.value = f"<b>{escape(said)}</b> The pictures are still those of the runs before."
            return
        self.runs, self.trouble.value = runs, ""

    def _side_by_side(self, runs: list[tuple[Values, Ledger]]) -> str:
        window, pictures = window_of([ledger for _, ledger in runs]), []
        for values, ledger in runs:
            kept = (html for seen, *what, html in self._drawn if seen is ledger and what == [values, window])
            html = next(kept, None) or drawn(small_picture(values, ledger, window))
            pictures.append((ledger, values, window, html))
        self._drawn = pictures
        names = ("the last run", "this run")[-len(runs) :]
        parts = (f"<div><b>{name}</b>{html}</div>" for name, (*_, html) in zip(names, pictures, strict=True))
        return f'<div style="display:flex;flex-wrap:wrap;gap:12px;line-height:1.4">{"".join(parts)}</div>'

    def __repr__(self) -> str:
        first, second = in_words(self.runs[0][0]), in_words(self._other)
        call = f"compare(run, dict({first}), dict({second}))"
        return f"{self._first.table()!r}\nThe same without a widget: {call}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """The widget, and for a notebook without its kernel the first run. Nothing is filtered."""
        return bundle(self.widget, repr(self), self._first)


def _control(widgets, name: str, choice: Choice):
    look = {"description": name, "style": _LABEL, "layout": _WIDE, "continuous_update": False}
    if isinstance(choice, list):
        return widgets.SelectionSlider(options=choice, value=choice[0], **look)
    low, high, *step = choice
    if all(type(part) is int for part in choice):
        return widgets.IntSlider(low, low, high, *(step or [1]), **look)
    return widgets.FloatSlider(
        value=low, min=low, max=high, step=step[0] if step else (high - low) / 20, **look
    )


def _start(name: str, choice: Choice) -> object:
    """The first value of a slider; ``ValueError`` when ``choice`` is no choice."""
    numbers = isinstance(choice, tuple) and all(type(part) in (int, float) for part in choice)
    if numbers and len(choice) in (2, 3) and choice[0] < choice[1] and (len(choice) == 2 or choice[2] > 0):
        return choice[0]
    if isinstance(choice, list) and choice:
        return choice[0]
    raise ValueError(
        f"{name}={choice!r} is no slider: write (low, high) or (low, high, step) in numbers, or a list of values."
    )


def _tidy(value: object) -> object:
    """``value`` without the last digits that steps of a float leave behind."""
    return round(value, 10) if type(value) is float else value
