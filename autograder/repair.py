"""What other tools do to a notebook on its way here is undone, where no guess is needed; each repair is said.

A repair never touches what somebody wrote: it restores the form of the file and which released cell is which.
"""

import json
import re
import warnings
from collections import Counter

from autograder.walk import nesting

_MARKS = re.compile(
    r"^[ \t]*(?:(?:async )?(?:def|class) +(\w+)|(\w+)\([ \n]*[\"'](\d\d\.[\w-]+)[\"'])", re.MULTILINE
)


_DEEPEST = 100  # values in each other; the labs' own notebooks have 15
_MANY = 5_000_000  # characters of output that are worth a word


class Unreadable(Exception):
    """This cannot be graded as a notebook; the text says why."""


def repaired(content: bytes, released: list[dict]) -> tuple[dict, list[str]]:
    """The notebook in ``content`` as JSON of nbformat 4, without outputs, and what was done to it.

    Args:
        released: the cells of the release, as JSON; [] when it is not known.

    Raises:
        Unreadable: nothing that can be repaired without guessing.
    """
    text, notes = _decoded(content)
    del content  # it may be a flood of output, and a class is read in one process
    nb = _parsed(text)
    nb, upgraded = _upgraded(nb, text)
    notes += upgraded
    notes += _tidied(nb, len(text))
    notes += _named_again(nb["cells"], released)
    return nb, notes


def _decoded(content: bytes) -> tuple[str, list[str]]:
    """The text of a file: UTF-8, or UTF-16 with a mark that says so."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            try:
                shown = "byte order mark removed" if name == "utf-8-sig" else "UTF-16 read as such"
                return content.decode(name), [shown]
            except UnicodeDecodeError:
                break
    try:
        return content.decode("utf-8"), []
    except UnicodeDecodeError as error:
        raise Unreadable(f"cannot be read as UTF-8 text ({error})") from None


def _parsed(text: str) -> dict:
    if not text.strip():
        raise Unreadable(f"is empty ({len(text.encode())} bytes)")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not JSON: {error}") from None
    if nesting(found) > _DEEPEST:  # what nbformat and nbconvert do with it goes deeper at each level
        raise Unreadable(f"is no notebook that Jupyter writes: more than {_DEEPEST} values lie in each other")
    return found


def _upgraded(nb: object, text: str) -> tuple[dict, list[str]]:
    """``nb`` in nbformat 4: one of version 3 is converted as Jupyter itself does it."""
    if not isinstance(nb, dict):
        raise Unreadable(f"is JSON but not a notebook: it holds a {type(nb).__name__}")
    if type(nb.get("nbformat")) is not int or type(nb.get("nbformat_minor")) is not int:
        raise Unreadable("is JSON but not a notebook: it does not say its nbformat")
    if nb["nbformat"] == 4:
        return nb, []
    if nb["nbformat"] != 3:
        raise Unreadable(f"has nbformat {nb['nbformat']}; this course works with 4, and can convert 3")
    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = nbformat.reads(text, as_version=4, capture_validation_error={})
    except Exception as error:  # it raises whatever the content makes it stumble over
        raise Unreadable(f"has nbformat 3 and cannot be converted ({error})") from None
    return json.loads(json.dumps(made)), ["nbformat 3 converted to 4"]


def _tidied(nb: dict, length: int) -> list[str]:
    """Line endings, ids, states of widgets and outputs; the cells must be cells. ``length``: of the file's text."""
    if not isinstance(nb.get("metadata"), dict) or not isinstance(nb.get("cells"), list):
        raise Unreadable("is JSON but not a notebook: it has no list of cells, or no metadata")
    notes, lines, characters = [], 0, 0
    for number, cell in enumerate(nb["cells"], 1):
        fault = _not_a_cell(cell)
        if fault:
            raise Unreadable(f"is JSON but not a notebook: cell {number} {fault}")
        source = "".join(cell["source"])
        lines += "\r" in source
        cell["source"] = source.replace("\r\n", "\n").replace("\r", "\n")
        if cell["cell_type"] == "code":
            characters += _characters(cell.get("outputs")) if length > _MANY else 0
            cell["outputs"], cell["execution_count"] = [], None
    if lines:
        notes.append(f"line endings of {lines} cells made plain")
    if characters > _MANY:
        notes.append(f"{characters:,} characters of stored output left out")
    if nb["metadata"].pop("widgets", None) is not None:
        notes.append("stored state of widgets left out")
    given = [cell.get("id") for cell in nb["cells"]]
    twice = sum(count - 1 for name, count in Counter(map(str, given)).items() if name != "None")
    if None in given:
        notes.append(f"{given.count(None)} cells had lost their ids")
        for number, cell in enumerate(nb["cells"]):
            cell.setdefault("id", f"lost-{number}")
    if twice:
        notes.append(f"{twice} cells had the id of another one")
    nb["nbformat_minor"] = 5
    return notes


