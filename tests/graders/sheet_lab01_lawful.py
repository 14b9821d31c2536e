"""The sheet of 01.lawful: each misconception looks at the single bytes and ticks, with one thing changed."""

from sheets import Sheet, Wrong

from autograder.references.lab01 import unlawful

PAGE, TICK = 512, 100


def cells(row, *, closed=False):
    """The (byte, instant) corners of the grid that ``row`` covers; every edge lies on the grid."""
    ends = row["end"] + TICK * closed
    pages = range(row["offset"], row["offset"] + row["size"], PAGE)
    return {(at, byte) for at in range(row["start"], ends, TICK) for byte in pages}


def owned(grants, job):
    return [g for g in grants if g["owner"] == job["owner"]]


def union(grants):
    return set().union(*map(cells, grants))


def those(broken):
    return lambda grants, work: sorted(job["id"] for job in work if broken(grants, job))


def only_at(*instants):
    """Not covered at one of the instants that are looked at."""

    def broken(grants, job):
        mine = union(owned(grants, job))
        return any(cell not in mine for cell in cells(job) if cell[0] in [pick(job) for pick in instants])

    return those(broken)


def touch(grants, job):
    mine = union(owned(grants, job))
    held = {at for at, byte in cells(job) if (at, byte) in mine}
    return not held >= {at for at, _ in cells(job)}


def start(job):
    return job["start"]


def last(job):
    return job["end"] - TICK


def stub(grants, work):
    raise NotImplementedError("yours to write")


def always(value):
    return lambda grants, work: value


def everything(grants, work):
    return sorted(job["id"] for job in work)


LAWFUL = Sheet(
    "01.lawful",
    unlawful,
    {
        "start-only": Wrong(only_at(start), 0.0, 0.7, "start-only", "Until when"),
        "touch-is-enough": Wrong(those(touch), 0.0, 0.84, "touch-is-enough", "only some"),
        "one-grant-must-cover": Wrong(
            those(lambda grants, job: not any(cells(job) <= cells(g) for g in owned(grants, job))),
            *(0.0, 0.84, "one-grant-must-cover", "edge to edge"),
        ),
        "any-owner": Wrong(
            those(lambda grants, job: not cells(job) <= union(grants)), 0.0, 0.84, "any-owner", "By whom"
        ),
        "end-inclusive": Wrong(
            those(lambda grants, job: not cells(job, closed=True) <= union(owned(grants, job))),
            *(0.0, 0.84, "end-inclusive", "still inside"),
        ),
        "aba": Wrong(only_at(start, last), 0.0, 0.84, "aba", "in between"),
    },
    stub=stub,
    constants=(*(always(value) for value in ([], None, [1], [1, 2], {}, 0, True)), everything),
)

SHEETS = [LAWFUL]
