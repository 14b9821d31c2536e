"""02.predict-oom: the largest request that succeeds next, after six operations on CuPy's pool (F2)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.course import Course
from autograder.judge import Commitments, Exercise, Feedback, Score, as_points, reconciliation
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool, largest_next
from gpulab.report.account import Account
from gpulab.telemetry.events import Claimed, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MiB, format_bytes

_STEP = 64 * MiB
_NAMES = "abcdefghkmnpqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two lists of six operations on a device of ``device_bytes``; they differ in the last one."""

    device_bytes: int
    a: tuple
    b: tuple

    def pool(self, which: str) -> CuPyPool:
        """The pool after the operations of trace ``which`` ('a' or 'b')."""
        pool = CuPyPool(self.device_bytes)
        run_operations(pool, getattr(self, which))
        return pool

    def text(self) -> str:
        """Both traces, one line an operation."""
        lines = [f"device: {format_bytes(self.device_bytes)} ({self.device_bytes:,} B)"]
        for number, (left, right) in enumerate(zip(self.a, self.b, strict=True), 1):
            both = (
                _operation(left) if left == right else f"a: {_operation(left)}   |   b: {_operation(right)}"
            )
            lines.append(f"{number}. {both}")
        return "\n".join(lines)


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


# The misconceptions as formulas over (longest chunk, device's rest, whole segments, all free chunks).
_RULES: dict[str, tuple[Callable[[int, int, int, int], int], str]] = {
    "sum-of-free": (
        lambda longest, rest, whole, free: rest + free,
        "{got} are free in all. Which single stretch would hold them?",
    ),
    "split-goes-back": (
        lambda longest, rest, whole, free: rest + whole + longest if longest > whole else rest + whole,
        "One of these pieces lies in a segment that still holds something. Can half a segment be returned?",
    ),
    "hole-plus-device": (
        lambda longest, rest, whole, free: longest + rest,
        "The longest free piece and what the device has left do not touch. Who could join them?",
    ),
    "hole-only": (
        lambda longest, rest, whole, free: longest,
        "The pool has no longer piece than that. What has the device itself left?",
    ),
    "cache-is-stuck": (
        lambda longest, rest, whole, free: max(longest, rest),
        "A cached segment of which nothing is held: what may the pool do with it before it gives up?",
    ),
}
_ROUNDING = "One of the sizes is no multiple of 512 B. How many bytes were granted for it?"
_OPEN = "Which stretches can the pool hand out, and which can the device, once the pool has given back all it may?"


@final
class PredictOom(Exercise):
    """Two pairs of traces: one to predict and watch, one to answer."""

    id = "02.predict-oom"
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
        return OomPuzzle(_drawn(draw), _drawn(draw))

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
        return Key(largest_next(pair.pool("a")), largest_next(pair.pool("b")), _pin(pair))

    def evidence(self, pair: Pair) -> tuple[str, set[int]]:
        """The term of the failed claim in trace a, and the facts that made the extent that pins."""
        ledger = self.overrun(pair, "a")
        terms = Account(ledger, "device→extent").at(ledger.end_ns - 1)
        cause = max(("fragmented", "unscheduled"), key=lambda term: getattr(terms, term))
        pin = _pin(pair)
        claims = {f.claim for f in ledger.of(Claimed) if f.owner == pin and f.resource == "pool"}
        return cause, {
            serial for serial in ledger.serials(Claimed, Granted) if ledger[serial].claim in claims
        }

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        puzzle = self.puzzle(course, said.learner)
        cause, shows = self.evidence(puzzle.shown)
        predicted = all(type(said.predicted.get(name)) is int for name in self.predicts)
        reconciled, note = reconciliation(said, cause, shows)
        answers = self._answers(puzzle, said.answered)
        points = as_points(0.1 * predicted + 0.2 * reconciled + 0.7 * answers.build_share, self.points)
        notes = ("Prediction: " + ("committed." if predicted else "not committed."), note, *answers.notes)
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
        tag, question = "", _OPEN
        if wrong:
            tag, question = misconception(puzzle.graded, answers, wrong)
            got = answers.get(wrong[0])
        else:
            question = (
                "Give each tensor back in thought, one at a time: after which can the most be claimed next?"
            )
            tag, got = "wrong-pin", answers.get("blocks_it")
        said_of = Feedback(
            "A request succeeds if one free piece of the pool holds it, or the device can give a new segment "
            "after whole cached segments went back.",
            f"the request after operation {len(puzzle.graded.a)} of trace {wrong[0][-1] if wrong else 'a'}",
            "what the pool itself answers",
            f"{wrong[0] if wrong else 'blocks_it'} = {_short(got)}",
            question.format(got=format_bytes(got) if type(got) is int else "these bytes"),
            _map(self.overrun(puzzle.shown, "a")),
            "Trace a of the pair you watched, with one claim too many at its end.",
        )
        return tag, said_of


