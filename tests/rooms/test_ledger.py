import copy
import subprocess
import sys

import numpy as np
import pytest

from gpulab.errors import BrokenLaw, TraceFault
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import (
    KINDS,
    Answered,
    Arrived,
    Attached,
    Claimed,
    Closed,
    Dropped,
    Ended,
    Extrapolated,
    Finished,
    Freed,
    Granted,
    Grew,
    Joined,
    Launched,
    Marked,
    Occupied,
    Opened,
    Preempted,
    Prefilled,
    Refused,
    Restored,
    Returned,
    Reused,
    Sent,
    Started,
    Stepped,
    TimedOut,
    Used,
    Waited,
    Withdrawn,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous, Gang, Slots, Units

FACTS = [
    Opened(0, "arena", 4096, "B"),
    Claimed(5, 0, "arena", 100, Contiguous(512, 512), "chat"),
    Granted(5, 0, 0, 512),
    Used(5, 0, 100),
    Claimed(6, 1, "arena", 9000, Gang((Units(3), Slots(2, (0, 4))), together=True), 'a "Zoë" – 中\n'),
    Refused(6, 1, 3584, 3584),
    Withdrawn(7, 1),
    Claimed(7, 2, "arena", 1, Units(1, divisible=True), "chat"),
    TimedOut(8, 2),
    Freed(9, 0),
    Closed(9),
]
WORK = [
    Attached(
        9, "NVIDIA T4", "sim", 40, 320 * 10**9, "simulated: NVIDIA T4, published constants", "asked for"
    ),
    Launched(9, 0, "main", "copy", 4, 8192),
    Sent(9, 1, "main", "in", 4096, "pinned"),
    Started(10, 0),
    Occupied(10, 4, 4),
    Ended(11, 0),
    Marked(12, 2, "main"),
    Waited(12, 3, "side", 2),
]

SERVED = [
    Arrived(12, 0, "r0", "chat", 40, 3),
    Reused(12, 0, 16),
    Grew(12, 0, 1),
    Stepped(12, "kv", 12, 1, 0, 0, 0, 0, 0),
    Extrapolated(12, "kv", 1, 0, 0),
    Prefilled(12, 0, 24),
    Preempted(12, 0, 0),
    Restored(12, 0, 4),
    Dropped(12, 0, "timed out"),
    Finished(12, 0, 3, 7),
    Answered(12, 0),
]


def test_a_ledger_reads_like_a_list_of_its_facts():
    ledger = Ledger(FACTS)

    assert (len(ledger), ledger[1], ledger[-1], list(ledger)) == (11, FACTS[1], FACTS[-1], FACTS)
    assert (ledger.start_ns, ledger.end_ns) == (0, 9)
    assert ledger == Ledger(FACTS)
    assert ledger != Ledger(FACTS[:-1])
    assert repr(ledger) == "<Ledger: 11 facts, 0 to 9 ns>"


def test_append_returns_the_serial_and_refuses_time_that_runs_back():
    ledger = Ledger()

    assert [ledger.append(FACTS[0]), ledger.append(FACTS[2])] == [0, 1]
    with pytest.raises(BrokenLaw, match="Used at 4 ns was written after #1 at 5 ns") as broken:
        ledger.append(Used(4, 0, 1))

    assert (broken.value.law, broken.value.numbers, len(ledger)) == ("time", {"event": 2}, 2)


def test_facts_are_found_by_kind_by_owner_and_by_claim():
    ledger = Ledger(FACTS)

    assert ledger.of(Granted, Freed) == [FACTS[2], FACTS[9]]
    assert ledger.serials(Claimed) == [1, 4, 7]
    assert ledger.owned_by("chat") == [FACTS[1], FACTS[2], FACTS[3], FACTS[7], FACTS[8], FACTS[9]]
    assert ledger.owned_by("nobody") == []
    assert ledger.story(0, last=2) == [(3, FACTS[3]), (9, FACTS[9])]


def test_serials_and_slices_count_from_either_end():
    ledger = Ledger(FACTS)

    assert [ledger[-11], ledger[0], ledger[10]] == [FACTS[0], FACTS[0], FACTS[10]]
    assert (ledger[2:5], ledger[-2:], ledger[::5]) == (FACTS[2:5], FACTS[-2:], FACTS[::5])
    for serial in (11, -12):
        with pytest.raises(IndexError, match=f"no event #{serial}: the last event is #10"):
            ledger[serial]
    with pytest.raises(IndexError, match="the ledger is empty"):
        Ledger()[0]


def test_facts_written_at_once_are_those_that_would_have_been_appended():
    ledger = Ledger(FACTS[:2])

    ledger.write(Granted, 5, 0, 0, 512, Used, 5, 0, 100)
    ledger.append(FACTS[4])
    ledger.write(Closed, 6)

    assert list(ledger) == [*FACTS[:5], Closed(6)]
    assert ledger.digest() == Ledger([*FACTS[:5], Closed(6)]).digest()
    with pytest.raises(BrokenLaw, match="Freed at 5 ns was written after #5 at 6 ns"):
        ledger.write(Freed, 5, 0)
    assert len(ledger) == 6


def test_a_fact_that_was_read_is_no_way_to_change_the_ledger():
    ledger = Ledger(FACTS)

    ledger[3].units = 7
    next(iter(ledger)).capacity = 7

    assert list(ledger) == FACTS


def test_a_ledger_that_grows_while_it_is_read_is_read_to_its_end():
    ledger = Ledger(FACTS[:10])
    seen = []

    for fact in ledger:
        seen.append(fact)
        if len(ledger) < 11:
            ledger.append(FACTS[10])

    assert seen == FACTS


def test_a_copy_of_a_ledger_is_written_alone():
    ledger = Ledger(FACTS[:10])
    twin = copy.deepcopy(ledger)

    twin.append(FACTS[10])

    assert (len(ledger), list(twin)) == (10, FACTS)


@pytest.mark.parametrize("thing", [None, 7, "Freed", Freed, Contiguous(1)], ids=repr)
def test_what_is_no_fact_is_not_appended(thing):
    ledger = Ledger(FACTS)

    with pytest.raises(TypeError, match="is no fact"):
        ledger.append(thing)

    assert list(ledger) == FACTS


@pytest.mark.parametrize(
    "written",
    [(Freed, 9), (Freed, 9, 0, 0), (Freed, 9, 0, Used, 9, 0), ("Freed", 9, 0), ([], 9, 0)],
    ids=repr,
)
def test_a_fact_written_with_other_fields_is_named_when_it_is_read(written):
    ledger = Ledger(FACTS[:9])

    ledger.write(*written)

    with pytest.raises(
        TypeError, match=r"Fact #(9|10) begins with .*, which is no kind of fact with all its fields"
    ):
        list(ledger)


def test_numbers_of_any_size_are_kept():
    wide = Claimed(9, 3, "arena", 1 << 70, Contiguous(1 << 70), "x")
    ledger = Ledger([*FACTS, wide, Freed(1 << 65, 3)])

    assert ledger[-2:] == [wide, Freed(1 << 65, 3)]
    assert ledger.columns(Freed)["time_ns"].tolist() == [9, 1 << 65]


def test_columns_are_whole_number_arrays_with_the_serial_in_front():
    columns = Ledger(FACTS).columns(Claimed)

    assert list(columns) == ["serial", "time_ns", "claim", "resource", "size", "shape", "owner"]
    assert columns["serial"].tolist() == [1, 4, 7]
    assert columns["size"].dtype == np.int64
    assert columns["owner"][0] == "chat"


def test_every_kind_of_fact_survives_the_way_to_a_file_and_back(tmp_path):
    path = tmp_path / "ledger.jsonl"
    facts = [*FACTS[:-2], Joined(8, 2, 1), Returned(8, 0, 12), *FACTS[-2:], *WORK, *SERVED]
    Ledger(facts).to_jsonl(path)

    assert {type(fact).__name__ for fact in facts} == set(KINDS)
    assert Ledger.from_jsonl(path) == Ledger(facts)
    assert path.read_bytes().count(b"\n") == len(facts) + 1
    assert b"\r" not in path.read_bytes()


def test_equal_ledgers_have_equal_bytes_and_digests_in_another_process(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(FACTS).to_jsonl(path)
    code = f"from gpulab.telemetry.ledger import Ledger; print(Ledger.from_jsonl({str(path)!r}).digest())"

    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert other.stdout.strip() == Ledger(FACTS).digest()
    assert Ledger(FACTS[:-1]).digest() != Ledger(FACTS).digest()


@pytest.mark.parametrize(
    ("line", "says"),
    {
        "cut off": ('["Freed",9', "line 4, column 11"),
        "unknown kind": ('["Vanished",9,0]', "Vanished"),
        "too few fields": ('["Freed",9]', "Freed has 2 fields, not 1"),
        "text for a number": ('["Freed",9,"0"]', "Freed.claim is '0', not int"),
        "a truth value for a number": ('["Freed",9,true]', "Freed.claim is True, not int"),
        "a fraction": ('["Freed",9.5,0]', "Freed.time_ns is 9.5"),
        "not a number": ('["Freed",9,NaN]', "NaN is no number of a ledger"),
        "unknown shape": ('["Claimed",9,9,"arena",1,["cloud",1],""]', "cloud"),
        "time running back": ('["Freed",1,0]', "written after"),
        "no list": ("7", "is no fact"),
        "empty line": ("", "is no fact"),
        "an object": ('{"Freed":1}', "is no fact"),
    }.values(),
)
def test_a_broken_line_is_named_with_its_place_and_nothing_before_it_is_lost(tmp_path, line, says):
    path = tmp_path / "ledger.jsonl"
    path.write_text("\n".join([*list(Ledger(FACTS[:2]).lines()), line, *list(Ledger(FACTS).lines())[3:]]))

    with pytest.raises(TraceFault) as fault:
        Ledger.from_jsonl(path)

    assert says in str(fault.value)
    assert "line 4" in str(fault.value)
    assert fault.value.good == FACTS[:2]
    assert fault.value.rows[0][0::2] == (4, line)


def test_bytes_that_are_no_text_are_named_and_nothing_before_them_is_lost(tmp_path):
    path = tmp_path / "ledger.jsonl"
    lines = list(Ledger(FACTS[:3]).lines())
    path.write_bytes("\n".join(lines).encode() + b'\n["Claimed",5,9,"ar\xff\xfena",1,["units",1,false],""]\n')

    with pytest.raises(TraceFault, match="line 5") as fault:
        Ledger.from_jsonl(path)

    assert fault.value.good == FACTS[:3]


def test_a_file_that_is_no_ledger_is_refused_at_its_first_line(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"something": "else"}\n')

    with pytest.raises(TraceFault, match="line 1, column 1"):
        Ledger.from_jsonl(path)


def test_a_clock_moves_forward_stands_still_and_never_goes_back():
    clock = Clock(5)
    clock.advance_to(5)
    clock.advance_to(9)

    with pytest.raises(BrokenLaw, match="from 9 ns to 8 ns"):
        clock.advance_to(8)

    assert clock.now_ns == 9


def test_facts_of_some_kinds_come_with_their_serials_and_rows_with_all_fields():
    ledger = Ledger(FACTS)

    found = [(serial, fact) for serial, fact in enumerate(FACTS) if type(fact) in (Granted, Freed)]
    assert list(ledger.each({Granted, Freed})) == found != []
    assert [kind(*fields) for kind, fields in ledger.rows()] == FACTS
