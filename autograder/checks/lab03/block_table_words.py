"""What 03.block-table says: one rule and one question a misconception, the hints, the blocks."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback

# tag -> (the rule in a sentence, the question)
RULES = {
    "late-at-boundary": (
        "Every token has a slot in a block of its own sequence.",
        "{name} grows to {length} tokens and a block holds {b}. Whose block would its last token be written to?",
    ),
    "early-block": (
        "No block is taken before a token needs it.",
        "{name} grows to {length} tokens and a block holds {b}. Which token would the last block hold? "
        "And does a block that went back still count as one that came?",
    ),
    "identity": (
        "A token lies in the block that its table names, wherever that block is.",
        "You gave the positions themselves. Which physical block came for logical block 0 of {name}?",
    ),
    "div-mod-swapped": (
        "Position p lies in logical block p // {b}, at place p % {b}: slot = block * {b} + place.",
        "Which of your two numbers is multiplied by {b}, the block or the place?",
    ),
    "other-slot": (
        "Position p lies in logical block p // {b}, at place p % {b}: slot = block * {b} + place.",
        "When blocks of {name} go back, which index has the block that came next?",
    ),
    "reads-past-end": (
        "The kernel reads tokens, not blocks: behind the last token a block holds nothing.",
        "{name} has {length} tokens. Where does your list of slots end?",
    ),
    "reads-everything": (
        "A token reads the last {window} tokens, itself included.",
        "{name} has {length} tokens. Which of them does the newest one read?",
    ),
    "shared-list": (
        "Each sequence has a table of its own.",
        "Another table changed when {name} grew. How many lists are there, and who made them?",
    ),
    "drops-early": (
        "A block goes back only when the newest token reads none of its tokens.",
        "{name} has {length} tokens and reads the last {window}. What is the last position in the block you gave back?",
    ),
    "drops-twice": (
        "Only blocks that the sequence still has go back, each once.",
        "Which of these blocks did {name} give back before, or never have?",
    ),
    "keeps-unread": (
        "A block goes back as soon as the newest token reads none of its tokens.",
        "{name} has {length} tokens and reads the last {window}. Which of its blocks does nobody read any more?",
    ),
    "type": (
        "`missing` answers with a whole number, `slots`, `reads` and `drop` with a list of whole numbers.",
        "What does your method return on this path?",
    ),
    "not-solved": ("The five methods are yours to write.", "How many blocks do 17 tokens need, of 16 each?"),
}

HINTS = (
    "Say a sequence has the physical blocks 7 and 2, in this order. What do you need to know to find the token at position 17?",
    "# missing: blocks for all tokens, rounded up, minus all blocks that ever came\n"
    "# slots: for each position, which logical block, which place in it; which physical block is that?\n"
    "# reads: the same for the last window_tokens positions, or all when there are fewer\n"
    "# drop: how many whole blocks lie in front of the window, minus those that went back before",
    'blocks("03.block-table") gives the lines of `slots` and `drop` to put in order, with two that do not belong.',
)
BLOCKS = (
    {
        "a": "slots: for each position from start to end - 1:",
        "b": "    place = position % block_tokens",
        "c": "    index = position // block_tokens",
        "d": "    slot = blocks of this sequence [index] * block_tokens + place",
        "e": "    slot = index * block_tokens + place",
        "f": "drop: unread = max(0, length - window) // block_tokens",
        "g": "    answer = blocks [those dropped before : unread]; remember unread",
        "h": "    unread = length // block_tokens - window // block_tokens",
    },
    "acbdfg",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    event, picture, numbers = "before the first step, when your object was made", None, outcome.numbers
    named = {"name": "A sequence", "length": "some", "b": "a block's", "window": "window's"}
    if where and "length" in numbers:
        named = {name: numbers[name] for name in named}
    if where and outcome.ledger is not None and len(outcome.ledger) > 1:
        outcome.event = len(outcome.ledger) - 1 if outcome.event < 0 else outcome.event
        event = f"#{outcome.event}"
        if "length" in numbers:
            event += f", {numbers['name']} grew to {numbers['length']} tokens"
        picture = _picture(outcome)
    elif where and "length" in numbers:
        event = f"the first step: {numbers['name']} grows to {numbers['length']} tokens"
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import memory_map

    return memory_map(
        outcome.ledger, title="Who held which slots, up to the first fault", mark=[outcome.event]
    )