def misconception(pair: Pair, answers: dict, wrong: list[str]) -> tuple[str, str]:
    """The tag and the question of the formula that gives the learner's wrong numbers."""
    matches = []
    for tag, (formula, question) in _RULES.items():
        hits = [name for name in wrong if answers.get(name) == _value(pair.pool(name[-1]), formula)]
        matches.append((len(hits), tag, question))
    unrounded = [name for name in wrong if answers.get(name) == _unrounded(pair, name[-1])]
    matches.append((len(unrounded), "rounding-forgotten", _ROUNDING))
    hits, tag, question = max(matches, key=lambda match: match[0])
    return (tag, question) if hits else ("other-number", _OPEN)


def answered_form(exercise: Exercise, said: Commitments, kinds: dict[str, type]) -> Score:
    """For tasks whose answer the learner's notebook must not tell: is it complete and of the right kind?"""
    problems = []
    for name in exercise.fields:
        value = said.answered.get(name)
        if value is None:
            problems.append(f"{name}: not answered yet")
        elif type(value) is not kinds[name]:
            problems.append(
                f"{name}: {value!r} is not {'a whole number' if kinds[name] is int else 'a name'}"
            )
    note = "Complete; it is graded when you hand in." if not problems else "; ".join(problems) + "."
    return Score(exercise.id, 0.0, 0.0, "not-answered" if problems else "", (note,), None, said.learner)


def _drawn(draw: Random) -> Pair:
    """A pair in which the key differs from every misconception somewhere, and one tensor pins most."""
    while True:
        pair = _shape(draw)
        keys = (largest_next(pair.pool("a")), largest_next(pair.pool("b")))
        if keys[0] == keys[1] or _pin(pair) is None:
            continue
        guesses = [tuple(_value(pair.pool(w), formula) for w in "ab") for formula, _ in _RULES.values()]
        guesses.append((_unrounded(pair, "a"), _unrounded(pair, "b")))
        if keys not in guesses and guesses[0][0] != keys[0] and len(set(guesses)) == len(guesses):
            return pair


def _shape(draw: Random) -> Pair:
    """The shape of F2: a held, a temporary freed, something small in its place, the first one freed."""
    first, temp, small, last = draw.sample(_NAMES, 4)
    held = draw.randrange(12, 49) * _STEP
    large = draw.randrange(24, 97) * _STEP
    inside = draw.randrange(4, 24) * _STEP - draw.randrange(20, 500)  # not a multiple of 512
    rest = draw.randrange(8, 80) * _STEP
    after = draw.randrange(4, held // _STEP) * _STEP
    common = (
        ("alloc", first, held),
        ("alloc", temp, large),
        ("free", temp),
        ("alloc", small, inside),
        ("free", first),
    )
    other = draw.choice((("alloc", last, held + draw.randrange(1, 4) * _STEP), ("free", small)))
    if other[0] == "alloc" and inside + other[2] + 512 > large:
        other = ("free", small)
    traces = [(*common, ("alloc", last, after)), (*common, other)]
    return Pair(held + large + rest, *traces)


def _pin(pair: Pair) -> str | None:
    """The tensor of trace a after whose return the most can be claimed next, if it is the only such one."""
    gains: dict[str, int] = {}
    live = {op[1] for op in pair.a if op[0] == "alloc"} - {op[1] for op in pair.a if op[0] == "free"}
    for name in sorted(live):
        pool = CuPyPool(pair.device_bytes)
        run_operations(pool, [*pair.a, ("free", name)])
        gains[name] = largest_next(pool)
    best = max(gains.values())
    names = [name for name, gain in gains.items() if gain == best]
    return names[0] if len(names) == 1 and best > largest_next(pair.pool("a")) else None


def _value(pool: CuPyPool, formula: Callable[[int, int, int, int], int]) -> int:
    return formula(pool.largest_cached(), pool.room_bytes, pool.segments.whole_bytes, pool.free_bytes)


def _unrounded(pair: Pair, which: str) -> int:
    """The right rule on the sizes as they were asked: what who forgets the rounding to 512 B computes."""
    pool = pair.pool(which)
    held = sum(extent.size - extent.asked for extent in pool.held())
    grown = pool.room_bytes + pool.segments.whole_bytes
    return max(pool.largest_cached() + held, grown) if pool.largest_cached() > grown else grown + held


def _equal(value: object, key: object) -> bool:
    return type(value) is type(key) and value == key


def _operation(operation: tuple) -> str:
    if operation[0] == "free":
        return f"free {operation[1]}"
    return f"alloc {operation[1]}: {operation[2]:,} B ({format_bytes(operation[2])})"


def _short(value: object) -> str:
    return f"{value:,}" if type(value) is int else repr(value)[:40]


def _map(ledger: Ledger) -> object:
    from gpulab.report.charts import memory_map

    return memory_map(ledger, title="The pool's segments and what they hold")
