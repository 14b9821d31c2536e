"""The instructor's part in one go: collect, look, grade, write feedback, hand it back, export."""

import json
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from autograder import gradebook, intake, release
from autograder.feedback import refusal_page, waits
from autograder.frame import NbgraderFailed, collect, open_nbgrader, rehearse_feedback, release_feedback
from autograder.grading import FOLDERS, Graded, Task, load, replace_folder
from autograder.journal import Journal
from autograder.notes import to_look_at
from autograder.outcome import FAILED, GRADED, REFUSED, Outcome, read_summary, write_summary
from autograder.places import COURSE_ID, Places
from autograder.received import take
from autograder.sandbox import UNSAFE, UNSAFE_NOTE
from autograder.sandbox_warm import warm
from autograder.scratch import clear_left_over
from autograder.tasks import Tasks
from autograder.workers import Workers

_FROM_THE_EXCHANGE = ("timestamp.txt", "submission_secret.txt")


class Batch:
    """One run over the submissions of one lab; none can stop another.

    Args:
        progress: hears what happens, a line at a time. workers: what grades; without it this process, one by one.
        force: grade again what is graded already. unsafe_no_sandbox: learners' code runs with your rights.

    Raises:
        NoSandbox: there is none, and ``unsafe_no_sandbox`` is not set; nothing has been done.
    """

    def __init__(
        self,
        lab: str,
        progress: Callable[[str], None],
        workers: Workers | None = None,
        *,
        force: bool = False,
        unsafe_no_sandbox: bool = False,
    ) -> None:
        self.lab, self.progress, self.force = lab, progress, force
        self.workers = workers or Workers()
        self.places = Places.found()
        self.places.source(lab)
        self.nbgrader = open_nbgrader(unsafe_no_sandbox)
        self.unsafe = bool(self.nbgrader.config.JudgedExecute.get("unsafe_no_sandbox"))
        if self.unsafe:
            progress(UNSAFE_NOTE)
        else:
            warm()
        load()  # while the warm process starts; it takes about as long
        if not self.unsafe and warm().way and self.workers.scheduler:
            warm().close()  # each worker has one of its own
        self._prepare_release()
        rehearse_feedback(self.nbgrader, self.places.course / "release" / lab / f"{lab}.ipynb")

    def grade(
        self, *, collect: bool = True, only: str | None = None, source: Path | None = None
    ) -> list[Outcome]:
        """Grade what is in ``submitted/`` (and first in the exchange); an outcome for each submission.

        ``source``: a learning platform's zip, or a folder, that is first put into ``submitted/``.

        What is graded already, by the same code in the same course and with the same marks of a person, is not
        graded again. Also written: feedback pages, ``grades.csv`` (nbgrader's) and ``summary.csv`` (with the reasons).
        ``only`` names the one student to grade.

        Raises:
            Busy: another command grades this lab now. Unfit: ``source`` holds no submissions.
        """
        clear_left_over()  # of a run that was cut off
        with Journal.held(self.places.course / "journal" / f"{self.lab}.jsonl") as journal:
            if collect:
                self._collect()
            if source is not None:
                students = take(source, self.places.course / "submitted", self.lab, self.progress)
                self.progress(
                    f"taken from {source.name}: {len(students)} student{'s' * (len(students) != 1)}"
                )
            gradebook.index(self.places.course / "gradebook.db")
            lab = Tasks(self.lab, self.places, unsafe=self.unsafe)
            submissions = intake.read(self.places.course / "submitted", self.lab, lab.released)
            if only is not None:
                submissions = [submission for submission in submissions if submission.student == only]
            intake.report(submissions, self.progress)
            with self.nbgrader.gradebook as self._book:  # one a run: each compiles every question anew
                outcomes = self._graded(submissions, lab, journal)
            self._export(outcomes, only)
            return outcomes

    def _graded(self, submissions: list[intake.Submission], lab: Tasks, journal: Journal) -> list[Outcome]:
        """An outcome for each submission, in their order; told as they are done."""
        outcomes: dict[str, Outcome] = {}
        started, known = time.monotonic(), 0

        def note(outcome: Outcome, how: str = "") -> None:
            outcomes[outcome.student] = outcome
            left = len(submissions) - len(outcomes)
            spent = (time.monotonic() - started) / max(1, len(outcomes) - known)
            soon = f"; about {_minutes(left * spent)} left" if not how and left * spent > 20 else ""
            self.progress(
                f"[{len(outcomes)}/{len(submissions)}] {outcome.student}: {outcome.told}{how}{soon}"
            )

        todo, keys, handed_in = [], {}, {one.student: one for one in submissions}
        for one in submissions:
            keys[one.student] = lab.key(one) if one.status == "ok" else ""
            if one.status != "ok":
                note(self._told_of(one, lambda s=one: self._refuse(s)))
            elif not self.force and journal.done(one.student, keys[one.student]) and self._kept(one.student):
                note(self._told_of(one, lambda s=one: self._read_grade(s)), ", as before")
            else:
                todo.append(one)
        known = len(outcomes)
        if self.force:  # cut off, a later run without --force then goes on with those that are left
            journal.forget([one.student for one in todo])

        def tasks() -> Iterator[Task]:
            for one in todo:
                journal.begin(one.student, keys[one.student])
                yield lab.task(one)

        self._book.engine.dispose()  # no open database goes into a forked process
        for result in self.workers.graded(tasks()):
            one = handed_in[result.student]
            outcome = self._told_of(one, lambda s=one, r=result: self._store(s, r))
            if outcome.status == GRADED:
                journal.end(result.student, keys[result.student])
            note(outcome)  # what has been told as graded is kept
        return [outcomes[submission.student] for submission in submissions]

    def _told_of(self, submission: intake.Submission, make: Callable[[], Outcome]) -> Outcome:
        """What ``make`` makes; whatever goes wrong there is this outcome's reason."""
        student = submission.student
        try:
            return make()
        except NbgraderFailed as failure:
            self._keep_log(student, failure.log)
            return Outcome(student, FAILED, reason=str(failure))
        except Exception as error:
            self._keep_log(student, traceback.format_exc())
            return Outcome(student, FAILED, reason=f"{type(error).__name__}: {error}")

    def _kept(self, student: str) -> bool:
        """Is everything that the last grading wrote still there?"""
        return all((self.places.step(step, student, self.lab)).is_dir() for step in FOLDERS)

    def _store(self, submission: intake.Submission, result: Graded) -> Outcome:
        """Write what a worker made: pages and gradebook; the one place where that happens."""
        if result.fault:
            self._keep_log(result.student, result.log)
            return Outcome(result.student, FAILED, reason=result.fault)
        page = result.folders["feedback"].get(f"{self.lab}.html")
        if (
            page is not None
        ):  # a learner's fetch_feedback looks for a page named like the notebook that was handed in
            result.folders["feedback"][f"{submission.path.stem}.html"] = page
        for step, files in result.folders.items():
            replace_folder(self.places.step(step, result.student, self.lab), files)
        gradebook.store(self.places.course / "gradebook.db", result.rows)
        outcome = self._read_grade(submission)
        try:
            self._hand_back(result.student)
        except NbgraderFailed as failure:  # the mark stands; the page can be given some other way
            self._keep_log(result.student, failure.log)
            outcome.notes = "; ".join(filter(None, (outcome.notes, f"not handed back: {failure}")))
        return outcome

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
        collected, told = collect(self.nbgrader, self.lab)
        self.progress(f"collected from the exchange: {collected} new")
        for line in told:
            self.progress(f"  {line}")

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
        (folder / f"{self.lab}.html").write_text(page, encoding="utf-8")
        for name in _FROM_THE_EXCHANGE:
            if (handed_in / name).is_file():
                shutil.copyfile(handed_in / name, folder / name)
        with self.nbgrader.gradebook as gradebook:
            gradebook.update_or_create_student(student)
            try:
                stamp = self.nbgrader.coursedir.get_existing_timestamp(str(handed_in))
            except Exception:  # whatever stands in the file
                stamp = None
            given = {"timestamp": stamp} if stamp else {}
            entry = gradebook.update_or_create_submission(self.lab, student, **given)
            stands: list[str] = []
            for notebook in entry.notebooks:
                for grade in notebook.grades:
                    grade.auto_score, grade.needs_manual_grade = 0, False
                    stands += [grade.name] if grade.manual_score is not None else []
            gradebook.db.commit()
        self._hand_back(student)
        notes = "; ".join(f"{name}: the mark that a person gave stands" for name in stands)
        return Outcome(student, REFUSED, reason=submission.reason, notes=notes)

    def _read_grade(self, submission: intake.Submission) -> Outcome:
        """The marks of this run, out of the gradebook."""
        student = submission.student
        try:
            entry = self._book.find_submission(self.lab, student)
            grades = [grade for notebook in entry.notebooks for grade in notebook.grades]
            unread = tuple(grade.name for grade in grades if waits(grade))
            points = {grade.name: grade.score for grade in grades if grade.name not in unread}
            read = [g.name for g in grades if g.needs_manual_grade and g.name not in unread]
            most_unread = {g.name: g.max_score for g in grades if g.name in unread}
            late, penalty = entry.total_seconds_late / 3600, entry.late_submission_penalty
            score, most = max(0.0, entry.score - penalty), entry.max_score  # as nbgrader's export counts
        finally:
            self._book.db.rollback()  # the next one reads anew, and whoever writes need not wait
        notes = [f"repaired: {note}" for note in submission.notes]
        notes += [f"{name}: to be read by a person ({most_unread[name]:g} points)" for name in unread]
        notes += [f"{name}: the mark that a person gave stands" for name in read]
        if late > 0:
            taken = f": {penalty:g} points taken off" if penalty else ""
            notes.append(f"handed in {late:.1f} hours late{taken}")
        autograded = self.places.step("autograded", student, self.lab) / f"{self.lab}.ipynb"
        graded = json.loads(autograded.read_text(encoding="utf-8"))
        notes += to_look_at(graded["cells"], student)
        if graded["metadata"]["gpulab"]["sandbox"] == UNSAFE:
            notes.append(UNSAFE_NOTE)
        return Outcome(student, GRADED, score, most, points, notes="; ".join(notes), unread=unread)

    def _keep_log(self, student: str, log: str) -> None:
        file = self.places.course / "logs" / self.lab / f"{student}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(log, encoding="utf-8")

    def _export(self, outcomes: list[Outcome], only: str | None) -> None:
        from autograder.marks import MarksTable

        exporter = MarksTable(parent=self.nbgrader)
        with self.nbgrader.gradebook as gradebook:
            exporter.export(gradebook)
        summary, others = self.places.course / "summary.csv", {}
        if only is not None:  # the rest of the class keeps its rows
            with suppress(OSError, ValueError):
                others = read_summary(summary, self.lab)
        if outcomes:  # with nothing handed in, the table of an earlier run stays
            write_summary(summary, self.lab, outcomes, others)
            self.progress(f"marks: {exporter.to} and {summary}")


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
