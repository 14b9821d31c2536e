"""gpulab/cli/handout.py: nothing a learner typed is ever written over."""

import json

import pytest

from gpulab.cli.handout import STATE, hand_out

NAME = "02-allocate"


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)


class Course:
    """A release that can change, and a learner who can type."""

    def __init__(self, folder):
        self.release, self.work = folder / "release" / NAME, folder / "work"
        self.release.mkdir(parents=True)
        self.change("one")

    def change(self, text, name=f"{NAME}.ipynb"):
        (self.release / name).write_text(text)

    def type(self, text, name=f"{NAME}.ipynb"):
        (self.work / NAME / name).write_text(text)

    def hand_out(self, **options):
        return hand_out(self.release, self.work, **options)

    def files(self):
        return {path.name: path.read_text() for path in (self.work / NAME).iterdir()}


def test_the_first_time_everything_is_copied(course):
    course.change("{}", "course.json")
    assert course.hand_out() == [f"{NAME}.ipynb is ready in {course.work / NAME}."]
    assert course.files() == {f"{NAME}.ipynb": "one", "course.json": "{}"}


def test_without_a_change_nothing_is_said_and_nothing_written(course):
    course.hand_out()
    course.type("mine")
    before = {path: path.stat().st_mtime_ns for path in course.work.rglob("*")}
    assert course.hand_out() == []
    assert {path: path.stat().st_mtime_ns for path in course.work.rglob("*")} == before


def test_a_changed_release_lands_beside_the_typed_notebook_with_one_sentence(course):
    course.hand_out()
    course.type("mine")
    course.change("two")
    said = course.hand_out()
    assert len(said) == 1
    assert "untouched" in said[0]
    assert f"{NAME}.new.ipynb" in said[0]
    assert course.files() == {f"{NAME}.ipynb": "mine", f"{NAME}.new.ipynb": "two"}
    assert course.hand_out() == []


def test_even_an_untouched_notebook_is_not_written_again(course):
    course.hand_out()
    course.change("two")
    course.hand_out()
    assert course.files() == {f"{NAME}.ipynb": "one", f"{NAME}.new.ipynb": "two"}


def test_an_untouched_new_notebook_is_replaced_by_a_newer_one(course):
    course.hand_out()
    for text in ("two", "three"):
        course.change(text)
        course.hand_out()
    assert course.files() == {f"{NAME}.ipynb": "one", f"{NAME}.new.ipynb": "three"}


def test_a_new_notebook_that_was_typed_into_is_kept_and_the_newer_one_gets_a_number(course):
    course.hand_out()
    course.change("two")
    course.hand_out()
    course.type("mine too", f"{NAME}.new.ipynb")
    for text in ("three", "four"):
        course.change(text)
        course.hand_out()
    assert course.files() == {
        f"{NAME}.ipynb": "one",
        f"{NAME}.new.ipynb": "mine too",
        f"{NAME}.new-2.ipynb": "four",
    }


def test_a_new_notebook_that_the_learner_threw_away_does_not_come_back(course):
    course.hand_out()
    course.change("two")
    course.hand_out()
    (course.work / NAME / f"{NAME}.new.ipynb").unlink()
    assert course.hand_out() == []
    assert course.files() == {f"{NAME}.ipynb": "one"}


def test_fresh_moves_the_old_notebooks_aside_and_counts_them(course):
    course.hand_out()
    for text in ("first try", "second try"):
        course.type(text)
        said = course.hand_out(fresh=True)
    assert said[0] == f"Your {NAME}.ipynb is kept as {NAME}.old-2.ipynb."
    assert course.files() == {
        f"{NAME}.ipynb": "one",
        f"{NAME}.old-1.ipynb": "first try",
        f"{NAME}.old-2.ipynb": "second try",
    }


def test_data_and_the_course_card_are_refreshed(course):
    course.change("old", "data.csv")
    course.hand_out()
    course.change("new", "data.csv")
    assert course.hand_out() == []
    assert course.files()["data.csv"] == "new"


def test_other_files_of_the_learner_stay(course):
    course.hand_out()
    course.type("notes", "my notes.txt")
    course.type("experiment", "scratch.ipynb")
    course.change("two")
    course.hand_out(fresh=True)
    assert course.files()["my notes.txt"] == "notes"
    assert course.files()["scratch.ipynb"] == "experiment"


@pytest.mark.parametrize(
    "broken", [None, "", "{", "[]", '{"files": 3}', '{"files": {}, "newest": [1]}', "null", '"x"', "\0\0"]
)
def test_a_lost_or_broken_state_file_costs_a_copy_but_no_typing(course, broken):
    course.hand_out()
    course.type("mine")
    if broken is None:
        (course.work / STATE).unlink()
    else:
        (course.work / STATE).write_text(broken)
    course.hand_out()
    assert course.files() == {f"{NAME}.ipynb": "mine", f"{NAME}.new.ipynb": "one"}
    assert course.hand_out() == []
    assert json.loads((course.work / STATE).read_text())["newest"]


def test_a_lost_state_file_is_no_matter_while_nobody_has_typed(course):
    course.hand_out()
    (course.work / STATE).unlink()
    assert course.hand_out() == []
    assert course.files() == {f"{NAME}.ipynb": "one"}


def test_a_dangling_link_in_place_of_the_notebook_is_not_written_through(course, tmp_path):
    (course.work / NAME).mkdir(parents=True)
    (course.work / NAME / f"{NAME}.ipynb").symlink_to(tmp_path / "elsewhere.ipynb")
    with pytest.raises(OSError, match="No such file"):
        course.hand_out()
    assert not (tmp_path / "elsewhere.ipynb").exists()


def test_a_write_that_fails_leaves_no_half_notebook(course, monkeypatch):
    course.hand_out()
    course.change("two")
    monkeypatch.setattr("gpulab.cli.handout.os.replace", full_disk)
    with pytest.raises(OSError, match="disk full"):
        course.hand_out()
    assert course.files() == {f"{NAME}.ipynb": "one"}


def full_disk(*paths):
    raise OSError("disk full")
