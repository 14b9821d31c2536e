"""The sheet of 07.claims: five claims that hold, and each misconception in one of them."""

from functools import cache

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab07.claim_runs import MINUTES
from autograder.course import Course
from gpulab.units import SECOND

END_NS = 2 * MINUTES * 60 * SECOND


def requests(run, *steps, tenant=None):
    kept = [["where", "tenant", "is", tenant]] if tenant else []
    return [["rows", "requests", run], *kept, *map(list, steps)]


def both(*steps, tenant=None, by="minus"):
    return [*requests("run", *steps, tenant=tenant), [by], *requests("other", *steps, tenant=tenant)]


def halves(table, make, shift_ns):
    after, before = ([["rows", table], ["between", *w], make] for w in ((shift_ns, END_NS), (0, shift_ns)))
    return [*after, ["minus"], *before]


@cache
def judged(course_id, learner):
    """The runs of ``learner``: drawn without the secret, so the name of the course is enough."""
    return exercises()["07.claims"].puzzle(Course(course_id, b"", {}), learner)


def right(course, learner):
    return stated(judged(course.course_id, learner))


def stated(runs):
    """Claims in units of every kind, as ``Runs.ask`` gives their values."""
    account = ["rows", "account", "run"]
    loser, shift = runs.loser, runs.shift_ns
    used = [account, ["sum", "used"], ["per"], account, ["sum", "capacity"]]
    kept = both(["share", "kept", "is", 1], tenant=loser)
    return {
        "room": claim(runs, "Most blocks held nothing.", used, "%", 0.01),
        "wait": claim(
            runs, "Steps of code are shared.", requests("run", ["mean", "slowed_ns"], tenant="code"), "s", 1e9
        ),
        "loser": claim(runs, f"{loser} keeps fewer promises than with an even share.", kept, "points", 0.01),
        "other": claim(
            runs,
            "With an even share it would take less.",
            both(["mean", "latency_ns"], tenant=loser, by="per"),
            "times",
            1,
        ),
        "host": claim(
            runs,
            "The slower host costs each request that much.",
            halves("requests", ["mean", "outside_ns"], shift),
            "ms",
            1e6,
        ),
    }


def claim(runs, sentence, query, unit, size):
    return [sentence, query, float(runs.ask(query).value) / size, unit]


def instead(name, change):
    """Right claims but for ``name``, which ``change(runs, claim)`` makes."""

    def answers(course, learner):
        runs = judged(course.course_id, learner)
        claims = stated(runs)
        return claims | {name: change(runs, claims[name])}

    return answers


def practised(course, learner):
    """One value of the practice runs, of those that are not the judged ones' by accident."""
    house = stated(exercises()["07.claims"].puzzle(course, "", 0))
    claims = right(course, learner)
    name = next(
        name for name in ("wait", "host", "room", "loser") if abs(house[name][2] / claims[name][2] - 1) > 0.02
    )
    sentence, query, _, unit = claims[name]
    return claims | {name: [sentence, query, house[name][2], unit]}


def mean_for_p99(runs, was):
    return ["One in a hundred requests of code is slowed more than this.", *was[1:]]


def mixed_halves(runs, was):
    query = requests("run", ["mean", "outside_ns"])
    return claim(runs, "The slower host costs each request that much.", query, "ms", 1e6)


def the_constant(runs, was):
    query = halves("Stepped", ["most", "host_ns"], runs.shift_ns)
    return claim(runs, "The host takes more before each step.", query, "ms", 1e6)


def of_tenant(name):
    def change(runs, was):
        query = both(["share", "kept", "is", 1], tenant=name(runs))
        return claim(runs, "Customers keep more promises.", query, "points", 0.01)

    return change


def winner(runs):
    """Who loses nothing and keeps most."""
    kept = runs.kept("run")
    return max((tenant for tenant in kept if tenant != runs.loser), key=kept.get)


def few(runs, was):
    slowest = int(runs.ask(requests("run", ["percentile", "slowed_ns", 98])).value)
    query = requests("run", ["where", "slowed_ns", ">", slowest], ["mean", "slowed_ns"])
    return claim(runs, "Some are slowed by far more.", query, "s", 1e9)


def same_twice(course, learner):
    claims = right(course, learner)
    return claims | {"other": claims["loser"]}


def one_run(runs, was):
    query = requests("run", ["mean", "latency_ns"], tenant=runs.loser)
    return claim(runs, "With an even share it would take less.", query, "s", 1e9)


CLAIMS = Sheet(
    "07.claims",
    right,
    {
        "mean-for-p99": Wrong(instead("wait", mean_for_p99), 0.8, 0.8, "mean-for-p99", "one in a hundred"),
        "practice-run": Wrong(practised, 0.8, 0.8, "practice-run", "practice run"),
        "window": Wrong(instead("host", mixed_halves), 0.8, 0.8, "window", "mix both halves"),
        "constant": Wrong(instead("host", the_constant), 0.8, 0.8, "constant", "for every run"),
        "ms-for-s": Wrong(
            instead("wait", lambda runs, was: [*was[:3], "ms"]), 0.8, 0.8, "ms-for-s", "Of which unit"
        ),
        "best-tenant": Wrong(
            instead("loser", of_tenant(winner)), 0.8, 0.8, "best-tenant", "The sentence says customers"
        ),
        "few-events": Wrong(instead("wait", few), 0.8, 0.8, "few-events", "rests on"),
        "same-twice": Wrong(same_twice, 0.8, 0.8, "same-twice", "asks what loser asks"),
        "one-run": Wrong(instead("other", one_run), 0.8, 0.8, "wrong-gauge", "does not look there"),
        "slip": Wrong(
            instead("room", lambda runs, was: [*was[:2], was[2] * 1.5, was[3]]),
            0.8,
            0.8,
            "wrong-value",
            "lies between",
        ),
    },
    constants=(
        {
            "room": ["Half is used.", [["rows", "account"], ["sum", "used"]], 50, "%"],
            "wait": ["Waits.", [["rows", "requests"], ["mean", "behind_ns"]], 1, "s"],
            "loser": ["Code loses.", both(["share", "kept", "is", 1], tenant="code"), -20, "points"],
            "other": ["Less.", both(["mean", "latency_ns"], by="per"), 2, "times"],
            "host": ["6 ms.", [["rows", "Stepped"], ["most", "host_ns"]], 6, "ms"],
        },
    ),
)

SHEETS = [CLAIMS]
