"""What an instructor is told of a graded notebook beside its points."""

import pytest

from autograder.feedback import TOO_LONG
from autograder.notes import to_look_at


def cells(**mark):
    return [
        {
            "outputs": [
                {"metadata": {"gpulab": {"exercise": "02.pool", "typed_name": None, "tag": "", **mark}}}
            ]
        }
    ]


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("no-code", "its code did not run"),
        ("too-long", "did not come to an end"),
        ("gone", "ended the kernel"),
    ],
)
def test_code_that_could_not_be_judged_is_named(tag, told):
    assert to_look_at(cells(tag=tag), "ann") == [f"02.pool: {told}"]
    assert to_look_at(cells(tag="worst-fit"), "ann") == []


@pytest.mark.parametrize("student", ["gina", "Gina Meyer 11111", "meyer.gina", "GINA"])
def test_a_part_of_a_platforms_name_is_no_other_name(student):
    assert to_look_at(cells(typed_name="Gina"), student) == []


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Anna-Lena Meyer", "Anna-Lena Meyer"),
        ("Anna-Lena", "Anna-Lena Meyer 123"),
        ("J. Smith", "J. Smith"),
        ("a.b c", "a.b c"),
        ("gina_1", "gina_1"),
        ("M\N{LATIN SMALL LETTER U WITH DIAERESIS}ller", "Mu\N{COMBINING DIAERESIS}ller"),
        ("Erdős", "erdo\N{COMBINING DOUBLE ACUTE ACCENT}s_paul"),
    ],
)
def test_the_same_name_written_in_another_way_is_no_other_name(name, student):
    assert to_look_at(cells(typed_name=name), student) == []
    assert to_look_at(cells(typed_name=student), student) == []


def test_another_name_is_told_and_so_is_one_that_only_looks_like_a_part():
    for student in ("ginaro", "ada", "", "anna-gina2"):
        assert to_look_at(cells(typed_name="gina"), student) == ["answers were given under the name gina"]
    assert to_look_at(cells(typed_name="☃"), "gina") == ["answers were given under the name ☃"]


def test_a_cell_that_was_stopped_is_counted_although_it_cost_nothing():
    late = {"outputs": [{"ename": "KeyboardInterrupt"}, {"ename": TOO_LONG}]}
    assert to_look_at([late, {"cell_type": "markdown"}], "ann") == ["1 cell went on for too long"]
    assert to_look_at([late, late], "ann") == ["2 cells went on for too long"]


def test_a_check_that_was_missing_and_a_name_that_was_not_given_are_told():
    put_back = {"metadata": {"tags": ["restored"]}}
    assert to_look_at([put_back, *cells()], "ann") == ["1 check cell was missing"]
    assert to_look_at([put_back, put_back], "ann") == ["2 check cells were missing"]
    assert to_look_at(cells(typed_name=""), "ann") == ["no name was given"]
