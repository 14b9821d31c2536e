"""03.prefix-trace: three requests over a prefix cache; what the third finds, and what it is given (F4)."""

from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab03.hints import HINTS
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.errors import OutOfMemory
from gpulab.memory.blocks import BlockPool
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import PrefixCache
from gpulab.telemetry.ledger import Ledger

BLOCK = 4  # tokens
WORTH = {"hits": 0.2, "free_queue": 0.4, "third_gets": 0.4}


@dataclass(frozen=True, slots=True)
class Trace:
    """A comes and generates, B comes with the beginning of A, one of them ends, C comes with its beginning."""

    n_blocks: int
    first: int  # tokens of A's prompt
    generated: int  # by A
    second: tuple[int, int]  # B: tokens it has in common with A, then of its own
    ends: str  # "A" or "B"
    third: tuple[int, int]  # C: tokens it has in common with the one that ended, then of its own

    def text(self) -> str:
        """The trace in words."""
        return (
            f"{self.n_blocks} blocks of {BLOCK} tokens, all free, 0 at the head of the queue.\n"
            f"A comes with {self.first} tokens and generates {self.generated}.\n"
            f"B comes with the first {self.second[0]} tokens of A and {self.second[1]} of its own.\n"
            f"{self.ends} ends.\n"
            f"C comes with the first {self.third[0]} tokens of {self.ends} and {self.third[1]} of its own."
        )

    def prompt(self, name: str) -> list[int]:
        """The tokens with which ``name`` comes, as numbers."""
        if name == "A":
            return list(range(100, 100 + self.first))
        shared, own, of, start = (*self.second, "A", 200) if name == "B" else (*self.third, self.ends, 300)
        return [*self.prompt(of)[:shared], *range(start, start + own)]


@dataclass(frozen=True, slots=True)
class Found:
    """The three answers, as the engine or a misreading gives them."""

    hits: int
    free_queue: list[int]
    third_gets: list[int]


@final
class _Forward(BlockPool):
    """FreeQueue, but what comes back is not reversed."""

    def prepare(self) -> None:
        self.free = list(range(self.n_blocks))

    def take(self, n: int, urgent: bool = False) -> list[int] | None:
        taken, self.free = self.free[:n], self.free[n:]
        return taken

    def give(self, blocks: list[int]) -> None:
        self.free += blocks

    def touch(self, blocks: list[int]) -> None:
        self.free = [block for block in self.free if block not in blocks]

    def order(self) -> list[int]:
        """The free blocks, the next to be taken first."""
        return self.free


def running(trace: Trace, pool: BlockPool) -> PrefixCache:
    """A prefix cache over ``pool``, an empty one, in which A and B run."""
    cache = PrefixCache(pool)
    cache.admit("A", trace.prompt("A"))
    for token in range(trace.generated):
        cache.append("A", 150 + token)
    cache.admit("B", trace.prompt("B"))
    return cache


def run(trace: Trace, pool: BlockPool) -> Found:
    """``trace`` to its end. ``OutOfMemory`` if somebody finds no room."""
    cache = running(trace, pool)
    cache.finish(trace.ends)
    queue = list(pool.order())
    third = cache.admit("C", trace.prompt("C"))
    return Found(len(third.hits), queue, [*third.hits, *third.new])


def right(trace: Trace) -> Found:
    """The answers, by running gpulab's prefix cache over vLLM's free queue."""
    return run(trace, FreeQueue(trace.n_blocks, block_tokens=BLOCK))


def misread(trace: Trace) -> dict[str, Found]:
    """What each misconception answers."""
    key, forward = right(trace), run(trace, _Forward(trace.n_blocks, block_tokens=BLOCK))
    pool = FreeQueue(trace.n_blocks, block_tokens=BLOCK)
    table, before = running(trace, pool).table(trace.ends).blocks, pool.order()
    hits, new = key.third_gets[: key.hits], key.third_gets[key.hits :]
    tail = [block for block in key.free_queue if block not in hits][::-1]
    shared = [block for block in table if block not in key.free_queue]
    return {
        "forward-free": forward,
        "newest-evicted": replace(key, third_gets=hits + tail[: len(new)]),
        "partial-hit": replace(
            key, hits=key.hits + 1, third_gets=[*hits, table[key.hits], *new][: len(key.third_gets)]
        ),
        "hit-still-free": replace(key, free_queue=key.free_queue + shared[::-1]),
        "tokens-not-blocks": replace(key, hits=key.hits * BLOCK),
        "forgot-finish": Found(key.hits, before, hits + before[: len(new)]),
        "hits-left-out": replace(key, third_gets=new),
    }


