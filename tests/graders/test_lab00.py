"""What only lab 00 has: readers against ledgers written by hand, and the phases against their own arithmetic."""

import pytest

from autograder.checks import exercises
from autograder.checks.lab00 import reading
from autograder.checks.lab00.phases import MS
from autograder.course import Course
from autograder.verdict import Commitments
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Ended, Freed, Granted, Launched, Marked, Sent, Started, Waited
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous

READ, TRAP, OPEN = exercises()["00.read"], exercises()["00.trap"], Course.self_study()
LEARNERS = [f"learner {n}" for n in range(12)]


@pytest.fixture
def by_hand():
    """Copies from 0 to 10, 0 to 35 and 22 to 25, kernels from 5 to 20, 8 to 12 and, after a mark of a, 20 to 30."""
    return Ledger(
        [
            Claimed(0, 0, "device", 1024, Contiguous(1024, 512), "a"),
            Granted(0, 0, 0, 1024),
            Claimed(0, 1, "device", 512, Contiguous(512, 512), "b"),
            Granted(0, 1, 1024, 512),
            Freed(0, 0),
            Sent(0, 0, "b", "in", 512, "pinned"),
            Launched(0, 1, "a", "spin", 1, 4),
            Launched(0, 3, "c", "spin", 1, 4),
            Launched(0, 5, "b", "spin", 1, 4),
            Sent(0, 6, "d", "out", 512, "pinned"),
            Sent(0, 7, "e", "in", 512, "pinned"),
            Started(0, 0),
            Started(0, 6),
            Started(5, 1),
            Started(8, 3),
            Ended(10, 0),
            Ended(12, 3),
            Ended(20, 1),
            Marked(20, 2, "a"),
            Waited(20, 4, "b", 2),
            Started(20, 5),
            Started(22, 7),
            Ended(25, 7),
            Ended(30, 5),
            Ended(35, 6),
        ]
    )


def test_the_readers_say_of_a_ledger_written_by_hand_what_its_picture_shows(by_hand):
    runs = reading.runs_of(by_hand)
    assert [(r.stream, r.what, r.start_ns, r.end_ns) for r in runs] == [
        ("b", "copy in", 0, 10),
        ("a", "kernel", 5, 20),
        ("c", "kernel", 8, 12),
        ("b", "kernel", 20, 30),
        ("d", "copy out", 0, 35),
        ("e", "copy in", 22, 25),
    ]
    assert reading.held_over_time(by_hand) == [1024, 1536, 512]
    assert (reading.overlap_ns(runs), reading.overlap_of_pairs_ns(runs)) == (25, 5 + 2 + 15 + 4 + 10 + 3)
    last = reading.last_kernel(runs)
    assert (last.started, reading.before_on_stream(runs, last).ended) == (20, 15)
    assert reading.released(by_hand, runs, last).ended == 17
    assert reading.last_copy(runs).ended == len(by_hand) - 1


@pytest.mark.parametrize("name", LEARNERS)
def test_each_ledger_to_be_read_keeps_all_laws_and_holds_its_traps(name):
    story = READ.puzzle(OPEN, name)
    assert check(story.ledger) is None
    runs, held = story.runs, reading.held_over_time(story.ledger)
    assert max(held) > held[-1]
    by_end = {run.ended: run for run in runs}
    assert by_end[story.keys().waited_for].stream != reading.last_kernel(runs).stream
    kernels = [run for run in runs if not run.copies]
    assert any(
        sum(min(c.end_ns, k.end_ns) > max(c.start_ns, k.start_ns) for k in kernels) > 1
        for c in runs
        if c.copies
    )
    assert len(story.ledger) <= 50


def test_the_text_of_a_ledger_names_each_event_that_an_answer_can_be():
    story = READ.puzzle(OPEN, "ann")
    for run in story.runs:
        assert f"#{run.handed_over} " in story.text()
        assert f"#{run.ended} " in story.text()


