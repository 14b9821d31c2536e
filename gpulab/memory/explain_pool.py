"""What a pool says when it cannot serve, and what it says to a rule that answered what cannot be."""

from typing import TYPE_CHECKING

from gpulab.errors import AllocatorFault, OutOfMemory, StreamFault, shown
from gpulab.memory.explain import _now, _story
from gpulab.memory.ranges import UNMAPPED
from gpulab.units import format_bytes, format_ns

if TYPE_CHECKING:
    from gpulab.memory.chunks import Chunk
    from gpulab.memory.pool import Pool


def refused(pool: "Pool", claim: int, size: int, need: int) -> OutOfMemory:
    """The error for ``claim``, just refused: ``size`` bytes of the cache or ``need`` bytes of the device."""
    free, largest = pool.capacity - pool.used_bytes, max(pool.segments.largest(), pool.room_bytes)
    limit = "" if pool.limit is None else f" (the limit leaves {format_bytes(pool.room_bytes)})"
    return OutOfMemory(
        f"{format_bytes(size)} were refused at {format_ns(pool.clock.now_ns)} (#{len(pool.ledger) - 1}): of "
        f"{format_bytes(pool.capacity)} the device has {format_bytes(pool.capacity - pool.total_bytes)} left"
        f"{limit}, the cache {_cached(pool)}. {_reason(pool, size, need, free)} "
        f"Claim {claim} waits until it is retried or withdrawn.",
        claim=claim,
        size=size,
        free=free,
        largest=largest,
    )


def _cached(pool: "Pool") -> str:
    count, largest = pool.n_free_blocks, format_bytes(pool.segments.largest())
    if count < 2:
        return f"{largest} in one free chunk" if count else "nothing"
    return f"{format_bytes(pool.free_bytes)} in {count:,} free chunks, the largest of {largest}"


def _reason(pool: "Pool", size: int, need: int, free: int) -> str:
    if need > pool.capacity:
        return f"That takes {format_bytes(need)}, more than the whole device: no freeing would help; ask for less."
    if free < size:
        return "Too little is free in all: wait until something is freed, or ask for less."
    if pool.limit is not None and need <= pool.capacity - pool.total_bytes:
        return f"The limit of {format_bytes(pool.limit)} is in the way, not the device: raise it, or free something."
    if pool.segments.largest() >= size:
        return "That chunk is long enough, but this pool's rule does not serve such a claim from it."
    if pool.room_bytes >= size:
        return f"A new segment for it takes {format_bytes(need)}, more than is left: free something first."
    return f"Enough is free in all, but in no single place. {_pin(pool)}"


def _pin(pool: "Pool") -> str:
    """Who keeps the largest piece of a segment from going back to the device."""
    piece = pool.segments.largest_chunk()
    beside = (piece.before, piece.after) if piece else ()
    holders = [chunk for chunk in beside if chunk is not None and chunk.extent is not UNMAPPED]
    if not holders:
        return "Free something, or ask for less."
    holder = holders[0]
    what = "range" if pool.segments.paged else f"segment of {format_bytes(piece.segment.size)}"
    return (
        f"The largest chunk is a piece of a {what} and cannot go back while "
        f"claim {holder.extent.claim} ({holder.extent.owner!r}) holds {format_bytes(holder.size)} beside it, since "
        f"{format_ns(holder.since_ns)}: free that first."
    )


# -- what it says to a rule ----------------------------------------------------------------------


def wrong_form(pool: "Pool", hook: str, given: tuple, answer: object, claim: int | None) -> AllocatorFault:
    """The fault of a hook whose answer has not the form it must have."""
    expected = '["chunk", id] or ["grow", bytes]' if hook == "take" else "a list of chunk ids, [] for none"
    return _fault(
        pool, hook, given, claim, "type", got=f"a {type(answer).__name__}, {shown(answer)}", expected=expected
    )


def wrong_chunk(
    pool: "Pool", hook: str, given: tuple, claim: int | None, *, chunk: int, law: str, expected: str
) -> AllocatorFault:
    """The fault of a hook that named a chunk which is not there, held, too small or no whole segment."""
    return _fault(pool, hook, given, claim, law, got=f"chunk {chunk:,}", expected=expected, chunk=chunk)


def small_growth(pool: "Pool", given: tuple, size: int, claim: int) -> AllocatorFault:
    """The fault of ``take`` that asks the device for less than the claim, or for no whole number of 512 B."""
    expected = f"a multiple of {pool.alignment}, {given[0]:,} or more"
    return _fault(
        pool, "take", given, claim, "size", got=f"a growth by {size:,} B", expected=expected, size=size
    )


def wrong_cut(pool: "Pool", given: tuple, size: object, claim: int) -> AllocatorFault:
    """The fault of ``keep`` that holds less than the claim, more than there is, or no whole number of 512 B."""
    expected = f"a multiple of {pool.alignment} from {given[1]:,} to {given[0]:,}"
    return _fault(pool, "keep", given, claim, "size", got=shown(size), expected=expected)


def race(pool: "Pool", given: tuple, chunk: "Chunk", claim: int) -> StreamFault:
    """The fault of ``take`` that answered a chunk which another stream may still use."""
    return StreamFault(
        f"{_call(pool, 'take', given)} answered chunk {chunk.start:,} at {_now(pool)}; stream {chunk.stream}, on which "
        f"it was freed, has not reached its mark there. Nothing was granted: take it for its own stream, or after "
        f"the mark. {_story(pool, claim)}",
        law="race",
        claim=claim,
        chunk=chunk.start,
        stream=given[1],
        other=chunk.stream,
    )


def _fault(
    pool: "Pool",
    hook: str,
    given: tuple,
    claim: int | None,
    law: str,
    *,
    got: str,
    expected: str,
    **numbers: int,
) -> AllocatorFault:
    return AllocatorFault(
        f"{_call(pool, hook, given)} answered {got} at {_now(pool)}; expected {expected}. Nothing was granted and "
        f"nothing went back: mend `{hook}`; the ledger up to here is kept. {_story(pool, claim)}",
        law=law,
        hook=hook,
        claim=claim,
        got=got,
        expected=expected,
        **numbers,
    )


def _call(pool: "Pool", hook: str, given: tuple) -> str:
    return f"{type(pool).__name__}.{hook}({', '.join(f'{value:,}' for value in given)})"
