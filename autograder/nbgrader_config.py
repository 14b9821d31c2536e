"""nbgrader's configuration of this course, used as it stands.

    cd autograder && nbgrader generate_assignment 02-allocate
    nbgrader autograde 02-allocate --config autograder/nbgrader_config.py

Everything that nbgrader writes lies in ``course/`` at the root of the repository, see README.md here.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from autograder.places import COURSE_ID, Places

places = Places.found()
with suppress(OSError):  # a learner who fetches with this file may not write here, and need not
    places.course.mkdir(parents=True, exist_ok=True)  # nbgrader changes into it before anything else

if shutil.which("alembic") is None:
    # nbgrader calls alembic by its bare name when it makes a gradebook; without an activated environment
    # that fails. It is installed beside the Python that runs here.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

c = get_config()  # noqa: F821  (traitlets gives this name to a config file)

c.CourseDirectory.course_id = COURSE_ID
c.CourseDirectory.root = str(places.course)
# Relative, because nbgrader builds a pattern from it and escapes the root only.
c.CourseDirectory.source_directory = os.path.relpath(places.labs, places.course)
# Beside a source notebook, for whoever teaches; the first four are nbgrader's own.
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "*.pyc",
    "__pycache__",
    "feedback",
    "instructor*",
    "rubric-*",
]
c.Exchange.root = str(places.exchange)
c.ExchangeFactory.collect = "autograder.collect.SafeCollect"  # nbgrader's follows links

# The learner's release.
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("yours to write")'}
c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "nbgrader.preprocessors.InstantiateTests",
    "autograder.clear.TidyNotebook",
    "nbgrader.preprocessors.LockCells",
    "autograder.clear.ClearAnswers",  # in the place of ClearSolutions
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
    "autograder.clear.NoSolutionLeft",
]
c.GenerateAssignment.post_convert_hook = "autograder.release.finish"

# Marks, also by ``nbgrader export``.
c.ExportApp.plugin_class = "autograder.marks.MarksTable"
c.ExportPlugin.to = str(places.course / "grades.csv")

# Grading. No CheckCellMetadata: RestoreCells takes the metadata from the gradebook, where checked ones were saved.
c.Exporter.optimistic_validation = True  # the notebook is checked after the last step, not after each
c.Autograde.exporter_class = "autograder.exporters.GradedNotebook"
c.Autograde.sanitize_preprocessors = [
    "autograder.restore.RestoreCells",  # in the place of ClearOutput and DeduplicateIds, and first
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
]
c.Autograde.autograde_preprocessors = [
    "autograder.execute.JudgedExecute",  # in the place of Execute
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
]

# Feedback.
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "autograder.feedback.NoteUnread",
    "autograder.feedback.HideGradedInputs",
    "autograder.feedback.HideHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
c.GenerateFeedback.exporter_class = "autograder.feedback.FeedbackPage"

# The form grader's page of one submission: it stands in the instructor's own session, so nothing there may run.
c.HTMLExporter.preprocessors = ["autograder.harmless.Harmless"]
c.HTMLExporter.filters = {
    "markdown2html": "autograder.harmless.markdown",
    "highlight_code": "autograder.harmless.code",
}
c.FeedbackPage.preprocessors = []  # a policy in that page forbids everything
c.FeedbackPage.filters = {}
