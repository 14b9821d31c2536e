import pytest

from gpulab.telemetry.shape import Contiguous, Gang, Slots, Units, shape_from_json, shape_to_json

FREE = ((0, 10), (16, 4), (24, 3))

TAKES = {
    "the first stretch that is long enough": (Contiguous(4), FREE, ((0, 4),), ((4, 6), (16, 4), (24, 3))),
    "a whole stretch": (Contiguous(10), FREE, ((0, 10),), ((16, 4), (24, 3))),
    "its start after aligning, the rest stays free": (
        Contiguous(4, 4),
        ((3, 10),),
        ((4, 4),),
        ((3, 1), (8, 5)),
    ),
    "the next stretch when aligning leaves too little": (
        Contiguous(4, 8),
        ((1, 10), (16, 4)),
        ((16, 4),),
        ((1, 10),),
    ),
    "units from several stretches": (Units(12), FREE, ((0, 10), (16, 2)), ((18, 2), (24, 3))),
    "all units there are": (Units(17), FREE, FREE, ()),
    "what is left when it is divisible": (Units(99, divisible=True), FREE, FREE, ()),
    "a divisible stretch: the whole where there is a place for it": (
        Contiguous(4, divisible=True),
        ((0, 3), (5, 4)),
        ((5, 4),),
        ((0, 3),),
    ),
    "a divisible stretch: else the longest part": (
        Contiguous(9, 2, divisible=True),
        ((1, 4), (7, 5), (20, 4)),
        ((8, 4),),
        ((1, 4), (7, 1), (20, 4)),
    ),
    "a divisible instance: the longest part from a legal start": (
        Slots(4, (2, 8), divisible=True),
        ((0, 4), (7, 4)),
        ((8, 3),),
        ((0, 4), (7, 1)),
    ),
    "the members of a divisible gang that find a place": (
        Gang((Contiguous(3), Contiguous(5), Contiguous(2)), divisible=True),
        ((0, 4), (8, 2)),
        ((0, 3), (8, 2)),
        ((3, 1),),
    ),
    "a divisible gang on the first node with the most room": (
        Gang((Units(2), Units(2), Units(2)), together=True, divisible=True),
        ((0, 3), (8, 4), (16, 5)),
        ((8, 2), (10, 2)),
        ((0, 3), (16, 5)),
    ),
    "its first legal slot": (Slots(4, (1, 16)), FREE, ((1, 4),), ((0, 1), (5, 5), (16, 4), (24, 3))),
    "a later slot when the first is taken": (Slots(4, (8, 16)), FREE, ((16, 4),), ((0, 10), (24, 3))),
    "a place for each member": (
        Gang((Contiguous(4), Contiguous(4))),
        ((0, 4), (8, 4)),
        ((0, 4), (8, 4)),
        (),
    ),
    "one stretch for all members": (
        Gang((Units(2), Units(2)), together=True),
        ((0, 3), (8, 5)),
        ((8, 2), (10, 2)),
        ((0, 3), (12, 1)),
    ),
}
MISFITS = {
    "longer than every stretch": (Contiguous(11), FREE),
    "long enough only before aligning": (Contiguous(10, 4), ((1, 10),)),
    "more units than free": (Units(18), FREE),
    "a divisible claim when nothing is free": (Units(5, divisible=True), ()),
    "no part of a divisible stretch after aligning": (Contiguous(5, 8, divisible=True), ((1, 7), (9, 6))),
    "no part of a divisible instance": (Slots(2, (4, 12), divisible=True), ((0, 4), (13, 9))),
    "a divisible gang of which nobody has room": (Gang((Units(3), Units(4)), divisible=True), ((0, 2),)),
    "no slot free": (Slots(4, (8, 20)), FREE),
    "a member without a place": (Gang((Contiguous(10), Contiguous(5))), FREE),
    "members that fit only apart": (Gang((Units(1), Units(1)), together=True), ((0, 1), (5, 1))),
}


@pytest.mark.parametrize(("shape", "free", "taken", "after"), TAKES.values(), ids=TAKES)
def test_a_shape_takes(shape, free, taken, after):
    assert shape.take(free) == (taken, after)


@pytest.mark.parametrize(("shape", "free"), MISFITS.values(), ids=MISFITS)
def test_a_shape_finds_no_place(shape, free):
    assert shape.take(free) is None


def test_a_gang_is_as_large_as_its_members_together():
    assert Gang((Units(3), Gang((Slots(2, (0,)), Contiguous(4))))).size == 9


@pytest.mark.parametrize(
    "shape",
    [
        Contiguous(512, 256),
        Units(3, divisible=True),
        Slots(2, (0, 4)),
        Gang((Units(1), Gang((Contiguous(2, 2), Slots(1, (7,))), together=True))),
    ],
    ids=lambda shape: type(shape).__name__,
)
def test_a_shape_survives_json(shape):
    assert shape_from_json(shape_to_json(shape)) == shape


@pytest.mark.parametrize(
    "data",
    [
        ["cloud", 1],
        ["contiguous", 1, 2, False, 9],
        ["contiguous", 1, 1, False, False],
        ["contiguous", 1.5, 1, False],
        ["contiguous", "1", 1, False],
        ["contiguous", True, 1, False],
        ["contiguous", 1, 0, False],
        ["units", 3, 0],
        ["units"],
        ["slots", 2, [0.5], False],
        ["slots", 2, [0], None],
        ["gang", [["units", 1, False]], 1, False],
        ["gang", [["units", None, False]], True, False],
        [],
    ],
)
def test_json_that_is_no_shape_is_refused(data):
    with pytest.raises((KeyError, TypeError, ValueError)):
        shape_from_json(data)


def test_what_is_no_shape_is_not_written():
    with pytest.raises(TypeError, match="'cloud' is not a shape"):
        shape_to_json("cloud")
