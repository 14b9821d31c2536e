"""nbgrader, opened with the shipped configuration."""

import glob
import re
import warnings
from pathlib import Path

from gpulab.startup import skip_slow_grammar

_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Fault|Full|Entry)\b(: .*)?$")

CONFIG = Path(__file__).with_name("nbgrader_config.py")


class NbgraderFailed(Exception):
    """An nbgrader command did not do its work. The text is the last thing it said; ``log`` is all of it."""

    def __init__(self, command: str, log: str, error: str = "") -> None:
        self.log = "\n".join(part for part in (log, error) if part)
        super().__init__(f"nbgrader {command}: {_cause(log, error)}")


def _cause(log: str, error: str) -> str:
    """The line that names the cause: the last ``SomeError: ...`` that was logged, else what comes nearest."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return (raised[-1:] or errors[:1] or error.strip().splitlines()[-1:] or ["no reason given"])[0]


def open_nbgrader(unsafe_no_sandbox: bool = False, record: tuple[str, str] = ("", "")):
    """An ``NbGraderAPI`` with ``nbgrader_config.py``, read anew: the folders may have changed since.

    ``unsafe_no_sandbox``: learners' code runs with the rights of whoever grades. ``record``: an exercise whose
    conversation with the judge is kept, and the file for it.
    """
    skip_slow_grammar()
    from nbgrader.apps import NbGraderAPI
    from sqlalchemy.exc import SAWarning
    from traitlets.config.loader import PyFileConfigLoader

    # nbgrader 0.9.6 with SQLAlchemy 2.1 warns of objects outside the session; no row is wrong for it.
    warnings.filterwarnings("ignore", category=SAWarning)
    config = PyFileConfigLoader(CONFIG.name, path=str(CONFIG.parent)).load_config()
    config.JudgedExecute.record = record
    config.ExchangeReleaseAssignment.force = True  # releasing again through our own command replaces
    if unsafe_no_sandbox:
        config.JudgedExecute.unsafe_no_sandbox = True
    return NbGraderAPI(config=config)


def run(command: str, result: dict | None) -> str:
    """The log of a command of ``NbGraderAPI``; ``NbgraderFailed`` when it reports failure.

    ``result`` is what the command returned; None (the exchange on Windows) counts as failure.
    """
    if result is None:
        raise NbgraderFailed(command, "the exchange does not work on this system")
    if not result["success"]:
        raise NbgraderFailed(command, result.get("log", ""), result.get("error", ""))
    return result.get("log", "")


def collect(nbgrader, lab: str) -> tuple[int, list[str]]:
    """Collect from the exchange, newer ones too: how many there were, and what an instructor should know of others."""
    from nbgrader.utils import capture_log, temp_attrs

    with temp_attrs(nbgrader.coursedir, assignment_id=lab):
        collector = nbgrader.exchange.Collect(
            coursedir=nbgrader.coursedir, authenticator=nbgrader.authenticator, parent=nbgrader
        )
        collector.update = True
        log = run("collect", capture_log(collector))
    new = log.count("[INFO] Collecting submission: ") + log.count("[INFO] Updating submission: ")
    return new, getattr(collector, "told", [])  # a course may have another exchange


def autograde(nbgrader, lab: str, student: str) -> str:
    """Grade one submission, again if need be; the log. ``NbgraderFailed`` when it could not be graded."""
    from nbgrader.converters import Autograde

    return _convert("autograde", Autograde, nbgrader, lab, student)


def generate_feedback(nbgrader, lab: str, student: str) -> str:
    """Write one learner's feedback page, over an earlier one; the log. ``NbgraderFailed`` if it cannot."""
    from nbgrader.converters import GenerateFeedback

    return _convert("generate_feedback", GenerateFeedback, nbgrader, lab, student)


def rehearse_feedback(nbgrader, notebook: Path) -> None:
    """Make a page of the released ``notebook`` and throw it away: those after it are made in a third of the time.

    Their templates are compiled then, and the cells that are the same for the whole class have been drawn once.
    """
    import nbformat
    from nbgrader.converters import GenerateFeedback

    from autograder.feedback import FeedbackPage

    converter = GenerateFeedback(coursedir=nbgrader.coursedir, parent=nbgrader)
    marks = {"nbgrader": {"notebook": notebook.stem, "score": 0, "max_score": 0, "late_penalty": 0}}
    nb = nbformat.read(notebook, as_version=4)
    for cell in nb.cells:
        cell.metadata.clear()  # there are no marks to show
    FeedbackPage(config=converter.config).from_notebook_node(nb, marks)


def release_feedback(nbgrader, lab: str, student: str) -> str:
    """Put one learner's page into the exchange; the log. Fails for what did not come through the exchange."""
    return run("release_feedback", nbgrader.release_feedback(lab, glob.escape(student)))


def _convert(command: str, converter: type, nbgrader, lab: str, student: str) -> str:
    """Run one of nbgrader's converters on one student.

    ``NbGraderAPI`` takes a student for a glob, and globs what it found once more: an id like ``[x]`` is
    never found. So the one step that looks for notebooks is answered here.
    """
    from nbgrader.utils import capture_log, temp_attrs

    class OneSubmission(converter):
        def init_notebooks(self) -> None:
            folder = self._format_source(lab, student)
            found = sorted(str(path) for path in Path(folder).glob("*.ipynb"))
            self.assignments = {folder: found} if found else {}
            self.notebooks = []
            if not found:
                raise FileNotFoundError(f"no notebook in {folder}")

    with temp_attrs(nbgrader.coursedir, assignment_id=lab, student_id=student):
        return run(
            command, capture_log(OneSubmission(coursedir=nbgrader.coursedir, parent=nbgrader, force=True))
        )
