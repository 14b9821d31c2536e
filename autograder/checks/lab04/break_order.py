"""04.break: a workload on which the shortest rest first lets somebody starve, and the aging that helps."""

from dataclasses import dataclass
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab04.starve import LOAD_PERCENT, REQUESTS, Envelope
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Feedback, Score

STARVES, HELPED = 10, 4  # times its own length that somebody waits without aging, and at most with it
REFERENCE_PERCENT = 25  # the aged reference: the rank falls by a quarter of the time waited
MOST_PERCENT = 1_000
LATEST_MS = 10**9

_QUESTIONS = {
    "not-solved": "Which requests must keep coming, so that a longer one is never the shortest?",
    "wrong-form": "Is it a list of [arrival_ms, prompt tokens, output tokens], whole numbers, the last two not negative?",
    "too-long": "Which of your requests make no difference?",
    "outside": "How long does that request take alone, and what do the limits allow that your cell prints?",
    "overload": "With more work than time, everybody waits, under any order. How far apart may the short ones come?",
    "all-alike": "All take equally long: what could be shortest?",
    "nobody-starves": "Who waits longest ran in between. When was it the shortest, and how do you prevent that?",
    "victim-under-both": "It waits as long with aging: is it the order that keeps it?",
    "tie-luck": "With some arrivals 1 ms later the difference is gone. Which two events must not fall together?",
    "wrong-rate": "The rate is a whole number of percent. What does your method return?",
    "rate-too-low": "How fast must its rank fall, to be below the short ones in time?",
    "age-everything": "Your rate makes it nearly first come, first served. Who is put back by who only waited?",
}
_RULES = {
    "wrong-form": f"A workload is a list of at most {REQUESTS} requests, [arrival_ms, prompt, output].",
    "tie-luck": "What rests on two events of one instant is no property of the order.",
    "wrong-rate": f"`age_rate` returns a whole number from 0 to {MOST_PERCENT:,}: percent of the waiting that the rank falls by.",
    "rate-too-low": f"With your aging nobody waits longer than {HELPED} times its own length.",
    "age-everything": "Aging has a price: it may cost the mean at most two thirds of what first come, first served costs it.",
    "not-solved": "`workload` and `age_rate` are yours to write.",
}
_RULE = "An order is poor on a workload when somebody starves under it, and does not under another order."


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, '' when nothing; what the rule expects and what was found."""

    tag: str = ""
    expected: str = ""
    got: str = ""


@final
class BreakOrder(Exercise):
    """Somebody waits 10 times its length under the shortest rest first; aging brings it to 4, at a price."""

    id = "04.break"
    points = 3.0
    builds = True
    hints = (
        "One request is a little longer than all others. Which of the others are there whenever the server is free?",
        "# workload: one request, and short ones that come a little slower than the server serves them\n"
        "#   what is left between two short ones is all that the long one gets: how much is that until the last one?\n"
        "#   (in no round may it be shorter than a short one)\n"
        "# age_rate: after how long a wait is left - rate * waited of the long one below that of a short one?\n"
        "#   `puzzle('04.break').served(requests, percent)` has `.longest` and `.mean_ms`",
    )

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Envelope:
        """This learner's envelope, or another one for practice."""
        if variant is None:
            draw = course.of_learner(self.id, learner)
        else:
            draw = course.public(self.id + "/variant", variant)
        least_ms = draw.randrange(200, 2_000, 10)
        return Envelope(
            draw.randrange(40, 400, 10), draw.randrange(8, 41), least_ms, least_ms * draw.randrange(4, 9)
        )

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """Runs the workload under both orders, and under the learner's aging; nothing is drawn from the secret."""
        envelope, requests = self.puzzle(course, said.learner), []
        found: dict[str, Verdict] = {}
        for name in ("workload", "age_rate"):
            try:
                if name == "workload":
                    asker.new({})
                answered = asker.ask(name, [])
            except AnswerFault as fault:
                unsolved = fault.detail.get("type") == "NotImplementedError"
                found[name] = Verdict("not-solved" if unsolved else fault.tag, "an answer", str(fault))
                continue
            if name == "workload":
                requests, found[name] = answered, of_workload(envelope, answered)
            elif found["workload"].tag in ("", "tie-luck"):
                found[name] = of_rate(envelope, requests, answered)
            else:
                found[name] = Verdict("not-judged")
        share = {"": 0.6, "tie-luck": 0.5}.get(found["workload"].tag, 0.0)
        share += 0.4 * (share > 0 and not found["age_rate"].tag)
        notes = tuple(f"{name}: {of.tag or 'works'}." for name, of in found.items())
        faulty = next((name for name in found if found[name].tag), "")
        said_of = _feedback(faulty, found[faulty]) if faulty else None
        tag = found[faulty].tag if faulty else ""
        return Score(
            self.id, as_points(share, self.points), self.points, tag, notes, said_of, said.learner, share
        )

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """The same verdict as at grading: there is no key to give away."""
        return self.grade(course, said, asker)


