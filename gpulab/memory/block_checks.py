"""What a block pool checks, and what it says when it cannot serve, is asked wrongly, or answers wrongly."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpulab.errors import AllocatorFault, OutOfMemory, shown
from gpulab.memory.explain import _now, _story
from gpulab.units import whole

if TYPE_CHECKING:
    from gpulab.memory.blocks import BlockPool


def positive(name: str, value: object) -> int:
    """``value`` as a plain int; ``AllocatorFault`` if it is no whole number of 1 or more."""
    number = whole(value)
    if number is None or number < 1:
        raise AllocatorFault(
            f"A block pool was opened with {name} = {shown(value)}. Give a whole number, 1 or more.",
            law="size",
            **{name: shown(value)},
        )
    return number


def checked_count(pool: "BlockPool", n: object, at_least: int = 1) -> int:
    """``n`` as a plain int; ``AllocatorFault`` if it is no number of blocks that can be asked for."""
    count = whole(n)
    if count is None or count < at_least:
        raise AllocatorFault(
            f"The {pool.resource} pool was asked for {shown(n)} blocks at {_now(pool)}. Give a whole number, "
            f"{at_least} or more.",
            law="size",
            n=shown(n),
        )
    return count


def checked_blocks(pool: "BlockPool", blocks: Iterable[int], verb: str) -> list[int]:
    """``blocks`` as plain ints; ``AllocatorFault`` unless they are different blocks of this pool."""
    if isinstance(blocks, int):
        blocks = (blocks,)
    numbers: dict[int, None] = {}
    for block in blocks:
        number = whole(block)
        if number is None or not 0 <= number < pool.n_blocks:
            raise AllocatorFault(
                f"{verb} was given block {shown(block)} at {_now(pool)}; this pool has the blocks 0 to "
                f"{pool.n_blocks - 1:,}. Give it what allocate returned.",
                law="bounds",
                block=shown(block),
            )
        if number in numbers:
            raise AllocatorFault(
                f"{verb} was given block {number:,} twice at {_now(pool)}. Name each block once: a holder counts "
                f"once. {block_story(pool, number)}",
                law="twice",
                block=number,
            )
        numbers[number] = None
    return list(numbers)


def not_held(pool: "BlockPool", block: int, verb: str, owner: str) -> AllocatorFault:
    """The error for an ``owner`` that names a block which it, or for ``share`` anybody, must hold first."""
    held_by = _names(pool.holders(block))
    if verb == "share":
        advice = "Only what somebody holds can be shared: its count is 0, so your count of it is stale."
    elif held_by == "nobody":
        advice = "It was released once too often, or never granted: release each block once for each holder."
    else:
        advice = f"Its {len(pool.holders(block)):,} holder(s) still read it: only they can {verb} it."
    return AllocatorFault(
        f"{verb} was given block {block:,} for {owner!r} at {_now(pool)}; it is held by {held_by}. {advice} "
        f"{block_story(pool, block)}",
        law="not-held",
        block=block,
        owner=owner,
        holders=pool.holders(block),
    )


def held_already(pool: "BlockPool", block: int, owner: str) -> AllocatorFault:
    """The error for an ``owner`` that would hold ``block`` a second time."""
    return AllocatorFault(
        f"{owner!r} was to hold block {block:,} once more at {_now(pool)}, held by {_names(pool.holders(block))}. "
        f"A holder counts once; give each sequence a name of its own. {block_story(pool, block)}",
        law="held-already",
        block=block,
        owner=owner,
    )


def overfull(pool: "BlockPool", block: int, tokens: object) -> AllocatorFault:
    """The error for a number of tokens that is none, or more than one block holds."""
    return AllocatorFault(
        f"Block {block:,} was said to hold {shown(tokens)} tokens at {_now(pool)}; a block of this pool holds 0 to "
        f"{pool.block_tokens:,}. The next token needs the next block.",
        law="size",
        block=block,
        tokens=shown(tokens),
    )


def shared_write(pool: "BlockPool", block: int, owner: str) -> AllocatorFault:
    """The error for a write into a block that others read, too."""
    return AllocatorFault(
        f"{owner!r} was about to write into block {block:,} at {_now(pool)}, which is held by "
        f"{_names(pool.holders(block))}: the others would see the write. Copy first: allocate a block, write "
        f"there, release this one. {block_story(pool, block)}",
        law="shared",
        block=block,
        owner=owner,
        holders=pool.holders(block),
    )


def no_blocks(pool: "BlockPool", claim: int, n: int, cached: int) -> OutOfMemory:
    """The error for ``claim``, just refused: ``n`` new blocks, and ``cached`` ones that lie in the free ones."""
    need = n + cached
    if need > pool.n_blocks:
        why = "That is more than the whole pool: no release would help; ask for less."
    elif pool.free_blocks < need:
        why = "Too few are free: wait until somebody finishes, preempt somebody, or ask for less."
    else:
        why = "Enough are free: `take` keeps some back."
    hits = f" ({cached:,} of them cached hits)" if cached else ""
    units = pool.block_tokens
    return OutOfMemory(
        f"{need:,} blocks{hits} were refused at {_now(pool)} (#{len(pool.ledger) - 1}): {pool.free_blocks:,} of "
        f"{pool.n_blocks:,} are free. {why} Claim {claim} waits until it is retried or withdrawn.",
        claim=claim,
        size=need * units,
        free=pool.free_blocks * units,
        largest=pool.free_blocks * units,
    )


def checked_answer(pool: "BlockPool", answer: object, n: int, hits: Sequence[int], claim: int) -> list[int]:
    """The blocks that ``take(n)`` answered, as plain ints; ``AllocatorFault`` unless they may be granted."""
    fault = next(_answer_faults(pool, answer, n, hits), None)
    if fault is None:
        return [whole(block) for block in answer]
    law, expected, block = fault
    raise AllocatorFault(
        f"{type(pool).__name__}.take({n:,}) answered {shown(answer)} at {_now(pool)}; expected {expected}. Nothing "
        f"was granted: mend `take`; the ledger up to here is kept. {_story(pool, claim)}",
        law=law,
        n=n,
        claim=claim,
        got=shown(answer),
        block=block,
    )


def _answer_faults(
    pool: "BlockPool", answer: object, n: int, hits: Sequence[int]
) -> Iterator[tuple[str, str, int | None]]:
    """``(law, what was expected, block)`` of all that is wrong with an answer of ``take``."""
    if not isinstance(answer, list | tuple):
        yield "type", "a list of blocks, or None", None
    seen: set[int] = set()  # asked only whether a block is in it, so its order plays no part
    for value in answer:
        block = whole(value)
        if block is None:
            yield "type", f"whole numbers; {shown(value)} is none", None
        if not 0 <= block < pool.n_blocks:
            yield "bounds", f"blocks 0 to {pool.n_blocks - 1:,}; {block:,} does not exist", block
        if block in seen:
            yield "twice", f"each block once; {block:,} is in it twice", block
        if block in hits:
            yield "hit", f"blocks that are no hits of this claim; {block:,} is one and would be lost", block
        if pool.holders(block):
            held_by = _names(pool.holders(block))
            yield "overlap", f"free blocks; {block:,} is held by {held_by}. {block_story(pool, block)}", block
        seen.add(block)
    if len(answer) != n:
        yield "all-or-nothing", f"{n:,} blocks or None, not {len(answer):,}", None


def block_story(pool: "BlockPool", block: int) -> str:
    """The last facts about the claim that ``block`` was granted to."""
    claim = pool.claim_of(block)
    return f"Block {block:,} was never granted." if claim is None else _story(pool, claim)


def _names(holders: Sequence[str]) -> str:
    """At most three of the holders, by name."""
    if not holders:
        return "nobody"
    more = f" and {len(holders) - 3:,} more" if len(holders) > 3 else ""
    return ", ".join(map(repr, holders[:3])) + more
