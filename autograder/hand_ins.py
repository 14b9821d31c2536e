"""What lies in the exchange's inbound folder: which of it is a hand-in, and which of those another may have made."""

import os
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from autograder.channel import printable
from autograder.plain_copy import kind

_ASK = "nbgrader submit did not make it. Ask whose it is, then remove it"


class NoHandIn(Exception):
    """This is not what a learner hands in; the text says why and what to do."""


@dataclass(frozen=True)
class HandIn:
    """A learner's folder in the exchange: whose it says it is, when it says it came, which account owns it."""

    student: str
    name: str
    time: datetime
    uid: int
    owner: str

    def __str__(self) -> str:
        return f"what {printable(self.student, 60)} handed in at {self.time:%Y-%m-%d %H:%M:%S}"


@cache
def account(uid: int) -> str:
    """The name of an account."""
    import pwd  # there is none on Windows, where learners use this configuration as well

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"number {uid}"


def read(name: str, lab: str, look: os.stat_result, owner: str) -> HandIn | None:
    """The hand-in in the folder ``name``; None for another lab's. ``look``: what it is itself, no link followed.

    Raises:
        NoHandIn: it is no folder, or has no such name.
    """
    from nbgrader.utils import parse_utc

    if kind(look) != "folder":
        raise NoHandIn(f"it is a {kind(look)}, not a folder: {_ASK}")
    student, *rest = name.rsplit("+", 3)  # a student's name may hold a +
    if len(rest) < 2 or rest[0] != lab:
        return None
    if not student or student.startswith(".") or not student.isprintable():
        raise NoHandIn(f"its name begins with nobody's name: {_ASK}")
    try:
        return HandIn(student, name, parse_utc(rest[1]), look.st_uid, owner)
    except Exception:  # dateutil raises whatever a text makes it stumble over
        raise NoHandIn(f"no time can be read in its name: {_ASK}")


def doubtful(hand_ins: list[HandIn], accounts: set[str]) -> list[HandIn]:
    """Those of one student's ``hand_ins`` that somebody else seems to have made.

    ``accounts``: the students who hand in under the name of their account. Names need not be accounts (on a hub, or
    where an instructor hands in for others), so that a foreign owner alone says nothing: either this student has another
    hand-in that is surely right, or the owner is a student, too. Whoever collects could write anything anyway.
    """
    right = {hand_ins[0].student, account(os.geteuid()), account(0)}
    sure = any(one.owner in right for one in hand_ins)
    return [one for one in hand_ins if one.owner not in right and (sure or one.owner in accounts)]
