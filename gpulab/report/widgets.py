"""Controls around pictures, for a notebook: a scrubber over a ledger, a playground, a form.

Each stands beside a plain function that says the same without a widget: ``instant.at``, ``compared.compare``,
and the line of code that a form shows. A control stores its picture as SVG and its words, so a notebook that
is read without its kernel shows them; the state of a widget is stored nowhere. ipywidgets is imported when the
first control is made; where it is missing a control is its still picture, and its text names the function.
"""

from collections.abc import Callable, Mapping, Sequence

from gpulab.report.compared import Run
from gpulab.report.form import Form
from gpulab.report.instant import Scene
from gpulab.report.playground import Choice, Playground
from gpulab.report.scrubber import Scrubber
from gpulab.telemetry.ledger import Ledger

__all__ = ["form", "playground", "scrub"]


def scrub(ledger: Ledger, level: str | None = None) -> Scrubber:
    """A scrubber over ``ledger``: sliders for event and time, play, one event back and on; all pictures follow.

    The last line of a cell shows it, at the end of the run. One instant without a widget is
    ``at(ledger, event=17)``; ``level`` as there. A ledger of fewer than two facts is its still picture.

    Raises:
        ValueError: no such level. ImportError: Altair is not installed.
    """
    return Scrubber(_ipywidgets(), Scene(ledger, level))


def playground(run: Run, /, **sliders: Choice) -> Playground:
    """Sliders that run ``run(**values) -> Ledger`` again at each move; the last run stays beside the new one.

    A slider is ``size=(1, 8)``, ``load=(0.5, 1.0, 0.1)`` or ``rule=["first", "best"]`` and starts at its first
    value. What ``run`` raises later is said above the pictures, which stay. Two runs without a widget:
    ``compare(run, dict(size=1), dict(size=8))``. Cost: one run, and the drawing of two, a move.

    Raises:
        ValueError: a slider is none. TypeError: ``run`` gives no ledger. ImportError: Altair is not installed.
    """
    return Playground(_ipywidgets(), run, sliders)


def form(fields: Sequence[str], code: Callable[[Mapping[str, object]], str]) -> Form:
    """Fields for numbers and the line that ``code`` makes of them (None: no number yet). It commits nothing."""
    return Form(_ipywidgets(), fields, code)


def _ipywidgets():
    """The package, None where it is missing."""
    try:
        import ipywidgets
    except ImportError:
        return None
    return ipywidgets
