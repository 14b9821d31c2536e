"""How pictures look: layers, axes, colours and the one theme. ``alt`` is Altair, imported here and late.

White ground, text of 11 px and more, nothing that differs between two runs: no parameters and no clips,
which get running numbers from their libraries.
"""

from textwrap import wrap

from gpulab.report.frame import WIDTH, Frame
from gpulab.report.map_data import HEIGHT, MapData
from gpulab.report.picture import Picture
from gpulab.report.table import Table
from gpulab.startup import skip_slow_grammar

# Okabe and Ito, "Color Universal Design" (2008), and whose loss each term is (architecture, section 2).
TERMS = {
    "used": ("#0072B2", "nobody's"),
    "stranded": ("#E69F00", "allocation"),
    "fragmented": ("#D55E00", "allocation, placement"),
    "unscheduled": ("#CC79A7", "scheduling"),
    "spare": ("#DDDDDD", "nobody's here: look elsewhere"),
}
SERIES = {"held": "#A6CEE3", "used": "#0072B2", "waiting": "#D55E00"}
INK, GREY = "#222222", "#666666"
SHADES = (
    *("#E6EEF7", "#D2E1F1", "#BBD3E9", "#A0C4E1", "#82B1D7"),
    *("#649DCC", "#4888BF", "#2F72B0", "#1B5C9C", "#08306B"),
)
_FONT = "Liberation Sans, Arial, sans-serif"  # the first is built into vl-convert, the second as wide
_LEGEND_PX, _KEY_PX, _LETTER_PX = 640, 34, 6.5  # room of a legend, of its square, of a letter
_LETTER_SHARE = 1.3  # per cent of the bar that a letter of a name needs
_NOTE_LETTERS = 90  # of the notes that fit into one line under the title
_TIPS = ("event", "claim", "owner", "size", "asked", "address", "from", "until")


def memory_map(alt, data: MapData, title: str):
    """The chart of a memory map."""
    view = data.view
    y_scale = alt.Scale(domain=[0, data.top], nice=False)
    x, y = time_axis(alt, view), alt.Y("y:Q", axis=alt.Axis(title=data.y_title), scale=y_scale)
    box = {"x": x, "x2": "x2:Q", "y": y, "y2": "y2:Q"}
    tips = [alt.Tooltip(f"{name}:N") for name in _TIPS]
    ground = rows_of(alt, data.boxes).mark_rect(fill="#F2F2F2", aria=False)
    layers = [ground.encode(**box, tooltip=tips)]  # also without boxes: an empty map has its axes
    if data.grants:
        hue = palette(alt, "key", data.legend.keys, data.legend.colours, data.legend.title)
        edge = alt.StrokeWidth("edge:Q", scale=None)
        rects = rows_of(alt, data.grants).mark_rect(stroke="white", aria=False)
        layers.append(rects.encode(**box, color=hue, strokeWidth=edge, tooltip=tips))
    if data.pale:
        layers.append(rows_of(alt, data.pale).mark_rect(fill="white", opacity=0.6, aria=False).encode(**box))
    if hidden := _crossing(data.grants):  # one would hide a part of the other, edges and all
        both = {"filled": False, "strokeWidth": 1.5, "aria": False}  # seen on light and on dark
        for edge in ({"stroke": "white"}, {"stroke": INK, "strokeDash": [4, 3]}):
            layers.append(rows_of(alt, hidden).mark_rect(**both, **edge).encode(**box))
    if data.cells:
        shade = palette(alt, "tenths", range(1, 11), SHADES, "tenths held")
        cells = rows_of(alt, data.cells).mark_rect(aria=False)
        layers.append(cells.encode(**box, color=shade, tooltip=alt.Tooltip("words:N", title="cell")))
    if data.boxes:
        thick = 1.5 if len(data.boxes) <= 16 else 0.7
        outline = rows_of(alt, data.boxes).mark_rect(filled=False, stroke=INK, strokeWidth=thick, aria=False)
        layers.append(outline.encode(**box))
    if data.labels:
        text = rows_of(alt, data.labels).mark_text(aria=False)
        layers.append(text.encode(x=x, y=y, text="text:N", color=alt.Color("ink:N", scale=None)))
    layers += names_at_edge(alt, data.edge, y, view) + _events_on_top(alt, data, x)
    return alt.layer(*layers).properties(
        width=view.width, height=HEIGHT, title=heading(alt, title, data.notes, view.width)
    )


