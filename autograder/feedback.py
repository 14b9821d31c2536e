"""What a learner reads: the judge's words in the check cells, and the page they stand on."""

import ast
import builtins
import html
import re
from collections.abc import Callable
from functools import lru_cache
from typing import final

from jinja2 import BytecodeCache, pass_context
from nbconvert.exporters import HTMLExporter, TemplateExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from traitlets import List

from autograder.exporters import Uncopied
from autograder.sandbox import UNSAFE, UNSAFE_NOTE

_MATHJAX = re.compile(r"<!-- Load mathjax -->.*?<!-- End of mathjax configuration -->", re.DOTALL)
_FONTS = re.compile(r"@font-face\s*\{[^{}]*\}")  # of nbgrader's style sheet; no such files come with a page
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; form-action 'none'; base-uri 'none'\">"
)
_STYLE = "<style>.jp-OutputArea-output pre, .output_area pre { white-space: pre-wrap; overflow-wrap: anywhere; word-break: normal; }</style>\n"


def outputs_of(score, points: float, note: str = "", grade: float | None = None) -> list:
    """The outputs of a check cell: the judge's feedback, then a number that nbgrader reads as the grade.

    Args:
        score: the judge's ``Score``: ``exercise, points, max_points, tag, text, html, typed_name``. Its
            ``html`` is escaped already. points: what the cell is worth; the grade is cut to 0 ... points.
        note: a sentence of the run itself (a dead kernel, a cell put back), shown first.
        grade: what counts in this cell, if that is not the score's own points: the better of two exercises.

    nbgrader (utils.determine_grade) takes the first ``execute_result`` that is a number, and 0 as soon as
    there is an error or a line on stderr; hence this order and nothing else.
    """
    most = float(points) or float(score.max_points)  # a cell of 0 points: its exercise stands for another's
    own = min(max(float(score.points), 0.0), most)
    grade = min(max(own if grade is None else float(grade), 0.0), float(points))
    said = f"<p><strong>{html.escape(note)}</strong></p>" if note else ""
    mark = {
        "exercise": score.exercise,
        "points": own,
        "max": most,
        "tag": score.tag,
        "typed_name": None if score.typed_name is None else _whole(score.typed_name),
    }
    shown = new_output(
        "display_data",
        data={
            "text/html": _whole(said + score.html),
            "text/plain": _whole(f"{note}\n{score.text}" if note else score.text),
        },
        metadata={"gpulab": mark},
    )
    number = new_output("execute_result", data={"text/plain": f"{grade:.6g}"}, execution_count=None)
    return [shown, number]


def _whole(text: str) -> str:
    """``text`` with '?' for half characters, which an answer can hold and no file."""
    return text.encode(errors="replace").decode()


SEEN = "graded-inputs-seen"
"""Tag of a cell that ran when the learner's code had been asked about graded inputs."""
TOO_LONG = "CellTimeoutError"
"""The kind of the error that nbgrader adds to a cell that was interrupted because it went on for too long."""
_LEFT_OUT = "What this cell showed is left out here: by then your code had seen inputs that are graded."


_KINDS = (
    "NameError",
    "SyntaxError",
    "IndentationError",
    "TypeError",
    "ValueError",
    "AttributeError",
    "IndexError",
)
_KINDS += (
    "KeyError",
    "ZeroDivisionError",
    "AssertionError",
    "NotImplementedError",
    "ImportError",
    "RecursionError",
)


class HideGradedInputs(NbGraderPreprocessor):
    """What a learner's code showed after it had been asked about graded inputs, out of the feedback page.

    It may hold them, and the page is the only thing that comes back from grading. Of an error its kind is left when it
    is one of Python's own; the judge's words stay.
    """

    display_data_priority = List(config=True)

    def preprocess_cell(self, cell, resources, cell_index):
        """The cell with a sentence in the place of what it showed."""
        outputs = cell.get("outputs", [])
        if SEEN in cell.metadata.get("tags", []) and "execution_count" in cell:
            cell.execution_count = None  # which the kernel says, and so the learner's code
        judged = any("exercise" in output.get("metadata", {}).get("gpulab", {}) for output in outputs)
        if SEEN not in cell.metadata.get("tags", []) or judged or not outputs:
            return cell, resources
        kinds = [output.ename for output in outputs if output.output_type == "error"]
        # One on a page, of a few: a name that is chosen says something, too.
        named = [kind for kind in kinds if kind in _KINDS and not resources.get("gpulab_kind_named")]
        resources["gpulab_kind_named"] = resources.get("gpulab_kind_named") or bool(named)
        ended = f"\nIt ended with {named[0] if named else 'an exception'}." if kinds else ""
        if TOO_LONG in kinds:
            ended = "\nIt went on for longer than a cell may when it is graded, and was stopped."
        if named and issubclass(getattr(builtins, named[0]), SyntaxError):
            ended += _misspelt(cell.source)
        cell.outputs = [new_output("stream", name="stdout", text=f"{_LEFT_OUT}{ended}\n")]
        return cell, resources


