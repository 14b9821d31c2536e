"""The sheet of 04.victim: the reference, the stub, each misconception, and what a short adapter around gpulab says."""

from types import SimpleNamespace

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab04.victim import graded_case
from autograder.checks.lab04.victim_play import BANDS
from autograder.checks.played import CASES
from autograder.references.lab04_victim import victim
from autograder.verdict import Commitments
from gpulab.serving.policies.choosing import newest_out

EXERCISE = "04.victim"


def said(course, learner):
    cause, shows = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"cheaper": "a"}, {"cause": cause, "events": sorted(shows)[:2]})


def frees(view, job, shared=False):
    others = any(o.prefix == job.prefix and o.id != job.id for o in view.running)
    return job.own_blocks + job.prefix_blocks * (shared or not others)


def due(view, job):
    return not job.evictions or job.since_tokens >= view.grace_tokens


def may(view):
    freeing = [job for job in view.running if frees(view, job)]
    return [job for job in freeing if due(view, job)] or freeing or view.running


def price(job):
    return min(job.recompute_ns, job.swap_ns)


def said_of(job, mode=None):
    return [job.id, mode or ("recompute" if job.recompute_ns <= job.swap_ns else "swap")]


def by(key, mode=None):
    """The first by ``key(view, job)`` of those who may be put out."""
    return lambda view: said_of(min(may(view), key=lambda job: (key(view, job), job.id)), mode)


def enough(view, shared=False):
    return [job for job in may(view) if frees(view, job, shared) + 1 >= view.need_blocks]


def in_full(view):
    """All of ``need_blocks``, as if the victim's own next block were needed still."""
    fit = [job for job in may(view) if frees(view, job) >= view.need_blocks]
    if fit:
        return said_of(min(fit, key=lambda job: (price(job), job.id)))
    return said_of(max(may(view), key=lambda job: (frees(view, job), -price(job), -job.id)))


def counts_shared(view):
    """Takes the beginning for free blocks whoever holds it."""
    return said_of(min(enough(view, shared=True) or may(view), key=price))


def in_mode(mode):
    def wrong(view):
        key = lambda job: getattr(job, f"{mode}_ns")
        return said_of(min(enough(view) or may(view), key=lambda job: (key(job), job.id)), mode)

    return wrong


def tightest(view):
    """Of those who are enough alone the one that frees least."""
    return said_of(min(enough(view) or may(view), key=lambda job: (frees(view, job), job.id)))


def cheapest_again(view):
    """Of those who are enough alone the cheapest to compute again, in its cheaper mode."""
    return said_of(min(enough(view) or may(view), key=lambda job: (job.recompute_ns, job.id)))


def frees_nothing(view):
    """The cheapest to bring back: whoever has nothing of its own."""
    return said_of(min([job for job in view.running if due(view, job)] or view.running, key=price))


def ping_pong(view):
    """As the reference, without a thought of who was put out just now."""
    freeing = [job for job in view.running if frees(view, job)]
    fit = [job for job in freeing if frees(view, job) + 1 >= view.need_blocks]
    if fit:
        return said_of(min(fit, key=lambda job: (price(job), job.id)))
    return said_of(max(freeing, key=lambda job: (frees(view, job), -price(job))))


def stub(view):
    raise NotImplementedError("yours to write")


def nothing(view):
    return None


def first_swapped(view):
    return [view.running[0].id, "swap"]


def as_shipped(view):
    """What most policies of gpulab do: the newest out, computed again."""
    jobs = [SimpleNamespace(id=job.id, blocks=job.own_blocks, ready_ns=0) for job in view.running]
    return newest_out(SimpleNamespace(running=jobs, need_blocks=view.need_blocks))[0]


def secret_numbers(course):
    grace = course.rules[EXERCISE]["grace_tokens"]
    cases = [graded_case(course.graded(EXERCISE, n), grace) for n in range(CASES)]
    return {asked.arrival_ns for case in cases for asked in case.requests if asked.arrival_ns >= 1_000}


VICTIM = Sheet(
    EXERCISE,
    victim,
    {
        "oldest": Wrong(by(lambda view, job: job.id, "recompute"), 0.30, 0.30, "oldest", "age"),
        "newest": Wrong(lambda view: said_of(may(view)[-1]), 0.30, 0.70, "newest", "came last"),
        "largest": Wrong(by(lambda view, job: -frees(view, job)), 0.30, 0.50, "largest", "nobody needed"),
        "always-swap": Wrong(in_mode("swap"), 0.30, 0.70, "always-swap", "a swap takes"),
        "always-recompute": Wrong(
            in_mode("recompute"), 0.30, 0.70, "always-recompute", "computing again takes"
        ),
        "cheapest-only": Wrong(by(lambda view, job: price(job)), 0.30, 0.70, "falls-short", "was cheap"),
        "in-full": Wrong(in_full, 0.30, 0.50, "needs-too-much", "not needed any more"),
        "counts-shared": Wrong(counts_shared, 0.30, 0.70, "falls-short", "stay with others"),
        "tightest": Wrong(tightest, 0.80, 0.80, "dear", "enough alone"),
        "cheapest-again": Wrong(cheapest_again, 0.80, 0.80, "dear", "enough alone"),
        "frees-nothing": Wrong(frees_nothing, 0.0, 0.20, "frees-nothing", "What came free"),
        "ping-pong": Wrong(ping_pong, 0.0, 0.20, "ping-pong", "Does it ever end"),
    },
    said=said,
    stub=stub,
    constants=(nothing, lambda view: [0, "recompute"], lambda view: [0, "swap"]),
    shortcuts=(as_shipped, first_swapped),
    secret_numbers=secret_numbers,
    cuts=tuple(least for least, _ in BANDS),
)

SHEETS = [VICTIM]
