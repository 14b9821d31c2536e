"""The sheet of 03.prefix-trace: the queue worked by hand, rightly and with one misconception at a time."""

from sheets import Sheet, Wrong

from autograder.checks import exercises

EXERCISE = exercises()["03.prefix-trace"]


def answers(tag=""):
    """What somebody with the misconception ``tag`` types; with none, what is right."""

    def typed(course, learner):
        return worked(EXERCISE.puzzle(course, learner), tag)

    return typed


def worked(trace, tag):
    free = list(range(trace.n_blocks))

    def take(n):
        taken, free[:n] = free[:n], []
        return taken

    a = take(-(-trace.first // 4))
    if (trace.first + trace.generated - 1) // 4 >= len(a):
        a += take((trace.first + trace.generated - 1) // 4 + 1 - len(a))
    shared = a[: min(trace.second[0] // 4, (sum(trace.second) - 1) // 4)]
    b = shared + take(-(-sum(trace.second) // 4) - len(shared))
    ends = a if trace.ends == "A" else b
    back = [block for block in ends if block not in shared]
    if tag == "hit-still-free":
        queue = free + back[::-1] + shared[::-1]
    elif tag == "forgot-finish":
        queue = list(free)
    else:
        queue = free + (back if tag == "forward-free" else back[::-1])
    hits = ends[: trace.third[0] // 4 + (tag == "partial-hit")]
    left = [block for block in queue if block not in hits]
    if tag == "newest-evicted":
        left.reverse()
    new = left[: -(-sum(trace.third) // 4) - len(hits)]
    return {
        "hits": len(hits) * (4 if tag == "tokens-not-blocks" else 1),
        "free_queue": queue,
        "third_gets": new if tag == "hits-left-out" else hits + new,
    }


SHEETS = [
    Sheet(
        "03.prefix-trace",
        answers(),
        {
            "forward-free": Wrong(answers("forward-free"), 0.2, 0.2, "forward-free"),
            "newest-evicted": Wrong(
                *(answers("newest-evicted"), 0.6, 0.6, "newest-evicted"), rarely="forward-free"
            ),
            "partial-hit": Wrong(answers("partial-hit"), 0.4, 0.4, "partial-hit"),
            "hit-still-free": Wrong(answers("hit-still-free"), 0.2, 0.6, "hit-still-free"),
            "tokens-not-blocks": Wrong(answers("tokens-not-blocks"), 0.8, 0.8, "tokens-not-blocks"),
            "forgot-finish": Wrong(answers("forgot-finish"), 0.2, 0.2, "forgot-finish"),
            "hits-left-out": Wrong(answers("hits-left-out"), 0.6, 0.6, "hits-left-out"),
        },
        constants=(
            {"hits": 2, "free_queue": [7, 8, 9, 4, 3, 2, 6, 5, 1, 0], "third_gets": [0, 1, 2, 7, 8, 9, 4, 3]},
            {"hits": 2, "free_queue": [], "third_gets": [0, 1, 2, 3]},
            {"hits": 3, "free_queue": list(range(10)), "third_gets": [0, 1, 2]},
            {"hits": 1, "free_queue": [6, 7, 3, 2, 1], "third_gets": [0, 1, 6, 7, 3]},
            {"hits": 0, "free_queue": [0], "third_gets": []},
        ),
    )
]
