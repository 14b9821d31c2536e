"""The inputs of 03.block-pool: chats that come, grow and end, aimed at the edge of the watermark."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import final

from gpulab.errors import OutOfMemory
from gpulab.memory.blocks import BlockPool


@dataclass(frozen=True, slots=True)
class Operation:
    """``chat`` takes ``n`` blocks (``urgent``: it runs and must go on), or with n = 0 ends and gives all back."""

    chat: int
    n: int
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A pool of ``n_blocks`` and what its chats do, in order."""

    n_blocks: int
    operations: tuple[Operation, ...]
    rules: dict | None = None  # of the course, for who watches

    def text(self) -> str:
        """The case in words, an operation a line."""
        lines = [f"pool: {self.n_blocks} blocks"]
        for op in self.operations:
            what = f"takes {op.n}{', urgent' if op.urgent else ''}" if op.n else "ends"
            lines.append(f"chat {op.chat} {what}")
        return "\n".join(lines)


@final
class RulePool(BlockPool):
    """The rule of 03.block-pool itself."""

    def prepare(self) -> None:
        self.order = list(range(self.n_blocks))

    def take(self, n: int, urgent: bool = False) -> list[int] | None:
        left = len(self.order) - n
        if left < (0 if urgent else self.rules["watermark_blocks"]):
            return None
        taken, self.order = self.order[:n], self.order[n:]
        return taken

    def give(self, blocks: list[int]) -> None:
        self.order = returned(self.order, blocks, self.rules["kept_blocks"])


def returned(order: list[int], blocks: list[int], kept: int) -> list[int]:
    """The order of the free blocks after ``blocks`` came back, by the twist.

    All in reverse; the first ``kept`` of them, which others may ask for again, to the tail, the rest to the head.
    """
    back, cut = blocks[::-1], max(0, len(blocks) - kept)
    return back[:cut] + order + back[cut:]


def play(
    case: Case, pool: BlockPool, *, whole: bool = True
) -> Iterator[tuple[Operation, int, list[int] | None]]:
    """Yield ``(operation, free blocks before, what came)`` for each take.

    A chat that is refused leaves at once, with all that it holds. At the end all chats end and, if ``whole``,
    the whole pool is taken once, urgently: no block may have been lost. Faults of the pool come out as they are.
    """
    tables: dict[int, list[int]] = {}
    ends = [Operation(chat, 0) for chat in sorted({op.chat for op in case.operations})]
    last = [Operation(-1, case.n_blocks, True)] if whole else []
    for op in (*case.operations, *ends, *last):
        pool.clock.advance_to(pool.clock.now_ns + 1000)
        owner = f"chat {op.chat}"
        if not op.n:
            if op.chat in tables:
                pool.release(tables.pop(op.chat), owner)
            continue
        if op.urgent and op.chat not in tables and op.chat >= 0:
            continue  # it was refused before
        free = pool.free_blocks
        try:
            blocks = pool.allocate(op.n, owner, urgent=op.urgent)
        except OutOfMemory as full:
            yield op, free, None
            pool.withdraw(full.claim)
            if op.chat in tables:
                pool.release(tables.pop(op.chat), owner)
            continue
        tables.setdefault(op.chat, []).extend(blocks)
        yield op, free, blocks


class _Counts:
    """How many blocks each chat has under the rule; which ones makes no difference to who is served."""

    def __init__(self, n_blocks: int, watermark: int) -> None:
        self.free, self.watermark = n_blocks, watermark
        self.chats: dict[int, int] = {}

    def take(self, op: Operation) -> None:
        if self.free - op.n >= (0 if op.urgent else self.watermark):
            self.free -= op.n
            self.chats[op.chat] = self.chats.get(op.chat, 0) + op.n
        else:
            self.end(op.chat)

    def end(self, chat: int) -> None:
        self.free += self.chats.pop(chat, 0)


def takes_of(case: Case, rules: dict) -> int:
    """How many takes ``play`` yields under the rule: of a chat that was refused, the later ones are left out."""
    counts, takes = _Counts(case.n_blocks, rules["watermark_blocks"]), 1
    for op in case.operations:
        if not op.n:
            counts.end(op.chat)
        elif not op.urgent or op.chat in counts.chats:
            counts.take(op)
            takes += 1
    return takes


def drawn(draw: Random, rules: dict, takes: int, n_blocks: int = 0) -> Case:
    """A case of ``takes`` takes: many leave just the watermark, or would leave one block less.

    Longer chats have more blocks than are kept, so that both ends of the free queue are used.
    """
    n_blocks = n_blocks or draw.randrange(32, 65)
    keep, kept = rules["watermark_blocks"], rules["kept_blocks"]
    counts, operations, came, asked = _Counts(n_blocks, keep), [], 0, 0
    while asked < takes:
        running, what = sorted(counts.chats), draw.randrange(100)
        if running and (what < 30 or (counts.free <= keep and what < 70)):
            operations.append(Operation(draw.choice(running), 0))
            counts.end(operations[-1].chat)
            continue
        urgent = bool(running) and what >= 70
        chat = draw.choice(running) if urgent else came
        came += not urgent
        operations.append(Operation(chat, _aimed(draw, counts.free, keep, kept, urgent), urgent))
        counts.take(operations[-1])
        asked += 1
    return Case(n_blocks, tuple(operations))


def _aimed(draw: Random, free: int, keep: int, kept: int, urgent: bool) -> int:
    """How many blocks to take of ``free``: some number, or one near an edge."""
    if urgent:
        return (
            max(1, free + draw.randrange(2))
            if 0 < free < keep and draw.randrange(2)
            else draw.randrange(1, 3)
        )
    some = draw.randrange(1, 2 * kept + 4)
    edge = free - keep + draw.choice((-1, 0, 0, 1, 1, 2))
    return edge if 0 < edge <= 2 * kept + 4 and draw.randrange(2) else some
