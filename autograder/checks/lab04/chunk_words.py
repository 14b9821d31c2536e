"""What 04.chunk says: one rule and one question a misconception, the hints, the blocks."""

from autograder.checks.lab04.chunk_cases import CODE
from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback
from gpulab.telemetry.events import Arrived

_GAP = "A step takes no longer than the promised gap: every job that decodes waits for its end."
_FIRST = (
    "A first token comes in the promised time: a step that has room for more of a prompt computes more of it."
)

# tag -> (the rule in a sentence, the question)
RULES = {
    "whole-prompt": (
        _GAP,
        "A step of whole prompts took {step} ms beside {decodes}, promised are {gap}: who stood still meanwhile?",
    ),
    "decodes-forgotten": (
        _GAP,
        "{chunk} tokens fit into {gap} ms when nobody decodes. What is added to the step by {decodes}?",
    ),
    "context-forgotten": (
        _GAP,
        "You counted {decodes} as so many tokens. What does each of them read besides?",
    ),
    "no-look-back": (
        _GAP,
        "The step took {step} ms, promised are {gap}. What does a chunk look back at when part of its prompt is there?",
    ),
    "fixed-budget": (
        _GAP,
        "Beside {decodes} your {chunk} tokens took {step} ms. Who tells your code how many decode now?",
    ),
    "gap-broken": (
        _GAP,
        "Beside {decodes} the step took {step} ms, promised are {gap}. What does the price say of it beforehand?",
    ),
    "tiny-chunk": (
        _FIRST,
        "The gap was kept with {chunk} tokens where {room} had room. How often did you pay a step's constant part?",
    ),
    "prompts-when-idle": (
        _FIRST,
        "A step beside {decodes} had room for {room} tokens and computed none. What were the prompts waiting for?",
    ),
    "room-left": (
        _FIRST,
        "A step beside {decodes} computed {chunk} tokens where {room} had room. What held the others back?",
    ),
    "more-than-left": (
        "A chunk is at most what is left of its prompt.",
        "How many tokens of {id} were there already?",
    ),
    "no-blocks": (
        "Prompts that are begun take the blocks that they may ever need, together no more than are free.",
        "Which of the prompts in your answer were not begun yet, and what do they take together?",
    ),
    "stands-still": (
        "While nobody decodes, some prompt moves.",
        "Nobody decodes and {id} has room. What should happen for your code to be asked again?",
    ),
    "unknown": ("An answer names prompts that are here.", "Where did this id come from?"),
    "form": (
        '`decide` answers {{"prefill": {{id: tokens}}}}, with whole numbers of tokens.',
        "What does your method return on this path?",
    ),
    "not-solved": (
        "`decide` is yours to write.",
        "How long would the next step take with no prompt in it at all?",
    ),
}

HINTS = (
    "Take one long step of the picture. Which jobs got a token at its end, and for how long had each of them waited?",
    "# __init__: keep the price of a step and the gap in ps\n"
    "# decide: which prompts can be worked on? those begun, then those whose blocks are free\n"
    "#   for a number of tokens, filled in from the first prompt on: tokens and decodes, cached tokens, work\n"
    "#   the largest number with which the step keeps the gap (halving is fast)\n"
    "#   at least one token when nobody decodes",
    'blocks("04.chunk") gives the lines of `decide` to put in order, with two that do not belong.',
)
BLOCKS = (
    {
        "a": "open = prompts in order, as long as the free blocks suffice for those not begun",
        "b": "low, high = 0, all that is left of the open prompts",
        "c": "while low < high: try middle = (low + high + 1) // 2",
        "d": "    give middle tokens to the open prompts, first come first",
        "e": "    step = price(view.decoding + middle, view.cached_tokens, work of these chunks)",
        "f": "    step = price(middle, 0, work of these chunks)",
        "g": "    keep the upper half if step <= gap, else the lower",
        "h": "if nobody decodes: low = max(low, 1)",
        "i": "low = min(low, 64)",
        "j": "answer low tokens, given out in the same way",
    },
    "abcdeghj",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    named = {
        **{
            "decodes": "several decodes",
            "chunk": "so many",
            "step": "too many",
            "gap": "fewer",
            "room": "more",
        },
        **{"id": "the prompt"},
    }
    event, picture = "before the first question, when your object was made", None
    if where:
        named |= {name: str(outcome.numbers[name]) for name in named if name in outcome.numbers}
    if where and outcome.event >= 0:
        event = f"#{outcome.event}, {outcome.ledger[outcome.event].time_ns / 1e6:,.1f} ms"
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import lanes

    prompts = [fact.time_ns for fact in outcome.ledger.of(Arrived) if fact.tenant == CODE]
    title = "Requests from the first prompt on, up to the end or the first fault"
    return lanes(outcome.ledger, by="request", t0=min(prompts, default=None), title=title)
