"""A learner's notebook on the form grader's page: to be read, never to be run.

The page stands in the instructor's own Jupyter session. A script in it could give marks, read the course and start a
kernel, so nothing of a learner's notebook reaches it as code: what may stand there is listed, and the rest is text.
"""

import base64
import html
import re

from bleach import clean
from bleach.css_sanitizer import CSSSanitizer
from jinja2 import pass_context
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import List

from autograder.feedback import as_written

_TAGS = (
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "div", "span", "blockquote", "details", "summary"),
    *("a", "b", "i", "em", "strong", "small", "s", "del", "sub", "sup", "code", "pre", "kbd", "mark", "img"),
    *("ul", "ol", "li", "dl", "dt", "dd", "figure", "figcaption"),
    *("table", "caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr", "th", "td"),
)
# No id and no class: the page finds its own boxes for marks by them.
_ATTRIBUTES = ("style", "title", "alt", "align", "colspan", "rowspan", "scope", "start", "open")
_LINK = re.compile(r"https?://|mailto:|#")
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
_PICTURES = ("image/png", "image/jpeg", "image/gif")
_SHOWN = ("text/plain", "text/markdown", "text/latex", *_PICTURES)
_LONGEST, _LONGEST_SOURCE = (
    50_000,
    20_000,
)  # characters; Markdown and highlighting can take the square of a text
_GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")


def harmless(text: str) -> str:
    """``text`` with the HTML that can only be looked at; every other tag becomes text that says what it was."""
    if len(text) > _LONGEST:  # cleaning takes the square of what is nested
        return html.escape(text)
    return clean(
        text,
        tags=_TAGS,
        attributes=_may_stay,
        protocols=("http", "https", "mailto", "data"),
        css_sanitizer=CSSSanitizer(),
    )


def _may_stay(tag: str, name: str, value: str) -> bool:
    if name in ("href", "src"):
        pattern = {"a": _LINK.match, "img": _PICTURE.fullmatch}.get(tag)
        return pattern is not None and bool(pattern(value.strip()))
    return name in _ATTRIBUTES


@pass_context
def markdown(context, source: str) -> str:
    """Jinja's filter in the place of nbconvert's ``markdown2html``: the same page without what could run."""
    attached = context.get("cell", {}).get("attachments", {})
    if len(source) > _LONGEST_SOURCE:
        return as_written(source)
    renderer = IPythonRenderer(escape=False, attachments=attached, exclude_anchor_links=True)
    try:
        return harmless(MarkdownWithMath(renderer=renderer).render(source))
    except Exception:  # a picture that was not handed in, and whatever else the renderer stumbles over
        return as_written(source)


def code(source: str, metadata: object = None) -> str:
    """Jinja's filter in the place of ``highlight_code``: Python, whatever language the notebook names."""
    return (
        as_written(source)
        if len(source) > _LONGEST_SOURCE
        else Highlight2HTML(pygments_lexer="ipython3")(source)
    )


class Harmless(NbGraderPreprocessor):
    """The notebook with outputs that can only be looked at. What the judge said (metadata ``gpulab``) stays as it is."""

    display_data_priority = List(config=True)

    def preprocess(self, nb, resources):
        """The notebook, and ``resources`` with the learner's id and path as they may stand in HTML."""
        nb.metadata = NotebookNode()
        for name in ("student", "first_name", "last_name", "notebook_path"):
            if resources.get(name):
                resources[name] = html.escape(str(resources[name]))
        for cell in nb.cells:
            if cell.cell_type == "raw":  # which the template would write out as it stands
                cell.source = html.escape(cell.source)
            frame = cell.metadata.get("nbgrader")
            known = frame is not None and _GRADE_ID.fullmatch(str(frame.get("grade_id", "")))
            cell.metadata = NotebookNode({"nbgrader": frame} if known else {})
            if cell.cell_type == "code":
                cell.outputs = [_looked_at(output) for output in cell.outputs]
        return nb, resources


def _looked_at(output):
    if "data" not in output or "exercise" in output.get("metadata", {}).get("gpulab", {}):
        return output
    given, kept = output.data, {}
    for kind in _SHOWN:
        if kind in given and (kind not in _PICTURES or _is_base64(given[kind])):
            kept[kind] = given[kind]
    if "text/html" in given:
        kept["text/html"] = harmless(given["text/html"])
    if "image/svg+xml" in given:  # as a picture no script in it runs
        drawn = base64.b64encode(given["image/svg+xml"].encode()).decode()
        kept["text/html"] = f'<img alt="a picture" src="data:image/svg+xml;base64,{drawn}">'
    kept = kept or {"text/plain": "What was shown here would run, and is left out."}
    output.data, output.metadata = NotebookNode(kept), NotebookNode()
    return output


def _is_base64(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", text) is not None
