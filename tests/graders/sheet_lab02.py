"""The sheet of 02.best-fit."""

from sheets import Sheet, Wrong


def fits(hole, size, align):
    return -(-hole[0] // align) * align + size <= hole[0] + hole[1]


def reference(holes, size, align):
    good = [(hole[1], n) for n, hole in enumerate(holes) if fits(hole, size, align)]
    return min(good)[1] if good else None


def worst_fit(holes, size, align):
    good = [(-hole[1], n) for n, hole in enumerate(holes) if fits(hole, size, align)]
    return min(good)[1] if good else None


def tie_by_age(holes, size, align):
    good = [(hole[1], -n) for n, hole in enumerate(holes) if fits(hole, size, align)]
    return -min(good)[1] if good else None


def raw_size(holes, size, align):
    good = [(hole[1], n) for n, hole in enumerate(holes) if hole[1] >= size]
    return min(good)[1] if good else None


def first_fit(holes, size, align):
    return next((n for n, hole in enumerate(holes) if fits(hole, size, align)), None)


def smallest_only(holes, size, align):
    n = raw_size(holes, size, align)
    return n if n is not None and fits(holes[n], size, align) else None


def behind_only(holes, size, align):
    good = [(sum(h) - -(-h[0] // align) * align, n) for n, h in enumerate(holes) if fits(h, size, align)]
    return min(good)[1] if good else None


def stub(holes, size, align):
    raise NotImplementedError("yours to write")


def always(value):
    return lambda holes, size, align: value


BEST_FIT = Sheet(
    "02.best-fit",
    reference,
    {
        "worst-fit": Wrong(worst_fit, 0.0, 0.0, "worst-fit"),
        "tie-by-age": Wrong(tie_by_age, 0.0, 0.0, "tie-by-age"),
        "raw-size": Wrong(raw_size, 0.0, 0.0, "raw-size"),
        "first-fit": Wrong(first_fit, 0.0, 0.0, "first-fit"),
        "smallest-only": Wrong(smallest_only, 0.0, 0.0, "smallest-only"),
        "behind-only": Wrong(behind_only, 0.0, 0.0, "behind-only"),
    },
    stub=stub,
    constants=tuple(always(value) for value in (None, 0, 1, -1, 99, "0", True, 0.0)),
)

SHEETS = [BEST_FIT]
