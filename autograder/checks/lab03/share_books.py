"""What the judge of 03.share keeps itself: who holds which block, and what each block contains."""

from typing import final

from autograder.checks.lab03.share_mixes import Mix
from gpulab.errors import AllocatorFault
from gpulab.memory.blocks import BlockPool
from gpulab.units import MS


@final
class SaidPool(BlockPool):
    """The judge's pool: it grants what the learner's object named, and checks that it may be granted."""

    def prepare(self) -> None:
        self.said: list = []
        self.order = list(range(self.n_blocks))  # free blocks, the longest unused first

    def take(self, n: int, urgent: bool = False) -> list:
        return self.said

    def give(self, blocks: list[int]) -> None:
        self.order += reversed(blocks)

    def touch(self, blocks: list[int]) -> None:
        self.order = [block for block in self.order if block not in blocks]

    def grant(self, blocks: list, owner: str, hits: list[int]) -> None:
        self.said = blocks
        self.allocate(len(blocks), owner, hits=hits, urgent=True)
        self.order = [block for block in self.order if block not in blocks]


class Broken(Exception):
    """An answer broke a safety law; nothing of it was entered."""

    def __init__(self, tag: str, got: object, block: object = None, other: str = "") -> None:
        super().__init__(tag)
        self.tag, self.got = tag, str(got)[:200]
        self.block, self.other = block, other


@final
class Books:
    """Sequences, their tables, and for every block the tokens in it with all before them."""

    def __init__(self, mix: Mix, rules: dict) -> None:
        self.b, self.least = mix.block_tokens, rules["least_blocks"]
        self.pool = SaidPool(mix.n_blocks, block_tokens=mix.block_tokens)
        self.tokens: dict[str, list[int]] = {}
        self.tenant: dict[str, str] = {}
        self.table: dict[str, list[int]] = {}
        self.content: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.first: dict[tuple[str, tuple[int, ...]], int] = {}  # of the full blocks with equal contents
        self.block_ns = 0
        self.short = False  # was a short beginning shared?

    def tick(self) -> None:
        """A millisecond passes."""
        self.block_ns += (self.pool.n_blocks - self.pool.free_blocks) * MS
        self.pool.clock.advance_to(self.pool.clock.now_ns + MS)

    # -- the rule --------------------------------------------------------------------------------

    def admit(self, seq: str, tokens: list[int], tenant: str) -> list:
        hits = []
        while len(hits) < (len(tokens) - 1) // self.b:
            block = self.first.get((tenant, tuple(tokens[: (len(hits) + 1) * self.b])))
            if block is None:
                break
            hits.append(block)
        hits = hits if len(hits) >= self.least else []
        missing = -(-len(tokens) // self.b) - len(hits)
        return [hits, [block for block in self.pool.order if block not in hits][:missing]]

    def append(self, seq: str, token: int) -> list:
        last = self.table[seq][-1]
        if len(self.tokens[seq]) % self.b == 0:
            return [self.pool.order[0], None]
        return [self.pool.order[0], last] if len(self.pool.holders(last)) > 1 else [last, None]

    def finish(self, seq: str) -> list[int]:
        return [block for block in self.table[seq] if self.pool.holders(block) == (seq,)]

    # -- what was answered -----------------------------------------------------------------------

    def admitted(self, seq: str, tokens: list[int], tenant: str, got: object) -> None:
        if type(got) is not list or len(got) != 2 or not all(_numbers(part) for part in got):
            raise Broken("type", got)
        hits, new = got
        for index, block in enumerate(hits, 1):
            if index > len(tokens) // self.b:
                raise Broken("partial-shared", got, block)
            self._check_hit(block, tokens[: index * self.b], tenant, got)
        if len(hits) > (len(tokens) - 1) // self.b:
            raise Broken("nothing-left", got, hits[-1])
        if set(hits) & set(new):
            raise Broken("hit-evicted", got, min(set(hits) & set(new)))
        if len(hits) + len(new) != -(-len(tokens) // self.b):
            raise Broken("size", got)
        self._grant(new, seq, hits, got)
        self.tokens[seq], self.tenant[seq], self.table[seq] = list(tokens), tenant, [*hits, *new]
        for index, block in enumerate(self.table[seq]):
            if block in new:
                self._put(block, tenant, tokens[: (index + 1) * self.b])
        if len(tokens) % self.b:
            self.pool.fill(self.table[seq][-1], len(tokens) % self.b, seq)
        self.short |= 0 < len(hits) < self.least

    def appended(self, seq: str, token: int, got: object) -> None:
        if type(got) is not list or len(got) != 2 or type(got[0]) is not int:
            raise Broken("type", got)
        (block, source), table, place = got, self.table[seq], len(self.tokens[seq]) % self.b
        if place and block == table[-1] and source is None:
            others = [name for name in self.pool.holders(block) if name != seq]
            if others:
                raise Broken("no-copy", got, block, others[0])
        elif source != (table[-1] if place else None) or type(source) not in (int, type(None)):
            raise Broken("other-block", got, block)
        else:
            self._grant([block], seq, [], got)
            if place:
                self.pool.release([table.pop()], seq)
            table.append(block)
        self.tokens[seq].append(token)
        self._put(block, self.tenant[seq], self.tokens[seq])
        self.pool.fill(block, place + 1, seq)

    def forked(self, seq: str, child: str) -> None:
        self.pool.share(self.table[seq], child)
        self.tokens[child], self.tenant[child] = list(self.tokens[seq]), self.tenant[seq]
        self.table[child] = list(self.table[seq])

    def finished(self, seq: str, got: object) -> None:
        right = sorted(self.finish(seq))
        if not _numbers(got):
            raise Broken("type", got)
        extra, kept = set(got) - set(right), set(right) - set(got)
        if extra:
            block = min(extra)
            holders = [name for name in self.pool.holders(block) if name != seq] if self._is(block) else []
            raise Broken("double-release", got, block, holders[0] if holders else "nobody")
        if kept or len(got) != len(right):
            raise Broken("kept", got, min(kept, default=None))
        self.pool.release(self.table.pop(seq), seq)
        del self.tokens[seq], self.tenant[seq]

    # -- checks ----------------------------------------------------------------------------------

    def _put(self, block: int, tenant: str, path: list[int]) -> None:
        before = self.content.get(block)
        if self.first.get(before) == block:
            del self.first[before]
        self.content[block] = tenant, tuple(path)
        if len(path) % self.b == 0:
            self.first.setdefault(self.content[block], block)

    def _check_hit(self, block: int, path: list[int], tenant: str, got: object) -> None:
        owner, inside = self.content.get(block, ("", ()))
        if len(inside) % self.b and inside == tuple(path[: len(inside)]):
            raise Broken("partial-shared", got, block)
        own = inside[-self.b :] == tuple(path[-self.b :])
        if inside != tuple(path):
            raise Broken("unchained-digest" if own else "wrong-hit", got, block)
        if owner != tenant:
            raise Broken("cross-tenant", got, block, owner)

    def _grant(self, new: list[int], seq: str, hits: list[int], got: object) -> None:
        try:
            self.pool.grant(new, seq, hits)
        except AllocatorFault as fault:
            block = fault.numbers.get("block")
            holders = self.pool.holders(block) if self._is(block) else ()
            raise Broken("taken-twice", got, block, holders[0] if holders else "nobody") from fault

    def _is(self, block: object) -> bool:
        return type(block) is int and 0 <= block < self.pool.n_blocks


def _numbers(value: object) -> bool:
    return type(value) is list and all(type(item) is int for item in value)
