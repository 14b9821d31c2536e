"""03.kv-bytes: a function from a model's card to the bytes that one token keeps on one device."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab03 import exact
from autograder.checks.lab03.hints import HINTS
from autograder.checks.played import CASES, judged, tag_of
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Score

CARDS = 4  # in a case; all are of one kind
KINDS = ("mha", "gqa", "mqa", "fp8", "latent", "replicated")
_BYTES = {"float16": 2, "bfloat16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class Card:
    """A model as its makers describe it, split over ``tp`` devices; ``checksum`` bytes guard each vector.

    ``latent`` is the width of the one vector that stands for keys and values, 0 when there is none.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    tp: int
    latent: int
    checksum: int

    def fields(self) -> dict[str, object]:
        """The card as it travels."""
        card = {name: getattr(self, name) for name in ("layers", "hidden", "heads", "kv_heads", "head_dim")}
        card |= {"dtype": self.dtype, "tp": self.tp}
        return card | ({"latent": self.latent} if self.latent else {})

    def text(self) -> str:
        """The question in one line."""
        listed = ", ".join(f"{name} {value}" for name, value in self.fields().items())
        return f"a card with {listed}; a checksum of {self.checksum} B"


def rule(card: Card) -> int:
    """Bytes of one token on one device: in each layer a key and a value for each head that it stores.

    Fewer heads than devices: each device stores a whole one (vLLM, ``get_num_kv_heads``). A latent vector
    is stored once, and by every device (DeepSeek-V2, section 2.1).
    """
    return _bytes(card)