def _misspelt(source: str) -> str:
    """Where ``source`` is no Python and why, read anew: what the cell itself showed may hold anything."""
    try:
        ast.parse(source)
    except SyntaxError as wrong:
        return f"\nLine {wrong.lineno}: {wrong.msg}"
    except (ValueError, RecursionError, MemoryError, SystemError):
        pass
    return ""


class HideHiddenTests(ClearHiddenTests):
    """Hidden tests of an instructor's own cells, out of the feedback page.

    nbgrader leaves them in, with the traceback that quotes them. Here the region goes, and of an error in
    such a cell only its kind is left: even its message may hold the value that was expected.
    """

    # nbconvert's HTML exporter sets this for every preprocessor; without the trait each page logs a warning.
    display_data_priority = List(config=True)

    def preprocess_cell(self, cell, resources, cell_index):
        """The cell without its hidden tests."""
        if self.begin_test_delimeter not in cell.source:
            return cell, resources
        self._remove_hidden_test_region(cell)
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                output.evalue = "a test did not pass"
                output.traceback = [f"{output.ename}: a test did not pass"]
        return cell, resources


def waits(grade) -> bool:
    """Does this row of the gradebook wait for a person, who has given no mark yet?"""
    return bool(grade.needs_manual_grade) and grade.manual_score is None


class NoteUnread(NbGraderPreprocessor):
    """Which written answers a person has not marked yet, for ``FeedbackPage``: nbgrader shows a 0 for them."""

    display_data_priority = List(config=True)

    def preprocess(self, nb, resources):
        """The notebook as it is; in ``resources`` the grade ids with their points."""
        place = resources["nbgrader"]
        with Gradebook(place["db_url"]) as gradebook:
            entry = gradebook.find_submission_notebook(
                place["notebook"], place["assignment"], place["student"]
            )
            place["unread"] = {grade.name: grade.max_score for grade in entry.grades if waits(grade)}
        return nb, resources


@final
class Remembered:
    """What pages before this one showed for a text: most cells are the release's, and the same for the whole class."""

    def __init__(self, most: int = 500, longest: int = 20_000) -> None:
        self._made: dict[tuple, str] = {}
        self._most, self._longest = most, longest

    def of(self, key: tuple, make: Callable[[], str]) -> str:
        """What ``make`` made for ``key``, whose last part is the text."""
        if key in self._made:
            return self._made[key]
        made = make()
        if len(key[-1]) <= self._longest:
            if len(self._made) == self._most:
                self._made.clear()
            self._made[key] = made
        return made


_MADE = Remembered()


class FeedbackPage(HTMLExporter, Uncopied):
    """nbgrader's feedback page as one file that loads nothing and runs nothing.

    The template fetches MathJax from a content network whatever the configuration says, and a notebook's
    outputs may hold scripts that would run before an instructor's eyes: MathJax is taken out of the head,
    and a policy in the page forbids every script and every request.
    """

    def from_notebook_node(self, nb, resources=None, **options):
        """The page and its resources.

        ``HTMLExporter`` parses the finished page once more, for the attributes of ``reachable``: that took half of
        the time of grading that is neither the learner's nor the judge's. A test holds the two pages equal.
        """
        resources, self._work = self._init_resources(resources), 0
        kept = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        language = nb.metadata.get("language_info", {})
        lexer = language.get("pygments_lexer", language.get("name"))
        self.register_filter("highlight_code", self._highlight(lexer))
        self.register_filter("filter_data_type", kept)
        page, resources = TemplateExporter.from_notebook_node(self, nb, resources, **options)
        page = _MATHJAX.sub("", page, count=1)  # the head comes first, so nobody's output is cut
        head, body, rest = page.partition("<body")
        # Such a tag could send whoever reads to another page, or have one opened.
        page = _FONTS.sub("", head) + body + _ACTIVE.sub("&lt;", rest)
        page = _unread(named(reachable(page)), resources.get("nbgrader", {}).get("unread", {}))
        if nb.metadata.get("gpulab", {}).get("sandbox") == UNSAFE:
            page = re.sub(r"<body[^>]*>", rf"\g<0>\n<p><strong>{UNSAFE_NOTE}</strong></p>", page, count=1)
        return page.replace("<head>", f"<head>\n{_POLICY}", 1).replace(
            "</head>", f"{_STYLE}</head>", 1
        ), resources

    @pass_context
    def markdown2html(self, context, source):
        """As ``HTMLExporter``'s, from memory where it can be; as it is written where that fails or would take too long."""
        if self._too_much(source):
            return as_written(source)

        def make() -> str:
            return super(FeedbackPage, self).markdown2html(context, source)

        try:
            attached = context.get("cell", {}).get("attachments")
            return make() if attached else _MADE.of(("markdown", source), make)
        except Exception:  # a picture that was not handed in, and whatever else the renderer stumbles over
            return as_written(source)

    def _too_much(self, text: str) -> bool:
        if self._work + len(text) ** 2 > MOST_WORK:
            return True
        self._work += len(text) ** 2
        return False

    def _highlight(self, lexer: str | None) -> Callable[..., str]:
        plain = Highlight2HTML(pygments_lexer=lexer, parent=self)

        def highlight(source, language=None, metadata=None):
            if self._too_much(source):
                return f'<div class="highlight">{as_written(source)}</div>'
            if "magics_language" in (metadata or {}):  # whatever a learner's own cell says there
                return plain(source, language, metadata)
            key = ("code", lexer, language, source)
            return _MADE.of(key, lambda: plain(source, language, metadata))

        return highlight

    def _create_environment(self):
        environment = super()._create_environment()
        environment.bytecode_cache = _compiled()
        return environment


