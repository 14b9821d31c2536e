"""What an arena or a pool says when it cannot serve, is asked for what is not possible, or answers wrongly.

Each message has what happened, the numbers, since when and what to do, then the story: the last facts about
the claim in question.
"""

from typing import TYPE_CHECKING

from gpulab.errors import AllocatorFault, OutOfMemory, shown
from gpulab.memory.extent import Extent
from gpulab.telemetry.events import Granted
from gpulab.telemetry.shape import Contiguous
from gpulab.units import format_bytes, format_ns, whole

if TYPE_CHECKING:
    from gpulab.memory.allocator import Allocator
    from gpulab.memory.blocks import BlockPool
    from gpulab.memory.pool import Pool

    Holder = Allocator | Pool | BlockPool

# -- what an arena and a pool both say -----------------------------------------------------------


def bad_size(holder: "Holder", size: object) -> AllocatorFault:
    """The error for a claim whose size in bytes is none."""
    return AllocatorFault(
        f"The {holder.resource} was asked for {shown(size)} bytes at {_now(holder)}. "
        f"Give a whole number of bytes, 1 or more.",
        law="size",
        size=shown(size),
    )


def bad_owner(holder: "Holder", owner: object) -> AllocatorFault:
    """The error for a claim whose owner is no text: a ledger could be written with it, but not read again."""
    return AllocatorFault(
        f"The {holder.resource} was asked at {_now(holder)} for an owner {shown(owner)}; an owner is a name, as text.",
        law="owner",
        owner=shown(owner),
    )


def positive_bytes(what: str, name: str, value: object) -> int:
    """``value`` as a plain int; ``AllocatorFault`` if it is no whole number of bytes, 1 or more."""
    number = whole(value)
    if number is None or number <= 0:
        raise AllocatorFault(
            f"{what} was opened with {name} of {shown(value)} bytes. Give a whole number of bytes, 1 or more.",
            law="size",
            size=shown(value),
        )
    return number


def not_held(holder: "Holder", extent: object) -> AllocatorFault:
    """The error for a ``free`` of something that is no held extent of this arena or pool."""
    now = _now(holder)
    if not issubclass(type(extent), Extent):
        return AllocatorFault(
            f"free was given {shown(extent)} at {now}; give it the Extent that allocate returned.",
            law="not-held",
        )
    return AllocatorFault(
        f"free was given {shown(extent.size)} bytes at {shown(extent.offset)} of claim {shown(extent.claim)} at "
        f"{now}, which nobody holds: free each extent once, in the {holder.resource} that granted it. "
        f"{_story(holder, extent.claim)}",
        law="not-held",
        claim=extent.claim,
        offset=extent.offset,
    )


def not_waiting(holder: "Holder", claim: object) -> AllocatorFault:
    """The error for a retry or a withdrawal of a claim that does not wait."""
    return AllocatorFault(
        f"Claim {shown(claim)} does not wait at {_now(holder)}: it was granted, withdrawn or never "
        f"made. Retry and withdraw take the `claim` of an OutOfMemory. {_story(holder, claim)}",
        law="waiting",
        claim=claim,
    )


def _story(holder: "Holder", claim: object) -> str:
    told = []
    if type(claim) is int:
        told = [
            f"#{serial} {format_ns(fact.time_ns)} {type(fact).__name__.lower()}"
            for serial, fact in holder.ledger.story(claim)
        ]
    return f"Story of claim {shown(claim)}: " + (" · ".join(told) or "never seen here") + "."


def _now(holder: "Holder") -> str:
    return format_ns(holder.clock.now_ns)


# -- what only an arena says: its hooks may answer anything --------------------------------------


def uneven(capacity: int, alignment: int) -> AllocatorFault:
    """The error for an arena whose last bytes could never be granted."""
    return AllocatorFault(
        f"An arena of {capacity:,} bytes cannot be opened: that is no multiple of the alignment, {alignment:,}. "
        f"Take {capacity // alignment * alignment:,} or {-(-capacity // alignment) * alignment:,}.",
        law="size",
        capacity=capacity,
    )


def name_taken(what: str, name: str, kind: str = "allocator") -> AllocatorFault:
    """The error for a subclass that gives a name of every allocator another meaning."""
    return AllocatorFault(
        f"{what}, a name that every {kind} has already and needs. Choose another, for example `my_{name.strip('_')}`.",
        law="name",
        name=name,
    )


