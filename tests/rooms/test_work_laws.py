"""One broken ledger a law of work; each goes red when that rule is taken out of ``work_laws``."""

import pytest

from gpulab.report.audit import audit
from gpulab.report.work_laws import WORK_LAWS
from gpulab.telemetry.events import Attached, Ended, Launched, Marked, Occupied, Sent, Started, Waited
from gpulab.telemetry.ledger import Ledger

DEVICE = Attached(0, "board", "sim", 4, 10**9, "badge", "asked for")


def launched(work, stream="a", time_ns=1):
    return Launched(time_ns, work, stream, "wait", 1, 0)


def ran(work, start=2, end=3):
    return [Started(start, work), Ended(end, work)]


SOUND = [
    *(DEVICE, launched(0), Sent(1, 1, "b", "in", 64, "pinned"), launched(2)),
    *(Started(2, 0), Occupied(2, 1, 1), Started(2, 1), Ended(3, 1), Marked(3, 3, "b")),
    *(Ended(4, 0), Started(4, 2), Occupied(4, 4, 9), Ended(5, 2), Occupied(5, 0, 0)),
    *(Waited(5, 4, "a", 3), launched(5, time_ns=6), *ran(5, 7, 7)),
]

BROKEN = {
    "handed over twice": ("work", [DEVICE, launched(0), launched(0)], 2),
    "started and never handed over": ("work", [DEVICE, Started(1, 0)], 1),
    "started twice": ("work", [DEVICE, launched(0), Started(1, 0), Started(2, 0)], 3),
    "ended and never started": ("work", [DEVICE, launched(0), Ended(2, 0)], 2),
    "ended twice": ("work", [DEVICE, launched(0), *ran(0), Ended(4, 0)], 4),
    "a mark with the serial of a kernel": ("work", [DEVICE, launched(0), Marked(2, 0, "a")], 2),
    "started before the one before it was over": (
        "stream",
        [DEVICE, launched(0), launched(1), Started(2, 0), Started(2, 1)],
        4,
    ),
    "started out of order": ("stream", [DEVICE, launched(0), launched(1), Started(2, 1)], 3),
    "a mark reached before its work": ("stream", [DEVICE, launched(0), Marked(2, 1, "a")], 2),
    "a wait over after what it holds up": (
        "stream",
        [DEVICE, Marked(1, 0, "b"), launched(2), *ran(2), Waited(3, 1, "a", 0)],
        5,
    ),
    "a wait over before its mark": ("mark", [DEVICE, Waited(2, 1, "a", 0)], 1),
    "more multiprocessors than there are": ("sms", [DEVICE, Occupied(1, 5, 9)], 1),
    "fewer multiprocessors busy than none": ("sms", [DEVICE, Occupied(1, -1, 0)], 1),
    "busy multiprocessors without a block": ("sms", [DEVICE, Occupied(1, 3, 2)], 1),
    "blocks on no multiprocessor": ("sms", [DEVICE, Occupied(1, 0, 2)], 1),
}


def test_a_sound_ledger_of_work_breaks_no_law():
    assert audit(Ledger(SOUND)) == []


@pytest.mark.parametrize(("law", "facts", "event"), BROKEN.values(), ids=BROKEN)
def test_a_ledger_that_breaks_one_law_is_told_that_law_and_that_fact_alone(law, facts, event):
    assert [(violation.law, violation.event) for violation in audit(facts)] == [(law, event)]


def test_serials_of_work_may_be_any_numbers():
    assert audit([DEVICE, Marked(1, -5, "a"), Waited(2, -4, "b", -5)]) == []


def test_every_law_of_work_has_a_ledger_that_breaks_it():
    assert {law for law, _, _ in BROKEN.values()} == set(WORK_LAWS)
