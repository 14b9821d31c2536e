"""A memory map of many grants: how full each box of time and addresses was, exactly counted."""

from collections.abc import Iterable

TENTHS = 10


def density(
    boxes: Iterable[tuple[int, int, int, int]],
    *,
    window: tuple[int, int],
    capacity: int,
    slices: int,
    bins: int,
) -> list[tuple[int, int, int, int, int]]:
    """``(from, to, start, end, tenths)`` for every part of the map where something is held.

    ``boxes`` are grants as ``(from, to, start, end)`` in time and units; the map covers ``window`` by ``[0, capacity)`` in ``slices`` by ``bins`` cells. ``tenths`` is 10 only where all of the cell is
    held and at least 1 where anything is, so neither a peak nor a gap is rounded away. Neighbours in
    time that are equally full are one part. Whole numbers throughout. Cost: O(grants · bins one touches).
    """
    low, high = window
    slices, bins = min(slices, high - low), min(bins, capacity)
    times = [low + (high - low) * cut // slices for cut in range(slices + 1)]
    places = [capacity * cut // bins for cut in range(bins + 1)]
    whole = [[0] * (slices + 1) for _ in range(bins)]  # change of units held over whole slices
    partial = [[0] * slices for _ in range(bins)]  # unit·ns held in part of a slice
    for box in boxes:
        begin, end, bottom, top = max(box[0], low), min(box[1], high), max(box[2], 0), min(box[3], capacity)
        if begin >= end or bottom >= top:
            continue
        first, last = _cell(begin, times), _cell(end - 1, times)
        for row in range(_cell(bottom, places), _cell(top - 1, places) + 1):
            units = min(top, places[row + 1]) - max(bottom, places[row])
            whole[row][first] += units
            whole[row][last + 1] -= units
            partial[row][first] -= units * (begin - times[first])
            partial[row][last] -= units * (times[last + 1] - end)
    parts = []
    for row in range(bins):
        size = places[row + 1] - places[row]
        parts += _runs(_tenths(whole[row], partial[row], times, size), times, places[row], places[row + 1])
    return parts


def _tenths(whole: list[int], partial: list[int], times: list[int], size: int) -> list[int]:
    shares, held = [], 0
    for column, part in enumerate(partial):
        held += whole[column]
        width = times[column + 1] - times[column]
        area, full = held * width + part, size * width
        tenths = (2 * TENTHS * area + full) // (2 * full)
        shares.append(tenths if area in (0, full) else min(max(tenths, 1), TENTHS - 1))
    return shares


def _runs(shares: list[int], times: list[int], bottom: int, top: int) -> list[tuple[int, int, int, int, int]]:
    runs, since = [], 0
    for column in range(1, len(shares) + 1):
        if column == len(shares) or shares[column] != shares[since]:
            if shares[since]:
                runs.append((times[since], times[column], bottom, top, shares[since]))
            since = column
    return runs


def _cell(value: int, cuts: list[int]) -> int:
    """The cell of ``value`` among evenly spaced ``cuts``."""
    cell = (value - cuts[0]) * (len(cuts) - 1) // (cuts[-1] - cuts[0])
    return cell + 1 if value >= cuts[cell + 1] else cell
