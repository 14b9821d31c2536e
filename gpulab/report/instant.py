"""One instant of a ledger: what happened, who held what, and the five terms. Needs no widget.

``at(ledger, event=17)`` is what ``widgets.scrub`` shows when its slider stands at #17.
"""

from bisect import bisect_right
from dataclasses import dataclass

from gpulab.errors import BrokenLaw
from gpulab.report.account import TERMS, Account, Terms, levels
from gpulab.report.charts import account_bar, lanes, memory_map, use_over_time
from gpulab.report.composed import together, with_line
from gpulab.report.frame import frame
from gpulab.report.glyphs import percent
from gpulab.report.lifetimes import resources
from gpulab.report.picture import Picture
from gpulab.report.table import Table, exact_size, fact_row, fact_table, owners_of
from gpulab.telemetry.events import Claimed
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

_AROUND = 3  # facts shown before and after the one that happened


@dataclass(frozen=True)
class Instant:
    """An instant in every form: sentences, the five terms, the facts around it, a picture.

    ``event`` is the last fact that had happened (None in an empty ledger), ``said`` that fact in words, ``account``
    the terms in words, ``terms`` None without a resource. Shows as its picture in a notebook.
    """

    event: int | None
    time_ns: int
    said: str
    account: str
    terms: Terms | None
    facts: Table
    picture: Picture

    def table(self) -> Table:
        """The facts around the instant; the arrow is at the last that had happened."""
        return self.facts

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.said, self.account, repr(self.facts))))

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """The picture's, with the facts in the text. ``include`` and ``exclude`` filter by MIME type."""
        data, metadata = self.picture._repr_mimebundle_(include, exclude)
        return {**data, "text/plain": repr(self)} if "text/plain" in data else data, metadata


