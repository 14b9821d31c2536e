import random

from gpulab.report.density import density


def cells(boxes, window=(0, 100), capacity=100, slices=10, bins=10):
    return density(boxes, window=window, capacity=capacity, slices=slices, bins=bins)


def test_a_grant_that_fills_its_cells_is_one_full_part_a_row():
    assert cells([(20, 50, 10, 30)]) == [(20, 50, 10, 20, 10), (20, 50, 20, 30, 10)]


def test_a_gap_of_one_unit_is_not_rounded_away():
    assert cells([(0, 100, 0, 10), (0, 50, 10, 20), (51, 100, 10, 20)]) == [
        *((0, 100, 0, 10, 10), (0, 50, 10, 20, 10), (50, 60, 10, 20, 9), (60, 100, 10, 20, 10)),
    ]


def test_a_grant_of_one_unit_is_not_rounded_away():
    assert cells([(55, 56, 3, 4)]) == [(50, 60, 0, 10, 1)]


def test_what_lies_outside_the_map_counts_nothing():
    assert cells([(-50, 0, 0, 100), (100, 150, 0, 100), (5, 5, 0, 9), (0, 9, 100, 200)]) == []


def test_a_map_smaller_than_its_cells_has_fewer_cells():
    assert cells([(0, 1, 0, 1)], window=(0, 1), capacity=3) == [(0, 1, 0, 1, 10)]


def test_random_grants_fill_each_cell_as_counted_unit_by_unit():
    draw = random.Random("density")
    window, capacity, slices, bins = (7, 60), 41, 6, 5
    boxes = []
    for _ in range(60):
        begin, bottom = draw.randrange(0, 70), draw.randrange(41)
        boxes.append((begin, begin + draw.randrange(9), bottom, bottom + draw.randrange(9)))
    times = [7 + 53 * cut // 6 for cut in range(7)]
    places = [41 * cut // 5 for cut in range(6)]

    counted = {}
    for column in range(slices):
        for row in range(bins):
            low, high, bottom, top = times[column], times[column + 1], places[row], places[row + 1]
            area = sum(
                sum(b <= t < e for t in range(low, high)) * sum(s <= u < t2 for u in range(bottom, top))
                for b, e, s, t2 in boxes
            )
            full = (high - low) * (top - bottom)
            tenths = (20 * area + full) // (2 * full)
            counted[low, bottom] = tenths if area in (0, full) else min(max(tenths, 1), 9)

    drawn = dict.fromkeys(counted, 0)
    for low, high, bottom, _, tenths in cells(boxes, window, capacity, slices, bins):
        for begin, place in drawn:
            if low <= begin < high and place == bottom:
                drawn[begin, place] = tenths
    assert drawn == counted
