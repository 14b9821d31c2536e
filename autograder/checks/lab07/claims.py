"""07.claims: five sentences about two runs, each with a query that the judge asks of the judged runs again."""

from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import NamedTuple, final

from autograder.channel import Asker, printable
from autograder.checks.lab07.case import TENANTS
from autograder.checks.lab07.claim_queries import asks, half
from autograder.checks.lab07.claim_runs import MINUTES, Runs, runs_of
from autograder.checks.lab07.claim_words import HINTS, KINDS, NAMED, NINETY, RULES, SLOWEST, UNITS
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.account import TERMS
from gpulab.report.query import Found, Part, parsed
from gpulab.report.waiting import PARTS

CLAIMS = tuple(KINDS)
FEWEST_ROWS = 20
NEAR = Fraction(1, 100)  # of the value, to either side
GAUGE = frozenset(f"{part}_ns" for part in PARTS)
OF_LOSS = GAUGE | {"kept", "ttft_ns", "tpot_ns", "latency_ns", "queued_ns"}
OF_HOST = {"Stepped": {"host_ns"}, "requests": {"outside_ns"}}


class Claim(NamedTuple):
    """What somebody claims, as it was typed."""

    sentence: str
    query: list
    value: int | float
    unit: str

    @property
    def said(self) -> str:
        return printable(f"{self.value:g} {self.unit}", 40)


class Fault(NamedTuple):
    """Why a claim does not hold: its tag, what the judge found, and the numbers of the question."""

    tag: str
    found: Found | None
    numbers: dict


