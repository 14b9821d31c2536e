"""Pictures that stand together in one picture, and a line that goes through all of them.

Put together from finished specifications, so that each part looks as it does alone.
"""

from collections.abc import Sequence

from gpulab.report.picture import Picture
from gpulab.report.table import Table
from gpulab.report.together import joined


def together(specs: Sequence[dict], *, title: str, description: str, table: Table) -> Picture:
    """One picture of ``specs`` (of ``Picture.spec``), one below the other in this order."""
    spec = {"title": {"text": title}, **joined("vconcat", specs)}
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


def narrower_bar(spec: dict, width: int) -> dict:
    """``spec`` of an account bar at another width: names inside it go, the legend has them in its order."""
    kept = [layer for layer in spec["layer"] if layer["mark"]["type"] != "text"]
    colour = kept[0]["encoding"]["color"]
    colour = {**colour, "legend": {**colour["legend"], "columns": 2}}
    kept[0] = {**kept[0], "encoding": {**kept[0]["encoding"], "color": colour}}
    return {**spec, "width": width, "layer": kept}