def as_written(text: str) -> str:
    """``text`` as HTML that shows it letter by letter."""
    return f"<pre>{html.escape(text)}</pre>"


@final
class Compiled(BytecodeCache):
    """The code of templates that this process has compiled before; each page has an environment of its own."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket) -> None:
        """Put the code into ``bucket``, if it is there."""
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket) -> None:
        """Keep the code of ``bucket``."""
        self._code[bucket.key] = bucket.bytecode_to_string()


@lru_cache(maxsize=1)
def _compiled() -> Compiled:
    return Compiled()


_ACTIVE = re.compile(r"<(?=(?:meta|iframe|frame|object|embed|link|base)\b)", re.IGNORECASE)
MOST_WORK = (
    10**9
)  # characters of a text, squared, over a page: Markdown and highlighting can take the square of a text
_WRAPPER = re.compile(r'<div class="(?:[^"]* )?(?:jp-Cell-inputWrapper|jp-OutputArea-output)(?: [^"]*)?"')
_NO_ALT = re.compile(r"<img (?![^<>]*\balt=)")


def reachable(page: str) -> str:
    """``page`` with what the keyboard and a screen reader need: cells take the focus, no picture is without words."""
    page = _WRAPPER.sub(r'\g<0> tabindex="0"', page)
    return _NO_ALT.sub('<img alt="No description has been provided for this image" ', page)


def named(page: str) -> str:
    """``page`` with each entry of the list at its top by its cell's name; nbgrader calls them all *Test cell* or *Comment*."""
    page = re.sub(r'(<li><a href="#([^"]+)">)Test cell</a>', r"\1\2</a>", page)
    return re.sub(r'(<li><a href="#comment-([^"]+)">)Comment</a>', r"\1\2: comment</a>", page)


def _unread(page: str, waiting: dict[str, float]) -> str:
    """``page`` with *to be read by a person* where nbgrader's template says that what nobody has read is worth 0."""
    for name, points in waiting.items():
        said, link = f"to be read by a person: {points:g} points", re.escape(f'<a href="#{name}">')
        page = re.sub(rf"({link}[^<]*</a>) \(Score: [^)]*\)", rf"\1 ({said})", page, count=1)
        start = page.find(f'<a name="{name}"></a>')
        head, cell = page[:start], page[start:]
        page = head + re.sub(r"Score: [\d. /]+(?=<a href=\"#top\">)", f"{said} ", cell, count=1)
    if waiting:
        page = re.sub(r"(<h4>[^<]*Score: [^)]*)\)", r"\1, without what a person will read)", page, count=1)
    return page


def refusal_page(lab: str, reason: str) -> str:
    """The page of a learner whose submission could not be graded: what was found and what to do."""
    lab, reason = html.escape(lab), html.escape(reason)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{_POLICY}\n<meta charset="utf-8">\n<title>{lab}</title>\n'
        "<style>body { font: 16px/1.5 sans-serif; max-width: 42em; margin: 2em auto; }</style>\n</head>\n"
        f"<body>\n<h1>{lab}: not graded</h1>\n<p>{reason}</p>\n"
        "<p>What you handed in is kept as it came. Once that is mended, hand it in again: it will be graded as usual.</p>\n"
        "</body>\n</html>\n"
    )
