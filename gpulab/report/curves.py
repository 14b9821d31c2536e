"""How pictures look that compare runs: curves and split bars. ``alt`` is Altair."""

from gpulab.report.drawing import INK, palette, rows_of

# Okabe and Ito, "Color Universal Design" (2008), of these the ones that stand out on white; dashes and
# shapes tell runs apart without colour.
_RUNS = ("#0072B2", "#D55E00", "#009E73", "#222222", "#CC79A7", "#666666")
_DASHES = ([1, 0], [8, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3])
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# alone, slowed, behind, blocked, outside; black text on all but the first
_PARTS = ("#0072B2", "#56B4E9", "#D55E00", "#CC79A7", "#DDDDDD")
_LETTER_PX, _BAR_PX = 6.5, 20


def distribution(
    alt, curve: dict[str, list[dict]], slo: float | None, *, scale: str, x_title: str, width: int
):
    """Steps from 0 to 100 %, one a run; the promise as a dashed line."""
    x = alt.X(
        "x:Q", scale=alt.Scale(type=scale, nice=scale == "log"), axis=alt.Axis(title=x_title, tickCount=6)
    )
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(title="at most so long (% of requests)"))
    layers = [_named(alt, curve, "step-after").encode(x=x, y=y, **_told_apart(alt, curve))]
    if slo is not None:
        line = rows_of(alt, [{"x": slo}]).mark_rule(strokeDash=[6, 3], color=INK, aria=False)
        layers.append(line.encode(x=x))
    return alt.layer(*layers).properties(width=width, height=200)


def against_rate(alt, series: dict[str, list[dict]], *, width: int):
    """Lines with a shape at each point; the dotted line is y = x."""
    most = max(number for rows in series.values() for row in rows for number in row.values()) or 1
    right = max(row["x"] for rows in series.values() for row in rows) or 1
    top = max(row["y"] for rows in series.values() for row in rows) or 1
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, right]), axis=alt.Axis(title="rate (requests/s)"))
    y = alt.Y(
        "y:Q", scale=alt.Scale(domain=[0, min(most, 1.1 * top)]), axis=alt.Axis(title="goodput (requests/s)")
    )
    end = min(right, 1.1 * top, most)
    ideal = rows_of(alt, [{"x": 0, "y": 0}, {"x": end, "y": end}])
    hue = palette(alt, "run", series, _RUNS[: len(series)], None)
    rows = [{**row, "run": name} for name, points in series.items() for row in points]
    shape = alt.Shape(
        "run:N", scale=alt.Scale(domain=list(series), range=list(_SHAPES[: len(series)])), sort=None
    )
    points = rows_of(alt, rows).mark_point(filled=True, size=60, opacity=1, aria=False)
    return alt.layer(
        ideal.mark_line(strokeDash=[1, 3], color=INK, aria=False).encode(x=x, y=y),
        _named(alt, series, "linear").encode(x=x, y=y, color=hue),
        points.encode(x=x, y=y, color=hue, shape=shape, tooltip=["run:N", "x:Q", "y:Q"]),
    ).properties(width=width, height=220)


def split_bars(
    alt, parts: tuple[str, ...], bars: list[tuple[str, list[int]]], step: int, *, x_title: str, width: int
):
    """A bar of parts each; a part with room carries its name."""
    longest = max(sum(split) for _, split in bars) or 1
    rows, names = [], []
    for name, split in bars:
        done = 0
        for part, ns in zip(parts, split, strict=True):
            row = {"x": done / step, "x2": (done + ns) / step, "bar": name, "key": part}
            rows += [row] if ns else []
            if ns * width / longest > _LETTER_PX * (len(part) + 1):
                names.append({"x": (done + ns / 2) / step, "bar": name, "key": part})
            done += ns
    x = alt.X("x:Q", axis=alt.Axis(title=x_title), scale=alt.Scale(domain=[0, longest / step]))
    order = alt.Scale(domain=list(dict.fromkeys(name for name, _ in bars)), paddingInner=0.15)
    y = alt.Y("bar:N", sort=None, scale=order, axis=alt.Axis(title=None, labelLimit=110, ticks=False))
    ink = alt.condition(f"datum.key == '{parts[0]}'", alt.value("white"), alt.value("black"))
    bar = rows_of(alt, rows).mark_bar(stroke="white", aria=False)
    text = rows_of(alt, names).mark_text(aria=False)
    return alt.layer(
        bar.encode(
            x=x, x2="x2:Q", y=y, color=palette(alt, "key", parts, _PARTS, None), tooltip=["bar:N", "key:N"]
        ),
        text.encode(x=x, y=y, text="key:N", color=ink),
    ).properties(width=width, height=max(_BAR_PX * len(bars), 46))


def _named(alt, series: dict[str, list[dict]], shape: str):
    rows = [{**row, "run": name} for name, points in series.items() for row in points]
    return rows_of(alt, rows).mark_line(interpolate=shape, aria=False)


def _told_apart(alt, series: dict) -> dict:
    """Colour and dash of each run, in one legend of pieces of the lines."""
    names = list(series)
    dashes = alt.Scale(domain=names, range=[list(dash) for dash in _DASHES[: len(names)]])
    hue = palette(alt, "run", names, _RUNS[: len(names)], None)
    key = alt.Legend(title=None, columns=hue["legend"]["columns"], symbolType="stroke", symbolSize=500)
    return {
        "color": hue.legend(key),
        "strokeDash": alt.StrokeDash("run:N", scale=dashes, sort=None, legend=key),
    }
