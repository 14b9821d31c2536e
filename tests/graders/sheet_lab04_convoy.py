"""The sheet of 04.convoy: formulas and the timeline worked by hand, rightly and with one misconception at a time."""

from sheets import Sheet, Wrong

from autograder.checks import exercises

EXERCISE = exercises()["04.convoy"]


def answers(tag=""):
    """What somebody with the misconception ``tag`` types; with none, what is right."""

    def typed(course, learner):
        task = EXERCISE.puzzle(course, learner)
        return means(task.mix, tag) | seen(task, tag)

    return typed


def means(mix, tag):
    short, long, part = mix.short_ms, mix.ratio * mix.short_ms, 1 / mix.every
    load = mix.load_percent / 100
    mean = (1 - part) * short + part * long
    square = (1 - part) * 2 * short**2 + part * 2 * long**2
    if tag == "mean-only":
        square = mean**2
    if tag == "mm1":
        square = 2 * mean**2
    if tag == "constant-lengths":
        square /= 2
    fifo = load / mean * square / (2 * (1 - load)) + mean
    shared = mean / (1 - load)
    if tag == "ps-needs-variance":
        shared = fifo
    if tag == "wait-without-service":
        fifo, shared = fifo - mean, shared - mean
    if tag == "it-is-idle-time":
        fifo = shared = mean
    if tag == "seconds":
        fifo, shared = fifo / 1000, shared / 1000
    return {"fifo_ms": round(fifo, 1), "ps_ms": round(shared, 1)}


def seen(task, tag):
    jobs, unit = task.requests, task.pace.token_ns
    start, end, now = {}, {}, 0
    for job in jobs:
        start[job.id] = max(now, job.arrival_ns)
        now = end[job.id] = start[job.id] + job.output_tokens * unit
    there = {
        a.id: {b.id for b in jobs if b.arrival_ns < end[a.id] and start[b.id] >= end[a.id]} for a in jobs
    }
    head = max(there, key=lambda job: len(there[job]))
    behind = there[head]
    if tag == "longest-waiter-is-head":
        head = max(jobs, key=lambda job: start[job.id] - job.arrival_ns).id
    if tag == "arrived-while-it-ran":
        behind = {job.id for job in jobs if start[head] < job.arrival_ns < end[head]}
    if tag == "everybody-who-waited":
        behind = {job.id for job in jobs if start[job.id] > job.arrival_ns}
    if tag == "everybody-after-it":
        behind = {job.id for job in jobs if job.id > head}
    shared = in_turns(jobs, unit)
    loses = {job for job in shared if shared[job] > end[job]}
    if tag == "summaries-only":
        loses = {job.id for job in jobs if job.tenant == "summary"}
    if tag == "better-for-worse":
        loses = {job.id for job in jobs} - loses
    if tag == "everybody-slower":
        loses = {job.id for job in jobs}
    return {"head": head, "behind": sorted(behind), "worse_off": sorted(loses)}


def in_turns(jobs, unit):
    """When each is answered if those who are there take turns of one unit."""
    coming, line, left, ends, now = list(jobs), [], {job.id: job.output_tokens for job in jobs}, {}, 0
    while coming or line:
        now = max(now, coming[0].arrival_ns) if not line else now
        while coming and coming[0].arrival_ns <= now:
            line.append(coming.pop(0).id)
        job, now = line.pop(0), now + unit
        left[job] -= 1
        while coming and coming[0].arrival_ns <= now:
            line.append(coming.pop(0).id)
        if left[job]:
            line.append(job)
        else:
            ends[job] = now
    return ends


SHEETS = [
    Sheet(
        "04.convoy",
        answers(),
        {
            tag: Wrong(answers(tag), *shares, tag)
            for tag, shares in {
                "mean-only": (0.7, 0.7),
                "mm1": (0.7, 0.7),
                "constant-lengths": (0.7, 0.7),
                "ps-needs-variance": (0.7, 0.7),
                "wait-without-service": (0.4, 0.7),
                "it-is-idle-time": (0.4, 0.4),
                "longest-waiter-is-head": (0.8, 0.8),
                "arrived-while-it-ran": (0.8, 0.8),
                "everybody-who-waited": (0.8, 0.8),
                "everybody-after-it": (0.8, 0.8),
                "summaries-only": (0.8, 0.8),
                "better-for-worse": (0.8, 0.8),
                "everybody-slower": (0.8, 0.8),
            }.items()
        }
        | {"seconds": Wrong(answers("seconds"), 0.4, 0.4, "other-mean")},
        constants=(
            {"fifo_ms": 59.3, "ps_ms": 14.5, "head": 3, "behind": [4, 5, 6, 7], "worse_off": [3]},
            {"fifo_ms": 3000, "ps_ms": 1000, "head": 8, "behind": [9, 10, 11, 12], "worse_off": [2, 8]},
        ),
    ),
]
