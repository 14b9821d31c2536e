"""Sequences that share what they have in common: a prefix cache and copy on write over a pool of KV blocks.

A full block is known by the digest of its tokens *and of all before them*, so equal digests mean equal keys
and values. A freed block keeps its contents until ``take`` hands it out for something else. vLLM, design
page "Automatic Prefix Caching"; Kwon et al., PagedAttention (SOSP 2023), section 4.4, for copy on write.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from gpulab.errors import AllocatorFault, shown
from gpulab.memory.block_table import BlockTable
from gpulab.memory.blocks import BlockPool
from gpulab.units import whole


def digest(parent: str, tokens: Sequence[int], salt: str = "") -> str:
    """The name of a full block: SHA-256 over its parent's name ("" for a first block), tokens and salt.

    Whoever must not share gives another ``salt``: hits tell by their speed what others asked.
    """
    text = json.dumps([parent, salt, [int(token) for token in tokens]], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Admitted:
    """The blocks of a new sequence: ``hits`` found with their contents, then ``new`` ones to compute."""

    hits: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """Where an appended token went; ``copied_from`` is the block whose contents must be copied to ``block``."""

    block: int
    place: int
    copied_from: int | None = None


@dataclass(slots=True)
class _Sequence:
    table: BlockTable
    salt: str
    parent: str  # digest of its last full block
    tail: list[int]  # tokens behind that block


@final
class PrefixCache:
    """Sequences over ``pool``, each with a name that no other has; whoever has blocks in it holds them.

    The pool needs the hook ``touch``. Of blocks with equal contents the first that was filled is found.
    """

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self._sequences: dict[str, _Sequence] = {}
        self._block_of: dict[str, int] = {}  # digest -> block
        self._digest_of: dict[int, str] = {}

    def admit(
        self, owner: str, tokens: Sequence[int], salt: str = "", *, claim: int | None = None
    ) -> Admitted:
        """Hold the blocks of a prompt for ``owner``: cached ones where its beginning is known, else new ones.

        The last token is never a hit, since a model must compute something to answer (vLLM, v1
        ``KVCacheManager.get_computed_blocks``). Cost: one digest a full block.

        Raises:
            OutOfMemory: too few free blocks; nothing was taken. Its claim waits: give it here to retry.
            AllocatorFault: ``owner`` is there already, or the tokens are none.
        """
        if owner in self._sequences:
            raise _fault(self, "owner", f"{owner!r} was admitted again", "Finish it first, or choose a name")
        tokens, size = self._tokens(owner, tokens), self.pool.block_tokens
        full = len(tokens) // size
        names, parent = [], ""
        for index in range(full):
            parent = digest(parent, tokens[index * size : (index + 1) * size], salt)
            names.append(parent)
        hits = self._hits(names[: (len(tokens) - 1) // size])
        missing = -(-len(tokens) // size) - len(hits)
        blocks = self.pool.allocate(missing, owner, hits=hits, claim=claim)
        self._forget(blocks[len(hits) :])
        for block, name in zip(blocks[:full], names, strict=True):
            self._remember(block, name)
        tail = tokens[full * size :]
        if tail:
            self.pool.fill(blocks[-1], len(tail), owner)
        table = BlockTable(size, blocks, len(tokens))
        self._sequences[owner] = _Sequence(table, salt, parent, tail)
        return Admitted(tuple(hits), tuple(blocks[len(hits) :]))

    def append(self, owner: str, token: int, *, claim: int | None = None) -> Written:
        """Where the next token of ``owner`` goes: its last block, a new one, or a copy of a shared one.

        A block that fills up enters the cache. New blocks are asked for as ``urgent``.

        Raises:
            OutOfMemory: no block for it; nothing changed. Its claim waits: give it here to retry.
            AllocatorFault: no such sequence, or the token is no whole number.
        """
        sequence = self._known(owner)
        (token,) = self._tokens(owner, [token])
        table, place, copied_from = sequence.table, len(sequence.tail), None
        if not place:
            table.grow(table.length + 1, lambda n: self.pool.allocate(n, owner, urgent=True, claim=claim))
            self._forget(table.blocks[-1:])
        else:
            if len(self.pool.holders(table.blocks[-1])) > 1:
                copied_from = self._copy(sequence, owner, claim)
            table.length += 1
        block = table.blocks[-1]
        sequence.tail.append(token)
        self.pool.fill(block, place + 1, owner)
        if place + 1 == table.block_tokens:
            sequence.parent = digest(sequence.parent, sequence.tail, sequence.salt)
            self._remember(block, sequence.parent)
            sequence.tail = []
        return Written(block, place, copied_from)

    def fork(self, owner: str, child: str) -> None:
        """``child`` goes on from where ``owner`` is, and shares all of its blocks until it writes."""
        sequence = self._known(owner)
        if child in self._sequences:
            raise _fault(self, "owner", f"{child!r} was forked again", "Finish it first, or choose a name")
        self.pool.share(sequence.table.blocks, child)
        self._sequences[child] = _Sequence(
            sequence.table.copy(), sequence.salt, sequence.parent, list(sequence.tail)
        )

    def finish(self, owner: str) -> None:
        """``owner`` lets go of its blocks; full ones keep their contents until they are handed out again."""
        self.pool.release(self._known(owner).table.blocks, owner)
        del self._sequences[owner]

    def table(self, owner: str) -> BlockTable:
        """Where the tokens of ``owner`` lie now, as a copy."""
        return self._known(owner).table.copy()

    def cached(self) -> dict[int, str]:
        """The blocks whose contents can be found, held or free, and their digests, in order of their ids."""
        return dict(sorted(self._digest_of.items()))

    def _hits(self, names: list[str]) -> list[int]:
        hits = []
        for name in names:
            if name not in self._block_of:
                break
            hits.append(self._block_of[name])
        return hits

    def _copy(self, sequence: _Sequence, owner: str, claim: int | None) -> int:
        """Replace the shared last block by one of its own; the block to copy from."""
        shared = sequence.table.blocks[-1]
        (block,) = self.pool.allocate(1, owner, urgent=True, claim=claim)
        self._forget([block])
        self.pool.fill(block, len(sequence.tail), owner)
        self.pool.release([shared], owner)
        sequence.table.blocks[-1] = block
        return shared

    def _remember(self, block: int, name: str) -> None:
        if name not in self._block_of:
            self._block_of[name] = block
            self._digest_of[block] = name

    def _forget(self, blocks: Sequence[int]) -> None:
        """These blocks were handed out for something else: what they contained is gone."""
        for block in blocks:
            name = self._digest_of.pop(block, None)
            if name is not None:
                del self._block_of[name]

    def _known(self, owner: str) -> _Sequence:
        if owner not in self._sequences:
            raise _fault(self, "owner", f"{owner!r} is no sequence here", "Admit or fork it first")
        return self._sequences[owner]

    def _tokens(self, owner: str, tokens: Sequence[int]) -> list[int]:
        numbers = [whole(token) for token in tokens]
        if not numbers or None in numbers:
            what = f"{owner!r} came with the tokens {shown(tokens)}"
            raise _fault(self, "tokens", what, "Give whole numbers, at least one")
        return numbers


def _fault(cache: PrefixCache, law: str, what: str, advice: str) -> AllocatorFault:
    count = len(cache._sequences)
    return AllocatorFault(
        f"{what} at {cache.pool.clock.now_ns:,} ns, beside {count:,} sequences. {advice}.", law=law
    )
