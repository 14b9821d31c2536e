"""The notes of one kernel: who works here and what was typed, in the form in which it is judged."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.answerer import Unsendable, plain
from autograder.verdict import Commitments, unfit
from gpulab.report.form import Form


@dataclass
class Desk:
    """One kernel's notes: who works here and what was typed."""

    name: str = ""
    predicted: dict[str, dict] = field(default_factory=dict)
    reconciled: dict[str, dict] = field(default_factory=dict)
    answered: dict[str, dict] = field(default_factory=dict)
    rungs: dict[str, int] = field(default_factory=dict)
    practised: dict[str, int] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)

    def commit(self, exercise: str, noted: dict) -> None:
        """Keep a prediction for the kernel's life, and show so in its form if there is one."""
        self.predicted[exercise] = noted
        if exercise in self.forms:
            self.forms[exercise].lock(noted)

    def said(self, exercise: str) -> Commitments:
        """What was typed for one exercise so far."""
        return Commitments(
            self.name,
            self.predicted.get(exercise, {}),
            self.reconciled.get(exercise, {}),
            self.answered.get(exercise, {}),
        )


def as_judged(exercise: str, values: dict) -> dict:
    """``values`` as they are judged; empty, and a sentence is printed, when one cannot be."""
    try:
        noted = plain(values)
    except Unsendable as wrong:
        print(f"{exercise}: not noted: {wrong}.")
        return {}
    for name, value in noted.items():
        if unfit(value):
            print(f"{exercise}: not noted: {name}: {unfit(value)}.")
            return {}
    return noted


def listed(value: object) -> list:
    """``value`` as a list; what is none becomes its only item."""
    return list(value) if isinstance(value, (list, tuple, set, range)) else [value]


def named(expected: Sequence[str], given: dict, verb: str, exercise: str) -> bool:
    """Are there names in ``given``, all of them ``expected``? Else a sentence is printed."""
    if not expected:
        what = "prediction" if verb == "predict" else "answers: check() plays what you built"
        print(f"{exercise} asks for no {what}.")
        return False
    unknown = [name for name in given if name not in expected]
    if unknown or not given:
        wanted = ", ".join(f"{name}=…" for name in expected)
        call = f"p.check({wanted})" if verb == "check" else f"{verb}({exercise!r}, {wanted})"
        print(f"{exercise}: write {call}; {', '.join(unknown) or 'nothing'} was given.")
        return False
    return True


def pairs(values: dict) -> str:
    """``values`` as they are written in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
