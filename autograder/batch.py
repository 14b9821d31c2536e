"""The instructor's part in one go: collect, look, grade, write feedback, hand it back, export."""

import csv
import json
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder import intake, release
from autograder.feedback import refusal_page, waits
from autograder.frame import (
    NbgraderFailed,
    autograde,
    generate_feedback,
    open_nbgrader,
    release_feedback,
    run,
)
from autograder.places import COURSE_ID, Places
from autograder.sandbox import UNSAFE, UNSAFE_NOTE
from autograder.sandbox_warm import warm

GRADED, REFUSED, FAILED = "graded", "refused", "failed"

_FROM_THE_EXCHANGE = ("timestamp.txt", "submission_secret.txt")


@dataclass
class Outcome:
    """What became of one submission in this run.

    Attributes:
        student: the submission's folder. status: ``graded``; ``refused``: what was handed in cannot be
        graded, ``reason`` says what to do; ``failed``: our side broke down, nobody's mark is touched.
        score, max_score: points, None unless graded. points: by exercise or grade id.
        reason: why not graded. notes: what an instructor should look at, e.g. another name typed.
        unread: grade ids of answers that a person has not read yet; they are in ``max_score`` alone.
    """

    student: str
    status: str
    score: float | None = None
    max_score: float | None = None
    points: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    notes: str = ""
    unread: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The outcome in a few words."""
        if self.status != GRADED:
            return self.status
        waits = f", and {', '.join(self.unread)} to be read by a person" if self.unread else ""
        return f"{self.score:g} of {self.max_score:g}{waits}"


class Batch:
    """One run over the submissions of one lab, one after the other; none can stop another.

    ``NoSandbox`` before anything is done, where there is none and ``unsafe_no_sandbox`` is not set.
    """

    def __init__(self, lab: str, progress: Callable[[str], None], *, unsafe_no_sandbox: bool = False) -> None:
        self.lab, self.progress = lab, progress
        self.places = Places.found()
        self.places.source(lab)
        self.nbgrader = open_nbgrader(unsafe_no_sandbox)
        if self.nbgrader.config.JudgedExecute.get("unsafe_no_sandbox"):
            progress(UNSAFE_NOTE)
        else:
            warm()
        self._prepare_release()

    def grade(self, *, collect: bool = True, only: str | None = None) -> list[Outcome]:
        """Grade what is in ``submitted/`` (and first in the exchange); an outcome for each submission.

        Also written: feedback pages, ``grades.csv`` (nbgrader's) and ``summary.csv`` (with the reasons).
        ``only`` names the one student to grade.
        """
        if collect:
            self._collect()
        submissions = intake.read(self.places.course / "submitted", self.lab)
        if only is not None:
            submissions = [submission for submission in submissions if submission.student == only]
        intake.report(submissions, self.progress)
        outcomes = []
        for number, submission in enumerate(submissions, 1):
            outcome = self._outcome_of(submission)
            outcomes.append(outcome)
            self.progress(f"[{number}/{len(submissions)}] {outcome.student}: {outcome.told}")
        self._export(outcomes)
        return outcomes

    def _prepare_release(self) -> None:
        """Build a release if there is none; a changed source is only spoken of, learners have the old one."""
        if not (self.places.course / "release" / self.lab / f"{self.lab}.ipynb").is_file():
            release.build(self.lab, progress=self.progress)
        elif release.is_stale(self.lab):
            self.progress(
                f"{self.lab}: the source has changed since the release; grading goes by the release. "
                f"To build it again: python -m autograder release {self.lab}"
            )

    def _collect(self) -> None:
        inbound = self.places.exchange / COURSE_ID / "inbound"
        if not any(inbound.glob(f"*+{self.lab}+*")):
            return
        log = run("collect", self.nbgrader.collect(self.lab, update=True))
        collected = log.count("Collecting submission") + log.count("Updating submission")
        self.progress(f"collected from the exchange: {collected} new")

    def _outcome_of(self, submission: intake.Submission) -> Outcome:
        """Grade or refuse one submission. Whatever goes wrong here is this outcome's reason."""
        try:
            if submission.status != "ok":
                return self._refuse(submission)
            autograde(self.nbgrader, self.lab, submission.student)
            generate_feedback(self.nbgrader, self.lab, submission.student)
            self._hand_back(submission.student)
            return self._read_grade(submission.student)
        except NbgraderFailed as failure:
            self._keep_log(submission.student, failure.log)
            return Outcome(submission.student, FAILED, reason=str(failure))
        except Exception as error:
            self._keep_log(submission.student, traceback.format_exc())
            return Outcome(submission.student, FAILED, reason=f"{type(error).__name__}: {error}")

    def _hand_back(self, student: str) -> None:
        """Release feedback to whoever handed in through the exchange; nbgrader fails for all others."""
        if (self.places.step("feedback", student, self.lab) / "submission_secret.txt").is_file():
            release_feedback(self.nbgrader, self.lab, student)

    def _refuse(self, submission: intake.Submission) -> Outcome:
        """Zero points in the gradebook, the reason as a feedback page; nothing stale is left over."""
        student = submission.student
        handed_in = self.places.step("submitted", student, self.lab)
        shutil.rmtree(self.places.step("autograded", student, self.lab), ignore_errors=True)
        folder = self.places.step("feedback", student, self.lab)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        page = refusal_page(self.lab, submission.reason)
        # A learner's fetch_feedback looks for a page named like the notebook that was handed in.
        for stem in {self.lab, submission.path.stem if submission.status == "renamed" else self.lab}:
            (folder / f"{stem}.html").write_text(page, encoding="utf-8")
        for name in _FROM_THE_EXCHANGE:
            if (handed_in / name).is_file():
                shutil.copyfile(handed_in / name, folder / name)
        with self.nbgrader.gradebook as gradebook:
            gradebook.update_or_create_student(student)
            stamp = self.nbgrader.coursedir.get_existing_timestamp(str(handed_in))
            given = {"timestamp": stamp} if stamp else {}
            entry = gradebook.update_or_create_submission(self.lab, student, **given)
            for notebook in entry.notebooks:
                for grade in notebook.grades:
                    grade.auto_score, grade.needs_manual_grade = 0, False
            gradebook.db.commit()
        self._hand_back(student)
        return Outcome(student, REFUSED, reason=submission.reason)

    def _read_grade(self, student: str) -> Outcome:
        """The marks of this run, out of the gradebook."""
        with self.nbgrader.gradebook as gradebook:
            entry = gradebook.find_submission(self.lab, student)
            grades = [grade for notebook in entry.notebooks for grade in notebook.grades]
            unread = tuple(grade.name for grade in grades if waits(grade))
            points = {grade.name: grade.score for grade in grades if grade.name not in unread}
            read = [g.name for g in grades if g.needs_manual_grade and g.name not in unread]
            most_unread = {g.name: g.max_score for g in grades if g.name in unread}
            score, most = entry.score, entry.max_score
        notes = [f"{name}: to be read by a person ({most_unread[name]:g} points)" for name in unread]
        notes += [f"{name}: the mark that a person gave stands" for name in read]
        autograded = self.places.step("autograded", student, self.lab) / f"{self.lab}.ipynb"
        graded = json.loads(autograded.read_text(encoding="utf-8"))
        typed = _typed_names(graded["cells"])
        if graded["metadata"]["gpulab"]["sandbox"] == UNSAFE:
            notes.append(UNSAFE_NOTE)
        if typed - {student}:
            notes.append(f"answers were given under the name {', '.join(sorted(typed - {student}))}")
        return Outcome(student, GRADED, score, most, points, notes="; ".join(notes), unread=unread)

    def _keep_log(self, student: str, log: str) -> None:
        file = self.places.course / "logs" / self.lab / f"{student}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(log, encoding="utf-8")

    def _export(self, outcomes: list[Outcome]) -> None:
        from nbgrader.plugins import CsvExportPlugin

        exporter = CsvExportPlugin(parent=self.nbgrader)
        exporter.to = str(self.places.course / "grades.csv")
        with self.nbgrader.gradebook as gradebook:
            exporter.export(gradebook)
        write_summary(self.places.course / "summary.csv", self.lab, outcomes)
        self.progress(f"marks: {exporter.to} and {self.places.course / 'summary.csv'}")


def _typed_names(cells: list[dict]) -> set[str]:
    """The learner's names that answers were drawn for, from the judge's marks in a graded notebook's ``cells``."""
    marks = [
        output.get("metadata", {}).get("gpulab", {}) for cell in cells for output in cell.get("outputs", [])
    ]
    return {mark["typed_name"] for mark in marks if isinstance(mark.get("typed_name"), str)} - {""}


def write_summary(file: Path, lab: str, outcomes: list[Outcome]) -> None:
    """A row for every submission of this run: status, points in all and each, the reason, the notes."""
    cells = sorted({name for outcome in outcomes for name in (*outcome.points, *outcome.unread)})
    with file.open("w", encoding="utf-8", newline="") as handle:
        rows = csv.writer(handle)
        rows.writerow(["lab", "student", "status", "score", "max_score", *cells, "reason", "notes"])
        for one in outcomes:
            points = [_rounded(one.points.get(name)) for name in cells]
            total = [_rounded(one.score), _rounded(one.max_score)]
            rows.writerow([lab, one.student, one.status, *total, *points, one.reason, one.notes])


def _rounded(points: float | None) -> float | str:
    """Points without the dust that adding floats leaves; the judge gives hundredths."""
    return "" if points is None else round(points, 4)
