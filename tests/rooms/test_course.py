"""A course's secret, its public card, and what is drawn from which of them."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.checks import exercises
from autograder.checks.lab02.cases import graded_case
from autograder.course import Course
from gpulab.units import MiB

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_secret_around(monkeypatch):
    monkeypatch.delenv("GPULAB_COURSE_SECRET", raising=False)


def test_a_new_course_makes_its_secret_for_its_owners_eyes_and_keeps_it(tmp_path):
    first = Course.load(tmp_path / "course")
    path = tmp_path / "course" / "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first.secret) == 64
    assert Course.load(tmp_path / "course") == first
    assert Course.load(tmp_path / "other").course_id != first.course_id


def test_the_public_card_tells_nothing_of_the_secret(tmp_path):
    course = Course.load(tmp_path)
    written = json.dumps(course.card())
    assert sorted(course.card()) == ["course_id", "rules"]
    assert course.secret.decode() not in written
    assert len(course.course_id) == 12


def test_the_file_wins_over_the_environment_which_wins_over_a_new_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_COURSE_SECRET", " given ")
    given = Course.load(tmp_path)
    assert given.secret == b"given"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "secret").write_text("filed\n")
    assert Course.load(tmp_path).secret == b"filed"
    assert given.course_id != Course.load(tmp_path).course_id


def test_whoever_was_first_to_write_the_secret_wins(tmp_path, monkeypatch):
    from autograder import course

    def somebody_else(path):
        path.write_text("theirs")
        return make(path)

    make = course._make_secret
    monkeypatch.setattr(course, "_make_secret", somebody_else)
    assert Course.load(tmp_path).secret == b"theirs"


def test_an_empty_secret_is_refused_and_not_replaced(tmp_path):
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(ValueError, match="secret is empty"):
        Course.load(tmp_path)
    assert (tmp_path / "secret").read_text() == "\n"


def test_the_open_course_is_the_same_by_every_door(tmp_path):
    (tmp_path / "secret").write_text("self\n")
    assert Course.load(tmp_path) == Course.self_study() == Course.at_hand(tmp_path)


def test_a_learners_machine_reads_the_card_and_cannot_draw_graded_inputs(tmp_path):
    course = Course.of("c1", b"secret")
    (tmp_path / "course.json").write_text(json.dumps(course.card()), encoding="utf-8")
    at_hand = Course.at_hand(tmp_path)
    assert (at_hand.course_id, at_hand.rules, at_hand.secret) == ("c1", course.rules, b"")
    with pytest.raises(ValueError, match="not on this machine"):
        at_hand.graded("02.first-fit", 0)
    for name in ("02.predict-oom", "02.strand", "02.first-fit"):
        exercise = exercises()[name]
        assert exercise.puzzle(at_hand, "ann") == exercise.puzzle(course, "ann")


def test_twist_constants_are_drawn_from_the_secret_within_their_range():
    rules = [Course.of("c", f"secret {n}".encode()).rules["02.first-fit"] for n in range(60)]
    assert {r["threshold"] // MiB for r in rules} == {112, 128, 144, 160}
    assert {r["boundary"] // MiB for r in rules} == {4, 8, 16, 32}


def test_a_learners_own_tasks_depend_on_course_and_name_and_not_on_the_secret():
    for name in ("02.predict-oom", "02.strand", "02.first-fit"):
        exercise = exercises()[name]
        one = exercise.puzzle(Course.of("c1", b"one"), "ann")
        assert exercise.puzzle(Course.of("c1", b"two"), "ann") == one
        assert exercise.puzzle(Course.of("c2", b"one"), "ann") != one
        assert exercise.puzzle(Course.of("c1", b"one"), "bob") != one
        assert exercise.puzzle(Course.of("c1", b"one"), "") == exercise.puzzle(Course.of("c1", b"two"), "")


def test_practice_and_visible_inputs_are_the_same_in_every_course():
    rules = Course.self_study().rules["02.first-fit"]
    one, two = Course.of("c1", b"one"), Course.of("c2", b"two")
    for number in range(3):
        cases = [graded_case(c.public("02.first-fit", number), rules, number, 50) for c in (one, two)]
        assert cases[0] == cases[1]
    for name in ("02.predict-oom", "02.strand"):
        exercise = exercises()[name]
        assert exercise.puzzle(one, "ann", 3) == exercise.puzzle(two, "bob", 3)
        assert exercise.puzzle(one, "ann", 3) != exercise.puzzle(one, "ann", 4)


DIGEST = """
import hashlib
from autograder.checks import exercises
from autograder.checks.lab02.cases import graded_case
from autograder.course import Course
course = Course.of("c", b"secret")
said = [repr(graded_case(course.graded("02.first-fit", n), course.rules["02.first-fit"], n)) for n in range(12)]
said += [repr(exercises()[name].puzzle(course, "Zo\\u00eb")) for name in ("02.predict-oom", "02.strand", "02.first-fit")]
print(hashlib.sha256("".join(said).encode()).hexdigest())
"""


def test_equal_secrets_draw_equal_inputs_in_every_process_and_different_ones_differ(capsys):
    exec(DIGEST, {})
    here = capsys.readouterr().out
    there = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert here == there
    exec(DIGEST.replace('b"secret"', 'b"other"'), {})
    assert capsys.readouterr().out != here


def test_no_two_cases_of_a_course_and_no_two_secrets_share_an_input():
    drawn = [Course.of("c", s).graded("02.first-fit", n).random() for s in (b"1", b"2") for n in range(12)]
    drawn += [
        Course.of("d", b"1").graded("02.first-fit", 0).random(),
        Course.of("c", b"1").graded("x", 0).random(),
    ]
    drawn += [Course.of("c", b"1").public("02.first-fit", 0).random()]
    drawn += [Course.of("c", b"1").of_learner("02.first-fit", "0").random()]
    assert len(set(drawn)) == len(drawn)
