"""What 04.victim says: one rule and one question a misconception, the hints, the blocks."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback
from gpulab.units import format_ns

_PRICE = "A shortage is ended at the least price: of those who are enough alone, the one that is cheapest to bring back."
_FREES = (
    "A victim frees its own blocks; its beginning comes free only when no other job that runs holds it. Its own next block "
    "is not needed any more."
)
_ANSWER = 'The answer is [id, "recompute"] or [id, "swap"], with the id of a job that runs.'
# tag -> (the rule in a sentence, the question)
RULES = {
    "oldest": (
        _PRICE,
        "{who} takes {cost} to bring back, {other} {less}. What has age to do with it?",
    ),
    "newest": (
        _PRICE,
        "{who} takes {cost} to bring back, {other} {less}. Does who came last have least to lose?",
    ),
    "largest": (
        _PRICE,
        "Blocks lacking: {need}; {who} gave {frees}. What did you pay for those that nobody needed?",
    ),
    "always-swap": (
        _PRICE,
        "{who}: a swap takes {swap}, computing again {recompute}; {other} takes {less}. When is which one cheaper?",
    ),
    "always-recompute": (
        _PRICE,
        "{who}: computing again takes {recompute}, a swap {swap}; {other} takes {less}. When is which one cheaper?",
    ),
    "needs-too-much": (
        _FREES,
        "Blocks lacking: {need}; {who} took {cost}, {other} takes {less}. Which block is not needed any more once a job is out?",
    ),
    "falls-short": (
        _FREES,
        "Blocks lacking: {need}; {who} was cheap and gave {frees}, {shared} more of its beginning stay with others. "
        "What did the shortage cost in the end?",
    ),
    "dear": (
        _PRICE,
        "{who} took {cost} and freed {frees} of {need}; {other} takes {less}. Which jobs are enough alone?",
    ),
    "frees-nothing": (
        "Whoever is put out frees something; else it is let in again at once, and nothing has changed.",
        "{who} has {own} blocks of its own, and others hold its beginning. What came free of the {need} that were lacking?",
    ),
    "ping-pong": (
        "Between two evictions a job makes at least `view.grace_tokens` tokens, if another can be put out.",
        "{who}: evictions before this one {evictions}, tokens made since {since} of {grace}. Does it ever end?",
    ),
    "not-running": (
        _ANSWER,
        "You named a job that does not run. In which list of the view did you find its id?",
    ),
    "type": (_ANSWER, "What does your function return on this path?"),
    "not-solved": (
        "`victim` is yours to write.",
        "Two jobs run. Which blocks come free when the first is put out?",
    ),
}

HINTS = (
    "Take the two jobs of the prediction: which of their blocks would nobody hold any more, and what would each have to do again?",
    "# who may be put out? it frees something, and it is due\n"
    "# what does each free: its own blocks, and its beginning if no other that runs has the same prefix\n"
    "# who is enough alone (its own next block is not needed)? of those the cheapest in its cheaper mode\n"
    "# nobody is enough alone: the one that frees most",
    'blocks("04.victim") gives the lines of `victim` to put in order, with two that do not belong.',
)
BLOCKS = (
    {
        "a": "frees(job) = own blocks + the beginning's if no other that runs has the same prefix",
        "b": "frees(job) = own blocks + the beginning's",
        "c": "may = those who free something and are due; nobody: those who free something",
        "d": "enough = those of may who free need_blocks - 1 or more",
        "e": "enough = those of may who free anything",
        "f": "if there are some: take the one whose cheaper mode costs least",
        "g": "else take the one of may that frees most",
        "h": "return its id and its cheaper mode",
    },
    "acdfgh",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    numbers = outcome.numbers
    words = ("need", "frees", "own", "shared", "since", "grace", "evictions")
    named = dict.fromkeys((*words, "cost", "less", "swap", "recompute"), "some")
    named |= {"who": "A job", "other": "another"}
    event, picture = "before the first shortage, when your function was made ready", None
    if where and numbers.get("who"):
        event = f"#{outcome.event}, blocks lacking: {numbers['need']}"
        named |= {name: f"{numbers[name]}" for name in words}
        named |= {name: format_ns(ns) for name, ns in numbers["costs"].items()}
        named["who"] = numbers["who"]
        if "other" in numbers:
            named["other"] = f"{numbers['other']} by {numbers['other_mode']}"
            named |= {"cost": format_ns(numbers["cost_ns"]), "less": format_ns(numbers["less_ns"])}
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import use_over_time

    return use_over_time(outcome.ledger, title="Blocks held, and blocks waited for, with your victims")
