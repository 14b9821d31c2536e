"""How pictures over time look that are no memory map: lanes, step lines, stacked terms. ``alt`` is Altair."""

import json
from dataclasses import dataclass, field

from gpulab.report.activity import NAMED, Activity
from gpulab.report.drawing import INK, SHADES, TERMS, heading, names_at_edge, palette, rows_of, time_axis
from gpulab.report.frame import Frame

_LANE_PX, _LOWEST_PX, _HIGHEST_PX = 22, 60, 330
_TIPS = ("lane", "key", "what", "from", "until")
_DASHES = ([1, 0], [6, 3], [2, 2])


@dataclass
class Panel:
    """One plot of a stack: lines over time by name, the first filled; ``edge`` as in ``names_at_edge``."""

    y_title: str
    series: dict[str, list[dict]]
    top: float
    height: int
    colours: tuple[str, ...]
    edge: list[dict] = field(default_factory=list)
    filled: bool = True  # False: lines only, dashed apart


def lanes(alt, activity: Activity, bars: list[dict], names: list[dict], view: Frame, *, title: str):
    """Parts one by one: a rectangle each, as high as its kind says."""
    count = max(1, len(activity.lanes))
    height = min(max(count * _LANE_PX, _LOWEST_PX), _HIGHEST_PX)
    x, y = time_axis(alt, view), _lane_axis(alt, activity.lanes)
    kinds = [kind for kind in activity.kinds if any(row["key"] == kind[0] for row in bars)]
    hue = palette(alt, "key", [name for name, *_ in kinds], [colour for _, colour, _ in kinds], None)
    tips = [alt.Tooltip(f"{name}:N") for name in _TIPS]
    rects = rows_of(alt, bars).mark_rect(aria=False)
    layers = [rects.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=hue, tooltip=tips)]
    if names:
        text = rows_of(alt, names).mark_text(color="black", aria=False)
        layers.append(text.encode(x=x, y=y, text="text:N"))
    notes = [f"height: {', '.join(name for name, *_ in kinds)}, from thin to thick"] if len(kinds) > 1 else []
    chart = alt.layer(*layers).properties(width=view.width, height=height)
    return chart.properties(title=heading(alt, title, notes, view.width))


def full_lanes(alt, activity: Activity, cells: dict, view: Frame, *, title: str, notes: list[str]):
    """Too many parts to draw one by one: for each kind a panel of how full each box was."""
    shade = palette(alt, "tenths", range(1, 11), SHADES, "tenths of the box")
    panels, last = [], list(cells)[-1]
    for kind, (count, rows) in cells.items():
        y = _lane_axis(alt, activity.lanes if count == len(activity.lanes) else [""] * count, kind)
        box = {"x": time_axis(alt, view, bare=kind != last), "x2": "x2:Q", "y": y, "y2": "y2:Q"}
        chart = rows_of(alt, rows).mark_rect(aria=False).encode(**box, color=shade, tooltip="tenths:N")
        panels.append(chart.properties(width=view.width, height=_HIGHEST_PX // (len(cells) + 1)))
    return under_each_other(alt, panels, view, title=title, notes=notes)


def stacked(alt, rows: list[dict], view: Frame, *, top: float, y_title: str, spans: list[dict] = ()):
    """The five terms on top of each other; each row has the upper edge of each term.

    ``spans`` are thin lines from ``low`` to ``high``.
    """
    x, scale = time_axis(alt, view, bool(spans)), alt.Scale(domain=[0, top], nice=False)
    axis = alt.Axis(title=y_title)
    colours = [colour for colour, _ in TERMS.values()]
    layers = [_keys(alt, TERMS, colours, x, alt.Y("y:Q", axis=axis, scale=scale))]
    below = None
    for name, colour in zip(TERMS, colours, strict=True):
        area = rows_of(alt, rows).mark_area(interpolate="step-after", opacity=1, color=colour, aria=False)
        y2 = alt.datum(0) if below is None else f"{below}:Q"
        layers.append(area.encode(x=x, y=alt.Y(f"{name}:Q", axis=axis, scale=scale), y2=y2))
        if below:  # an edge tells neighbours apart without colour
            line = rows_of(alt, rows).mark_line(
                interpolate="step-after", color=INK, strokeWidth=0.5, aria=False
            )
            layers.append(line.encode(x=x, y=alt.Y(f"{below}:Q", scale=scale)))
        below = name
    if spans:
        rule = rows_of(alt, spans).mark_rule(color=INK, strokeWidth=0.5, aria=False)
        layers.append(rule.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"))
    return alt.layer(*layers).properties(width=view.width, height=200)


def steps(alt, panels: list[Panel], view: Frame, *, keyed: bool = True) -> list:
    """Panels over the same time: in each an area, and lines on it. ``keyed``: with a legend."""
    names = [name for panel in panels for name in panel.series]
    colours = [colour for panel in panels for colour in panel.colours]
    drawn = []
    for panel in panels:
        x = time_axis(alt, view, bare=panel is not panels[-1])
        axis = alt.Axis(title=panel.y_title, tickCount=4)
        y = alt.Y("y:Q", axis=axis, scale=alt.Scale(domain=[0, panel.top]))
        layers = [_keys(alt, names, colours, x, y)] if keyed else []
        for number, rows in enumerate(panel.series.values()):
            shape = {"interpolate": "step-after", "color": panel.colours[number], "aria": False}
            if number or not panel.filled:
                dash = [1, 0] if panel.filled else _DASHES[number]
                mark = rows_of(alt, rows).mark_line(**shape, strokeWidth=1.2, strokeDash=dash)
            else:
                mark = rows_of(alt, rows).mark_area(
                    **shape, opacity=1, line={"strokeWidth": 0.8, "color": panel.colours[number]}
                )
            layers.append(mark.encode(x=x, y=y))
        if panel.edge:
            layers += names_at_edge(alt, panel.edge, y, view)
        drawn.append(alt.layer(*layers).properties(width=view.width, height=panel.height))
    return drawn


def under_each_other(alt, charts: list, view: Frame, *, title: str, notes: list[str]):
    """``charts`` as one, with a title."""
    return alt.vconcat(*charts, spacing=8).properties(title=heading(alt, title, notes, view.width))


def _keys(alt, names, colours, x, y):
    """A layer that draws nothing and brings the legend: rows need not repeat the name of their series."""
    spot = [{"x": x["scale"]["domain"][0], "y": 0, "key": name} for name in names]
    hue = palette(alt, "key", names, colours, None)
    return rows_of(alt, spot).mark_rect(width=0, height=0, aria=False).encode(x=x, y=y, color=hue)


def _lane_axis(alt, lanes: list[str], title: str | None = None):
    """Lane 0 at the top; names while there is room for them, else numbers in order."""
    scale = alt.Scale(domain=[0, len(lanes)], reverse=True, nice=False)
    if len(lanes) > (NAMED if title is None else 6):
        words = title or "number in order"
        return alt.Y("y:Q", scale=scale, axis=alt.Axis(title=words, tickMinStep=1, format="d"))
    names = f"{json.dumps(lanes)}[floor(datum.value)]"
    middles = [lane + 0.5 for lane in range(len(lanes))]
    axis = alt.Axis(title=title, values=middles, labelExpr=names, labelLimit=110, ticks=False, grid=False)
    return alt.Y("y:Q", scale=scale, axis=axis)
