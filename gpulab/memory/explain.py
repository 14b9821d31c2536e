"""What a pool says when it cannot serve, or is asked for what is not possible."""

from typing import TYPE_CHECKING

from gpulab.errors import AllocatorFault, OutOfMemory
from gpulab.memory.allocator import Extent, shown, whole
from gpulab.units import format_bytes, format_ns

if TYPE_CHECKING:
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


def bad_size(what: str, size: object) -> AllocatorFault:
    """The error for a size in bytes that is none; ``what`` says who gave it to whom."""
    return AllocatorFault(f"{what} Give a whole number of bytes, 1 or more.", law="size", size=shown(size))


def positive_bytes(name: str, value: object) -> int:
    """``value`` as a plain int; ``AllocatorFault`` if it is no whole number of bytes, 1 or more."""
    number = whole(value)
    if number is None or number <= 0:
        raise bad_size(f"A pool was opened with a {name} of {shown(value)} bytes.", value)
    return number


def not_held(pool: "Pool", extent: object) -> AllocatorFault:
    """The error for a ``free`` of something that is no held extent of this pool."""
    now = format_ns(pool.clock.now_ns)
    if not isinstance(extent, Extent):
        return AllocatorFault(
            f"free was given {shown(extent)} at {now}; give it the Extent that allocate returned.",
            law="not-held",
        )
    return AllocatorFault(
        f"free was given {shown(extent.size)} bytes at {shown(extent.offset)} of claim {shown(extent.claim)} at "
        f"{now}, which nobody holds: free each extent once, in the pool that granted it. "
        f"{_story(pool, extent.claim)}",
        law="not-held",
        claim=extent.claim,
        offset=extent.offset,
    )


def not_waiting(pool: "Pool", claim: object) -> AllocatorFault:
    """The error for a retry or a withdrawal of a claim that does not wait."""
    return AllocatorFault(
        f"Claim {shown(claim)} does not wait at {format_ns(pool.clock.now_ns)}: it was granted, withdrawn or never "
        f"made. Retry and withdraw take the `claim` of an OutOfMemory. {_story(pool, claim)}",
        law="waiting",
        claim=claim,
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
    if need <= pool.capacity - pool.total_bytes:
        return f"The limit of {format_bytes(pool.limit)} is in the way, not the device: raise it, or free something."
    if pool.segments.largest() >= size:
        return "That chunk is long enough, but this pool's rule does not serve such a claim from it."
    if pool.room_bytes >= size:
        return f"A new segment for it takes {format_bytes(need)}, more than is left: free something first."
    return f"Enough is free in all, but in no single place. {_pin(pool)}"


def _pin(pool: "Pool") -> str:
    """Who keeps the largest piece of a segment from going back to the device."""
    piece = pool.segments.largest_chunk()
    if piece is None:
        return "Free something, or ask for less."
    holder = next(chunk for chunk in (piece.before, piece.after) if chunk is not None)
    return (
        f"The largest chunk is a piece of a segment of {format_bytes(piece.segment.size)} and cannot go back while "
        f"claim {holder.extent.claim} ({holder.extent.owner!r}) holds {format_bytes(holder.size)} beside it, since "
        f"{format_ns(holder.since_ns)}: free that first."
    )


def _story(pool: "Pool", claim: object) -> str:
    told = []
    if type(claim) is int:
        told = [
            f"#{serial} {format_ns(fact.time_ns)} {type(fact).__name__.lower()}"
            for serial, fact in pool.ledger.story(claim)
        ]
    return f"Story of claim {shown(claim)}: " + (" · ".join(told) or "never seen here") + "."
