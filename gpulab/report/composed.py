"""Pictures that stand together in one picture, and a line that goes through all of them.

Put together from finished specifications, so that each part looks as it does alone.
"""

from collections.abc import Sequence

from gpulab.report.picture import Picture
from gpulab.report.table import Table

_ONCE = ("$schema", "config", "datasets", "description")  # said once for the whole, not by each part
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
    """``spec`` at another size, for pictures side by side. Text inside it goes: it was fitted to the old size.

    Names of events above it stay, and so do titles, axes and legends.
    """
    if "vconcat" in spec:
        return {**spec, "vconcat": [narrower(panel, width, height) for panel in spec["vconcat"]]}
    layers = [_two_columns(layer) for layer in spec.get("layer", ()) if not _inside_text(layer)]
    sized = {"width": width, "height": min(height, spec["height"])}
    return {**spec, **sized, "layer": layers} if layers else {**_two_columns(spec), **sized}


def _inside_text(layer: dict) -> bool:
    return layer["mark"]["type"] == "text" and "value" not in layer["encoding"].get("y", {})


def _two_columns(layer: dict) -> dict:
    colour = layer["encoding"].get("color", {})
    if not colour.get("legend"):
        return layer
    colour = {**colour, "legend": {**colour["legend"], "columns": 2}}
    return {**layer, "encoding": {**layer["encoding"], "color": colour}}
