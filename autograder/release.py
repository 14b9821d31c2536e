"""The learner's release of a lab: built by nbgrader from the source notebook, with the course's card.

Importing this module and asking whether a release is stale load nothing of nbgrader.
"""

import ast
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from autograder.course import CARD, Course
from autograder.places import Places

_BUILDERS = ("release.py", "clear.py", "notebooks.py")
_AFTER_RELEASE = (
    "Autograde",
    "JudgedExecute",
    "GenerateFeedback",
    "AssignLatePenalties",
    "LateSubmissionPlugin",
)


def build(lab: str, *, progress: Callable[[str], None] | None = None) -> Path:
    """The folder of the release of ``lab``, with ``LAB.ipynb`` and ``course.json``; built if stale.

    nbgrader writes it and the gradebook. When nothing has changed since the last build this only
    compares digests. ``progress`` gets a line at each step that takes a while.

    Raises:
        LookupError: there is no such lab. NbgraderFailed: nbgrader refused; the text says why. Among
        the reasons: cells were added or removed after somebody's submission had been graded.
    """
    places = Places.found()
    places.source(lab)
    folder = places.course / "release" / lab
    if not is_stale(lab):
        return folder
    if progress:
        progress(f"{lab}: building the release from labs/{lab} (some seconds) ...")
    from autograder.frame import open_nbgrader, run

    run("generate_assignment", open_nbgrader().generate_assignment(lab, force=True, create=True))
    if progress:
        progress(f"{lab}: released to {folder}")
    return folder


def is_stale(lab: str) -> bool:
    """True when ``lab`` has no release, or one of another source, configuration or course."""
    places = Places.found()
    folder = places.course / "release" / lab
    try:
        known = _digest_file(places, lab).read_text(encoding="utf-8")
    except OSError:
        return True
    whole = (folder / f"{lab}.ipynb").is_file() and (folder / CARD).is_file()
    return not whole or known != _digest(places, lab, _card(places))


def publish(lab: str) -> None:
    """Put the release of ``lab`` into the exchange, over an earlier one, for learners to fetch."""
    from autograder.frame import open_nbgrader, run

    build(lab)
    run("release_assignment", open_nbgrader().release_assignment(lab))


def finish(assignment: str, student: str, notebooks: list[str]) -> None:
    """nbgrader's hook after ``generate_assignment``: add the card, note what was built."""
    places = Places.found()
    card = _card(places)
    write_card(places.course / "release" / assignment, card)
    file = _digest_file(places, assignment)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_digest(places, assignment, card), encoding="utf-8")


def write_card(folder: Path, card: dict) -> None:
    """Write the course's public card into ``folder``."""
    file = folder / CARD
    file.unlink(missing_ok=True)  # it may be a link, or not ours to write into
    file.write_text(json.dumps(card, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _card(places: Places) -> dict:
    return Course.load(places.course).card()


def _digest_file(places: Places, lab: str) -> Path:
    return places.course / "digests" / lab


def _digest(places: Places, lab: str, card: dict) -> str:
    """SHA-256 over everything a release is made of."""
    digest = hashlib.sha256(json.dumps(card, sort_keys=True).encode() + _configured().encode())
    sources = sorted(path for path in (places.labs / lab).rglob("*") if path.is_file())
    builders = [Path(__file__).with_name(name) for name in _BUILDERS]
    for path in [*sources, *builders]:
        if ".ipynb_checkpoints" not in path.parts and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _configured() -> str:
    """The shipped configuration without what only grading reads: a new penalty makes no release stale."""
    text = Path(__file__).with_name("nbgrader_config.py").read_text(encoding="utf-8")
    kept = []
    for line in ast.parse(text).body:
        target = line.targets[0] if isinstance(line, ast.Assign) else None
        owner = target.value if isinstance(target, ast.Attribute) else None
        if not (isinstance(owner, ast.Attribute) and owner.attr in _AFTER_RELEASE):
            kept.append(ast.unparse(line))
    return "\n".join(kept)
