"""The plans of 03.waste: what they reserve, what a misreading would, and runs of them on drawn lengths."""

from dataclasses import dataclass
from random import Random

from autograder.checks.lengths import GAPS, OUTPUTS, PROMPTS, quantile
from gpulab.datasets import Request
from gpulab.errors import OutOfMemory
from gpulab.memory.arena import buddy_size
from gpulab.memory.reservation import PLANS, replay_plan
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

BOUNDARIES = 5  # of a request at which paged is asked, before and after
_MANY = 20  # requests, as in a graded case
_GAP_NS = 1_500 * MS  # mean time between two arrivals


@dataclass(frozen=True, slots=True)
class Reserving:
    """What does ``plan`` hold for ``request`` when ``so_far`` tokens of its output are in the cache?"""

    plan: str
    request: Request
    so_far: int
    max_len: int
    block: int
    unit: int

    @property
    def tokens(self) -> int:
        """Tokens in the cache now."""
        return self.request.prompt_tokens + self.so_far

    @property
    def needed(self) -> int:
        """Slots without which a token has no place: now, or to the end for a stretch that cannot grow."""
        return (
            self.tokens if self.plan == "paged" else self.request.prompt_tokens + self.request.output_tokens
        )

    def arguments(self) -> list:
        """The question as it travels."""
        request = {
            "prompt": self.request.prompt_tokens,
            "output_so_far": self.so_far,
            "output": self.request.output_tokens,
        }
        rules = {"max_len": self.max_len, "block": self.block, "unit_tokens": self.unit}
        return [self.plan, request, rules]

    def text(self) -> str:
        """The question in one line."""
        return (
            f"plan {self.plan}, prompt {self.request.prompt_tokens:,}, output so far {self.so_far:,} of "
            f"{self.request.output_tokens:,}, max_len {self.max_len:,}, block {self.block}, unit {self.unit}"
        )


@dataclass(frozen=True, slots=True)
class Lengths:
    """Requests with the lengths of real chats, and the numbers of the plans."""

    requests: tuple[Request, ...]
    max_len: int
    block: int
    unit: int

    @classmethod
    def of(cls, case: list[Reserving]) -> "Lengths":
        """The requests that the questions of ``case`` are about."""
        first = case[0]
        requests = tuple(dict.fromkeys(question.request for question in case))
        return cls(requests, first.max_len, first.block, first.unit)

    def text(self) -> str:
        """The task in words."""
        listed = ", ".join(f"{r.prompt_tokens:,} + {r.output_tokens:,}" for r in self.requests)
        return (
            f"max_len {self.max_len:,}, blocks of {self.block}, smallest stretch {self.unit} slots; "
            f"prompt + output of {len(self.requests)} requests: {listed}"
        )

    def run(self, plan: str) -> Ledger:
        """The ledger of ``plan``, in the smallest arena (by doubling) in which nobody waits."""

        def reserve(request: Request) -> int:
            return reserved(Reserving(plan, request, 1, self.max_len, self.block, self.unit))

        slots = buddy_size(2 * self.max_len, self.unit)
        while True:
            try:
                return replay_plan(
                    self.requests,
                    plan,
                    slots=slots,
                    max_tokens=self.max_len,
                    block_tokens=self.block,
                    unit=self.unit,
                    reserve=reserve,
                )
            except OutOfMemory:
                slots *= 2


