"""One run and another, with other values: both maps on one time axis and both accounts. Needs no widget."""

from collections.abc import Callable, Mapping, Sequence

from gpulab.errors import BrokenLaw
from gpulab.report.account import TERMS, Account, Terms
from gpulab.report.charts import account_bar, memory_map, use_over_time
from gpulab.report.composed import narrower_bar, together
from gpulab.report.frame import STEPS_UP_TO
from gpulab.report.glyphs import percent
from gpulab.report.instant import usual_level
from gpulab.report.picture import Picture
from gpulab.report.table import Table
from gpulab.telemetry.events import Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

_SMALL = 280  # px inside the axes; two of them fit beside each other at 1366 px
Run = Callable[..., Ledger]
Values = Mapping[str, object]


def compare(run: Run, first: Values, second: Values) -> Picture:
    """Both runs in one picture: ``run(**first)`` above, ``run(**second)`` below, on one time axis.

    Each has the bar of its account over the whole run and its memory map (use over time for a resource without
    addresses). The table twin has the terms, the length and the refusals of both. What ``run`` raises is raised.

    Raises:
        TypeError: ``run`` gives something else than a ledger. ImportError: Altair is not installed.
    """
    return of_runs([(first, played(run, first)), (second, played(run, second))])


def played(run: Run, values: Values) -> Ledger:
    """The ledger of ``run(**values)``; ``TypeError`` with a sentence when it is none."""
    ledger = run(**values)
    if not isinstance(ledger, Ledger):
        raise TypeError(f"run({in_words(values)}) gave {type(ledger).__name__}; it must return a Ledger")
    return ledger


def in_words(values: Values) -> str:
    """``values`` as they are written in a call: ``'size=4, rule="best"'``."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def of_runs(runs: Sequence[tuple[Values, Ledger]]) -> Picture:
    """The same of runs that were made already, each with its values."""
    window, twin = window_of([ledger for _, ledger in runs]), _table(runs)
    specs = [spec for values, ledger in runs for spec in _specs(ledger, window, f"{in_words(values)}: ")]
    title = " and ".join(in_words(values) for values, _ in runs)
    return together(specs, title=title, description=_told(twin), table=twin)


def small_picture(values: Values, ledger: Ledger, window: dict) -> Picture:
    """A picture of one run that stands beside another one; ``window`` is ``window_of`` both."""
    name, twin = in_words(values), _table([(values, ledger)])
    specs = _specs(ledger, {**window, "width": _SMALL})
    return together(specs, title=name, description=_told(twin), table=twin)


def _table(runs: Sequence[tuple[Values, Ledger]]) -> Table:
    columns = ("run", *TERMS, "lasts", "refusals")
    return Table("Runs", columns, tuple(_row(*run) for run in runs), frozenset(columns[1:]))


def _told(twin: Table) -> str:
    """The rows of ``twin`` as sentences."""
    rows = (", ".join(f"{name} {cell}" for name, cell in list(row.items())[1:]) for row in twin.records())
    return " ".join(f"{row[0]}: {told}." for row, told in zip(twin.rows, rows, strict=True))


def window_of(ledgers: list[Ledger]) -> dict:
    """Arguments of the charts: all of both runs in ns; short runs stand at their event numbers instead."""
    written = [ledger for ledger in ledgers if len(ledger)]
    if all(len(ledger) <= STEPS_UP_TO for ledger in written):
        return {}
    t0, t1 = min(ledger.start_ns for ledger in written), max(ledger.end_ns for ledger in written)
    return {"t0": t0, "t1": t1, "time": "ns"}


def _specs(ledger: Ledger, window: dict, name: str = "") -> list[dict]:
    seen = memory_map(ledger, **window, title=f"{name}memory map")
    if "mark" in seen.spec:  # a sentence: no addresses
        seen = use_over_time(ledger, **window, title=f"{name}use over time")
    terms = _terms(ledger)
    if terms is None:
        return [seen.spec]
    bar = account_bar(terms, title=f"{name}where the capacity went").spec
    return [narrower_bar(bar, window["width"]) if "width" in window else bar, seen.spec]


def _terms(ledger: Ledger) -> Terms | None:
    """The account over the whole run, None for a ledger without a resource or one that contradicts itself."""
    level = usual_level(ledger)
    try:
        return Account(ledger, level)() if level else None
    except BrokenLaw:
        return None


def _row(values: Values, ledger: Ledger) -> tuple[str, ...]:
    terms = _terms(ledger)
    shares = (percent(getattr(terms, name), terms.capacity) if terms else "no account" for name in TERMS)
    lasts = format_ns(ledger.end_ns - ledger.start_ns)
    return in_words(values), *shares, lasts, f"{len(ledger.serials(Refused)):,}"
