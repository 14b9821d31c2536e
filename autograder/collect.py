"""Collecting from the exchange, where any learner may have put anything: one bad hand-in costs nobody else's.

nbgrader's own collecting follows links, takes a folder under another's name, and ends at the first odd thing.
"""

import glob
import os
import shutil
from collections import defaultdict
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import check_mode, parse_utc

from autograder.channel import printable
from autograder.hand_ins import HandIn, NoHandIn, account, doubtful, read
from autograder.plain_copy import PlainCopy, kind

MOST_LINES = 20
_NEWER, _THERE = "No newer submission to collect", "Submission already exists, use --update to update"


class SafeCollect(ExchangeCollect):
    """nbgrader's ``collect`` with its options. After ``start``, ``told`` says in lines what an instructor should know."""

    def start(self) -> None:
        self._notes: list[str] = []
        self._others: defaultdict[str, list[str]] = defaultdict(list)
        super().start()
        for owner, students in self._others.items():
            named = _some([printable(student, 60) for student in students], ", ")
            self._notes.append(
                f"taken, but owned by the account {owner}: what was handed in as {named}. "
                "Where names are accounts, ask whether it is theirs"
            )
        more = len(self._notes) - MOST_LINES
        self.told = self._notes[:MOST_LINES] + ([f"and {more} more in the exchange"] if more > 0 else [])
        for line in self.told:
            self.log.warning(line)

    def owner(self, name: str, uid: int) -> str:
        """The account that owns the folder ``name`` of the exchange."""
        return account(uid)

    def init_src(self) -> None:
        """Find the hand-ins of each student that may be taken, the one to take first in front."""
        course, lab = self.coursedir, self.coursedir.assignment_id
        if not course.course_id:
            self.fail("No course id specified. Re-run with --course flag.")
        self.inbound_path = os.path.join(self.root, course.course_id, "inbound")
        if not os.path.isdir(self.inbound_path):
            self.fail(f"Course not found: {self.inbound_path}")
        if not check_mode(self.inbound_path, read=True, execute=True):
            self.fail(f"You don't have read permissions for the directory: {self.inbound_path}")
        with Gradebook(course.db_url, course.course_id) as gradebook:
            try:
                due = gradebook.find_assignment(lab).duedate
            except MissingEntry:
                due = None
        found: defaultdict[str, list[HandIn]] = defaultdict(list)
        accounts, wanted = set(), f"{course.student_id or '*'}+{glob.escape(lab)}+*"
        for name in sorted(os.listdir(self.inbound_path)):
            try:
                look = os.lstat(os.path.join(self.inbound_path, name))
            except OSError:  # gone again
                continue
            student, owner = name.rsplit("+", 3)[0], self.owner(name, look.st_uid)
            if kind(look) == "folder" and student == owner:
                accounts.add(owner)
            if fnmatchcase(name, wanted):
                try:
                    if one := read(name, lab, look, owner):
                        found[one.student].append(one)
                except NoHandIn as wrong:
                    self._notes.append(f"left out: {printable(name, 80)!r} in the exchange: {wrong}")
        self.src_records = []
        for student in sorted(found):
            doubts = doubtful(found[student], accounts) if self.check_owner else []
            self._notes += [
                f"left out: {one}: it is owned by the account {one.owner}, so somebody else may have made it. "
                f"Ask both; if it counts, copy {printable(one.name, 200)!r} out of the exchange yourself"
                for one in doubts
            ]
            kept = set(found[student]) - set(doubts)
            hand_ins = sorted(kept, key=lambda one: (one.time, one.name), reverse=True)
            in_time = [one for one in hand_ins if due is not None and self.before_duedate and one.time <= due]
            self.src_records.append(in_time or hand_ins)

    def copy_files(self) -> None:
        """Collect of each student the first hand-in that can be copied; if none can, what was collected before stays."""
        if not self.src_records:
            self.log.warning(f"No submissions of '{self.coursedir.assignment_id}' to collect")
        for hand_ins in self.src_records:
            for one in hand_ins:
                if self._collected(one):
                    break

    def _collected(self, one: HandIn) -> bool:
        """Copy ``one`` if what is there is not as new; False when it cannot be copied."""
        course, lab = self.coursedir, self.coursedir.assignment_id
        dest = Path(course.format_path(course.submitted_directory, one.student, lab))
        updating = dest.is_dir()
        if updating and not self._replaces(dest, one):
            self.log.info(f"{_NEWER if self.update else _THERE}: {one.student} {lab}")
            return True
        fresh, old = (dest.with_name(f".{lab}.{end}") for end in ("new", "old"))
        copy = PlainCopy(course, one.uid)
        try:
            shutil.rmtree(fresh, ignore_errors=True)  # of a run that was cut off
            dest.parent.mkdir(parents=True, exist_ok=True)
            copy.folder(os.path.join(self.inbound_path, one.name), fresh)
            if updating:
                shutil.rmtree(old, ignore_errors=True)
                dest.rename(old)
            fresh.rename(dest)
        except OSError as error:
            with suppress(OSError):  # there is none, or its successor is in place
                old.rename(dest)
            why = error.strerror or error
            self._notes.append(
                f"left out: {one}: it cannot be copied ({why}). What was collected before stays; ask for it again"
            )
            return False
        finally:
            for folder in (fresh, old):
                shutil.rmtree(folder, ignore_errors=True)
        self.log.info(f"{'Updating' if updating else 'Collecting'} submission: {one.student} {lab}")
        if copy.left_out:
            what = _some(copy.left_out, "; ")
            self._notes.append(f"left out of {one}: {what}. If it belongs to the work, ask for plain files")
        if self.check_owner and one.owner != one.student:
            self._others[one.owner].append(one.student)
        return True

    def _replaces(self, dest: Path, one: HandIn) -> bool:
        """Is ``one`` to be taken in the place of what was collected in ``dest``?"""
        try:
            there = parse_utc((dest / "timestamp.txt").read_text().strip())
        except Exception:  # there is none, or a learner has written it
            there = None
        newer = there is None or one.time > there
        return (self.update and newer) or (self.before_duedate and there != one.time)


def _some(texts: list[str], between: str) -> str:
    """The first three of ``texts``, and how many more there are."""
    return between.join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
