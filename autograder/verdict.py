"""What goes into a judgement and what comes out: what a learner typed, and a score with its feedback."""

import html
import math
import unicodedata
from dataclasses import dataclass, field

from autograder.channel import printable

NAME_CHARS = 80
_WIDEST = 2**63  # whole numbers beyond it are no answer to anything we ask
_TEXT_CHARS, _ITEMS, _DEPTH = 200, 100, 4


@dataclass(frozen=True, slots=True)
class Commitments:
    """What a learner typed for one exercise: plain JSON values, judged, never run."""

    learner: str = ""
    predicted: dict = field(default_factory=dict)
    reconciled: dict = field(default_factory=dict)  # {"cause": text, "events": [serials]}
    answered: dict = field(default_factory=dict)

    @classmethod
    def read(cls, value: object) -> "Commitments":
        """From the learner's process; anything that is not of this form counts as not committed."""
        found = value if type(value) is dict else {}
        parts = {}
        for part in ("predicted", "reconciled", "answered"):
            given = found[part] if type(found.get(part)) is dict else {}
            parts[part] = {name: v for name, v in given.items() if v is not None and _literal(v)}
        return cls(tidy_name(found.get("learner")), **parts)


def tidy_name(name: object) -> str:
    """``name`` as both ends draw tasks for it: composed, trimmed, printable, at most 80 characters."""
    text = unicodedata.normalize("NFC", name) if type(name) is str else ""
    return printable(text.strip(), NAME_CHARS)


def unfit(value: object) -> str:
    """Why ``value``, of JSON types, cannot be noted as an answer; '' when it can."""
    return (
        ""
        if _literal(value)
        else f"it is too large: at most {_TEXT_CHARS} characters, {_ITEMS} items, 19 digits"
    )


def _literal(value: object, depth: int = _DEPTH) -> bool:
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is int:
        return -_WIDEST < value < _WIDEST
    if kind is float:
        return math.isfinite(value)
    if kind is str:
        return len(value) <= _TEXT_CHARS
    return (
        kind is list
        and depth > 0
        and len(value) <= _ITEMS
        and all(_literal(item, depth - 1) for item in value)
    )


@dataclass(frozen=True, slots=True)
class Feedback:
    """One broken rule, shown: sentence, first event, expected against got, a question, a picture."""

    rule: str
    event: str
    expected: str
    got: str
    question: str
    picture: object = None  # report.charts.Picture of a small failing trace
    where: str = ""  # what the picture shows

    def lines(self) -> list[str]:
        """The feedback as lines of plain text."""
        lines = [self.rule, f"First event that broke it: {self.event}"]
        return [*lines, f"Expected: {self.expected}", f"Got:      {self.got}", self.question]


@dataclass(frozen=True, slots=True)
class Score:
    """Points of one exercise, and why. ``tag`` names the misconception, '' when nothing was wrong."""

    exercise: str
    points: float
    max_points: float
    tag: str = ""
    notes: tuple[str, ...] = ()  # one line a part: predicted, reconciled, build
    feedback: Feedback | None = None
    typed_name: str | None = None  # None: no task of this exercise is drawn for a name
    build_share: float = 0.0  # of the build's part alone, 0 to 1

    @property
    def full(self) -> bool:
        return self.points >= self.max_points

    @property
    def _head(self) -> str:
        points = (
            f"{self.points:g} of {self.max_points:g} points" if self.max_points else "practice, no points"
        )
        return f"{self.exercise}: {points}"

    @property
    def text(self) -> str:
        """The score and the feedback as plain text."""
        lines = [self._head, *self.notes]
        said = self.feedback
        if said:
            lines += ["", *said.lines(), *([said.where] if said.where else [])]
        return "\n".join(lines)

    @property
    def html(self) -> str:
        """The same as an HTML fragment, escaped, with the picture as inline SVG."""
        rows = [f"<p><strong>{html.escape(self._head)}</strong></p>"]
        if self.notes:
            items = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
            rows.append(f"<ul>{items}</ul>")
        said = self.feedback
        if said:
            pairs = (
                ("First event that broke it", said.event),
                ("Expected", said.expected),
                ("Got", said.got),
            )
            listed = "\n".join(
                f"<dt>{name}</dt><dd>{_as_lines(html.escape(value))}</dd>" for name, value in pairs
            )
            rows.append(f"<p>{html.escape(said.rule)}</p><dl>\n{listed}")
            rows.append(f"</dl><p><em>{html.escape(said.question)}</em></p>")
        if said and said.picture is not None:
            caption = html.escape(said.where)
            rows.append(f"<figure>{said.picture.svg()}<figcaption>{caption}</figcaption></figure>")
        return '<div class="gpulab-feedback">' + "\n".join(rows) + "</div>"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text, "text/html": self.html}


def _as_lines(text: str) -> str:
    """``text``, escaped already; what stands in columns over several lines stays so."""
    return f"<pre>{text}</pre>" if "\n" in text else text