def _crossing(rects: list[dict]) -> list[dict]:
    """Those of ``rects`` that share a place with another one, which only a broken allocator grants."""
    ordered, found = sorted(rects, key=lambda row: row["x"]), set()
    for n, one in enumerate(ordered):
        for m in range(n + 1, len(ordered)):
            other = ordered[m]
            if other["x"] >= one["x2"]:
                break
            if max(one["y"], other["y"]) + 1e-9 < min(one["y2"], other["y2"]):
                found |= {n, m}
    return [{name: ordered[n][name] for name in ("x", "x2", "y", "y2")} for n in sorted(found)]


def use_panels(alt, series: dict[str, list[dict]], view: Frame, edge: list[dict], *, top: float, title: str):
    """Held and used against the capacity; waiting below. ``series`` may have ``segments``, drawn dotted."""
    x, bare = time_axis(alt, view), time_axis(alt, view, bare=True)
    y = alt.Y("y:Q", axis=alt.Axis(title=f"held ({view.y_unit})"), scale=alt.Scale(domain=[0, top]))
    wait = alt.Y("y:Q", axis=alt.Axis(title=f"waiting ({view.y_unit})", tickCount=3))
    hue = palette(alt, "series", SERIES, SERIES.values(), None)
    notes = []
    panels = {
        name: rows_of(alt, [{**row, "series": name} for row in series[name]])
        .mark_area(interpolate="step-after", opacity=1, aria=False, line={"strokeWidth": 0.8})
        .encode(x=x if name == "waiting" else bare, y=wait if name == "waiting" else y, color=hue)
        for name in SERIES
    }
    upper = [panels["held"], panels["used"]]
    if "segments" in series:
        notes.append("dotted: held by the segments")
        line = rows_of(alt, series["segments"]).mark_line(
            interpolate="step-after", color=INK, strokeDash=[2, 2], aria=False
        )
        upper.append(line.encode(x=bare, y=y))
    return alt.vconcat(
        alt.layer(*upper, *names_at_edge(alt, edge, y, view)).properties(width=view.width, height=170),
        panels["waiting"].properties(width=view.width, height=70),
        spacing=8,
    ).properties(title=heading(alt, title, notes, view.width))


def term_bar(alt, rows: list[dict], title: str):
    """One bar of the five terms; a name stands in its part where it has room."""
    hue = palette(alt, "key", [row["key"] for row in rows], [colour for colour, _ in TERMS.values()], None)
    x = alt.X("x:Q", axis=alt.Axis(title="share of the capacity (%)"), scale=alt.Scale(domain=[0, 100]))
    bar = rows_of(alt, rows).mark_rect(stroke="white", aria=False)
    wide = [row for row in rows if row["x2"] - row["x"] > _LETTER_SHARE * len(row["term"]) + 1]
    ink = alt.condition("datum.term == 'used'", alt.value("white"), alt.value("black"))
    text = rows_of(alt, wide).mark_text(aria=False).encode(x="middle:Q", text="term:N", color=ink)
    chart = alt.layer(bar.encode(x=x, x2="x2:Q", color=hue, tooltip="key:N"), text)
    return chart.properties(width=WIDTH, height=46, title=heading(alt, title, []))


def sentence(alt, title: str, text: str):
    """A chart that says in words why nothing is drawn."""
    mark = rows_of(alt, [{"text": text}]).mark_text(fontSize=13, color=INK, aria=False)
    return mark.encode(text="text:N").properties(width=WIDTH, height=60, title=heading(alt, title, []))


def altair():
    """Altair, imported on first use and without the slow grammar.

    Raises:
        ImportError: it is not installed; the message gives the command.
    """
    skip_slow_grammar()
    try:
        import altair
    except ImportError as missing:
        raise ImportError(
            'Pictures need Altair, which is not installed here: pip install "gpulab[lab]"'
        ) from missing
    return altair


def picture(chart, title: str, description: str, twin: Table) -> Picture:
    """``chart`` in the theme, with its words and its table."""
    return Picture(specification(chart), title=title, description=description, table=twin)


