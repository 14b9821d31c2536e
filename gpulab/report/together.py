"""Pictures that stand together: linked by one selection of time, or two runs side by side.

Both work on the finished specifications, so every picture over time can be part of them.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy

from gpulab.report.picture import Picture
from gpulab.report.table import Table

_SELECTION = "time"  # the one name a specification has for it: nothing is numbered by a library
_OWN = ("$schema", "config", "datasets", "description")  # what only a whole specification has
_CHANNELS = ("color", "shape", "strokeDash")  # each picture keeps its colours and its legend
_BESIDE_PX = 320  # plots up to so wide fit beside each other into a notebook


def linked(*pictures: Picture, title: str = "One time, several pictures") -> Picture:
    """``pictures`` below each other; in JupyterLab, dragging over the first shows that time in the others.

    A double click on the first shows all of the time again. Elsewhere (SVG, print) the pictures stand still.
    All of them have to be drawn over the same axis: pass each the same ``time``, ``t0`` and ``t1``.

    Raises:
        ValueError: fewer than two pictures, or their time axes differ.
    """
    if len(pictures) < 2:
        raise ValueError(f"{len(pictures)} pictures: two or more can be linked")
    axes = {_time_axis(picture) for picture in pictures}
    if len(axes) > 1 or None in axes:
        told = "; ".join(f"{picture.title}: {_words(_time_axis(picture))}" for picture in pictures)
        raise ValueError(
            f'these pictures have no common time axis ({told}). Draw each with time="ns" and the same t0 and t1.'
        )
    still = joined("vconcat", [picture.spec for picture in pictures])
    moving = deepcopy(still)
    for number, part in enumerate(moving["vconcat"]):
        for plot in _plots(part):
            if number == 0:
                _select(plot)
            else:
                _follow(plot)
    how = "In JupyterLab, drag over the first picture: the others show that time. "
    words = how + " ".join(f"{picture.title}: {picture.description}" for picture in pictures)
    return Picture(moving, title=title, description=words, table=_tables(title, pictures), still=still)


def side_by_side(left: Picture, right: Picture, *, title: str = "Two runs side by side") -> Picture:
    """Two pictures of two runs on the same scales, so that what looks longer is longer.

    Pictures drawn with ``width=300`` stand beside each other, wider ones below each other. Axes share a
    scale where they have the same name and unit.
    """
    both = [deepcopy(left), deepcopy(right)]
    for channel in ("x", "y"):
        _share(channel, [picture.spec for picture in both])
    narrow = all(plot.get("width", 0) <= _BESIDE_PX for picture in both for plot in _plots(picture.spec))
    words = " ".join(f"{picture.title}: {picture.description}" for picture in both)
    spec = joined("hconcat" if narrow else "vconcat", [picture.spec for picture in both])
    return Picture(spec, title=title, description=words, table=_tables(title, both))


def joined(how: str, specs: Sequence[dict]) -> dict:
    """One specification of several (``how``: ``"vconcat"`` or ``"hconcat"``), with the data of all and the theme of the first."""
    datasets = {name: rows for spec in specs for name, rows in spec.get("datasets", {}).items()}
    parts = [deepcopy({name: value for name, value in spec.items() if name not in _OWN}) for spec in specs]
    own = {part: dict.fromkeys(_CHANNELS, "independent") for part in ("scale", "legend")}
    theme = specs[0].get("config", {})
    return {"config": theme, "datasets": datasets, how: parts, "spacing": 24, "resolve": own}


def _plots(node: dict) -> Iterator[dict]:
    """The plots of a specification: single ones and layered ones, not what they are made of."""
    parts = node.get("vconcat") or node.get("hconcat")
    if parts is None:
        yield node
    else:
        for part in parts:
            yield from _plots(part)


def _layers(plot: dict) -> list[dict]:
    return plot.get("layer", [plot])


def _scales(plot: dict, channel: str) -> Iterator[tuple[str, dict]]:
    """Title and scale of each encoding of ``channel`` with a stated domain of numbers."""
    for layer in _layers(plot):
        encoding = layer.get("encoding", {}).get(channel, {})
        scale = encoding.get("scale") or {}
        numbers = [isinstance(end, int | float) for end in scale.get("domain", ())]
        if len(numbers) == 2 and all(numbers):
            yield str((encoding.get("axis") or {}).get("title") or ""), scale


def _time_axis(picture: Picture) -> tuple[str, float, float] | None:
    """Name and ends of the time axis; None without one."""
    found = [
        (title, *scale["domain"]) for plot in _plots(picture.spec) for title, scale in _scales(plot, "x")
    ]
    return next((axis for axis in found if axis[0].startswith(("time", "event"))), None)


def _words(axis: tuple[str, float, float] | None) -> str:
    return "no time axis" if axis is None else f"{axis[0]}, {axis[1]:g} to {axis[2]:g}"


def _select(plot: dict) -> None:
    """An interval of time can be dragged over this plot. A layer on top of all others holds it, so it is seen."""
    x = next(
        (x for x in (layer.get("encoding", {}).get("x", {}) for layer in _layers(plot)) if "field" in x), None
    )
    if x is None:
        return
    if "layer" not in plot:
        plot["layer"] = [{part: plot.pop(part) for part in ("data", "mark", "encoding") if part in plot}]
    look = {"fill": "#222222", "fillOpacity": 0.15, "stroke": "#222222", "strokeWidth": 1.5}
    select = {"type": "interval", "encodings": ["x"], "mark": look}
    plot["layer"].append(
        {
            "data": {"values": [{"x": x["scale"]["domain"][0]}]},
            "mark": {"type": "point", "opacity": 0, "aria": False},
            "encoding": {"x": deepcopy(x)},
            "params": [{"name": _SELECTION, "select": select}],
        }
    )


def _follow(plot: dict) -> None:
    """This plot shows the selected time, and nothing of it outside its frame."""
    chosen = f"{_SELECTION}.x"
    for _, scale in _scales(plot, "x"):
        for name, number, end in zip(("domainMin", "domainMax"), (0, 1), scale.pop("domain"), strict=True):
            scale[name] = {"expr": f"{chosen} ? {chosen}[{number}] : {end!r}"}
    for layer in _layers(plot):
        encoding = layer.get("encoding", {})
        if "field" not in encoding.get("x", {}):
            continue
        if "value" in encoding.get("y", {}):  # on top of the frame, where clipping would hide it
            layer["transform"] = [{"filter": f"{chosen} ? inrange(datum.x, {chosen}) : true"}]
        else:
            layer["mark"] = {**layer["mark"], "clip": True}


def _share(channel: str, specs: list[dict]) -> None:
    """Scales of the same title get the domain that holds both."""
    found: dict[str, list[dict]] = {}
    for spec in specs:
        names = [name for plot in _plots(spec) for name, _ in _scales(plot, channel) if name]
        for plot in _plots(spec):
            for name, scale in _scales(plot, channel):
                found.setdefault(name or (names[0] if channel == "x" and names else ""), []).append(scale)
    for name, scales in found.items():
        if name:
            low, high = (pick(scale["domain"][end] for scale in scales) for pick, end in ((min, 0), (max, 1)))
            for scale in scales:
                scale["domain"] = [low, high]


def _tables(title: str, pictures) -> Table:
    """The tables of all, one below the other, each row with the picture that it belongs to."""
    rows = [
        (picture.title, "; ".join(f"{name}: {cell}" for name, cell in record.items()))
        for picture in pictures
        for record in picture.table().records()
    ]
    return Table(title, ("picture", "row"), tuple(rows))
