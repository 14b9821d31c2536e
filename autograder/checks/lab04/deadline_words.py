"""What 04.deadline says: one rule and one question a misconception, the hints, the blocks."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback
from gpulab.units import format_ns

_WORTH = (
    "A first token in time counts 1, a request turned away 1/2, a broken promise 0; where more promises are broken than "
    "requests turned away, nobody was told, and it counts as first come, first served."
)
_FORM = 'The answer is {{"admit": [ids], "reject": [ids]}}; either may be left out, and each id is one that waits.'
# tag -> (the rule in a sentence, the question)
RULES = {
    "never-refuses": (
        _WORTH,
        "{who} came {late} too late, and nobody was ever turned away. Whose place would you have had to refuse, and when?",
    ),
    "ignores-ahead": (
        _WORTH,
        "{who} came {late} too late: {ahead} of work was before it when it came, {later} was put before it afterwards. "
        "Which of the two does your test look at?",
    ),
    "shortest-first": (
        _WORTH,
        "{who} came {late} too late, and {other} went before it. Which of the two had less time to spare?",
    ),
    "arrival-order": (
        _WORTH,
        "{who} came {late} too late, and {other} went before it. Whose deadline was earlier?",
    ),
    "refuses-many": (
        _WORTH,
        "No promise is broken, but more were turned away than by the rule. In which order could more have stayed?",
    ),
    "turned-away": (
        "Nobody is turned away with whom all promises can be kept, in the order of deadlines.",
        "{who} was turned away. Which promise would have been broken, had it stayed?",
    ),
    "whole-answer": (
        "The promise is on the first token: it comes when the prompt is computed.",
        "{who} was turned away. Did your test add the time of its answer, which no promise is about?",
    ),
    "rejects-late": (
        "Nobody is turned away later than `view.notice_ns` after its arrival.",
        "{who} had waited {waited} when you turned it away. What did you know then that you had not known when it came?",
    ),
    "refuses-admitted": (
        "Each request is admitted or turned away, once: an admitted one has its place.",
        "{who} had been admitted. Who could have had its place?",
    ),
    "decided-twice": (
        "Each request is admitted or turned away, once.",
        "{who} was decided a second time. Which list of the view does not hold it any more?",
    ),
    "left-waiting": (
        "Each request is admitted or turned away, once.",
        "{who} still waits, and nothing more will happen. At which moment could you have admitted it?",
    ),
    "unknown": (_FORM, "You named a request that is not in `view.waiting`. Where does that id come from?"),
    "type": (_FORM, "What does your function return on this path?"),
    "not-solved": (
        "`decide` is yours to write.",
        "Two wait and the server is free. Which of them has the earlier deadline?",
    ),
}

HINTS = (
    "Look at a chat that came too late in the picture: what was computed while it waited, and could that have waited longer?",
    "# everybody in the order of deadlines: when would each first token come, from view.free_ns on?\n"
    "# is one of them too late? then somebody who has just come cannot stay\n"
    "# the others wait; when nothing runs, the one with the earliest deadline is admitted",
    'blocks("04.deadline") gives the lines of `decide` to put in order, with two that do not belong.',
)
BLOCKS = (
    {
        "a": "kept = those who wait and came before now",
        "b": "for each of those who came now:",
        "c": "    line = kept and the new one, by deadline",
        "d": "    line = kept and the new one, by arrival",
        "e": "    add up their prompts from view.free_ns on: is each done by its deadline?",
        "f": "    is the new one alone done by its deadline, from view.now_ns on?",
        "g": "    if so it is kept, else it is turned away",
        "h": "if nothing runs: admit the one of kept with the earliest deadline",
    },
    "abcegh",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    numbers = outcome.numbers
    named = {
        **{"who": "A request", "other": "another", "late": "some time", "waited": "some time"},
        **{"ahead": "some", "later": "some"},
    }
    event, picture = "before the first request, when your function was made ready", None
    if where and outcome.event >= 0 and outcome.ledger is not None:
        job = numbers.get("job")
        event = f"#{outcome.event}, at {format_ns(outcome.ledger[outcome.event].time_ns)}"
        if job:
            named["who"] = (
                f"{job.owner} ({format_ns(job.prompt_ns)} of work, promised {format_ns(job.deadline_ns - job.arrival_ns)} "
                f"after its arrival)"
            )
        named |= {
            name: format_ns(numbers[f"{name}_ns"])
            for name in ("late", "waited", "ahead", "later")
            if f"{name}_ns" in numbers
        }
        if numbers.get("other"):
            named["other"] = f"{numbers['other']}, whose deadline was at {format_ns(numbers['other_ns'])},"
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.timelines import lanes

    return lanes(outcome.ledger, by="request", time="auto", title="Your answers, up to the first fault")