def _feedback(name: str, found: Verdict) -> Feedback:
    rule = _RULES.get(found.tag, _RULE)
    question = _QUESTIONS.get(found.tag, "What does your method return?")
    return Feedback(rule, f"your {name}", found.expected, found.got, question)


def of_workload(envelope: Envelope, requests: object) -> Verdict:
    """Does somebody starve under the shortest rest first, and nobody with aging, also when arrivals shift by 1 ms?"""
    wrong = _form(envelope, requests)
    if wrong.tag:
        return wrong
    load = envelope.load_percent(requests)
    if load > LOAD_PERCENT:
        return Verdict("overload", f"a load of at most {LOAD_PERCENT} %", f"{load:.1f} %")
    wrong = _starving(envelope, requests)
    if wrong.tag:
        return wrong
    for which in (0, 1):
        shifted = [[r[0] + (n % 2 == which), *r[1:]] for n, r in enumerate(requests)]
        late = _starving(envelope, shifted)
        if late.tag:
            every = ("first, third, fifth …", "second, fourth, sixth …")[which]
            return Verdict(
                "tie-luck", late.expected, f"{late.got}, when the {every} request comes 1 ms later"
            )
    return Verdict()


def _starving(envelope: Envelope, requests: list) -> Verdict:
    plain, aged = envelope.served(requests), envelope.served(requests, REFERENCE_PERCENT)
    (most, victim), (helped, who) = plain.longest, aged.longest
    if most < STARVES:
        alike = len({alone for _, alone in plain.jobs}) == 1
        got = f"the longest is {most:.1f} times, of request {victim}"
        return Verdict(
            "all-alike" if alike else "nobody-starves", f"somebody waits {STARVES} times its length", got
        )
    if helped > HELPED:
        return Verdict(
            "victim-under-both",
            f"nobody waits longer than {HELPED} times its length when the rank falls by {REFERENCE_PERCENT} % of the waiting",
            f"request {who} waits {helped:.1f} times its length, without aging request {victim} {most:.1f} times",
        )
    return Verdict()


def of_rate(envelope: Envelope, requests: list, rate: object) -> Verdict:
    """Does the learner's aging help, and at which price?"""
    if type(rate) is not int or not 0 <= rate <= MOST_PERCENT:
        return Verdict("wrong-rate", f"a whole number from 0 to {MOST_PERCENT:,}", repr(rate)[:60])
    plain, aged, line = (
        envelope.served(requests),
        envelope.served(requests, rate),
        envelope.first_come(requests),
    )
    most, who = aged.longest
    if most > HELPED:
        return Verdict(
            "rate-too-low", f"at most {HELPED} times", f"request {who} waits {most:.1f} times its length"
        )
    price, whole = aged.mean_ms - plain.mean_ms, line.mean_ms - plain.mean_ms
    if 3 * price > 2 * whole:
        means = f"{plain.mean_ms:,.0f} ms without aging, {aged.mean_ms:,.0f} with yours, {line.mean_ms:,.0f} first come, first served"
        return Verdict("age-everything", f"at most {plain.mean_ms + whole * 2 / 3:,.0f} ms on average", means)
    return Verdict()


def _form(envelope: Envelope, requests: object) -> Verdict:
    if type(requests) is not list or not requests:
        return Verdict("wrong-form", "a list of requests", repr(requests)[:60])
    if len(requests) > REQUESTS:
        return Verdict("too-long", f"at most {REQUESTS} requests", f"{len(requests):,}")
    for number, request in enumerate(requests):
        whole = type(request) is list and [type(part) for part in request] == [int] * 3
        if not whole or min(request) < 0 or max(request) > LATEST_MS:
            return Verdict(
                "wrong-form", "[arrival_ms, prompt, output]", f"request {number}: {request!r}"[:80]
            )
        alone_us = envelope.alone_us(request)
        if not 1_000 * envelope.least_ms <= alone_us <= 1_000 * envelope.most_ms:
            allowed = f"{envelope.least_ms:,} to {envelope.most_ms:,} ms alone"
            return Verdict("outside", allowed, f"request {number}: {alone_us / 1_000:,.1f} ms")
    return Verdict()
