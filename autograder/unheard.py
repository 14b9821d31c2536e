"""What is told of a build whose code never reached the judge: the cell that failed, not a rule that it would have broken."""

import builtins
from dataclasses import replace

from autograder.verdict import Feedback, Score

NO_CODE = "no-code"
SAID = (
    "The check cell itself failed (often because a cell above it did, see there), so none of your code reached the judge; "
    "what you had predicted, reconciled or answered counts."
)


def unheard(score: Score, cells: list) -> Score:
    """``score`` told as what it is. ``cells``: the notebook as it ran, up to the check cell; other tasks stay as they are."""
    if score.tag != "not-solved":
        return score
    failed = [(number, kind) for number, cell in enumerate(cells, 1) if (kind := _ended_with(cell))]
    number, kind = ([one for one in failed if one[0] < len(cells)] or failed or [(len(cells), "an error")])[
        -1
    ]
    told = Feedback(
        "Your code must reach the check cell before it can be judged.",
        f"cell {number} of the notebook ended with {kind}",
        "a class or a function that the check cell can hand over",
        "none",
        "What does the error in that cell say, and of which line?",
    )
    return replace(score, tag=NO_CODE, feedback=told)


def _ended_with(cell) -> str:
    """The kind of the error that ended ``cell``, by name if it is one of Python's own; '' if none did."""
    kinds = [output.ename for output in cell.get("outputs", []) if output.output_type == "error"]
    if not kinds:
        return ""
    return kinds[0] if isinstance(getattr(builtins, kinds[0], None), type) else "an error"
