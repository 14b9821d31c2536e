"""03.block-size: which block size, and what does it cost us? Three prices on drawn requests."""

from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.channel import Asker
from autograder.checks.lab03.hints import HINTS
from autograder.checks.lengths import OUTPUTS, PROMPTS, quantile
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TARGETS = (8, 16, 32, 64)  # each as likely to be the cheapest, so that no constant is often right
COUNT, FRESH = 60, 400  # requests shown, and requests on which the choice is judged
NEAR, FAR, BAND = 0.05, 0.20, 0.10  # the choice is right, near enough for the figures; a figure is right


@dataclass(frozen=True, slots=True)
class Served:
    """A request of ``tokens`` in all, the first ``shared`` of them a beginning that others have, too."""

    tokens: int
    shared: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Requests, and what a thousandth stranded, a thousandth of hits lost and an entry cost, in euros a month."""

    requests: tuple[Served, ...]
    fresh: tuple[Served, ...]
    stranded_euro: int
    hit_euro: int
    entry_euro: int

    def text(self) -> str:
        """The price in words."""
        return (
            f"{len(self.requests)} requests (tokens in all, of them a shared beginning). For a block of b tokens, a "
            f"month costs\n"
            f"  {self.stranded_euro} euros for each thousandth of the slots held that no token fills when its request "
            f"ends,\n"
            f"  {self.hit_euro} euros for each thousandth of the tokens in shared beginnings that lie in no full "
            f"block of them,\n"
            f"  {self.entry_euro} euros for each block-table entry in a thousand tokens.\n"
            f"Sizes: {', '.join(map(str, SIZES))}."
        )

    def price(self, block: int, requests: tuple[Served, ...] | None = None) -> float:
        """Euros a month with blocks of ``block`` tokens."""
        requests = requests or self.requests
        entries = 1000 * _blocks(requests, block) / sum(request.tokens for request in requests)
        return (
            self.stranded_euro * stranded_permille(requests, block)
            + self.hit_euro * hit_loss_permille(requests, block)
            + self.entry_euro * entries
        )


def stranded_permille(requests: tuple[Served, ...], block: int) -> float:
    """Thousandths of the slots held that no token fills, when each request is as long as it gets."""
    held = _blocks(requests, block) * block
    return 1000 * (held - sum(request.tokens for request in requests)) / held


def hit_loss_permille(requests: tuple[Served, ...], block: int) -> float:
    """Thousandths of the tokens in shared beginnings that lie in no full block: only full ones are found."""
    lost = sum(request.shared % block for request in requests)
    return 1000 * lost / sum(request.shared for request in requests)


def _blocks(requests: tuple[Served, ...], block: int) -> int:
    return sum(-(-request.tokens // block) for request in requests)


# tag -> question
_QUESTIONS = {
    "smallest": "A thousand tokens are {entries} entries then, at {entry_euro} euros each. Who reads them?",
    "largest": "About half a block is lost for each request. How many tokens is that of {mean}?",
    "hits-ignored": "A beginning of 100 tokens: how many full blocks of {block} is it?",
    "mean-length": "Is what {count} requests strand the same as what {count} requests of mean length strand?",
    "percent": "Of a hundred, or of a thousand?",
    "all-or-nothing": "A beginning of 100 tokens in blocks of 64: is all of it lost, or only what is left over?",
    "other-size": "Which of the three parts of the price is largest at your size, and which way does it fall?",
    "other-figure": "At your size, of what is this figure a share?",
}


@final
class BlockSize(Exercise):
    """A decision with a price: one size and two figures for the product owner."""

    id = "03.block-size"
    points = 2.0
    fields = ("block", "stranded_permille", "hit_loss_permille")
    hints = HINTS["03.block-size"]

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Choice:
        """This learner's requests and prices, or fresh ones for practice."""
        if variant is None:
            return drawn(course.of_learner(self.id, learner))
        return drawn(course.public(self.id + "/variant", variant))

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Choice, answered: dict) -> Score:
        """Half for the size, on fresh requests of the same kind; a quarter for each figure at a sensible size."""
        block = answered.get("block")
        known = type(block) is int and block in SIZES
        over = _over(puzzle, block) if known else None
        figures = {
            name: known and over <= FAR and _near(answered.get(name), value)
            for name, value in (_figures(puzzle, block) if known else dict.fromkeys(self.fields[1:])).items()
        }
        share = 0.5 * (known and over <= NEAR) + 0.25 * sum(figures.values())
        note = (
            f"Block: {block} costs {over:.0%} more than the cheapest size."
            if known
            else f"Block: not one of {', '.join(map(str, SIZES))}."
        )
        noted = "Figures right: " + (", ".join(name for name in figures if figures[name]) or "none") + "."
        tag = (
            "not-answered" if not answered else "" if share == 1.0 else _tag(puzzle, answered, over, figures)
        )
        said_of = _feedback(puzzle, answered, tag) if tag and answered else None
        return Score(self.id, 0.0, 0.0, tag, (note, noted), said_of, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answered = {n: value if n == "block" else _whole(value) for n, value in said.answered.items()}
        return answered_form(self, replace(said, answered=answered), dict.fromkeys(self.fields, int))


def best(puzzle: Choice, requests: tuple[Served, ...] | None = None) -> int:
    """The cheapest size."""
    return min(SIZES, key=lambda block: puzzle.price(block, requests))


def drawn(draw: Random) -> Choice:
    """Requests and prices for which one size is clearly the cheapest, and another if hits were left out."""
    target = draw.choice(TARGETS)
    while True:
        scale = draw.choice((1, 2, 4))
        shared = [scale * draw.randrange(40, 200) for _ in range(3)]  # the beginnings of three templates
        requests, fresh = (_requests(draw, shared, scale, count) for count in (COUNT, FRESH))
        choice = Choice(requests, fresh, draw.randrange(20, 50), draw.randrange(20, 50), 0)
        least = [choice.price(block) for block in SIZES]  # without entries
        entries = [1000 * _blocks(requests, block) / sum(r.tokens for r in requests) for block in SIZES]
        at = SIZES.index(target)
        high = min(_tie(least, entries, at, n) for n in range(at + 1, len(SIZES)))
        low = max(_tie(least, entries, at, n) for n in range(at))
        if max(low, 1) >= high:
            continue  # no price of an entry makes this size the cheapest
        choice = replace(choice, entry_euro=max(1, round((max(low, 1) * high) ** 0.5)))
        if _telling(choice, target):
            return choice


def _tie(least: list[float], entries: list[float], at: int, other: int) -> float:
    """The price of an entry at which two sizes cost the same."""
    return (least[other] - least[at]) / (entries[at] - entries[other])


def _requests(draw: Random, shared: list[int], scale: int, count: int) -> tuple[Served, ...]:
    found = []
    for number in range(count):
        tokens = scale * quantile(draw, PROMPTS) // 10 + scale * quantile(draw, OUTPUTS) // 2 + 1
        beginning = shared[number % len(shared)]
        found.append(Served(beginning + tokens, beginning))
    return tuple(found)


def _telling(choice: Choice, target: int) -> bool:
    """Is ``target`` the cheapest on both samples, its neighbours clearly dearer, and is each misreading wrong?"""
    if best(choice) != target or best(choice, choice.fresh) != target:
        return False
    dearer = [_over(choice, block) > 1.5 * NEAR for block in SIZES if block != target]
    figures = _figures(choice, target)
    ends = min(_over(choice, SIZES[0]), _over(choice, SIZES[-1]))
    return (
        all(dearer)
        and ends > FAR
        and best(replace(choice, hit_euro=0)) not in (target, SIZES[-1])
        and not _near(round(_mean_length(choice, target)), figures["stranded_permille"])
        and not _near(_all_or_nothing(choice, target), figures["hit_loss_permille"])
        and min(figures.values()) >= 6
    )


def _over(puzzle: Choice, block: int) -> float:
    """How much dearer than the cheapest size ``block`` is, on the fresh requests."""
    cheapest = puzzle.price(best(puzzle, puzzle.fresh), puzzle.fresh)
    return puzzle.price(block, puzzle.fresh) / cheapest - 1


def _figures(puzzle: Choice, block: int) -> dict[str, float]:
    return {
        "stranded_permille": stranded_permille(puzzle.requests, block),
        "hit_loss_permille": hit_loss_permille(puzzle.requests, block),
    }


def _near(value: object, key: float | None) -> bool:
    return key is not None and type(value) in (int, float) and abs(value - key) <= max(1.0, BAND * key)


def _mean_length(puzzle: Choice, block: int) -> float:
    """What one request of mean length strands."""
    mean = sum(request.tokens for request in puzzle.requests) // len(puzzle.requests)
    return stranded_permille((Served(mean, 0),), block)


def _all_or_nothing(puzzle: Choice, block: int) -> int:
    """Beginnings that are no whole number of blocks, counted as lost altogether."""
    lost = sum(request.shared for request in puzzle.requests if request.shared % block)
    return round(1000 * lost / sum(request.shared for request in puzzle.requests))


def _tag(puzzle: Choice, answered: dict, over: float | None, figures: dict) -> str:
    block = answered.get("block")
    if over is None or over > NEAR:
        guesses = {
            "smallest": SIZES[0],
            "largest": SIZES[-1],
            "hits-ignored": best(replace(puzzle, hit_euro=0)),
        }
        return next((tag for tag, guess in guesses.items() if guess == block), "other-size")
    right = _figures(puzzle, block)
    wrong = [name for name in figures if not figures[name]]
    if wrong == ["stranded_permille"] and _near(answered.get(wrong[0]), _mean_length(puzzle, block)):
        return "mean-length"
    if wrong == ["hit_loss_permille"] and _near(answered.get(wrong[0]), _all_or_nothing(puzzle, block)):
        return "all-or-nothing"
    if all(_percent(answered.get(name), right[name]) for name in wrong):
        return "percent"
    return "other-figure"


def _percent(value: object, key: float) -> bool:
    return type(value) in (int, float) and abs(value - key / 10) <= max(0.5, BAND * key / 10)


def _whole(value: object) -> object:
    """A figure may be typed with decimals; its form is looked at as if it were whole."""
    return round(value) if type(value) is float else value


def _feedback(puzzle: Choice, answered: dict, tag: str) -> Feedback:
    count = len(puzzle.requests)
    named = {
        "block": answered.get("block"),
        "entries": f"{1000 * _blocks(puzzle.requests, 1) // sum(r.tokens for r in puzzle.requests):,}",
        "entry_euro": puzzle.entry_euro,
        "mean": f"{sum(request.tokens for request in puzzle.requests) // count:,}",
        "count": count,
    }
    return Feedback(
        "The cheapest size balances three prices: slots that stay empty, beginnings that are not found, entries that "
        "every step reads.",
        f"your {count} requests",
        "a size within 5 % of the cheapest, and its two figures within 10 %",
        ", ".join(f"{name}={value!r}" for name, value in answered.items())[:200],
        _QUESTIONS[tag].format(**named),
    )
