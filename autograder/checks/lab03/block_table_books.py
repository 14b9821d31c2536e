"""What the judge of 03.block-table keeps itself: cases, who holds which block, and the tokens in the pool.

A sequence of ``length`` tokens reads its last ``window_tokens`` (sliding window attention: Beltagy et al.,
Longformer, 2020; Mistral 7B, 2023). Blocks that it reads no more go back, as in vLLM's
``SlidingWindowManager``; there one token earlier, for the token that comes next.
"""

from dataclasses import dataclass, field
from random import Random
from typing import final

import numpy

from gpulab.device.kernels import PAGED_ATTENTION
from gpulab.telemetry.events import Claimed, Freed, Granted, Opened, Used
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous

HEAD_DIM = 4


@dataclass(frozen=True, slots=True)
class Case:
    """Steps ``(sequence, length)`` in order; ``seed`` draws which free block comes and what the tokens hold."""

    block_tokens: int
    n_blocks: int
    seed: int
    steps: tuple[tuple[str, int], ...]

    def text(self) -> str:
        lines = [f"{self.n_blocks} blocks of {self.block_tokens} tokens"]
        return "\n".join([*lines, *(f"{seq} grows to {length} tokens" for seq, length in self.steps)])


def case_of(draw: Random, rules: dict, block_tokens: int, names: str = "ABC") -> Case:
    """The first sequence over its first boundary alone, then all of ``names`` interleaved until blocks go back."""
    window, b = rules["window_tokens"], block_tokens
    left = {}
    for name in names:
        end = window + b + draw.randrange(1, 2 * b)  # at least one block is read no more
        edges = [2 * b - 1, 2 * b, 2 * b + 1, window + b - 1, window + b, end]
        first = [1, b - 1, b, b + 1] if name == names[0] else [draw.randrange(1, b + 2)]
        grown = {length for length in edges if length > first[-1] and (length > 2 * b or draw.randrange(3))}
        left[name] = [*first, *sorted(grown)]
    steps = [(names[0], length) for length in left[names[0]][:4]]
    del left[names[0]][:4]
    while any(left.values()):
        name = draw.choice([name for name in names if left[name]])
        steps.append((name, left[name].pop(0)))
    most = len(names) * (-(-(window + 3 * b) // b) + 1)
    return Case(b, most + draw.randrange(8), draw.randrange(1 << 30), tuple(steps))


def graded_case(draw: Random, rules: dict, number: int) -> Case:
    """Blocks of 16 in every third case, else of another size: no size can be typed into the code."""
    return case_of(draw, rules, 16 if number % 3 == 0 else draw.choice((8, 12, 24, 32)))


@dataclass(slots=True)
class _Sequence:
    blocks: list[int] = field(default_factory=list)  # all that came, also those that went back
    live: dict[int, tuple[int, int]] = field(default_factory=dict)  # block -> its index and its claim
    length: int = 0
    off: bool = False  # some answer differed from the rule's


@final
class Books:
    """The pool's blocks and contents, and the rule's answers read off them."""

    def __init__(self, case: Case, rules: dict) -> None:
        self.case, self.b, self.window = case, case.block_tokens, rules["window_tokens"]
        self.sequences: dict[str, _Sequence] = {}
        self.ledger = Ledger()
        self._draw = Random(f"{case.seed}/blocks")
        self._free = self._draw.sample(range(case.n_blocks), case.n_blocks)
        self._claims, self._now_ns = 0, 0
        slots = case.n_blocks * self.b
        self.pool = numpy.full((2, slots, HEAD_DIM), numpy.nan, numpy.float32)  # nobody wrote there yet
        self._tokens: dict[str, numpy.ndarray] = {}
        self.ledger.append(Opened(0, "kv", slots, "slot"))

    # -- the rule --------------------------------------------------------------------------------

    def missing(self, name: str, length: int) -> int:
        return -(-length // self.b) - len(self.of(name).blocks)

    def slots(self, name: str, start: int, end: int) -> list[int]:
        blocks = self.of(name).blocks
        return [blocks[p // self.b] * self.b + p % self.b for p in range(start, end)]

    def reads(self, name: str) -> list[int]:
        length = self.of(name).length
        return self.slots(name, max(0, length - self.window), length)

    def drop(self, name: str) -> list[int]:
        sequence = self.of(name)
        dead = max(0, sequence.length - self.window) // self.b
        return [
            block for i, block in enumerate(sequence.blocks[:dead]) if sequence.live.get(block, (-1,))[0] == i
        ]

    # -- what happens ----------------------------------------------------------------------------

    def of(self, name: str) -> _Sequence:
        return self.sequences.setdefault(name, _Sequence())

    def grow(self, name: str, length: int) -> list[int]:
        """The blocks that came for ``name``, any of the free ones; its length is ``length`` from now on."""
        sequence, new = self.of(name), []
        self._now_ns += 1
        for _ in range(self.missing(name, length)):
            block = self._free.pop(self._draw.randrange(len(self._free)))
            claim, shape = self._claims, Contiguous(self.b, self.b)
            self._claims += 1
            self.ledger.append(Claimed(self._now_ns, claim, "kv", self.b, shape, name))
            self.ledger.append(Granted(self._now_ns, claim, block * self.b, self.b))
            sequence.live[block] = len(sequence.blocks), claim
            sequence.blocks.append(block)
            new.append(block)
        sequence.length = length
        if length % self.b and sequence.blocks[-1] in sequence.live:
            self.ledger.append(Used(self._now_ns, sequence.live[sequence.blocks[-1]][1], length % self.b))
        return new

    def write(self, name: str, start: int, slots: list[int]) -> None:
        """The keys and values of the tokens from ``start`` on, one in each of ``slots``."""
        self.pool[:, slots] = self._contents(name)[:, start : start + len(slots)]

    def give_back(self, name: str, blocks: list[int]) -> None:
        """``blocks`` are free again; what they held is lost."""
        self._now_ns += 1
        for block in blocks:
            self.ledger.append(Freed(self._now_ns, self.of(name).live.pop(block)[1]))
            self._free.append(block)
            self.pool[:, block * self.b : (block + 1) * self.b] = numpy.nan

    def attended(self, name: str, slots: list[int]) -> bool:
        """Does the kernel, reading ``slots``, compute what attention over the window's tokens in a row gives?

        A slot is a block of one token to the kernel, so it reads these slots and no others.
        """
        length = self.of(name).length
        query = numpy.ones(HEAD_DIM, numpy.float32)
        keys, values = self._contents(name)[:, max(0, length - self.window) : length].astype(numpy.float64)
        weights = numpy.exp(keys @ query / numpy.sqrt(HEAD_DIM))
        expected = weights @ values / weights.sum()
        out = numpy.empty(HEAD_DIM, numpy.float32)
        PAGED_ATTENTION.meaning(*self.operands(query, slots), out, **self.shape(slots))
        return bool(numpy.all(numpy.abs(out - expected) <= 1e-5))

    def operands(self, query: numpy.ndarray, slots: list[int]) -> tuple[numpy.ndarray, ...]:
        """What the kernel is launched with, up to ``out``."""
        table = numpy.array(slots, numpy.int32)
        return query, self.pool[0].copy(), self.pool[1].copy(), table, numpy.array([len(slots)], numpy.int32)

    def shape(self, slots: list[int]) -> dict[str, int]:
        """The shape of that launch."""
        pool_blocks, n = self.pool.shape[1], len(slots)
        heads = {"sequences": 1, "kv_heads": 1, "group": 1, "head_dim": HEAD_DIM}
        return heads | {"block_tokens": 1, "pool_blocks": pool_blocks, "table_blocks": n, "tokens": n}

    def _contents(self, name: str) -> numpy.ndarray:
        """Keys and values of all tokens of ``name``, as multiples of 1/16 between -2 and 2."""
        if name not in self._tokens:
            most = max(length for seq, length in self.case.steps if seq == name)
            draw = Random(f"{self.case.seed}/{name}")
            drawn = [draw.randrange(-32, 33) / 16 for _ in range(2 * most * HEAD_DIM)]
            self._tokens[name] = numpy.array(drawn, numpy.float32).reshape(2, most, HEAD_DIM)
        return self._tokens[name]
