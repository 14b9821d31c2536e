"""The sheet of 04.rank: the reference, the stub, each misconception, and what gpulab ships."""

from itertools import count
from types import SimpleNamespace

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab04.rank import graded_case
from autograder.checks.played import CASES
from autograder.references.lab04_rank import rank
from autograder.verdict import Commitments
from gpulab.serving.policies.feedback import Feedback
from gpulab.serving.policies.shortest import ShortestRemaining

EXERCISE = "04.rank"


def left(job, rules):
    return max(0, (job.predicted_tokens or rules.usual_tokens) - job.generated)


def aged(job, rules, tokens, rate=1.0):
    return tokens + rate * rules.age_tokens * job.arrival_ns / 1e9


def shortest_prompt(job, rules):
    return job.prompt_tokens


def total(job, rules):
    return aged(job, rules, job.predicted_tokens or rules.usual_tokens)


def none_first(job, rules):
    return aged(job, rules, max(0, job.predicted_tokens - job.generated))


def none_last(job, rules):
    return aged(job, rules, left(job, rules) if job.predicted_tokens else 2000 - job.generated)


def usual_of(tokens):
    """A number of one's own for a missing guess."""

    def typed(job, rules):
        return aged(job, rules, max(0, (job.predicted_tokens or tokens) - job.generated))

    return typed


def reversed_sign(job, rules):
    return -left(job, rules)


def no_aging(job, rules):
    return left(job, rules), job.arrival_ns, job.id


def ages_backwards(job, rules):
    return aged(job, rules, left(job, rules), -1)


def ages_much(job, rules):
    return aged(job, rules, left(job, rules), 4)


def arrival_only(job, rules):
    return job.arrival_ns, job.id


def counts_prompts(job, rules):
    return aged(job, rules, left(job, rules) + job.prompt_tokens)


def guess_ignored(job, rules):
    return job.generated, job.arrival_ns


def mixed(job, rules):
    return rank(job, rules) if job.predicted_tokens else "unknown"


def none_at_all(job, rules):
    return rank(job, rules) if job.predicted_tokens else None


ASKED = count()


def one_rank(job, rules):
    return 0


def asked_before(job, rules):
    """Reads a counter of its own: whoever was asked last stands behind."""
    return next(ASKED)


def stub(job, rules):
    raise NotImplementedError("yours to write")


def shipped_shortest(job, rules):
    """The shipped rule, with what it reads besides; prompts are computed at once here."""
    seen = SimpleNamespace(**vars(job), target=job.prompt_tokens, computed=job.prompt_tokens)
    return ShortestRemaining(rules.usual_tokens).rank(seen)


def shipped_with_prompts(job, rules):
    """The shipped rule as it stands, in order of arrival where it ties."""
    seen = SimpleNamespace(
        **vars(job), target=job.prompt_tokens, computed=0 if not job.generated else job.prompt_tokens
    )
    return ShortestRemaining(rules.usual_tokens).rank(seen), job.arrival_ns


def shipped_feedback(job, rules):
    """The level that the shipped feedback queue gives, before it ages."""
    return Feedback().level(SimpleNamespace(**vars(job), blocks=1), 0), job.arrival_ns


def said(course, learner):
    cause, events = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"mean_percent": 75}, {"cause": cause, "events": sorted(events)[:1]})


def secret_numbers(course):
    rules = course.rules[EXERCISE]
    cases = [graded_case(course.graded(EXERCISE, n), rules, n) for n in range(CASES)]
    return {request.arrival_ns for case in cases for request in case.requests} - {0}


SHEETS = [
    Sheet(
        EXERCISE,
        rank,
        {
            "shortest-prompt": Wrong(shortest_prompt, 0.0, 0.20, "shortest-prompt"),
            "total-not-remaining": Wrong(total, 0.10, 0.30, "total-not-remaining"),
            "none-first": Wrong(none_first, 0.10, 0.30, "none-first"),
            "none-last": Wrong(none_last, 0.0, 0.30, "none-last"),
            "usual-64": Wrong(usual_of(64), 0.30, 0.30, "usual-typed", "where does that number come from"),
            "usual-200": Wrong(usual_of(200), 0.30, 0.30, "usual-typed", "where does that number come from"),
            "reversed": Wrong(reversed_sign, 0.0, 0.20, "reversed"),
            "no-aging": Wrong(no_aging, 0.0, 0.20, "no-aging"),
            "ages-backwards": Wrong(ages_backwards, 0.0, 0.20, "no-aging"),
            "ages-much": Wrong(ages_much, 0.50, 0.70, "ages-too-much"),
            "arrival-only": Wrong(arrival_only, 0.30, 0.30, "arrival-only"),
            "counts-prompts": Wrong(counts_prompts, 0.0, 0.20, "counts-prompts"),
            "guess-ignored": Wrong(guess_ignored, 0.0, 0.30, "guess-ignored"),
            "mixed": Wrong(mixed, 0.0, 0.0, "not-ordered"),
            "none-at-all": Wrong(none_at_all, 0.0, 0.0, "not-ordered"),
            "one-rank": Wrong(one_rank, 0.0, 0.0, "one-rank-for-all"),
            "asked-before": Wrong(asked_before, 0.0, 0.0, "unsteady"),
        },
        said=said,
        stub=stub,
        constants=tuple((lambda job, rules, value=value: value) for value in (0, 1.5, "first", [0, 0], None)),
        shortcuts=(shipped_shortest, shipped_with_prompts, shipped_feedback),
        secret_numbers=secret_numbers,
    )
]
