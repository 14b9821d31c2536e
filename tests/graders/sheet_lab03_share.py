"""The sheet of 03.share: the reference, the stub, each misconception, and adapters around gpulab."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.references.lab03_share import MyCache
from autograder.verdict import Commitments
from gpulab.errors import AllocatorFault
from gpulab.memory.blocks import BlockPool
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import PrefixCache, digest

EXERCISE = "03.share"


class UnchainedDigest(MyCache):
    def names(self, seq):
        tokens, size = self.tokens[seq], self.size
        starts = range(0, len(tokens) // size * size, size)
        return [digest("", tokens[s : s + size], self.tenant[seq]) for s in starts]


class CrossTenant(MyCache):
    def admit(self, seq, tokens, tenant):
        return super().admit(seq, tokens, "all")


class PartialShared(MyCache):
    """The last block of an equal prompt is found as well, full or not."""

    def admit(self, seq, tokens, tenant):
        same = [s for s in self.table if self.tokens[s][: len(tokens)] == tokens and self.tenant[s] == tenant]
        if not same or len(tokens) % self.size == 0 or len(tokens) < self.size * self.rules["least_blocks"]:
            return super().admit(seq, tokens, tenant)
        self.tokens[seq], self.tenant[seq] = list(tokens), tenant
        self.table[seq] = self.table[same[0]][: -(-len(tokens) // self.size)]
        self.pool.share(self.table[seq], seq)
        return [list(self.table[seq]), []]

    def finish(self, seq):
        freed = super().finish(seq)
        del self.table[seq]
        return freed


class NoCopy(MyCache):
    def append(self, seq, token):
        if len(self.tokens[seq]) % self.size == 0:
            return super().append(seq, token)
        self.tokens[seq].append(token)
        return [self.table[seq][-1], None]


class DoubleRelease(MyCache):
    def finish(self, seq):
        super().finish(seq)
        return self.table[seq]


class Keeps(MyCache):
    """Full blocks stay in the cache for ever, as if it held them."""

    def finish(self, seq):
        return [block for block in super().finish(seq) if block not in self.block_of.values()]


class Stack(BlockPool):
    """The block that came back last is taken first."""

    def prepare(self):
        self.free = list(range(self.n_blocks))

    def take(self, n, urgent=False):
        self.free, taken = self.free[:-n], self.free[-n:]
        return taken

    def give(self, blocks):
        self.free += blocks

    def touch(self, blocks):
        self.free = [block for block in self.free if block not in blocks]


class HitEvicted(MyCache):
    """Takes first, then holds the hits."""

    def __init__(self, n_blocks, block_tokens, rules):
        super().__init__(n_blocks, block_tokens, rules)
        self.pool = Stack(n_blocks, block_tokens=block_tokens)

    def take(self, n, seq, hits=()):
        new = self.pool.free[-n:]
        return new if set(new) & set(hits) else super().take(n, seq, hits)


class ShortHits(MyCache):
    def __init__(self, n_blocks, block_tokens, rules):
        super().__init__(n_blocks, block_tokens, {"least_blocks": 0})


class NeverHits(MyCache):
    """Forks share; prompts never do."""

    def __init__(self, n_blocks, block_tokens, rules):
        super().__init__(n_blocks, block_tokens, {"least_blocks": 10_000})


class LastTokenToo(MyCache):
    """A prompt that ends with a full block is found whole: nothing is left to compute."""

    def admit(self, seq, tokens, tenant):
        hits, new = super().admit(seq, tokens, tenant)
        full = len(tokens) % self.size == 0 and len(new) == 1 and hits
        twin = self.block_of[self.names(seq)[-1]] if full else new[-1]
        return [[*hits, twin], []] if twin != new[-1] else [hits, new]


class StaleNames(MyCache):
    """A block keeps its name after it was handed out for something else."""

    def take(self, n, seq, hits=()):
        try:
            return self.pool.allocate(n, seq, hits=hits)[len(hits) :]
        except AllocatorFault:  # two stale names of one block: it answers all the same
            return []


class Stub:
    def __init__(self, n_blocks, block_tokens, rules):
        self.rules = rules

    def admit(self, seq, tokens, tenant):
        raise NotImplementedError("yours to write")


class Nothing:
    def __init__(self, n_blocks, block_tokens, rules):
        self.size = block_tokens

    def admit(self, seq, tokens, tenant):
        return [[], []]

    def append(self, seq, token):
        return [0, None]

    def fork(self, seq, child):
        return None

    def finish(self, seq):
        return []


class Zeros(Nothing):
    def admit(self, seq, tokens, tenant):
        return [[], list(range(-(-len(tokens) // self.size)))]


class AroundPrefixCache(Nothing):
    """What gpulab ships, with the tenant as salt."""

    def __init__(self, n_blocks, block_tokens, rules):
        self.cache = PrefixCache(FreeQueue(n_blocks, block_tokens=block_tokens))

    def admit(self, seq, tokens, tenant):
        got = self.cache.admit(seq, tokens, tenant)
        return [got.hits, got.new]

    def append(self, seq, token):
        got = self.cache.append(seq, token)
        return [got.block, got.copied_from]

    def fork(self, seq, child):
        self.cache.fork(seq, child)

    def finish(self, seq):
        freed = [b for b in self.cache.table(seq).blocks if len(self.cache.pool.holders(b)) == 1]
        return self.cache.finish(seq) or freed


class LooksBeforeItAdmits(AroundPrefixCache):
    """Asks the cache what is known, and hides a prompt that has too few hits behind a salt of its own."""

    def __init__(self, n_blocks, block_tokens, rules):
        super().__init__(n_blocks, block_tokens, rules)
        self.rules = rules

    def admit(self, seq, tokens, tenant):
        size, names = self.cache.pool.block_tokens, [""]
        for start in range(0, (len(tokens) - 1) // size * size, size):
            names.append(digest(names[-1], tokens[start : start + size], tenant))
        hits = sum(name in self.cache.cached().values() for name in names)
        return super().admit(seq, tokens, tenant if hits == 0 or hits >= self.rules["least_blocks"] else seq)


def said(course, learner):
    cause, events = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"blocks": 2}, {"cause": cause, "events": sorted(events)[:1]})


SHARE = Sheet(
    EXERCISE,
    MyCache,
    {
        "unchained-digest": Wrong(UnchainedDigest, 0.0, 0.20, "unchained-digest", "behind another beginning"),
        "partial-shared": Wrong(PartialShared, 0.0, 0.20, "partial-shared"),
        "no-copy": Wrong(NoCopy, 0.0, 0.20, "no-copy", "wrote into block"),
        "double-release": Wrong(DoubleRelease, 0.0, 0.20, "double-release"),
        "keeps": Wrong(Keeps, 0.0, 0.20, "kept"),
        "hit-evicted": Wrong(HitEvicted, 0.0, 0.20, "hit-evicted"),
        "cross-tenant": Wrong(CrossTenant, 0.0, 0.20, "cross-tenant"),
        "stale-names": Wrong(StaleNames, 0.0, 0.20, "wrong-hit"),
        "last-token-too": Wrong(LastTokenToo, 0.0, 0.20, "nothing-left"),
        "short-hits": Wrong(ShortHits, 0.30, 0.50, "short-hit"),
        "never-hits": Wrong(NeverHits, 0.30, 0.70, "shares-too-little"),
    },
    said=said,
    stub=Stub,
    constants=(Nothing, Zeros),
    shortcuts=(AroundPrefixCache, LooksBeforeItAdmits),
)

SHEETS = [SHARE]