@final
class Claims(Exercise):
    """Each of the five claims counts the same."""

    id = "07.claims"
    points = 8.0
    fields = CLAIMS
    hints = HINTS

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Runs:
        """The judged runs of this learner, or others for practice."""
        if variant is None:
            return runs_of(course.of_learner(self.id, learner))
        return runs_of(course.public(self.id + "/variant", variant))

    def watched(self, puzzle: Runs, part: str = "") -> object:
        """The ledger of ``run``, or of ``other``."""
        return puzzle.other if part == "other" else puzzle.run

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        found = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(found.build_share, self.points)
        return replace(found, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Runs, answered: dict) -> Score:
        if not answered:
            return Score(self.id, 0.0, 0.0, "not-answered", ("Nothing was claimed.",))
        house = self.puzzle(course, "", 0)
        faults = {name: fault_of(name, answered, puzzle, house) for name in CLAIMS}
        notes = tuple(f"{name}: {_told(name, answered, puzzle, fault)}" for name, fault in faults.items())
        first = next((name for name, fault in faults.items() if fault), None)
        share = sum(fault is None for fault in faults.values()) / len(CLAIMS)
        if first is None:
            return Score(self.id, 0.0, 0.0, "", notes, None, build_share=share)
        fault = faults[first]
        told = _feedback(first, answered.get(first), fault)
        return Score(self.id, 0.0, 0.0, fault.tag, notes, told, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        problems = [line for name in CLAIMS if (line := _problem(name, said.answered.get(name)))]
        if not said.answered:
            problems = [f"Not answered yet; the five claims are {', '.join(CLAIMS)}"]
        note = "; ".join(problems) + "." if problems else "Complete; it is graded when you hand in."
        return Score(self.id, 0.0, 0.0, "not-answered" if problems else "", (note,), None, said.learner)


def recomputed(name: str, answered: dict, runs: Runs) -> Found | None:
    """What the query of claim ``name`` gives on ``runs``; None where there is no claim that can be asked."""
    claim = claim_of(answered.get(name))
    try:
        return runs.ask(claim.query) if claim else None
    except ValueError:
        return None


def claim_of(value: object) -> Claim | None:
    """``value`` as it was noted, or None when it is no claim."""
    if type(value) is not list or len(value) != 4:
        return None
    claim = Claim(*value)
    kinds = type(claim.sentence), type(claim.query), type(claim.unit)
    if kinds != (str, list, str) or type(claim.value) not in (int, float) or not isfinite(claim.value):
        return None
    return claim if claim.sentence.strip() and claim.unit.strip() else None


def fault_of(name: str, answered: dict, runs: Runs, house: Runs) -> Fault | None:
    """Why claim ``name`` does not hold on ``runs``; ``house`` are the runs of the first practice."""
    claim = claim_of(answered.get(name))
    if claim is None:
        return Fault("incomplete", None, {})
    try:
        found, (parts, joins) = runs.ask(claim.query), parsed(claim.query)
    except ValueError as wrong:
        return Fault("no-query", None, {"why": printable(str(wrong), 120)})
    before = CLAIMS[: CLAIMS.index(name)]
    same = next((other for other in before if asks(claim_of(answered.get(other))) == asks(claim)), None)
    if same is not None:
        return Fault("same-twice", found, {"other": same})
    tag, numbers = _looks_elsewhere(name, claim.sentence, parts, joins, runs) or _says_otherwise(
        claim, parts, joins, found
    )
    if not tag:
        tag, numbers = _value_off(claim, found, house)
    return Fault(tag, found, numbers) if tag else None


def _looks_elsewhere(
    name: str, sentence: str, parts: tuple[Part, ...], joins: tuple, runs: Runs
) -> tuple[str, dict] | None:
    """The tag when the query does not look at what claim ``name`` is about."""
    elsewhere = "wrong-gauge", {"rule": KINDS[name]}
    if name == "room":
        right = any(part.table == "account" and part.columns & {*TERMS} for part in parts)
        return None if right else elsewhere
    if name == "wait":
        right = any(part.table == "requests" and part.columns & GAUGE for part in parts)
        return None if right else elsewhere
    if name == "loser":
        if (wrong := _loser(parts, runs)) is not None:
            return wrong
        if not all(part.columns & OF_LOSS for part in parts):
            return elsewhere
        named = [tenant for tenant, words in NAMED.items() if words.search(sentence)]
        return ("says-another", {"named": named[0]}) if named and runs.loser not in named else None
    if name == "other":
        named = sorted(part.run or "run" for part in parts)
        alike = len({replace(part, run="") for part in parts}) == 1
        return None if joins and alike and named == ["other", "run"] else elsewhere
    if not all(OF_HOST.get(part.table, set()) & part.columns for part in parts):
        return elsewhere
    halves = {half(part, runs.shift_ns) for part in parts}
    if halves != {"before", "after"}:
        return "window", {"minutes": MINUTES}
    alike = {(part.run or "run", part.fixed("tenant")) for part in parts}
    return None if len(alike) == 1 else ("window-apart", {})


def _loser(parts: tuple[Part, ...], runs: Runs) -> tuple[str, dict] | None:
    """The tag when a part looks at requests of somebody who does not lose, or of everybody."""
    for part in parts:
        tenant = part.fixed("tenant")
        if part.table != "requests" or tenant == runs.loser:
            continue
        worst = tenant in TENANTS and runs.kept("run")[tenant] == min(runs.kept("run").values())
        shown = tenant if tenant in TENANTS else "everybody, not one tenant"
        return "worst-not-loser" if worst else "best-tenant", {"tenant": shown}
    return None


def _says_otherwise(claim: Claim, parts: tuple[Part, ...], joins: tuple, found: Found) -> tuple[str, dict]:
    """The tag when the sentence does not say what the query computes, or it computes nothing to speak of."""
    said = SLOWEST.search(claim.sentence) or (
        found.unit != "share" and NINETY.search(claim.sentence)  # a share may be 92 % itself
    )
    if said and any(part.makes[0] == "mean" for part in parts):
        return "mean-for-p99", {}
    if found.rows < FEWEST_ROWS:
        return "few-events", {"rows": found.rows}
    if joins and (len({*map(str, parts)}) < len(parts) or found.value == (0 if "minus" in joins else 1)):
        return "no-difference", {}
    return "", {}


def _value_off(claim: Claim, found: Found, house: Runs) -> tuple[str, dict]:
    """The tag when value and unit are not what came out, or the query gives it for every run."""
    units, exact = UNITS.get(found.unit, {found.unit: 1}), Fraction(claim.value)
    numbers = {"found": str(found), "said": claim.said, "value": f"{claim.value:g}"}
    try:
        there = house.ask(claim.query)
    except ValueError:
        there = None
    unit = units.get(claim.unit.strip())
    if unit is None or not _near(exact * unit, found.value):
        if there is not None and unit is not None and _near(exact * unit, there.value):
            return "practice-run", numbers
        if unit is None or any(_near(exact * other, found.value) for other in units.values()):
            return "ms-for-s", numbers
        return "wrong-value", numbers
    return ("constant", numbers) if there is not None and there.value == found.value else ("", {})


def _near(value: Fraction, right: Fraction) -> bool:
    return abs(value - right) <= NEAR * abs(right)


def _problem(name: str, value: object) -> str:
    """What is missing in the form of one claim, or ''."""
    if value is None:
        return f"{name}: not claimed yet"
    claim = claim_of(value)
    if claim is None:
        return f"{name}: a claim is a sentence, a query (a list), a value (a number) and a unit"
    try:
        parsed(claim.query)
    except ValueError as wrong:
        return f"{name}: {wrong}"
    return ""


def _told(name: str, answered: dict, runs: Runs, fault: Fault | None) -> str:
    claim, found = claim_of(answered.get(name)), recomputed(name, answered, runs)
    if claim is None or found is None:
        return "nothing that can be recomputed"
    return f"you wrote {claim.said}, recomputed {found} of {found.rows:,} rows; {'holds' if fault is None else fault.tag}"


def _feedback(name: str, value: object, fault: Fault) -> Feedback:
    claim = claim_of(value)
    rule, question = RULES[fault.tag]
    numbers = {"id": name, **fault.numbers}
    return Feedback(
        rule.format(**numbers),
        f"{name}: {printable(claim.sentence, 120)}" if claim else name,
        str(fault.found) if fault.found else "a claim that can be computed again",
        claim.said if claim else "none",
        question.format(**numbers),
    )
