"""What no sequence of admissions, appends, forks and ends may break, against a slow model with no digests."""

import random
from collections import Counter

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from gpulab.errors import OutOfMemory
from gpulab.memory.arena import Buddy, buddy_size
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import PrefixCache
from gpulab.report.account import Account
from gpulab.report.audit import check

# Prompts begin alike, so that they hit each other's blocks: the first 0 to 10 zeros, then a tail of their own.
TOKENS = st.builds(
    lambda zeros, tail: [0] * zeros + tail,
    st.integers(0, 10),
    st.lists(st.integers(0, 1), min_size=1, max_size=4),
)
NAMES = st.sampled_from("abcdef")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), NAMES, TOKENS, st.sampled_from(("", "salt"))),
        st.tuples(st.just("append"), NAMES, st.integers(0, 1)),
        st.tuples(st.just("fork"), NAMES, NAMES),
        st.tuples(st.just("finish"), NAMES),
    ),
    max_size=40,
)


VERBS = ("admit", "fork", "finish")  # as a word for what happened: admit and fork also when a name was taken


class SlowModel:
    """Blocks as lists of tokens with all that came before them written out; every question is a search."""

    def __init__(self, n_blocks: int, size: int) -> None:
        self.size = size
        self.free = list(range(n_blocks))
        self.past: dict[int, tuple] = {}  # block -> salt and all tokens up to its end, once it was full
        self.tokens: dict[str, list[int]] = {}
        self.salt: dict[str, str] = {}
        self.blocks: dict[str, list[int]] = {}

    def held(self) -> Counter:
        return Counter(block for blocks in self.blocks.values() for block in blocks)

    def take(self, n: int) -> list[int]:
        taken, self.free = self.free[:n], self.free[n:]
        for block in taken:
            self.past.pop(block, None)
        return taken

    def learn(self, block: int, past: tuple) -> None:
        if past not in self.past.values():
            self.past[block] = past

    def admit(self, name: str, tokens: list[int], salt: str) -> bool:
        hits = []
        for end in range(self.size, len(tokens), self.size):
            found = [block for block, past in self.past.items() if past == (salt, *tokens[:end])]
            if not found:
                break
            hits += found
        new = -(-len(tokens) // self.size) - len(hits)
        if new + sum(block in self.free for block in hits) > len(self.free):
            return False
        self.free = [block for block in self.free if block not in hits]
        self.blocks[name] = hits + self.take(new)
        self.tokens[name], self.salt[name] = list(tokens), salt
        for index in range(len(tokens) // self.size):
            self.learn(self.blocks[name][index], (salt, *tokens[: (index + 1) * self.size]))
        return True

    def append(self, name: str, token: int) -> bool:
        blocks, tokens = self.blocks[name], self.tokens[name]
        full = len(tokens) % self.size == 0
        if full or self.held()[blocks[-1]] > 1:
            if not self.free:
                return False
            self.blocks[name] = blocks[: len(blocks) - (not full)] + self.take(1)
        tokens.append(token)
        if len(tokens) % self.size == 0:
            self.learn(self.blocks[name][-1], (self.salt[name], *tokens))
        return True

    def fork(self, name: str, child: str) -> None:
        self.blocks[child], self.tokens[child] = list(self.blocks[name]), list(self.tokens[name])
        self.salt[child] = self.salt[name]

    def finish(self, name: str) -> None:
        blocks = self.blocks.pop(name)
        del self.tokens[name]
        self.free += [block for block in reversed(blocks) if not self.held()[block]]


class Memory:
    """What is really in each slot: written as the cache says, read through the tables."""

    def __init__(self, cache: PrefixCache) -> None:
        self.cache, self.slots = cache, {}

    def admitted(self, name: str, tokens: list[int], hits: int) -> None:
        table = self.cache.table(name)
        for position in range(hits * table.block_tokens, len(tokens)):
            self.slots[table.slot(position)] = tokens[position]

    def appended(self, written, token: int) -> None:
        size = self.cache.pool.block_tokens
        if written.copied_from is not None:
            for place in range(written.place):
                self.slots[written.block * size + place] = self.slots[written.copied_from * size + place]
        self.slots[written.block * size + written.place] = token

    def read(self, name: str) -> list[int]:
        return [self.slots[slot] for slot in self.cache.table(name).slots()]


def play(cache: PrefixCache, model: SlowModel, memory: Memory, step: tuple) -> str:
    """Do ``step`` to all three as far as it makes sense; they must agree on whether there is room.

    What happened, in a word.
    """
    pool, (verb, name, *rest) = cache.pool, step
    pool.clock.advance_to(pool.clock.now_ns + 1)
    there, done = name in model.blocks, verb
    try:
        if verb == "admit" and not there:
            free, room = set(model.free), model.admit(name, *rest)
            hits = cache.admit(name, *rest).hits
            memory.admitted(name, rest[0], len(hits))
            assert room
            done = "hit while free" if free & set(hits) else "hit while held" if hits else "no hit"
        elif verb == "append" and there:
            room = model.append(name, *rest)
            written = cache.append(name, *rest)
            memory.appended(written, *rest)
            assert room
            done = "append" if written.copied_from is None else "copy"
        elif verb == "fork" and there and rest[0] not in model.blocks:
            model.fork(name, rest[0])
            cache.fork(name, rest[0])
        elif verb == "finish" and there:
            model.finish(name)
            cache.finish(name)
    except OutOfMemory as full:
        assert not room
        pool.withdraw(full.claim)
        return "no room"
    return done


def assert_all_agree(cache: PrefixCache, model: SlowModel, memory: Memory) -> None:
    pool = cache.pool
    assert {name: cache.table(name).blocks for name in model.blocks} == model.blocks
    assert pool.order() == model.free
    assert {block: len(pool.holders(block)) for block in pool.held()} == model.held()
    assert sorted([*pool.held(), *pool.order()]) == list(range(pool.n_blocks))
    assert cache.cached().keys() == model.past.keys()
    assert {name: memory.read(name) for name in model.tokens} == model.tokens


@given(STEPS, st.integers(1, 12), st.integers(1, 4))
def test_cache_pool_and_memory_agree_with_the_slow_model_after_every_step(steps, n_blocks, size):
    pool = FreeQueue(n_blocks, block_tokens=size)
    cache, model = PrefixCache(pool), SlowModel(n_blocks, size)
    memory = Memory(cache)
    for step in steps:
        note(str(step))
        play(cache, model, memory, step)
        assert_all_agree(cache, model, memory)
    check(pool.ledger)
    terms = Account(pool.ledger).at(pool.ledger.end_ns)
    written = {slot for name in model.blocks for slot in cache.table(name).slots()}
    assert (terms.used, terms.used + terms.stranded) == (len(written), len(pool.held()) * size)
    for name in list(model.blocks):
        cache.finish(name)
    assert Account(pool.ledger).at(pool.ledger.end_ns).spare == n_blocks * size
    check(pool.ledger)


@pytest.mark.soak
def test_long_random_runs_agree_too_and_meet_every_case(scale):
    met = Counter()
    for run in range(scale(60)):
        draws = random.Random(f"block laws {run}")
        pool = FreeQueue(draws.randint(6, 24), block_tokens=draws.randint(2, 4))
        cache = PrefixCache(pool)
        model, memory = SlowModel(pool.n_blocks, pool.block_tokens), Memory(cache)
        for _ in range(120):
            name, other = draws.choices("abcdefgh", k=2)
            tokens = [0] * draws.randint(0, 9) + draws.choices((0, 1), k=draws.randint(1, 5))
            steps = [
                ("admit", name, tokens, draws.choice(("", "salt"))),
                ("append", name, draws.randint(0, 1)),
                ("fork", name, other),
                ("finish", name),
            ]
            met[play(cache, model, memory, draws.choices(steps, (8, 8, 4, 5))[0])] += 1
            assert_all_agree(cache, model, memory)
        check(pool.ledger)
    assert min(met.values()) >= 50
    assert met.keys() == {"hit while free", "hit while held", "no hit", "append", "copy", "no room", *VERBS}


@given(STEPS)
def test_equal_runs_write_equal_ledgers(steps):
    digests = []
    for _ in range(2):
        cache, model = PrefixCache(FreeQueue(8, block_tokens=3)), SlowModel(8, 3)
        memory = Memory(cache)
        for step in steps:
            play(cache, model, memory, step)
        digests.append(cache.pool.ledger.digest())
    assert digests[0] == digests[1]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9), st.booleans()), max_size=40), st.integers(1, 96)
)
def test_a_buddy_refuses_only_what_has_no_aligned_hole_and_joins_all_that_comes_back(steps, capacity):
    arena, held = Buddy(capacity, alignment=1), []
    for size, which, free in steps:
        if free and held:
            arena.free(held.pop(which % len(held)))
            continue
        block = buddy_size(size)
        try:
            held.append(arena.allocate(block))
            assert held[-1].offset % block == 0
        except OutOfMemory as full:
            arena.withdraw(full.claim)
            aligned = [(-(-start // block) * block, start + length) for start, length in arena.gaps()]
            assert all(start + block > end for start, end in aligned)
    for extent in held:
        arena.free(extent)
    check(arena.ledger)
    parts = [1 << bit for bit in range(capacity.bit_length()) if capacity >> bit & 1]
    assert sorted(arena.allocate(part).size for part in sorted(parts, reverse=True)) == parts