class Scene:
    """A ledger from which any instant can be had quickly: what does not change with time is drawn once.

    ``levels`` names the levels to choose from, ``level`` is the one shown, None when nothing was opened.

    Cost: one pass over the ledger here; an instant then costs a search and the drawing.

    Raises:
        ValueError: the ledger has no such level; the message lists them.
    """

    def __init__(self, ledger: Ledger, level: str | None = None) -> None:
        self.ledger = ledger
        self.levels = levels(ledger)
        self._opened = resources(ledger)
        self._owners = owners_of(ledger)
        self._account, self._broken = None, ""
        self.level = level or usual_level(ledger)
        if self.level:
            try:
                self._account = Account(ledger, self.level)
            except BrokenLaw as wrong:
                self._broken = str(wrong)
        self._specs = self._views(self._shown_resource())
        self._view = frame(ledger, t0=None, t1=None, time="auto", capacity=1, unit="")

    def at(self, *, event: int | None = None, time_ns: int | None = None) -> Instant:
        """The instant after fact ``event``, or at ``time_ns``; the end of the run when neither is given.

        Outside the run: its first or last instant, and the sentence says so.
        """
        if not len(self.ledger):
            said, facts = "The ledger is empty: there is no instant to show.", fact_table("No facts", ())
            return Instant(
                None,
                0,
                said,
                "",
                None,
                facts,
                together(self._specs, title="Ledger", description=said, table=facts),
            )
        event, time_ns, beyond = self._inside(event, time_ns)
        said = f"{beyond}{self._sentence(event, time_ns)}"
        known = self._account and time_ns >= self._account.start_ns
        terms = self._account.at(time_ns) if known else None
        account, facts, specs = self._in_words(terms), self._around(event), self._specs
        x = self._view.x((event, time_ns))
        specs = [spec if "mark" in spec else with_line(spec, x) for spec in specs]
        if terms:
            last = self.event_at(time_ns)  # the account knows whole instants, not the order within one
            same = ", the last event at this time" if last != event else ""
            title = f"Account of {self.level} after #{last}{same}"
            specs.insert(0, account_bar(terms, title=title).spec)
        picture = together(specs, title=said, description=account, table=facts)
        return Instant(event, time_ns, said, account, terms, facts, picture)

    def event_at(self, time_ns: int) -> int:
        """The last fact that had happened at ``time_ns``; the first one before the run."""
        return max(0, bisect_right(self.ledger, time_ns, key=lambda fact: fact.time_ns) - 1)

    def _shown_resource(self) -> str | None:
        """The resource whose map belongs to the level."""
        if not self.level:
            return None
        outer, inner = self.level.split("→")
        within = [name for name, opened in self._opened.items() if opened.inside == outer]
        return within[0] if within and inner == "extent" else outer

    def _inside(self, event: int | None, time_ns: int | None) -> tuple[int, int, str]:
        """Event and time inside the run, and what to say when others were asked for."""
        ledger = self.ledger
        if event is not None:
            kept = min(max(event, 0), len(ledger) - 1)
            beyond = f"There is no #{event}: the ledger has #0 to #{len(ledger) - 1}. "
            return kept, ledger[kept].time_ns, beyond if kept != event else ""
        asked = ledger.end_ns if time_ns is None else time_ns
        kept = min(max(asked, ledger.start_ns), ledger.end_ns)
        beyond = f"{asked:,} ns is outside the run, {ledger.start_ns:,} to {ledger.end_ns:,} ns. "
        return self.event_at(kept), kept, beyond if kept != asked else ""

    def _views(self, resource: str | None) -> list[dict]:
        """The pictures over time that have something to show: lanes of streams, map, use; at least a sentence."""
        drawn = [lanes(self.ledger, time="auto")]
        if not resource or self.ledger.serials(Claimed) or "mark" in drawn[0].spec:
            drawn.append(memory_map(self.ledger, resource))
            drawn += [use_over_time(self.ledger, resource)] if resource else []
        specs = [picture.spec for picture in drawn]
        return [spec for spec in specs if "mark" not in spec] or specs[-1:]

    def _sentence(self, event: int, time_ns: int) -> str:
        name, _, kind, claim, owner, *rest = fact_row(event, self.ledger[event], self._owners)
        whose = " of ".join(filter(None, (claim and f"claim {claim}", owner)))
        return f"{name}, {format_ns(time_ns)}: {', '.join(filter(None, (kind, whose, *rest)))}."

    def _in_words(self, terms: Terms | None) -> str:
        if terms is None:
            return self._broken or (f"{self.level} is not there yet." if self.level else "")
        unit = self._opened[self.level.split("→")[0]].unit
        parts = (
            f"{name} {exact_size(getattr(terms, name), unit)} ({percent(getattr(terms, name), terms.capacity)})"
            for name in TERMS
        )
        return f"{self.level}: {', '.join(parts)}."

    def _around(self, event: int) -> Table:
        ledger = self.ledger
        near = range(max(0, event - _AROUND), min(len(ledger), event + _AROUND + 1))
        rows = []
        for serial in near:
            name, *rest = fact_row(serial, ledger[serial], self._owners)
            rows.append((f"→ {name}" if serial == event else name, *rest))
        return fact_table(f"Facts around #{event}", rows)


def usual_level(ledger: Ledger) -> str | None:
    """The level at which a refusal is read: the resource opened last, looked through to its device.

    None when nothing was opened.
    """
    last = next(reversed(resources(ledger).values()), None)
    return f"{last.inside or last.resource}→extent" if last else None


def at(
    ledger: Ledger, *, event: int | None = None, time_ns: int | None = None, level: str | None = None
) -> Instant:
    """The instant after fact ``event``, or at ``time_ns``: what happened, the map with a line, use, the five terms.

    Neither: the end of the run. The account is that of the end of the instant, after everything that happened
    in the same nanosecond. ``level`` is one of ``account.levels(ledger)``; None takes the resource opened
    last. Many instants of one ledger are had more quickly from one ``Scene``.

    Raises:
        ValueError: no such level. ImportError: Altair is not installed.
    """
    return Scene(ledger, level).at(event=event, time_ns=time_ns)
