"""What 03.share says: one rule and one question a misconception, the hints, the blocks."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback

# tag -> (the rule in a sentence, the question)
RULES = {
    "unchained-digest": (
        "A block's keys and values depend on its tokens and on all before them.",
        "Block {block} has the same {b} tokens behind another beginning. What must its name contain besides its tokens?",
    ),
    "partial-shared": (
        "Only full blocks are found by another prompt.",
        "Block {block} is not full, or your prompt does not fill it. Who writes the next token into it?",
    ),
    "no-copy": (
        "A block with two holders is copied before it is written.",
        "{seq} wrote into block {block}, which {other} holds, too. What does {other} read there now?",
    ),
    "double-release": (
        "A block is free when its last holder lets go.",
        "You gave back block {block} when {seq} finished. Held by {other}: how many holders did you count?",
    ),
    "kept": (
        "A block is free when its last holder lets go.",
        "{seq} finished, and nobody holds block {block} any more. Whose name is still on it?",
    ),
    "hit-evicted": (
        "Hits are held before new blocks are taken.",
        "Block {block} was your hit and was taken as new in one admission. In which order did you do the two?",
    ),
    "taken-twice": (
        "A new block is one that nobody holds.",
        "Block {block} is held by {other}. When did it get onto your list of free blocks?",
    ),
    "cross-tenant": (
        "Tenants never share: how fast an answer comes would tell one what another asked.",
        "{tenant} was served a block of {other}. What in a block's name says whose it is?",
    ),
    "wrong-hit": (
        "A hit holds the tokens of the prompt, still: a block that was handed out again holds others.",
        "What did block {block} hold when you wrote down its name, and what does it hold now?",
    ),
    "nothing-left": (
        "The block with a prompt's last token is never a hit: a model must compute something to answer.",
        "How many full blocks are in front of the last token?",
    ),
    "short-hit": (
        "A beginning of fewer than {least} full blocks is not shared; such a prompt takes new blocks only.",
        "How many hits had this prompt, and what does the course's rule ask for?",
    ),
    "shares-too-little": (
        "What is held for one sequence serves all of its tenant that begin alike.",
        "Which blocks of two live sequences hold the same tokens behind the same beginning?",
    ),
    "size": (
        "Hits and new blocks together hold the prompt, the last one in part.",
        "How many blocks do the prompt's tokens need?",
    ),
    "other-block": (
        "A token goes into the last block, a copy of it when it is shared, or a new one when it is full.",
        "Is the last block of {seq} full? Who holds it?",
    ),
    "type": (
        "`admit` answers [hits, new], `append` [block, copied_from], `finish` a list of blocks.",
        "What does your method return on this path?",
    ),
    "not-solved": (
        "The four methods are yours to write.",
        "Which blocks of a prompt of 40 tokens are full, of 16 each?",
    ),
}

HINTS = (
    "Look at two live sequences of one tenant that begin alike: up to which token could they hold the same blocks?",
    "# admit: the chain of digests of the full blocks; how many from the beginning are known?\n"
    "#   not the block with the last token; none at all when they are too few\n"
    "#   hold the hits, then take what is missing; names of the blocks taken are forgotten, new ones noted\n"
    "# append: is the last block full? shared? Only then something is taken; a block that fills up gets a name\n"
    "# finish: which blocks had this holder alone?",
    'blocks("03.share") gives the lines of `admit` to put in order, with two that do not belong.',
)
BLOCKS = (
    {
        "a": "name = digest of the name before, the block's tokens and the tenant, for each full block",
        "b": "name = digest of the block's tokens and the tenant, for each full block",
        "c": "hits = known blocks from the first name on, up to the first that is not known",
        "d": "leave out the block with the last token; no hits at all if they are too few",
        "e": "hold the hits",
        "f": "take the missing blocks; forget what they were known for",
        "g": "note the names of the full blocks that are not known yet",
        "h": "note a name for the last block, too, so that it is found",
    },
    "acdefg",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    event, picture, numbers = "before the first prompt, when your object was made", None, outcome.numbers
    named = {
        **{"seq": "A sequence", "block": "in question", "other": "another", "tenant": "A tenant"},
        **{"b": "so many", "least": "the course's number of"},
    }
    if where:
        named |= {name: value for name, value in numbers.items() if name in named and value not in (None, "")}
    if where and numbers.get("verb"):
        event = f"#{outcome.event}, {numbers['verb']} {numbers['seq']}"
        picture = _picture(outcome)
    elif where and outcome.tag == "shares-too-little":
        event = f"#{outcome.event}, at the end: blocks held, added up over time"
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import use_over_time

    return use_over_time(outcome.ledger, title="Slots held and used, up to the first fault")
