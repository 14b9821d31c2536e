"""What 04.batching says: one rule and one question a misconception, and the hints."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback

_FULL = "No slot stands empty while somebody waits."

# tag -> (the rule in a sentence, the question)
RULES = {
    "waits-for-batch": (
        _FULL,
        "{free} of {slots} slots stood empty for {steps} steps while job {job} waited: what for?",
    ),
    "refills-at-half": (_FULL, "{free} of {slots} slots stood empty. From how many on do you call it full?"),
    "slot-for-slot": (
        _FULL,
        "Job {job} came while {free} of {slots} slots were empty already. Who has to end before it is let in?",
    ),
    "slot-left": (
        _FULL,
        "Job {job} waited while {free} of {slots} slots stood empty. Whom is the last slot kept for?",
    ),
    "other-gap": (_FULL, "{free} of {slots} slots stood empty while job {job} waited. When is it let in?"),
    "one-too-many": (
        "A batch has at most as many jobs as there are slots.",
        "{slots} slots, {count} jobs in your answer: who had left when you counted the empty ones?",
    ),
    "drops-finished": (
        "A job that made its last token leaves the batch at once, and is delivered.",
        "Job {job} made its last token and is in your batch still. When does its user get the answer?",
    ),
    "puts-out": (
        "A job stays in the batch until its last token.",
        "Job {job} was not done and is not in your batch. Who keeps what it has made so far?",
    ),
    "newest-first": (
        "Who came first is let in first.",
        "Job {job} came before job {later}. Which end of the queue do you take from?",
    ),
    "twice": (
        "A job has one slot.",
        "Job {job} stands twice in your batch. Which of the lists did it come from?",
    ),
    "not-here": ("A batch holds jobs that run or wait.", "Where did your code find this job?"),
    "stands-still": (
        "While somebody waits, somebody runs.",
        "Nobody runs and job {job} waits. What should happen for your code to be asked again?",
    ),
    "form": ("`refill` answers a list of jobs.", "What does your function return on this path?"),
    "not-solved": ("`refill` is yours to write.", "Which jobs of `running` are in the next step, too?"),
}
SPEEDUP = {
    "speedup-is-B": "With {slots} in a batch, how long does the longest of them run, against the mean?",
    "logarithm": "ln {slots} is what the sum 1 + 1/2 + 1/3 + ... comes near to for large numbers. What is the sum itself?",
    "upside-down": "Did the run with refilled slots take more time or less?",
    "other-speedup": "The first of {slots} ends after 1/{slots} of the mean, the next 1/{less} later. When does the last?",
}

HINTS = (
    "Look at a lane that ends early in the first batch: who could use its slot, and from which step on?",
    "# who of `running` is not in `finished`? They stay\n"
    "# how many slots are empty then?\n"
    "# so many from the head of `waiting`; the answer is both together\n"
    "# speed-up: how long is the longest of B exponential lengths, in means?",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says where it comes from, '' that nothing may be shown."""
    named = {name: "so many" for name in ("free", "slots", "steps", "count")}
    named |= {"job": "at the head of the queue", "later": "behind it"}
    event = "before the first step"
    if where:
        named |= {name: str(value) for name, value in outcome.numbers.items() if name in named}
        asked = outcome.numbers.get("asked")
        event = (
            f"step {asked.step}: refill(running={asked.running}, waiting={asked.waiting}, slots={asked.slots}, "
            f"finished={asked.finished})"
            if asked
            else event
        )
    return told(outcome, RULES, where, event=event, named=named)


def speedup_feedback(tag: str, slots: int, got: object) -> Feedback:
    """What a wrong speed-up shows."""
    return Feedback(
        "A batch that ends whole lasts as long as its longest job; with refilled slots each job takes its own time.",
        f"{slots} slots, exponential lengths, a queue that is never empty",
        "the mean of the longest of so many, in means, within 10 %",
        f"speedup={got!r}"[:60],
        SPEEDUP[tag].format(slots=slots, less=slots - 1),
    )
