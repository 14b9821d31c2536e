"""02.predict-oom: the largest request that succeeds next, after six operations on CuPy's pool (F2)."""

from dataclasses import dataclass, replace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab02.hints import HINTS
from autograder.checks.lab02.oom_pairs import Pair, drawn, misconception, pin
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points, committed, reconciliation
from autograder.verdict import Commitments, Feedback, Score
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool, largest_next
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_bytes


@dataclass(frozen=True, slots=True)
class OomPuzzle:
    """``shown`` is watched after the prediction; the answer is about ``graded``."""

    shown: Pair
    graded: Pair


@dataclass(frozen=True, slots=True)
class Key:
    """What the pool itself says of a pair."""

    largest_a: int
    largest_b: int
    blocks_it: str


# The question to who has this misconception; the numbers it leads to are in ``oom_pairs.guesses``.
_QUESTIONS = {
    "sum-of-free": "{got} are free in all. Which single stretch would hold them?",
    "split-goes-back": "One of these pieces lies in a segment that still holds something. "
    "Can half a segment be returned?",
    "hole-plus-device": "The longest free piece and what the device has left do not touch. Who could join them?",
    "hole-only": "The pool has no longer piece than that. What has the device itself left?",
    "cache-is-stuck": "A cached segment of which nothing is held: what may the pool do with it before it gives up?",
    "rounding-forgotten": "One of the sizes is no multiple of 512 B. How many bytes were granted for it?",
    "wrong-pin": "Give each tensor back in thought, one at a time: after which can the most be claimed next?",
}
_OPEN = "Which stretches can the pool hand out, and which can the device, once the pool has given back all it may?"


@final
class PredictOom(Exercise):
    """Two pairs of traces: one to predict and watch, one to answer."""

    id = "02.predict-oom"
    hints = HINTS["02.predict-oom"]
    points = 3.0
    fields = ("largest_a", "largest_b", "blocks_it")
    predicts = ("largest_a", "largest_b")
    causes = ("used", "stranded", "fragmented", "unscheduled", "spare")

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> OomPuzzle:
        """This learner's pairs, or a fresh practice one."""
        if variant is None:
            draw = course.of_learner(self.id, learner)
        else:
            draw = course.public(self.id + "/variant", variant)
        return OomPuzzle(drawn(draw), drawn(draw))

    def watched(self, puzzle: OomPuzzle, part: str = "a") -> Ledger:
        """Trace ``part`` of the shown pair, with a claim at its end of 512 B more than could succeed."""
        return self.overrun(puzzle.shown, part)

    def reference(self, course: Course, puzzle: OomPuzzle) -> Ledger:
        """The same for trace a of the pair to be answered."""
        return self.overrun(puzzle.graded, "a")

    def overrun(self, pair: Pair, which: str) -> Ledger:
        """Trace ``which`` of ``pair``, with a claim at its end of 512 B more than could succeed."""
        largest = largest_next(pair.pool(which))
        return run_operations(
            CuPyPool(pair.device_bytes), [*getattr(pair, which), ["alloc", "next", largest + 512]]
        )

    def key(self, pair: Pair) -> Key:
        """The answers, by running the pool."""
        return Key(largest_next(pair.pool("a")), largest_next(pair.pool("b")), pin(pair))

    def evidence(self, pair: Pair) -> tuple[str, set[int]]:
        """The term of the failed claim in trace a, and the facts that made the extent that pins."""
        ledger = self.overrun(pair, "a")
        terms = Account(ledger, "device→extent").at(ledger.end_ns - 1)
        cause = max(("fragmented", "unscheduled"), key=lambda term: getattr(terms, term))
        owner = pin(pair)
        claims = {f.claim for f in ledger.of(Claimed) if f.owner == owner and f.resource == "pool"}
        return cause, {
            serial for serial in ledger.serials(Claimed, Granted) if ledger[serial].claim in claims
        }

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        puzzle = self.puzzle(course, said.learner)
        cause, shows = self.evidence(puzzle.shown)
        predicted, noted = committed(said, self.predicts)
        reconciled, note = reconciliation(said, cause, shows)
        answers = self._answers(puzzle, said.answered)
        points = as_points(0.1 * predicted + 0.2 * reconciled + 0.7 * answers.build_share, self.points)
        notes = (noted, note, *answers.notes)
        return replace(answers, points=points, max_points=self.points, notes=notes, typed_name=said.learner)

    def practise(self, course: Course, puzzle: OomPuzzle, answered: dict) -> Score:
        return self._answers(puzzle, answered)

    def _answers(self, puzzle: OomPuzzle, answered: dict) -> Score:
        """The answers alone: which are right, and what a wrong one shows."""
        key = self.key(puzzle.graded)
        worth = {"largest_a": 3, "largest_b": 2, "blocks_it": 2}  # sevenths of the share that answers carry
        right = {name: _equal(answered.get(name), getattr(key, name)) for name in worth}
        share = sum(part for name, part in worth.items() if right[name]) / 7
        note = "Answers right: " + (", ".join(name for name in worth if right[name]) or "none") + "."
        tag, said_of = self._diagnosed(puzzle, answered, right)
        return Score(self.id, 0.0, 0.0, tag, (note,), said_of, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return answered_form(self, said, {"largest_a": int, "largest_b": int, "blocks_it": str})

    def _diagnosed(self, puzzle: OomPuzzle, answers: dict, right: dict) -> tuple[str, Feedback | None]:
        wrong = [name for name in ("largest_a", "largest_b") if not right[name]]
        if not answers or all(right.values()):
            return ("not-answered" if not answers else ""), None
        field = wrong[0] if wrong else "blocks_it"
        tag = (misconception(puzzle.graded, answers, wrong) or "other-number") if wrong else "wrong-pin"
        got = answers.get(field)
        said_of = Feedback(
            "A request succeeds if one free piece of the pool holds it, or the device can give a new segment "
            "after whole cached segments went back.",
            f"the request after operation {len(puzzle.graded.a)} of trace {field[-1] if wrong else 'a'}",
            "what the pool itself answers",
            f"{field} = {_short(got)}",
            _QUESTIONS.get(tag, _OPEN).format(got=format_bytes(got) if type(got) is int else "these bytes"),
            _map(self.overrun(puzzle.shown, "a")),
            "Trace a of the pair you watched, with one claim too many at its end.",
        )
        return tag, said_of


def _equal(value: object, key: object) -> bool:
    return type(value) is type(key) and value == key


def _short(value: object) -> str:
    return f"{value:,}" if type(value) is int else repr(value)[:40]


def _map(ledger: Ledger) -> object:
    from gpulab.report.charts import memory_map

    return memory_map(ledger, title="The pool's segments and what they hold")
