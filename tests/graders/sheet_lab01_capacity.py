"""The sheet of 01.capacity: each misconception is the sweep with one thing changed."""

from sheets import Sheet, Wrong

from autograder.references.lab01 import first_over


def sweep(*, size="size", ends=True, frees_first=True, over=lambda held, capacity: held > capacity):
    """(time, held after each change), as the misconceptions see it."""

    def walked(grants):
        changes = [(g["start"], g[size]) for g in grants]
        changes += [(g["end"], -g[size]) for g in grants] if ends else []
        held = 0
        for at, change in sorted(changes, key=lambda c: (c[0], c[1] if frees_first else -c[1])):
            held += change
            yield at, held, over

    return walked


def first(walked):
    def answers(grants, capacity):
        return next((at for at, held, over in walked(grants) if over(held, capacity)), None)

    return answers


def peak_time(grants, capacity):
    seen = [(held, -at) for at, held, _ in sweep()(grants)]
    held, at = max(seen)
    return -at if held > capacity else None


def returns_id(grants, capacity):
    at = first_over(grants, capacity)
    held = sum(g["size"] for g in grants if at is not None and g["start"] < at < g["end"])
    for g in grants:
        if g["start"] == at:
            held += g["size"]
            if held > capacity:
                return g["id"]
    return None


def full_is_over(grants, capacity):
    for at in sorted({g[name] for g in grants for name in ("start", "end")}):
        if sum(g["size"] for g in grants if g["start"] <= at < g["end"]) >= capacity:
            return at
    return None


def stub(grants, capacity):
    raise NotImplementedError("yours to write")


def always(value):
    return lambda grants, capacity: value


CAPACITY = Sheet(
    "01.capacity",
    first_over,
    {
        "full-is-over": Wrong(full_is_over, 0.0, 0.84, "full-is-over", "full glass"),
        "grant-before-free": Wrong(
            first(sweep(frees_first=False)), 0.0, 0.84, "grant-before-free", "comes first"
        ),
        "peak-time": Wrong(peak_time, 0.0, 0.84, "peak-time", "first over"),
        "never-subtracts": Wrong(first(sweep(ends=False)), 0.0, 0.84, "never-subtracts", "still count"),
        "asked-not-granted": Wrong(
            first(sweep(size="asked")), 0.0, 0.84, "asked-not-granted", "fills the device"
        ),
        "returns-id": Wrong(returns_id, 0.1, 0.2, "returns-id", "instant, or a grant"),
    },
    stub=stub,
    constants=tuple(always(value) for value in (None, 0, 100, 300, [], "", True, 0.0)),
)

SHEETS = [CAPACITY]