_QUESTIONS = {
    "forward-free": "Which of a finished request's blocks is likelier to be asked for again, its first or its last?",
    "newest-evicted": "C needs new blocks. At which end of the queue do they leave?",
    "partial-hit": "C has {common} tokens in common with {ends}. How many full blocks is that?",
    "hit-still-free": "{ends} ended, but does {other} still hold some of its blocks?",
    "tokens-not-blocks": "Is that the number of tokens, or of blocks?",
    "forgot-finish": "{ends} ended before C came. Which blocks came back?",
    "hits-left-out": "C's blocks begin with those that it found. Which are they?",
    "other-blocks": "Which blocks does each request hold, line by line, and which are free?",
}


@final
class PrefixTrace(Exercise):
    """A trace on paper: hits, the order of the free queue, the third request's blocks."""

    id = "03.prefix-trace"
    points = 2.0
    fields = ("hits", "free_queue", "third_gets")
    hints = HINTS["03.prefix-trace"]

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Trace:
        """This learner's trace, or a fresh one for practice."""
        if variant is None:
            return drawn(course.of_learner(self.id, learner))
        return drawn(course.public(self.id + "/variant", variant))

    def watched(self, puzzle: Trace, part: str = "") -> Ledger:
        """The engine's ledger of ``puzzle``."""
        pool = FreeQueue(puzzle.n_blocks, block_tokens=BLOCK)
        run(puzzle, pool)
        return pool.ledger

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Trace, answered: dict) -> Score:
        key = right(puzzle)
        wrong = [name for name in WORTH if not _same(answered.get(name), getattr(key, name))]
        share = sum(part for name, part in WORTH.items() if name not in wrong)
        note = "Answers right: " + (", ".join(name for name in WORTH if name not in wrong) or "none") + "."
        tag, said_of = self._diagnosed(puzzle, answered, wrong)
        return Score(self.id, 0.0, 0.0, tag, (note,), said_of, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return answered_form(self, said, {"hits": int, "free_queue": list, "third_gets": list})

    def _diagnosed(self, puzzle: Trace, answers: dict, wrong: list[str]) -> tuple[str, Feedback | None]:
        if not answers or not wrong:
            return ("not-answered" if not answers else ""), None
        tag = next(
            (
                tag
                for tag, found in misread(puzzle).items()
                if all(_same(answers.get(name), getattr(found, name)) for name in wrong)
            ),
            "other-blocks",
        )
        named = {
            "common": puzzle.third[0],
            "ends": puzzle.ends,
            "other": "B" if puzzle.ends == "A" else "A",
        }
        return tag, Feedback(
            "A full block with the same beginning is found. What ends gives back, last block first, what nobody else "
            "holds; new blocks leave at the head.",
            "C comes, on your trace",
            "what the prefix cache itself does",
            f"{wrong[0]} = {answers.get(wrong[0])!r}"[:80],
            _QUESTIONS[tag].format(**named),
        )


def drawn(draw: Random) -> Trace:
    """A trace on which every misconception answers otherwise and C finds held and free blocks."""
    while True:
        first, ends = draw.randrange(9, 17), draw.choice("AB")
        second = draw.randrange(5, 13), draw.randrange(2, 8)
        trace = Trace(
            draw.randrange(8, 13),
            first,
            draw.randrange(1, 5),
            second,
            ends,
            (draw.randrange(5, 17), draw.randrange(4, 13)),
        )
        if _telling(trace):
            return trace


def _telling(trace: Trace) -> bool:
    ended = trace.first if trace.ends == "A" else sum(trace.second)
    if trace.second[0] > trace.first or trace.third[0] > ended or trace.third[0] % BLOCK == 0:
        return False
    try:
        key, others = right(trace), misread(trace)
    except OutOfMemory:
        return False
    found = key.third_gets[: key.hits]
    free = sum(block in key.free_queue for block in found)
    ordered = all(others[tag].third_gets != key.third_gets for tag in ("forward-free", "forgot-finish"))
    return 0 < free < key.hits and ordered and _different([key, *others.values()])


def _different(answers: list[Found]) -> bool:
    return all(one != other for n, one in enumerate(answers) for other in answers[:n])


def _same(value: object, key: object) -> bool:
    if type(key) is list:
        return type(value) is list and all(type(item) is int for item in value) and value == key
    return type(value) is int and value == key