def reserved(question: Reserving) -> int:
    """Slots by the rule card. Kwon et al., PagedAttention (SOSP 2023), section 6.1, with a buddy unit."""
    if question.plan == "paged":
        return -(-question.tokens // question.block) * question.block
    return buddy_size(wanted(question), question.unit)


def wanted(question: Reserving) -> int:
    """Tokens for which a plan in one stretch makes room."""
    prompt, output = question.request.prompt_tokens, question.request.output_tokens
    if question.plan == "max":
        return question.max_len
    return prompt + (buddy_size(output) if question.plan == "pow2" else output)


def questions(lengths: Lengths) -> list[Reserving]:
    """One question for each plan in one stretch, and for *paged* both sides of up to five block boundaries."""
    asked = []
    for number, request in enumerate(lengths.requests):
        numbers = (lengths.max_len, lengths.block, lengths.unit)
        prompt, output = request.prompt_tokens, request.output_tokens
        asked += [Reserving(plan, request, 1 + 7 * number % output, *numbers) for plan in PLANS[:3]]
        full = range(-(-(prompt + 1) // lengths.block) * lengths.block - prompt, output, lengths.block)
        step = max(1, -(-len(full) // BOUNDARIES))
        moments = {1, output, *(at + side for at in full[::step] for side in (0, 1))}
        asked += [Reserving("paged", request, so_far, *numbers) for so_far in sorted(moments)]
    return asked


def drawn(draw: Random, unit: int, count: int) -> Lengths:
    """``count`` requests; if they are 20, every misreading shows on some of them."""
    while True:
        max_len, block = 16 * draw.randrange(90, 257), draw.choice((8, 16, 32))
        if -(-max_len // unit) * unit in (max_len, buddy_size(max_len, unit)):
            continue  # here a multiple of the unit, or max_len itself, would be right
        requests, now_ns = [], 0
        while len(requests) < count:
            prompt, output = quantile(draw, PROMPTS), quantile(draw, OUTPUTS)
            if len(requests) % 5 == 2:  # the sum just fits a stretch
                prompt = buddy_size(prompt + output, unit) - draw.randrange(unit // 4) - output
            if prompt + output <= max_len:
                requests.append(Request(now_ns, prompt, output))
                now_ns += _GAP_NS * quantile(draw, GAPS) // 1000 + 1
        lengths = Lengths(tuple(requests), max_len, block, unit)
        if count < _MANY or _telling(lengths):
            return lengths


def _telling(lengths: Lengths) -> bool:
    """Do the misreadings show that not every draw shows, and whoever rounds prompt and output to units each?"""
    unit, requests = lengths.unit, lengths.requests
    longest = max(request.prompt_tokens for request in requests) + lengths.max_len
    if longest <= buddy_size(lengths.max_len, unit):
        return False  # max_len taken for the longest output would be right
    sizes = [(r.prompt_tokens, r.output_tokens, buddy_size(r.output_tokens)) for r in requests]
    oracle = [buddy_size(p + o, unit) for p, o, _ in sizes]
    pow2 = [buddy_size(p + guess, unit) for p, _, guess in sizes]
    units = [(-(-p // unit), -(-o // unit)) for p, o, _ in sizes]
    return (
        pow2 != oracle
        and oracle != [buddy_size(p + o) * unit for p, o in units]
        and pow2 != [buddy_size(p + buddy_size(o)) * unit for p, o in units]
    )


def _stretch(question: Reserving, size) -> int:
    """``size`` of a plan in one stretch; *paged* as it should be."""
    return reserved(question) if question.plan == "paged" else size(wanted(question), question.unit)


def _of(plan: str, question: Reserving, tokens: int) -> int:
    """Room for ``tokens`` in ``plan``, all other plans as they should be."""
    return buddy_size(tokens, question.unit) if question.plan == plan else reserved(question)


def _blocks(question: Reserving, blocks: int) -> int:
    return blocks * question.block if question.plan == "paged" else reserved(question)


# tag -> (what answers so, the question)
MISREAD = {
    "unit-one": (
        lambda q: _stretch(q, lambda tokens, unit: buddy_size(tokens)),
        "The smallest stretch is {unit} slots. Which sizes come from doubling it?",
    ),
    "no-buddy": (
        lambda q: _stretch(q, lambda tokens, unit: tokens),
        "The buddy allocator hands out {unit}, twice that, twice that again. Is {got} such a size?",
    ),
    "multiple-of-unit": (
        lambda q: _stretch(q, lambda tokens, unit: -(-tokens // unit) * unit),
        "A buddy halves a stretch until it just fits. Can {got} slots come from halving?",
    ),
    "pow2-of-sum": (
        lambda q: (
            _of("pow2", q, q.request.prompt_tokens + q.request.output_tokens)
            if q.plan == "pow2"
            else reserved(q)
        ),
        "The plan pow2 doubles its guess of one of the two lengths. Which one is not known?",
    ),
    "max-is-output": (
        lambda q: _of("max", q, q.request.prompt_tokens + q.max_len),
        "max_len is {max_len:,}, prompt and output together. What did you add to it?",
    ),
    "rounds-down": (
        lambda q: _blocks(q, q.tokens // q.block),
        "{tokens:,} tokens in blocks of {block}: where does the last one live?",
    ),
    "one-too-many": (
        lambda q: _blocks(q, q.tokens // q.block + 1),
        "{tokens:,} tokens in blocks of {block}: is the last of your blocks empty?",
    ),
    "paged-knows-output": (
        lambda q: _blocks(q, -(-(q.request.prompt_tokens + q.request.output_tokens) // q.block)),
        "{tokens:,} tokens are there now. Which blocks do you hold for tokens that are still to come?",
    ),
    "paged-in-one-stretch": (
        lambda q: buddy_size(q.tokens, q.unit) if q.plan == "paged" else reserved(q),
        "Blocks lie anywhere. Why would {tokens:,} tokens need one stretch?",
    ),
}
