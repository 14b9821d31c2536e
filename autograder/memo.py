"""A memo about claims: every number in it is the name of a claim, ``{loser}``, filled in with what was recomputed."""

import re

from autograder.checks.lab07.claim_runs import Runs
from autograder.checks.lab07.claim_words import UNITS
from autograder.checks.lab07.claims import CLAIMS, claim_of, recomputed

_NAMED = re.compile(r"\{\s*(\w+)\s*\}")
_TYPED = re.compile(r"(?<![\w{])[+-]?\d[\d.,]*\d|(?<![\w{])\d")


def filled(text: str, answered: dict, runs: Runs) -> str:
    """``text`` with each ``{id}`` as its claim's query gives it on ``runs``, in the claim's unit; others stay as they are."""
    return _NAMED.sub(lambda found: number(found[1], answered, runs) or found[0], text)


def number(name: str, answered: dict, runs: Runs) -> str:
    """What claim ``name`` comes to, with its unit; '' where there is no such claim, or none that can be asked."""
    claim, found = claim_of(answered.get(name)), recomputed(name, answered, runs)
    if name not in CLAIMS or found is None:
        return ""
    size = UNITS.get(found.unit, {}).get(claim.unit.strip())
    return str(found) if size is None else f"{_three_digits(float(found.value / size))} {claim.unit.strip()}"


def _three_digits(value: float) -> str:
    """``value`` to three digits or to a whole number, never as a power of ten."""
    return (
        f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.6f}"
    )


def looked_over(text: object, answered: dict, runs: Runs) -> list[str]:
    """What is to be said of the numbers of a memo, a line each, and the memo as its reader gets it."""
    if not isinstance(text, str) or not text.strip():
        return []
    named = list(dict.fromkeys(_NAMED.findall(text)))
    used = [name for name in named if number(name, answered, runs)]
    typed = _TYPED.findall(_NAMED.sub("", text))
    lines = [f"Claims in it: {', '.join(used) or 'none'} ({len(used)} of {len(CLAIMS)})."]
    empty = [name for name in named if name not in used]
    if empty:
        lines.append(
            f"Not filled in, since there is no claim that can be computed: {', '.join(empty)}; claims are {', '.join(CLAIMS)}."
        )
    if typed:
        lines.append(
            f"Numbers that rest on no claim: {', '.join(typed)}. Write {{the claim's name}} instead."
        )
    return [*lines, "", filled(text, answered, runs)]
