"""Lab 03: the reference of 03.share."""

from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import digest


class MyCache:
    """Full blocks are found by their digest until they are handed out again; the last block is copied if shared."""

    def __init__(self, n_blocks: int, block_tokens: int, rules: dict) -> None:
        self.pool = FreeQueue(n_blocks, block_tokens=block_tokens)
        self.size, self.rules = block_tokens, rules
        self.table: dict[str, list[int]] = {}
        self.tokens: dict[str, list[int]] = {}
        self.tenant: dict[str, str] = {}
        self.block_of: dict[str, int] = {}  # digest -> block

    def names(self, seq: str) -> list[str]:
        tokens, found = self.tokens[seq], [""]
        for start in range(0, len(tokens) // self.size * self.size, self.size):
            found.append(digest(found[-1], tokens[start : start + self.size], self.tenant[seq]))
        return found[1:]

    def take(self, n: int, seq: str, hits: list[int] = ()) -> list[int]:
        blocks = self.pool.allocate(n, seq, hits=hits)
        new = blocks[len(hits) :]
        self.block_of = {name: block for name, block in self.block_of.items() if block not in new}
        return new

    def admit(self, seq: str, tokens: list[int], tenant: str) -> list[list[int]]:
        self.tokens[seq], self.tenant[seq] = list(tokens), tenant
        names, hits = self.names(seq), []
        for name in names[: (len(tokens) - 1) // self.size]:
            if name not in self.block_of:
                break
            hits.append(self.block_of[name])
        if len(hits) < self.rules["least_blocks"]:
            hits = []
        new = self.take(-(-len(tokens) // self.size) - len(hits), seq, hits)
        self.table[seq] = hits + new
        for name, block in zip(names, self.table[seq], strict=False):
            self.block_of.setdefault(name, block)
        return [hits, new]

    def append(self, seq: str, token: int) -> list[int | None]:
        table, source = self.table[seq], None
        if len(self.tokens[seq]) % self.size == 0:
            table += self.take(1, seq)
        elif len(self.pool.holders(table[-1])) > 1:
            source = table.pop()
            table += self.take(1, seq)
            self.pool.release([source], seq)
        self.tokens[seq].append(token)
        if len(self.tokens[seq]) % self.size == 0:
            self.block_of.setdefault(self.names(seq)[-1], table[-1])
        return [table[-1], source]

    def fork(self, seq: str, child: str) -> None:
        self.pool.share(self.table[seq], child)
        self.table[child], self.tokens[child] = list(self.table[seq]), list(self.tokens[seq])
        self.tenant[child] = self.tenant[seq]

    def finish(self, seq: str) -> list[int]:
        freed = [block for block in self.table[seq] if len(self.pool.holders(block)) == 1]
        self.pool.release(self.table[seq], seq)
        return freed