def is_final(child: type, parent: type) -> AllocatorFault:
    """The error for a subclass of a finished allocator or pool."""
    root = parent.__mro__[1]
    hooks = " and ".join(sorted(root.__abstractmethods__))
    return AllocatorFault(
        f"class {child.__name__} is made from {parent.__name__}, which is final: nothing is built on top of it. "
        f"Make it from {root.__name__} and write {hooks}; a {parent.__name__} can be held and asked.",
        law="final",
        name=parent.__name__,
    )


def no_place(arena: "Allocator", claim: int, size: int, largest: int) -> OutOfMemory:
    """The error for ``claim``, just refused: no legal place for ``size`` bytes, or ``place`` found none."""
    free, multiple = arena.free_bytes, arena.alignment_of(size)
    if size > arena.capacity:
        why = "That is more than the whole arena: no freeing would help; ask for less."
    elif free < size:
        why = "Too little is free in all: wait until something is freed, or ask for less."
    elif largest < size:
        why = (
            "Enough is free in all, but not in one stretch: wait until a neighbour is freed, or ask for less."
        )
    elif Contiguous(size, multiple).take(arena.gaps()) is None:
        why = f"A stretch that long is free, but too little of it from a multiple of {multiple:,} on."
    else:
        why = "A stretch that long is free: `place` refused although it could have been placed."
    return OutOfMemory(
        f"{format_bytes(size)} were refused at {_now(arena)} (#{len(arena.ledger) - 1}): "
        f"{format_bytes(free)} of {format_bytes(arena.capacity)} are free, the longest stretch is "
        f"{format_bytes(largest)}. {why} Claim {claim} waits until it is retried or withdrawn.",
        claim=claim,
        size=size,
        free=free,
        largest=largest,
    )


def no_offset(arena: "Allocator", size: int, claim: int, answer: object) -> AllocatorFault:
    """The fault of ``place`` that answered neither a whole number nor None."""
    got = f"a {type(answer).__name__}, {shown(answer)}"
    return _answered(arena, size, claim, "type", got=got, expected="a whole number or None", numbers={})


def bad_offset(
    arena: "Allocator", size: int, claim: int, law: str, *, offset: int, expected: str
) -> AllocatorFault:
    """The fault of ``place`` that answered an offset which may not be granted."""
    got, numbers = f"{offset:,}", {"offset": offset}
    return _answered(arena, size, claim, law, got=got, expected=expected, numbers=numbers)


def overlap(arena: "Allocator", size: int, claim: int, offset: int, other: Extent) -> AllocatorFault:
    """The fault of ``place`` that answered bytes of which ``other`` holds some."""
    story = arena.ledger.story(other.claim, last=len(arena.ledger))
    since, granted = next((serial, fact) for serial, fact in story if isinstance(fact, Granted))
    expected = (
        f"bytes nobody holds; claim {other.claim} holds [{other.offset:,}, {other.end:,}) since #{since} "
        f"at {format_ns(granted.time_ns)}"
    )
    got, numbers = f"{offset:,}", {"offset": offset, "other": other.claim}
    return _answered(arena, size, claim, "overlap", got=got, expected=expected, numbers=numbers)


def hook_raised(
    arena: "Holder", hook: str, given: tuple, wrong: Exception, claim: int | None
) -> AllocatorFault:
    """The fault of a hook that raised ``wrong``, with the line of its own file that its author must see."""
    own = wrong.__traceback__.tb_next  # the hook itself; before it is the call
    line, trace = "", own
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == own.tb_frame.f_code.co_filename:
            line = f" in line {trace.tb_lineno}"
        trace = trace.tb_next
    arguments = ", ".join(f"{value:,}" if type(value) is int else shown(value) for value in given)
    return AllocatorFault(
        f"{type(arena).__name__}.{hook}({arguments}) raised {type(wrong).__name__}: {shown(wrong, 160)}{line} at "
        f"{_now(arena)}. Mend `{hook}`; the ledger up to here is kept. {_story(arena, claim)}",
        law="raised",
        hook=hook,
        claim=claim,
        error=type(wrong).__name__,
    )


def _answered(
    arena: "Allocator", size: int, claim: int, law: str, *, got: str, expected: str, numbers: dict
) -> AllocatorFault:
    return AllocatorFault(
        f"{type(arena).__name__}.place({size:,}) answered {got} at {_now(arena)}; expected {expected}. Nothing was "
        f"granted: mend `place`; the ledger up to here is kept. {_story(arena, claim)}",
        law=law,
        size=size,
        claim=claim,
        got=got,
        expected=expected,
        **numbers,
    )