def say(title: str, text: str, twin: Table) -> Picture:
    """The picture that says in a sentence why nothing is drawn."""
    return picture(sentence(altair(), title, text), title, text, twin)


def specification(chart) -> dict:
    """The Vega-Lite specification of ``chart`` in the theme."""
    text = {"labelFontSize": 11, "titleFontSize": 12, "labelColor": INK, "titleColor": INK}
    plain = {"titleFontWeight": "normal", "labelFont": _FONT, "titleFont": _FONT}
    title = {"anchor": "start", "fontSize": 14, "color": INK, "offset": 10}
    return chart.configure(
        background="white",
        padding={
            "left": 5,
            "top": 5,
            "right": 30,
            "bottom": 5,
        },  # names at the edge, in a browser's wider font
        font=_FONT,
        axis={**text, **plain, "gridColor": "#E8E8E8", "labelFlush": False},
        legend={**text, **plain, "orient": "bottom", "labelLimit": 170, "symbolType": "square", "offset": 8},
        title={**title, "subtitleFontSize": 12, "subtitleColor": GREY},
        text={"fontSize": 11},
        view={"stroke": "#BBBBBB"},
    ).to_dict()


def _events_on_top(alt, data: MapData, x) -> list:
    """Marked events as lines, refusals as triangles, and the numbers of both."""
    layers = []
    if data.marks:
        rules = rows_of(alt, data.marks).mark_rule(strokeDash=[2, 2], color=INK, strokeWidth=1.5, aria=False)
        layers.append(rules.encode(x=x))
    if data.refusals:
        glyph = rows_of(alt, data.refusals).mark_point(
            shape="triangle-down", filled=True, color=INK, opacity=1, size=60, aria=False
        )
        layers.append(glyph.encode(x=x, y=alt.value(-7), tooltip=alt.Tooltip("words:N", title="refused")))
    marked = {row["text"] for row in data.marks}
    names = data.marks + [row for row in data.refusals if row["text"] and row["text"] not in marked]
    if names:
        text = rows_of(alt, names).mark_text(color=INK, aria=False)
        layers.append(text.encode(x=x, y=alt.value(-20), text="text:N"))
    return layers


def names_at_edge(alt, rows: list[dict], y, view: Frame) -> list:
    """The capacity (first row) as a line, and every row as text at the right edge."""
    line = rows_of(alt, rows[:1]).mark_rule(strokeDash=[6, 3], color=INK, aria=False).encode(y=y)
    names = rows_of(alt, rows).mark_text(align="left", dx=6, color=INK, aria=False)
    return [line, names.encode(x=alt.value(view.width), y=y, text="text:N")]


def time_axis(alt, view: Frame, bare: bool = False):
    """The x axis of a picture over time; ``bare`` where another panel below has the words."""
    whole = {"format": "d", "tickMinStep": 1} if view.counts_events else {}
    axis = alt.Axis(title=None, labels=False, ticks=False) if bare else alt.Axis(title=view.x_title, **whole)
    scale = alt.Scale(domain=[view.low / view.x_step, view.high / view.x_step], nice=False)
    return alt.X("x:Q", axis=axis, scale=scale)


def palette(alt, name: str, keys, colours, title: str | None):
    """Colour by the field ``name``; the legend takes the columns for which it has room."""
    scale = alt.Scale(domain=list(keys), range=list(colours))
    widest = max((len(str(key)) for key in keys), default=1)
    columns = max(1, int(_LEGEND_PX / (_KEY_PX + _LETTER_PX * min(widest, 25))))
    return alt.Color(f"{name}:N", scale=scale, sort=None, legend=alt.Legend(title=title, columns=columns))


def heading(alt, text: str, notes: list[str], width: int = WIDTH):
    """The title; notes share a line under it while they fit, and long ones take several."""
    if not notes:
        return alt.TitleParams(text)
    line, most = " · ".join(notes), _NOTE_LETTERS * width // WIDTH
    if len(line) <= most:
        return alt.TitleParams(text, subtitle=line)
    return alt.TitleParams(text, subtitle=[part for note in notes for part in wrap(note, most + 10)])


def rows_of(alt, rows: list[dict]):
    """A chart of ``rows`` that says nothing yet of how they look."""
    return alt.Chart({"values": rows})  # a plain dict: Altair would check every row of its own type
