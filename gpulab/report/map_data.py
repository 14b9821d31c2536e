"""The content of a memory map, read from a ledger; ``charts`` draws it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpulab.report import glyphs
from gpulab.report.density import density
from gpulab.report.frame import Frame
from gpulab.report.legend import Legend, legend_of
from gpulab.report.lifetimes import Level, Lifetime, Lifetimes, lifetimes, resources, stacked
from gpulab.report.table import exact_size
from gpulab.telemetry.events import Opened
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_bytes, format_ns

HEIGHT = 300  # px inside the axes
ONE_BY_ONE = 1_000  # grants; more of them are thinner than a pixel or two
SLICES, BINS = 120, 32  # cells of the map of more grants: about 5 by 9 px each
_NAME_PX = 24  # a segment lower than this gets no name at the edge


@dataclass
class MapData:
    """Rows for each layer of the map, the axes, and the words that go with it."""

    view: Frame
    top: float
    y_title: str
    legend: Legend | None = None
    boxes: list[dict] = field(default_factory=list)
    grants: list[dict] = field(default_factory=list)
    pale: list[dict] = field(default_factory=list)
    cells: list[dict] = field(default_factory=list)
    labels: list[dict] = field(default_factory=list)
    refusals: list[dict] = field(default_factory=list)
    edge: list[dict] = field(default_factory=list)
    marks: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """The resource that a picture shows, and the one it lies in if any."""

    claims: Lifetimes
    outer: Lifetimes | None

    @property
    def name(self) -> str:
        return self.claims.opened.resource

    @property
    def unit(self) -> str:
        return self.claims.opened.unit

    @property
    def capacity(self) -> int:
        return (self.outer or self.claims).opened.capacity

    @cached_property
    def levels(self) -> list[Level]:
        return self.claims.levels()

    def size(self, units: int) -> str:
        """Rounded for reading."""
        return format_bytes(units) if self.unit == "B" else exact_size(units, self.unit)


def subject_of(ledger: Ledger, resource: str | None) -> Subject | None:
    """The resource by name, or the one opened last; None for a ledger without any.

    Raises:
        ValueError: the ledger has others, but not this one; the message names them.
    """
    known = resources(ledger)
    if not known:
        return None
    if resource is not None and resource not in known:
        raise ValueError(f"the ledger has no resource {resource!r}; it has {', '.join(map(repr, known))}")
    opened: Opened = known[resource] if resource is not None else list(known.values())[-1]
    outer = known.get(opened.inside)
    return Subject(lifetimes(ledger, opened), lifetimes(ledger, outer) if outer else None)


def map_data(subject: Subject, ledger: Ledger, view: Frame, mark: Sequence[int]) -> MapData:
    """Everything that the map of ``subject`` shows inside ``view``."""
    claims, outer = subject.claims, subject.outer
    grants = in_view(claims, view)
    segments = in_view(outer, view) if outer else []
    if outer:
        places = stacked([life for life in outer.claims if life.granted], grants)
        grants = [life for life in grants if life.claim in places]
    else:
        places = {life.claim: life.start for life in grants}
    top = max([subject.capacity] + [places[life.claim] + life.size for life in (*grants, *segments)])
    name = f"{outer.opened.resource} memory, segments stacked" if outer else "address"
    data = MapData(view, view.y(max(top, 1)), f"{name} ({view.y_unit})")
    data.boxes = glyphs.rectangles(segments[:ONE_BY_ONE], places, view, subject.unit, 0)
    if len(grants) > ONE_BY_ONE:
        _add_cells(data, grants, places, subject)
    else:
        _add_grants(data, grants, places, subject)
    data.refusals = glyphs.refused(claims, view, view.width / ((view.high - view.low) / view.x_step))
    if data.refusals:
        data.notes.append(
            "▼ a refused claim" if len(claims.refusals) == len(data.refusals) else "▼ refused claims"
        )
    if top > subject.capacity:  # a segment keeps its height while others below it come and go
        data.notes.append("heights are places in the stack, not bytes held: the line may lie below them")
    data.edge = _edge(subject, segments, places, view, data.top)
    data.marks = _marked(ledger, mark, view)
    return data


def in_view(claims: Lifetimes, view: Frame) -> list[Lifetime]:
    """The claims that hold something in the window."""
    return [life for life in claims.claims if life.granted and view.overlaps(life.granted, life.over)]


def words(subject: Subject, view: Frame) -> str:
    """The picture in sentences: how many, the peak, the end, the first refusal."""
    levels = [level for level in subject.levels if view.overlaps((level.serial, level.time_ns), None)]
    refusals = [
        (serial, fact)
        for serial, fact in subject.claims.refusals
        if view.overlaps((serial, fact.time_ns), (serial, fact.time_ns))
    ]
    capacity = exact_size(subject.capacity, subject.unit)
    grants = len(in_view(subject.claims, view))
    said = [f"{_count(grants, 'grant')}, {_count(len(refusals), 'refusal')}, capacity {capacity}."]
    if levels:
        peak, last = max(levels, key=lambda level: level.held), levels[-1]
        when = f"event #{peak.serial}, {format_ns(peak.time_ns)}"
        said.append(f"Most held: {subject.size(peak.held)} at {when}.")
        said.append(f"At the end: {subject.size(last.held)} held, {subject.size(last.waiting)} waiting.")
    if refusals:
        serial, fact = refusals[0]
        free, largest = subject.size(fact.free), subject.size(fact.largest)
        said.append(f"First refusal: event #{serial}, {free} free, longest stretch {largest}.")
    return " ".join(said)


def capacity_name(subject: Subject) -> str:
    """What stands at the capacity line."""
    return f"capacity {exact_size(subject.capacity, subject.unit)}"


def _add_grants(data: MapData, grants: list[Lifetime], places: dict[int, int], subject: Subject) -> None:
    view = data.view
    width, height = view.width * view.x_step / (view.high - view.low), HEIGHT / data.top
    data.legend, keys = legend_of(grants, subject.unit)
    narrowest = max(1, round(1.5 * view.x_step / width))
    data.grants = glyphs.rectangles(grants, places, view, subject.unit, narrowest)
    for row, life in zip(data.grants, grants, strict=True):
        row["key"] = keys[life.claim]
        row["edge"] = glyphs.edge(row, width, height)
    data.labels = glyphs.labels(data.grants, data.legend, width, height)
    data.pale = glyphs.unused(grants, places, view, height)
    if data.pale:
        data.notes.append("pale: granted, not used")


def _add_cells(data: MapData, grants: list[Lifetime], places: dict[int, int], subject: Subject) -> None:
    view = data.view
    spans = (
        (
            view.position(life.granted),
            view.position(life.over),
            places[life.claim],
            places[life.claim] + life.size,
        )
        for life in grants
    )
    cells = density(spans, window=(view.low, view.high), capacity=subject.capacity, slices=SLICES, bins=BINS)
    data.cells = glyphs.cells(cells, view, subject.unit)
    height = subject.size(-(-subject.capacity // BINS))
    data.notes.append(
        f"{len(grants):,} grants, too many to draw one by one: the shade is how full each {height} was"
    )
    data.notes.append("t0= and t1= show a part of the time, grant by grant")


def _edge(subject: Subject, segments: list[Lifetime], places, view: Frame, top: float) -> list[dict]:
    """Names at the right edge: the capacity, and the segments that are there at the end."""
    rows = [{"y": view.y(subject.capacity), "text": capacity_name(subject)}]
    for life in segments:
        if life.over is None and view.y(life.size) * HEIGHT / top >= _NAME_PX:
            name = f"segment #{life.granted[0]}: {exact_size(life.size, subject.unit)}"
            rows.append({"y": view.y(places[life.claim]) + view.y(life.size) / 2, "text": name})
    return rows


def _marked(ledger: Ledger, mark: Sequence[int], view: Frame) -> list[dict]:
    rows = []
    for serial in mark:
        if not 0 <= serial < len(ledger):
            raise ValueError(f"mark={serial}: the ledger has the facts #0 to #{len(ledger) - 1}")
        rows.append({"x": view.x((serial, ledger[serial].time_ns)), "text": f"#{serial}"})
    return rows


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
