"""What feedback on 02.first-fit says: one rule and one question a misconception."""

from autograder.checks.lab02.pieces import Pieces
from autograder.checks.played import told
from autograder.verdict import Feedback
from gpulab.units import format_bytes

# tag -> (the rule in a sentence, the question)
RULES = {
    "no-coalescing": (
        "Free bytes that touch are one hole: a claim is refused, or sent elsewhere, only when no hole fits.",
        "{pieces} lie side by side and are free together. Who joins them, and when?",
    ),
    "joins-right-only": (
        "Free bytes that touch are one hole, whichever of the two was freed first.",
        "{pieces}: the one freed later had a *left* neighbour that was free already. Do you look there?",
    ),
    "joins-left-only": (
        "Free bytes that touch are one hole, whichever of the two was freed first.",
        "{pieces}: the one freed later had a *right* neighbour that was free already. Do you look there?",
    ),
    "padding-lost": (
        "The padding in front of an aligned claim is held by nobody: it stays a usable hole.",
        "{pieces}: nobody holds the padding, and nobody can get it. Since which event?",
    ),
    "higher-hole": (
        "A claim goes to the lowest legal address.",
        "A lower hole also fits: {pieces}. Why was it passed over?",
    ),
    "refused-hole": (
        "A claim is refused only when no hole fits.",
        "{pieces} would hold it. What does your search skip?",
    ),
    "exact-fit-kept": (
        "No byte is held by two claims.",
        "A claim here once filled its hole to the last byte. What is left of a hole after that?",
    ),
    "fits-before-aligning": (
        "A claim must fit behind its first legal start.",
        "The hole is long enough, but from its first legal start on too little remains. Which length do you compare?",
    ),
    "overlap": ("No byte is held by two claims.", "When did these bytes leave your list of holes?"),
    "bounds": ("Every claim lies inside the arena.", "Where does the arena end?"),
    "alignment": (
        "Claims of at least {threshold} start on a multiple of {boundary}, all others on a multiple of 512 B.",
        "Which multiple is the offset you gave?",
    ),
    "type": ("`place` answers with a whole number, or None.", "What does your method return on this path?"),
    "raised": ("`place` and `reclaim` answer; they do not raise.", "Which line raised, and on which input?"),
    "unsendable": ("Answers are plain numbers or None.", "What type is it that you return?"),
    "not-solved": (
        "`place` and `reclaim` are yours to write.",
        "Which bytes are free before the first claim?",
    ),
}


def describe(outcome, pieces: Pieces, lowest: int, got: int | None, size: int) -> None:
    """Fill in what was expected and got when ``size`` bytes did not go to ``lowest``, the rule's place."""
    names = [
        f"[{piece.start:,}, {piece.end:,}) ({piece.kind}"
        + (f" since #{piece.since})" if piece.kind != "fresh" else ", never granted)")
        for piece in pieces.covering
    ]
    outcome.expected = f"offset {lowest:,}"
    outcome.got = "None (refused)" if got is None else f"offset {got:,}"
    outcome.numbers = {"pieces": " and ".join(names) or "no hole", "size": size}
    if got is None and outcome.tag == "higher-hole":
        outcome.tag = "refused-hole"


def feedback(outcome, rules: dict, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    numbers, picture = outcome.numbers, None
    named = {
        "pieces": numbers.get("pieces", "The bytes") if where else "Some bytes",
        "threshold": format_bytes(rules["threshold"]),
        "boundary": format_bytes(rules["boundary"]),
    }
    event = "before the first claim, when your object was made"
    if where and outcome.event >= 0 and outcome.ledger is not None:
        event = f"#{outcome.event}"
        if numbers.get("size"):
            event += f", a claim of {format_bytes(numbers['size'])} ({numbers['size']:,} B)"
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome) -> object:
    from gpulab.report.charts import memory_map

    return memory_map(outcome.ledger, title="Your answers, up to the first fault", mark=[outcome.event])