def _bytes(card: Card, **other: int) -> int:
    """The rule with some of its numbers replaced, which is what a misreading does."""
    latent = bool(card.latent)
    vectors = other.get("vectors", 1 if latent else 2)
    heads = other.get("heads", 1 if latent else max(1, card.kv_heads // card.tp))
    width = other.get("width", card.latent or card.head_dim)
    size = width * other.get("number", _BYTES[card.dtype])
    checksums = other.get("checksums", vectors * heads)
    return card.layers * (vectors * heads * size + checksums * card.checksum)


def _heads_as_asking(card: Card) -> int:
    return _bytes(card) if card.latent else _bytes(card, heads=max(1, card.heads // card.tp))


def _below_one(card: Card) -> int:
    return _bytes(card) if card.latent else _bytes(card, heads=card.kv_heads // card.tp)


def _whole_model(card: Card) -> int:
    return _bytes(card) if card.latent else _bytes(card, heads=card.kv_heads)


def _from_hidden(card: Card) -> int:
    return _bytes(card) if card.latent else _bytes(card, width=card.hidden // card.heads)


_READING = exact.Reading(
    function="kv_bytes",
    arguments=lambda card: [card.fields(), {"checksum": card.checksum}],
    rule=rule,
    misread={
        "no-checksum": (
            lambda card: _bytes(card, checksums=0),
            "Which vectors does a token store, and what stands beside each?",
        ),
        "checksum-once": (
            lambda card: _bytes(card, checksums=1),
            "One checksum guards one vector. How many vectors does a token store in a layer?",
        ),
        "query-heads": (_heads_as_asking, "{heads} heads ask. How many keep keys and values?"),
        "k-or-v": (lambda card: _bytes(card, vectors=1), "Keys, or keys and values?"),
        "latent-twice": (
            lambda card: _bytes(card, vectors=2),
            "One latent vector of {latent} stands for both. How often is it stored?",
        ),
        "tp-below-one": (
            _below_one,
            "{tp} devices share {kv_heads} heads. Can a device hold a part of a head?",
        ),
        "all-devices": (_whole_model, "That is the whole model. What does one of {tp} devices keep of it?"),
        "hidden-over-heads": (_from_hidden, "Which width has one head on the card?"),
        "two-bytes": (lambda card: _bytes(card, number=2), "{dtype}: how many bytes has one number?"),
        "bits": (lambda card: _bytes(card, number=8 * _BYTES[card.dtype]), "Is that bits or bytes?"),
    },
    sentence="A token keeps, in each layer, one key and one value for each head that this device stores; a "
    "checksum stands beside each stored vector.",
    open="How many vectors does this device store for a token in one layer, and how long is each?",
    named=lambda card: card.fields() | {"latent": card.latent},
)


@final
class KvBytes(Exercise):
    """What one token costs, from the model's card."""

    id = "03.kv-bytes"
    points = 2.0
    builds = True
    function = "kv_bytes"
    constant = 'rules["{}"]'
    hints = HINTS["03.kv-bytes"]

    def twist(self, draw: Random) -> dict[str, int]:
        """This course's cache guards each stored vector by a checksum of so many bytes."""
        return {"checksum": draw.choice((4, 6, 8, 10, 12, 16))}

    def example(self, course: Course) -> tuple[list, Callable]:
        card = _drawn(course.public(self.id, 0), "gqa", self._checksum(course), 1)
        questions = [[1, "new", [{}], []], [2, "kv_bytes", _READING.arguments(card), []]]
        return questions, lambda: SimpleNamespace(kv_bytes=lambda card, rules: 131072)

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Card:
        """One card for practice."""
        number = variant or 0
        draw = course.public(self.id + "/variant", number)
        return _drawn(draw, KINDS[number % len(KINDS)], self._checksum(course), 1)

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return self._judged(course, course.graded, CASES, said, asker)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return self._judged(course, course.public, len(KINDS), said, asker)

    def _judged(self, course: Course, draws: Callable, count: int, said: Commitments, asker: Asker) -> Score:
        checksum = self._checksum(course)
        cases = [_case(draws(self.id, n), n, checksum) for n in range(count)]
        outcomes = judged(cases, lambda case: exact.play(_READING, case, asker))
        share = sum(outcome.share for outcome in outcomes) / count
        note = f"Build: {share:.0%} of the cases equal the rule on all of their cards."
        said_of = exact.feedback(
            _READING,
            outcomes,
            asker,
            lambda n: _case(course.public(self.id + "/small", n), n, checksum),
        )
        points = as_points(share, self.points)
        return Score(self.id, points, self.points, tag_of(outcomes), (note,), said_of, said.learner, share)

    def _checksum(self, course: Course) -> int:
        return course.rules[self.id]["checksum"]


def _case(draw: Random, number: int, checksum: int) -> list[Card]:
    """Cards of one kind; of each kind there are equally many cases."""
    return [_drawn(draw, KINDS[number % len(KINDS)], checksum, n) for n in range(CARDS)]


def _drawn(draw: Random, kind: str, checksum: int, number: int) -> Card:
    """A card of ``kind``. The first two of a case have heads of another width than hidden / heads."""
    heads = 8 * draw.randrange(2, 9)
    head_dim = draw.choice((64, 80, 96, 128))
    width = draw.choice([n for n in (64, 80, 96, 128) if n != head_dim]) if number < 2 else head_dim
    tp, latent = 1, 0
    if kind == "mha":
        kv_heads = heads
    elif kind in ("gqa", "fp8"):
        kv_heads = heads // draw.choice((2, 4, 8))
    else:
        kv_heads = 1
    if kind in ("mha", "gqa", "fp8"):
        tp = draw.choice([n for n in (2, 4, 8) if kv_heads % n == 0] or [1])
    elif kind == "replicated":
        kv_heads = draw.choice((1, 2, 4))
        tp = draw.choice([n for n in (2, 4, 8) if n > kv_heads])
    elif kind == "latent":
        kv_heads, latent, tp = heads, 64 * draw.randrange(5, 13), draw.choice((1, 2, 4, 8))
    dtype = "fp8" if kind == "fp8" else draw.choice(("float16", "bfloat16"))
    layers = draw.randrange(16, 81)
    return Card(layers, heads * width, heads, kv_heads, head_dim, dtype, tp, latent, checksum)
