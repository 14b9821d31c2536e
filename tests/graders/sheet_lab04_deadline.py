"""The sheet of 04.deadline: the reference, the stub, each misconception, and what gpulab ships as it would be called."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab04.deadline import graded_case
from autograder.checks.lab04.deadline_play import BANDS
from autograder.checks.played import CASES
from autograder.references.lab04_deadline import decide
from autograder.verdict import Commitments

EXERCISE = "04.deadline"


def said(course, learner):
    cause, shows = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"percent": 30}, {"cause": cause, "events": sorted(shows)[:2]})


def by_deadline(job):
    return job.deadline_ns


def first(view, jobs, key=by_deadline):
    return [] if view.running or not jobs else [min(jobs, key=key).id]


def turning_away(stays, key=by_deadline):
    """Whoever has just come and does not ``stay(view, kept, job)`` is turned away; the rest by ``key``."""

    def wrong(view):
        kept, refused = [], []
        for job in view.waiting:
            if job.arrival_ns < view.now_ns or stays(view, kept, job):
                kept.append(job)
            else:
                refused.append(job)
        return {"admit": first(view, kept, key), "reject": [job.id for job in refused]}

    return wrong


def everybody(view, kept, job):
    return True


def few_wait(view, kept, job):
    return len(kept) < 4


def alone(view, kept, job):
    return view.free_ns + job.prompt_ns <= job.deadline_ns


def own_promise(view, kept, job):
    """Looks at the promise of the one that comes, not at those that it would break."""
    before = sum(k.prompt_ns for k in kept if k.deadline_ns <= job.deadline_ns)
    return view.free_ns + before + job.prompt_ns <= job.deadline_ns


def all_kept(view, kept, job):
    """Are all promises kept in the order of deadlines?"""
    end_ns = view.free_ns
    for k in sorted([*kept, job], key=by_deadline):
        end_ns += k.prompt_ns
        if end_ns > k.deadline_ns:
            return False
    return True


def admits_at_once(view):
    """Whoever is in time at the end of the line joins it; no one later can go before."""
    admit, refused, end_ns = [], [], view.free_ns
    for job in view.waiting:
        stays = end_ns + job.prompt_ns <= job.deadline_ns
        (admit if stays else refused).append(job.id)
        end_ns += job.prompt_ns * stays
    return {"admit": admit, "reject": refused}


def whole_answer(view, kept, job):
    end = view.free_ns + sum(k.prompt_ns for k in kept if k.deadline_ns <= job.deadline_ns)
    return end + job.prompt_ns + job.answer_ns <= job.deadline_ns


def short_first_in_time(view, kept, job):
    free = view.free_ns
    for one in sorted([*kept, job], key=lambda j: j.prompt_ns):
        free += one.prompt_ns
        if free > one.deadline_ns:
            return False
    return True


def rejects_late(view):
    refused = [job for job in view.waiting if view.free_ns + job.prompt_ns > job.deadline_ns]
    kept = [job for job in view.waiting if job not in refused]
    return {"admit": first(view, kept), "reject": [job.id for job in refused]}


def takes_back(view):
    """Admits everybody at once, and turns away whoever turns out too late in that line."""
    free, late = view.free_ns - sum(job.prompt_ns for job in view.running), []
    for job in view.running:
        free += job.prompt_ns
        if free > job.deadline_ns:
            late.append(job.id)
    return {"admit": [job.id for job in view.waiting], "reject": late}


def keeps_waiting(view):
    """Admits only who will be in time; the others are never told."""
    kept = [job for job in view.waiting if view.free_ns + job.prompt_ns <= job.deadline_ns]
    return {"admit": first(view, kept)}


def late_last(view):
    """By deadline, with those that are lost already at the end; nobody is told."""
    can = [job for job in view.waiting if view.free_ns + job.prompt_ns <= job.deadline_ns]
    return {"admit": first(view, can or view.waiting)}


def stub(view):
    raise NotImplementedError("yours to write")


def nothing(view):
    return {}


def all_in(view):
    return {"admit": [job.id for job in view.waiting]}


def none_in(view):
    return {"reject": [job.id for job in view.waiting]}


def as_earliest_deadline(view):
    """What ``EarliestDeadline`` does: late ones go, whenever that shows; the rest by deadline."""
    late = [job.id for job in view.waiting if view.now_ns + job.prompt_ns > job.deadline_ns]
    order = sorted((job for job in view.waiting if job.id not in late), key=by_deadline)
    return {"admit": [job.id for job in order[:1]] * (not view.running), "reject": late}


def secret_numbers(course):
    notice_ns = course.rules[EXERCISE]["notice_ns"]
    cases = [graded_case(course.graded(EXERCISE, n), notice_ns, n) for n in range(CASES)]
    return {n for case in cases for p in case.prompts for n in (p.arrival_ns, p.prompt_ns, p.deadline_ns)}


DEADLINE = Sheet(
    EXERCISE,
    decide,
    {
        "late-last": Wrong(late_last, 0.30, 0.30, "never-refuses", "nobody was ever"),
        "edf-no-reject": Wrong(turning_away(everybody), 0.30, 0.30, "never-refuses", "nobody was ever"),
        "rejects-late": Wrong(rejects_late, 0.0, 0.20, "rejects-late", "had waited"),
        "takes-back": Wrong(takes_back, 0.0, 0.20, "refuses-admitted", "had been admitted"),
        "keeps-waiting": Wrong(keeps_waiting, 0.0, 0.20, "left-waiting", "still waits"),
        "queue-length": Wrong(turning_away(few_wait), 0.30, 0.50, "turned-away", "Which promise"),
        "ignores-ahead": Wrong(turning_away(alone), 0.30, 0.50, "ignores-ahead", "of work was before it"),
        "own-promise-only": Wrong(
            turning_away(own_promise), 0.80, 0.80, "ignores-ahead", "put before it afterwards"
        ),
        "admits-at-once": Wrong(admits_at_once, 0.80, 0.80, "refuses-many", "In which order"),
        "arrival-order-refusing": Wrong(
            turning_away(all_kept, key=lambda j: j.id), 0.70, 0.80, "arrival-order", "earlier"
        ),
        "end-not-first-token": Wrong(turning_away(whole_answer), 0.30, 0.30, "whole-answer", "its answer"),
        "shortest-first": Wrong(
            turning_away(everybody, key=lambda j: j.prompt_ns), 0.30, 0.30, "shortest-first", "less time"
        ),
        "shortest-first-refusing": Wrong(
            turning_away(short_first_in_time, key=lambda j: j.prompt_ns), 0.30, 0.50, "turned-away"
        ),
        "fcfs": Wrong(turning_away(everybody, key=lambda j: j.id), 0.30, 0.30, "arrival-order", "earlier"),
    },
    said=said,
    stub=stub,
    constants=(nothing, none_in, lambda view: None, lambda view: {"admit": [0]}),
    shortcuts=(as_earliest_deadline, all_in),
    secret_numbers=secret_numbers,
    cuts=tuple(least for least, _ in BANDS),
)

SHEETS = [DEADLINE]
