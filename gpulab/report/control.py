"""What a notebook keeps of a control: its picture and its words, and in a live one the widget."""

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


def bundle(widget, text: str, still=None) -> tuple[dict, dict]:
    """Data and metadata by MIME type of a control that shows ``widget`` (None: ipywidgets is missing).

    ``text`` says the same in words, and so does ``still``, a picture. Beside a widget it stands as SVG alone:
    whoever reads the notebook without its kernel (nbconvert, nbval, print) sees that.
    """
    data, metadata = still._repr_mimebundle_() if still is not None else ({}, {})
    if widget is not None:
        data = {mime: value for mime, value in data.items() if mime == "image/svg+xml"}
        data[WIDGET_MIME] = widget._repr_mimebundle_()[WIDGET_MIME]
    data["text/plain"] = text
    return data, {mime: value for mime, value in metadata.items() if mime in data}


def drawn(picture) -> str:
    """``picture`` as HTML that scrolls where it is wider than its place."""
    return f'<div style="overflow-x:auto;background:white">{picture.svg()}</div>'
