"""What the hooks of a pool answered, checked before anything is granted or goes back."""

from typing import TYPE_CHECKING

from gpulab.memory import explain_pool
from gpulab.memory.chunks import Chunk
from gpulab.memory.explain import hook_raised
from gpulab.units import whole

if TYPE_CHECKING:
    from gpulab.memory.pool import Pool


def taken(pool: "Pool", size: int, stream: int, claim: int) -> Chunk | int:
    """What ``take`` wants for ``claim``: a free chunk, or the bytes to grow by.

    Raises:
        AllocatorFault: it raised, or its answer is no free chunk that is large enough, and no growth that is.
        StreamFault: the chunk is one that another stream may still use.
    """
    given = size, stream
    try:
        answer = pool.take(size, stream)
    except Exception as wrong:
        raise hook_raised(pool, "take", given, wrong, claim) from wrong
    wanted, number = answer if type(answer) is list and len(answer) == 2 else ("", None)
    if type(number) is not int:
        number = whole(number)
    if number is None or type(wanted) is not str or wanted not in ("chunk", "grow"):
        raise explain_pool.wrong_form(pool, "take", given, answer, claim)
    if wanted == "grow":
        if number < size or number % pool.alignment:
            raise explain_pool.small_growth(pool, given, number, claim)
        return number
    chunk = pool.segments.chunks.get(number)
    if chunk is None or chunk.extent is not None or chunk.size < size:
        raise _not_to_take(pool, given, number, chunk, claim)
    if chunk.stream != stream and not pool.backing.may_cross(chunk):
        raise explain_pool.race(pool, given, chunk, claim)
    return chunk


def kept(pool: "Pool", held: int, size: int, claim: int) -> int:
    """How much of a chunk of ``held`` bytes is held for ``claim``; ``AllocatorFault`` if that cannot be."""
    answer = pool.keep(held, size)
    if type(answer) is not int:
        answer = whole(answer)
    if answer is None or not size <= answer <= held or answer % pool.alignment:
        raise explain_pool.wrong_cut(pool, (held, size), answer, claim)
    return answer


def trimmed(pool: "Pool", need: int, claim: int | None) -> list[Chunk]:
    """The chunks that ``trim`` hands back for ``need`` bytes; ``AllocatorFault`` if that cannot be."""
    try:
        answer = pool.trim(need)
    except Exception as wrong:
        raise hook_raised(pool, "trim", (need,), wrong, claim) from wrong
    return returnable(pool, "trim", (need,), answer, claim)


def collected(pool: "Pool", need: int, claim: int) -> list[Chunk]:
    """The chunks that ``collect`` hands back before a growth; ``AllocatorFault`` if that cannot be."""
    try:
        answer = pool.collect(need)
    except Exception as wrong:
        raise hook_raised(pool, "collect", (need,), wrong, claim) from wrong
    return returnable(pool, "collect", (need,), answer, claim)


def _not_to_take(pool: "Pool", given: tuple, number: int, chunk: Chunk | None, claim: int):
    law, expected = "chunk", "the id of a chunk that is here"
    if chunk is not None and chunk.extent is not None:
        law, expected = "held", f"a free chunk; claim {chunk.extent.claim} holds this one"
    elif chunk is not None:
        law, expected = "size", f"a chunk of {given[0]:,} B or more; this one has {chunk.size:,}"
    return explain_pool.wrong_chunk(pool, "take", given, claim, chunk=number, law=law, expected=expected)


def returnable(pool: "Pool", hook: str, given: tuple, answer: object, claim: int | None) -> list[Chunk]:
    """The chunks that ``hook`` answered to hand back; ``AllocatorFault`` unless each is free and may go."""
    if type(answer) is not list:
        raise explain_pool.wrong_form(pool, hook, given, answer, claim)
    found: dict[int, Chunk] = {}
    for value in answer:
        number = whole(value)
        if number is None:
            raise explain_pool.wrong_form(pool, hook, given, answer, claim)
        chunk, law, expected = pool.segments.chunks.get(number), None, ""
        if chunk is None:
            law, expected = "chunk", "ids of chunks that are here"
        elif chunk.extent is not None:
            law, expected = "held", f"free chunks; claim {chunk.extent.claim} holds this one"
        elif number in found:
            law, expected = "twice", "each chunk once"
        elif not pool.segments.can_go(chunk):
            law, expected = "piece", "chunks that can go back; this one is a piece of a segment in use"
        if law:
            raise explain_pool.wrong_chunk(pool, hook, given, claim, chunk=number, law=law, expected=expected)
        found[number] = chunk
    return list(found.values())
