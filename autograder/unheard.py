"""What is told of a build whose code never reached the judge: the cell that failed, not a rule that it would have broken."""

import builtins
from dataclasses import replace

from autograder.feedback import TOO_LONG
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
    number, kind = (
        [one for one in failed if one[0] < len(cells)] or failed or [(len(cells), "ended with an error")]
    )[-1]
    told = Feedback(
        "Your code must reach the check cell before it can be judged.",
        f"cell {number} of the notebook {kind}",
        "a class or a function that the check cell can hand over",
        "none",
        "What happens in that cell when you restart the kernel and run all cells from the top?",
    )
    return replace(score, tag=NO_CODE, feedback=told)


def _ended_with(cell) -> str:
    """What ended ``cell``: an error, by name if it is one of Python's own, or its time; '' if nothing did."""
    kinds = [output.ename for output in cell.get("outputs", []) if output.output_type == "error"]
    if not kinds:
        return ""
    if TOO_LONG in kinds:
        return "went on for longer than a cell may when it is graded, and was stopped"
    return f"ended with {kinds[0] if isinstance(getattr(builtins, kinds[0], None), type) else 'an error'}"