def by_arithmetic(watched):
    """The six readings from the text of the task alone, in whole ns."""
    runs, util, active = [], [], []
    for phase, (start_ns, _) in zip(watched.phases, watched.spans_ns(), strict=True):
        runs.append((start_ns, start_ns + phase.busy_ms * MS, phase.blocks))
    for _, end_ns in watched.spans_ns():
        seen = [(min(end, end_ns) - max(start, end_ns - watched.window_ns), n) for start, end, n in runs]
        seen = [(max(0, length), n) for length, n in seen]
        util.append(100 * sum(length for length, _ in seen) // watched.window_ns)
        active.append(1000 * sum(length * n for length, n in seen) // (watched.window_ns * watched.spec.sms))
    return util, active


@pytest.mark.parametrize("name", LEARNERS)
def test_the_simulated_counters_read_what_the_text_of_the_task_gives(name):
    watched = TRAP.puzzle(OPEN, name)
    ledger, readings = watched.run()
    assert (readings.util, readings.sm_active_permille) == by_arithmetic(watched)
    assert check(ledger) is None
    starts = [ledger[serial].time_ns for serial in ledger.serials(Started)]
    assert starts == [start_ns for start_ns, _ in watched.spans_ns()]
    assert watched.phases[0].lasts_ns >= watched.window_ns
    assert readings.util[watched.spinner] == 100
    assert readings.sm_active_permille[watched.spinner] == 1000 // watched.spec.sms


def test_all_four_boards_both_windows_and_each_order_are_drawn():
    drawn = [TRAP.puzzle(OPEN, f"learner {n}") for n in range(24)]
    assert {each.spec.sms for each in drawn} == {40, 58, 108, 132}
    assert len({each.window_ns for each in drawn}) == 2
    assert {each.spinner for each in drawn} == {0, 1, 2}


def test_which_counter_tells_is_worth_nothing_without_a_reading_of_the_spinner():
    watched = TRAP.puzzle(OPEN, "ann")
    score = TRAP.practise(OPEN, watched, {"tells": "sm_active"})
    assert score.build_share == 0.0
    readings = watched.run()[1]
    full = {"util": readings.util, "sm_active_permille": readings.sm_active_permille}
    assert TRAP.practise(OPEN, watched, full | {"tells": "util"}).tag == "wrong-counter"
    assert TRAP.practise(OPEN, watched, full | {"tells": "sm_active"}).build_share == 1.0


@pytest.mark.parametrize(
    "odd",
    [{"util": 7}, {"util": [1, 2]}, {"util": [[1], None, True]}, {"sm_active_permille": "777"}, {"tells": 3}],
)
def test_an_answer_of_another_form_earns_nothing_and_breaks_nothing(odd):
    score = TRAP.practise(OPEN, TRAP.puzzle(OPEN, "ann"), odd)
    assert (score.build_share, score.tag) == (0.0, "other-reading")


@pytest.mark.parametrize("exercise", [READ, TRAP], ids=lambda e: e.id)
def test_learners_have_tasks_of_their_own(exercise):
    texts = {exercise.puzzle(OPEN, name).text() for name in LEARNERS}
    assert len(texts) == len(LEARNERS)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"tells": "sm_active_permille"}, "tells: write 'util' or 'sm_active'."),
        ({"util": [100, 100]}, "util: three readings, one a phase."),
        ({"util": [100, 100, 50.0]}, "util: [100, 100, 50.0] is not a list of whole numbers."),
        ({}, "Complete; it is graded when you hand in."),
    ],
)
def test_the_form_of_the_readings_is_told_before_it_costs_marks(typed, says):
    answered = {"util": [1, 2, 3], "sm_active_permille": [1, 2, 3], "tells": "util"} | typed
    assert TRAP.visible(OPEN, Commitments("ann", answered=answered), None).notes == (says,)


def test_a_list_that_is_longer_than_the_phases_has_no_right_reading():
    watched = TRAP.puzzle(OPEN, "ann")
    right = watched.run()[1]
    typed = {"util": right.util, "sm_active_permille": [*right.sm_active_permille, 0]}
    assert TRAP.practise(OPEN, watched, typed).build_share == 3 / 8


def test_a_draw_whose_last_kernel_waited_for_nobody_is_drawn_again():
    """On the first draw for this name the second service's kernel starts last."""
    course = Course.of("course 102", b"secret 102")
    story = READ.puzzle(course, "p102")
    (waited,) = story.ledger.of(Waited)
    assert reading.last_kernel(story.runs).stream == waited.stream
