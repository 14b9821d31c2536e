"""Pictures, tables and sentences in HTML, each with its name and its words."""

from collections.abc import Callable, Iterator
from html import escape

from gpulab.errors import GpulabError
from gpulab.report.picture import Picture
from gpulab.report.table import Table


def drawn(title: str, draw: Callable[[], Picture]) -> Iterator[str]:
    """A picture with its words and its table, or why there is none."""
    try:
        picture = draw()
        svg = picture.svg()
    except (GpulabError, ValueError, ArithmeticError) as wrong:
        yield said(f"No picture of {title}: {wrong}")
        return
    words = escape(picture.description)
    yield (
        f'<figure aria-label="{escape(picture.title)}">\n{svg}\n<figcaption>{words}</figcaption>\n'
        f"<details><summary>The same as a table: {escape(picture.title)}</summary>\n{framed(picture.table())}\n"
        f"</details>\n</figure>"
    )


def framed(twin: Table) -> str:
    """A table that scrolls by itself when it is wider than the page, also by keyboard."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{escape(twin.caption)}">{twin._repr_html_()}</div>'


def said(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"
