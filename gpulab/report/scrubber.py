"""The controls of ``widgets.scrub``: whichever is moved, the others and all pictures follow."""

from html import escape

from gpulab.report.control import bundle, drawn
from gpulab.report.instant import Instant, Scene
from gpulab.units import format_ns

_FRAME_MS, _FRAMES = 500, 120  # playing: time between two pictures, and about so many from end to end
_TIME_STEPS = 1000  # places on the time slider
_WIDE, _LABEL = {"width": "680px"}, {"description_width": "60px"}


class Scrubber:
    """A scrubber over the ledger of a scene. ``widget`` is None where ipywidgets is missing or nothing can be moved.

    ``instant`` is what it shows now.
    """

    def __init__(self, widgets, scene: Scene) -> None:
        self.scene, self.instant = scene, scene.at()
        self.widget = None
        self._first = self.instant
        self._following = False
        if widgets is not None and len(scene.ledger) > 1:
            self._make(widgets)
            self._show(self.instant)

    def _make(self, widgets) -> None:
        ledger, last = self.scene.ledger, len(self.scene.ledger) - 1
        span = max(1, ledger.end_ns - ledger.start_ns)
        long = {"layout": _WIDE, "style": _LABEL, "readout": False}
        self.event = widgets.IntSlider(last, 0, last, description="Event", **long)
        step = max(1, span // _TIME_STEPS)
        end = ledger.start_ns + span
        self.time = widgets.IntSlider(end, ledger.start_ns, end, step, description="Time", **long)
        self.back = widgets.Button(description="Previous event", layout={"width": "130px"})
        self.on = widgets.Button(description="Next event", layout={"width": "130px"})
        stride = max(1, last // _FRAMES)
        self.play = widgets.Play(last, 0, last, stride, interval=_FRAME_MS, show_repeat=False)
        self.level = widgets.Dropdown(options=self.scene.levels, value=self.scene.level, description="Level")
        self.where, self.picture, self.facts = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.back.on_click(lambda _: self._go(event=self.instant.event - 1))
        self.on.on_click(lambda _: self._go(event=self.instant.event + 1))
        for control in (self.event, self.play):
            control.observe(lambda change: self._go(event=change.new), "value")
        self.time.observe(lambda change: self._go(time_ns=change.new), "value")
        self.level.observe(lambda change: self._look_at(change.new), "value")
        row = [self.back, self.on, widgets.Label("Play:"), self.play, self.level]
        if len(self.scene.levels) < 2:
            row.pop()
        rows = [self.event, self.time, widgets.HBox(row), self.where, self.picture, self.facts]
        self.widget = widgets.VBox(rows)

    def _go(self, *, event: int | None = None, time_ns: int | None = None) -> None:
        """Show another instant, unless this control only follows the one that was moved."""
        if not self._following:
            if event is not None:
                event = min(max(event, 0), self.event.max)
            self._show(self.scene.at(event=event, time_ns=time_ns))

    def _look_at(self, level: str) -> None:
        self.scene = Scene(self.scene.ledger, level)
        self._show(self.scene.at(event=self.instant.event))

    def _show(self, instant: Instant) -> None:
        self.instant = instant
        self._following = True
        try:
            self.event.value = self.play.value = instant.event
            self.time.value = instant.time_ns
        finally:
            self._following = False
        self.where.value = escape(
            f"#{instant.event} of #0 to #{self.event.max}, {format_ns(instant.time_ns)}"
        )
        self.picture.value = drawn(instant.picture)
        self.facts.value = instant.facts._repr_html_()

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """The widget, and for a notebook without its kernel the first picture. Nothing is filtered."""
        return bundle(self.widget, repr(self), self._first)

    def __repr__(self) -> str:
        event = self._first.event
        call = "at(ledger)" if event is None else f"at(ledger, event={event})"
        return f"{self._first!r}\nThe same without a widget: {call}"