def _characters(stored: object) -> int:
    """How many characters the texts in ``stored`` have, however deep they lie."""
    total, rest = 0, [stored]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, list | dict):
            rest.extend(one if isinstance(one, list) else one.values())
    return total


def _not_a_cell(cell: object) -> str:
    if not isinstance(cell, dict):
        return f"is a {type(cell).__name__}"
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        return f"has the type {cell.get('cell_type')!r}"
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        return "has a source that is not text"
    if not isinstance(cell.get("metadata"), dict):
        return "has no metadata"
    tags = cell["metadata"].get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return "has tags that are not a list of words"
    return ""


def grade_id(cell: dict) -> str:
    """The grade id that a cell says it has; '' when it says none."""
    claimed = cell["metadata"].get("nbgrader")
    name = claimed.get("grade_id") if isinstance(claimed, dict) else None
    return name if isinstance(name, str) else ""


def _named_again(cells: list[dict], released: list[dict]) -> list[str]:
    """Released cells that lost nbgrader's metadata get their grade id back, where only one cell can be meant.

    By the id, by an unchanged source, or by what is defined or called in it. Cells said to be another one, or
    that two released cells could be, are left alone.
    """
    known = {grade_id(cell): cell for cell in released if grade_id(cell)}
    present = {grade_id(cell) for cell in cells}
    free = [cell for cell in cells if not grade_id(cell)]
    found = []
    for same in (_same_id, _same_source, _same_marks):
        for name in [name for name in known if name not in present]:
            alike = [cell for cell in free if same(cell, known[name])]
            rivals = [
                other for other in known if other not in present and alike and same(alike[0], known[other])
            ]
            if len(alike) == 1 and rivals == [name]:
                alike[0]["metadata"]["nbgrader"] = dict(known[name]["metadata"]["nbgrader"])
                free = [cell for cell in free if cell is not alike[0]]
                present.add(name)
                found.append(name)
    return [f"nbgrader's metadata had been lost in {', '.join(found)} and was put back"] if found else []


def _same_id(cell: dict, released: dict) -> bool:
    return isinstance(cell.get("id"), str) and cell["id"] == released.get("id")


def _same_source(cell: dict, released: dict) -> bool:
    return cell["source"].strip() == "".join(released["source"]).strip()


def _same_marks(cell: dict, released: dict) -> bool:
    """Do both define, or call for an exercise, the same first thing?"""
    return cell["cell_type"] == released["cell_type"] == "code" and _mark(cell) == _mark(released) != ()


def _mark(cell: dict) -> tuple:
    match = _MARKS.search("".join(cell["source"]))
    if match is None:
        return ()
    return ("defines", match[1]) if match[1] else (match[2], match[3])


def of_this_lab(cells: list[dict], released: list[dict]) -> bool:
    """Is at least one of the release's cells that nbgrader knows among ``cells``?"""
    return bool({grade_id(cell) for cell in released} & {grade_id(cell) for cell in cells} - {""})


def of_another_lab(cells: list[dict], released: list[dict]) -> list[str]:
    """The check cells of other labs in ``cells``, when none of this lab's is there; else nothing."""
    checks = {
        grade_id(cell) for cell in released if cell.get("metadata", {}).get("nbgrader", {}).get("grade")
    }
    found = [grade_id(cell) for cell in cells]
    others = [name for name in found if re.match(r"\d\d-", name) and name not in checks]
    number = {name[:3] for name in checks if re.match(r"\d\d-", name)}
    return [] if checks & set(found) or not number else [name for name in others if name[:3] not in number]
