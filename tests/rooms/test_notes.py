"""What an instructor is told of a graded notebook beside its points."""

import pytest

from autograder.feedback import TOO_LONG
from autograder.notes import to_look_at


def cells(**mark):
    return [
        {"outputs": [{"metadata": {"gpulab": {"exercise": "02.pool", "typed_name": "", "tag": "", **mark}}}]}
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


def test_another_name_is_told_and_so_is_one_that_only_looks_like_a_part():
    for student in ("ginaro", "ada", ""):
        assert to_look_at(cells(typed_name="gina"), student) == ["answers were given under the name gina"]


def test_a_cell_that_was_stopped_is_counted_although_it_cost_nothing():
    late = {"outputs": [{"ename": "KeyboardInterrupt"}, {"ename": TOO_LONG}]}
    assert to_look_at([late, {"cell_type": "markdown"}], "ann") == ["1 cell went on for too long"]
    assert to_look_at([late, late], "ann") == ["2 cells went on for too long"]
