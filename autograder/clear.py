"""From source to release: the preprocessors that take solutions and answers out of a notebook."""

import ast
import io
import tokenize

from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_solution

from autograder.notebooks import make_plain

_MARK = "# ANSWER"
_OPEN = "# your answer"
_NEVER_RELEASED = (_MARK, "BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS")


def _marked_lines(source: str) -> dict[int, int]:
    """Line number and column of each comment that is the mark and nothing else."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.start[1]
        for token in tokens
        if token.type == tokenize.COMMENT and token.string.strip() == _MARK
    }


def _values_ending_on(tree: ast.Module, line: int) -> list[ast.expr]:
    """The values of ``name=value`` that end on ``line``, the outermost ones."""
    values = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword | ast.Assign | ast.AnnAssign)
        and node.value is not None
        and node.value.end_lineno == line
    ]
    inner = {id(below) for value in values for below in ast.walk(value) if below is not value}
    return [value for value in values if id(value) not in inner]


def hide_answers(source: str) -> str:
    """``source`` with every ``name=value`` before ``# ANSWER`` turned into ``name=None  # your answer``.

    The value may be any expression and may span lines; the mark stands on the line where it ends.
    ``RuntimeError`` when a mark has no ``name=value`` before it, ``SyntaxError`` when a cell does not parse.
    """
    tree, marks = ast.parse(source), _marked_lines(source)
    lines = [line.encode() for line in source.split("\n")]  # ast counts columns in UTF-8 bytes
    spans = []
    for line in marks:
        values = _values_ending_on(tree, line)
        if not values:
            raise RuntimeError(f"Line {line} is marked {_MARK} but no `name=value` ends on it:\n{source}")
        spans += [(v.lineno - 1, v.col_offset, v.end_lineno - 1, v.end_col_offset) for v in values]
    for line in marks:
        text = lines[line - 1].decode()
        lines[line - 1] = text[: text.rindex(_MARK)].encode() + _OPEN.encode()
    for first, start, last, end in sorted(spans, reverse=True):
        lines[first : last + 1] = [lines[first][:start] + b"None" + lines[last][end:]]
    released = b"\n".join(lines).decode()
    ast.parse(released)
    return released


class ClearAnswers(ClearSolutions):
    """nbgrader's ClearSolutions, which also knows answers at the top level of a cell.

    A solution cell with marked answers keeps its text; only the marked values become ``None``.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        """The cell without its solution."""
        if cell.cell_type != "code" or _MARK not in cell.source:
            return super().preprocess_cell(cell, resources, cell_index)
        if not is_solution(cell):
            raise RuntimeError(f"{_MARK} stands in a cell that is not a solution cell:\n{cell.source}")
        cell.source = hide_answers(cell.source)
        if self.begin_solution_delimeter in cell.source:
            return super().preprocess_cell(cell, resources, cell_index)
        return cell, resources


class TidyNotebook(NbGraderPreprocessor):
    """A source notebook without versions, widget state or timings."""

    def preprocess(self, nb, resources):
        """The notebook with plain metadata."""
        make_plain(nb)
        return nb, resources


class NoSolutionLeft(NbGraderPreprocessor):
    """The last look at a release: it fails rather than hand out a mark of a solution or an output."""

    def preprocess_cell(self, cell, resources, cell_index):
        """The cell as it is. ``RuntimeError`` when something is left that is not for learners."""
        left = [mark for mark in _NEVER_RELEASED if mark in cell.source]
        if cell.get("outputs") or cell.get("attachments"):
            left.append("an output or an attachment")
        if left:
            raise RuntimeError(f"Cell {cell_index} would be released with {', '.join(left)}:\n{cell.source}")
        return cell, resources
