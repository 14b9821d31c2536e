"""The controls of ``widgets.scrub``: whichever is moved, the others and all pictures follow."""

from html import escape

from gpulab.report.control import bundle, drawn
from gpulab.report.instant import Instant, Scene

_FRAME_MS, _FRAMES = 500, 120  # playing: time between two pictures, and about so many from end to end
_TIME_PLACES = 1000  # on the time slider, about
_PLAY, _STOP = "Play", "Stop"
_CLOSE = 'style="line-height:1.4"'
_LABEL = {"description_width": "60px"}


class Scrubber:
    """A scrubber over the ledger of a scene. ``widget`` is None where ipywidgets is missing or nothing can be moved.

    ``instant`` is what it shows now.
    """

    def __init__(self, widgets, scene: Scene) -> None:
        self.scene, self.instant = scene, scene.at()
        self.widget = None
        self._first = self.instant
        self._following = False
        span = scene.ledger.end_ns - scene.ledger.start_ns
        self._step_ns = max(1, span // _TIME_PLACES)
        if widgets is not None and len(scene.ledger) > 1:
            self._make(widgets)
            self._show(self.instant)

    def _make(self, widgets) -> None:
        last = len(self.scene.ledger) - 1
        wide = {"layout": {"width": "680px"}, "style": _LABEL, "readout": False}
        narrow = {"layout": {"width": "120px"}}
        self.event = widgets.IntSlider(last, 0, last, description="Event", **wide)
        self.time = widgets.IntSlider(
            0, 0, self._time_place(self.scene.ledger.end_ns), description="Time", **wide
        )
        self.back = widgets.Button(description="Previous event", **narrow)
        self.on = widgets.Button(description="Next event", **narrow)
        self.go_to = widgets.BoundedIntText(last, 0, last, description="Event #", layout={"width": "180px"})
        self.running = widgets.ToggleButton(description=_PLAY, **narrow)
        # The clock of playing runs in the browser; its own buttons have no names, so it is not seen.
        stride = max(1, last // _FRAMES)
        self.clock = widgets.Play(last, 0, last, stride, interval=_FRAME_MS, layout={"display": "none"})
        self.level = widgets.Dropdown(options=self.scene.levels, value=self.scene.level, description="Level")
        self.words, self.picture, self.facts = widgets.HTML(), widgets.HTML(), widgets.HTML()
        row = [self.back, self.on, self.running, self.go_to, self.clock]
        row += [self.level] if len(self.scene.levels) > 1 else []
        rows = [self.event, self.time, widgets.HBox(row), self.words, self.picture, self.facts]
        self.widget = widgets.VBox(rows)
        self._listen()

    def _listen(self) -> None:
        """Tie every control to the instant that is shown."""
        self.back.on_click(lambda _: self._go(self.instant.event - 1))
        self.on.on_click(lambda _: self._go(self.instant.event + 1))
        for control in (self.event, self.clock, self.go_to):
            control.observe(lambda change: self._go(change.new), "value")
        self.time.observe(lambda change: self._go_in_time(change.new), "value")
        self.running.observe(lambda change: self._play(change.new), "value")
        self.clock.observe(lambda change: self._play(change.new), "playing")
        self.level.observe(lambda change: self._look_at(change.new), "value")

    def _go(self, event: int) -> None:
        """Show the instant after ``event``, unless the control only follows the one that was moved."""
        if not self._following:
            self._show(self.scene.at(event=min(max(event, 0), self.event.max)))

    def _go_in_time(self, place: int) -> None:
        if not self._following:
            ledger = self.scene.ledger
            self._show(self.scene.at(time_ns=min(ledger.start_ns + place * self._step_ns, ledger.end_ns)))

    def _time_place(self, time_ns: int) -> int:
        """Where a time stands on its slider. Whole places: a slider moves by itself to where a step ends."""
        return -(-(time_ns - self.scene.ledger.start_ns) // self._step_ns)

    def _play(self, running: bool) -> None:
        """Start or stop; playing that is started at the end starts from the first event."""
        if running and self.instant.event == self.event.max:
            self._go(0)
        self.running.value = self.clock.playing = running
        self.running.description = _STOP if running else _PLAY

    def _look_at(self, level: str) -> None:
        self.scene = Scene(self.scene.ledger, level)
        self._show(self.scene.at(event=self.instant.event))

    def _show(self, instant: Instant) -> None:
        self.instant = instant
        self._following = True
        try:
            self.event.value = self.clock.value = self.go_to.value = instant.event
            self.time.value = self._time_place(instant.time_ns)
        finally:
            self._following = False
        words = f"Event #{instant.event} of #0 to #{self.event.max}. {instant.account}"
        self.words.value = (
            f'<div role="status" {_CLOSE}>{escape(words)}</div>'  # a screen reader says each change
        )
        self.picture.value = drawn(instant.picture)
        self.facts.value = f"<div {_CLOSE}>{instant.facts._repr_html_()}</div>"

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """The widget, and for a notebook without its kernel the first picture. Nothing is filtered."""
        return bundle(self.widget, repr(self), self._first)

    def __repr__(self) -> str:
        event = self._first.event
        call = "at(ledger)" if event is None else f"at(ledger, event={event})"
        return f"{self._first!r}\nThe same without a widget: {call}"
