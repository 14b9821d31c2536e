"""Pictures that stand together in one picture, and a line that goes through all of them.

Put together from finished specifications, so that each part looks as it does alone.
"""

from collections.abc import Sequence

from gpulab.report.picture import Picture
from gpulab.report.table import Table

_ONCE = ("$schema", "config", "datasets", "description")  # said once for the whole, not by each part
_LETTER_PX, _LINE_PX = 6.5, 14  # room of a letter and of a line of text of 11 px
_OWN = ("color", "strokeWidth", "shape", "opacity")  # each part keeps its own colours and legend


def together(specs: Sequence[dict], *, title: str, description: str, table: Table) -> Picture:
    """One picture of ``specs`` (of ``Picture.spec``), one below the other in this order."""
    spec = {
        "title": {"text": title},
        "vconcat": [{key: part for key, part in spec.items() if key not in _ONCE} for spec in specs],
        "spacing": 24,
        "resolve": {"scale": dict.fromkeys(_OWN, "independent")},
        "config": specs[0]["config"],
        "datasets": {name: rows for spec in specs for name, rows in spec.get("datasets", {}).items()},
    }
    return Picture(spec, title=title, description=description, table=table)


def with_line(spec: dict, x: float) -> dict:
    """``spec`` with a line from top to bottom at ``x``, in the units of the axis, in every panel."""
    if "vconcat" in spec:
        return {**spec, "vconcat": [with_line(panel, x) for panel in spec["vconcat"]]}
    if "layer" not in spec:
        inner = {key: spec[key] for key in ("data", "mark", "encoding")}
        spec = {**{key: part for key, part in spec.items() if key not in inner}, "layer": [inner]}
    line = {
        "data": {"values": [{"x": x}]},
        "mark": {"type": "rule", "strokeWidth": 2, "color": "#222222", "aria": False},
        "encoding": {"x": spec["layer"][0]["encoding"]["x"]},
    }
    return {**spec, "layer": [*spec["layer"], line]}


def narrower(spec: dict, width: int, height: int) -> dict:
    """``spec`` (of ``Picture.spec``) at another size, for pictures side by side.

    Names inside rectangles stay where they still fit, names at the right edge and in bars go (the legend has
    them); titles, axes, and names of events above the picture stay.
    """
    return _resized(spec, spec.get("datasets", {}), width, height)


def _resized(spec: dict, datasets: dict, width: int, height: int) -> dict:
    if "vconcat" in spec:
        return {**spec, "vconcat": [_resized(panel, datasets, width, height) for panel in spec["vconcat"]]}
    sized = {**spec, "width": width, "height": min(height, spec["height"])}
    if "layer" not in spec:
        return _two_columns(sized)
    fitted = (
        _still_fitting(layer, spec["layer"], datasets, sized) if _stands_inside(layer) else layer
        for layer in spec["layer"]
    )
    return {**sized, "layer": [_two_columns(layer) for layer in fitted if layer]}


def _stands_inside(layer: dict) -> bool:
    return layer["mark"]["type"] == "text" and "value" not in layer["encoding"].get("y", {})


def _still_fitting(text: dict, layers: list[dict], datasets: dict, size: dict) -> dict | None:
    """The layer ``text`` with the names whose rectangle has room for them, None when nothing stays."""
    boxes = [row for layer in layers if layer["mark"]["type"] == "rect" for row in _rows(layer, datasets)]
    rooms = {}
    for row in boxes:
        if {"x", "x2", "y", "y2"} <= row.keys():
            middle = (row["x"] + row["x2"]) / 2, (row["y"] + row["y2"]) / 2
            rooms[middle] = row["x2"] - row["x"], row["y2"] - row["y"]
    kept = []
    for row in _rows(text, datasets):
        wide, high = rooms.get((row.get("x"), row.get("y")), (0, 0))
        letters = wide * _px_per_unit(text, "x", size["width"]) / _LETTER_PX - 1
        if letters >= len(row.get("text", "")) and high * _px_per_unit(text, "y", size["height"]) >= _LINE_PX:
            kept.append(row)
    return {**text, "data": {"values": kept}} if kept else None


def _rows(layer: dict, datasets: dict) -> list[dict]:
    data = layer.get("data", {})
    return data.get("values") or datasets.get(data.get("name"), [])


def _px_per_unit(layer: dict, axis: str, length: int) -> float:
    low, high = layer["encoding"].get(axis, {}).get("scale", {}).get("domain", (0, 0))
    return length / (high - low) if high > low else 0.0


def _two_columns(layer: dict) -> dict:
    """``layer`` with a legend for half the width."""
    colour = layer["encoding"].get("color", {})
    if not colour.get("legend"):
        return layer
    colour = {**colour, "legend": {**colour["legend"], "columns": 2}}
    return {**layer, "encoding": {**layer["encoding"], "color": colour}}
