"""How much of the KV cache do requests fill that they reserve? Four plans on the same requests.

*max* reserves the longest sequence there may be, *pow2* the prompt and the next power of two of the output,
*oracle* prompt and output as if they were known. All three need one stretch, which a buddy allocator hands
out in powers of two. *paged* takes a block when a token needs it. Kwon et al., PagedAttention (SOSP 2023),
figure 2 and section 6.1 (Orca's three variants). A unit is a slot: the keys and values of one token.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpulab.datasets import Request
from gpulab.memory.arena import Buddy, buddy_size
from gpulab.memory.free_queue import FreeQueue
from gpulab.telemetry.events import Closed, Used
from gpulab.telemetry.ledger import Ledger

PLANS = ("max", "pow2", "oracle", "paged")


def reserved_slots(plan: str, request: Request, max_tokens: int) -> int:
    """Slots that a plan in one stretch holds for ``request`` from its first step to its last."""
    if plan == "max":
        return buddy_size(max_tokens)
    output = buddy_size(request.output_tokens) if plan == "pow2" else request.output_tokens
    return buddy_size(request.prompt_tokens + output)


@dataclass(frozen=True, slots=True)
class _Moment:
    """From ``time_ns`` on request ``number`` has ``tokens`` in the cache, in ``blocks`` blocks; 0: it ends."""

    time_ns: int
    number: int
    tokens: int
    blocks: int


def replay_plan(
    requests: Iterable[Request],
    plan: str,
    *,
    slots: int = 1 << 17,
    max_tokens: int = 2_048,
    block_tokens: int = 16,
    step_ns: int = 25_000_000,
    unit: int = 1,
    reserve: Callable[[Request], int] | None = None,
) -> Ledger:
    """The ledger of ``plan`` when each request starts as it arrives and makes a token each ``step_ns``.

    Memory is ample: nobody waits, so that what a plan wastes of what it holds is seen alone. In step k a
    request has prompt + k tokens in the cache. The ledger says so in at most two numbers a block, chosen so
    that slots times nanoseconds are exact (``_levels``). ``Account`` reads *used* and *stranded* from it.

    Raises:
        OutOfMemory: ``slots`` are too few for nobody to wait.
        ValueError: there is no such plan.
    """
    if plan not in PLANS:
        raise ValueError(f"There is no plan {plan!r}; there are: {', '.join(PLANS)}.")
    requests = list(requests)
    moments = [
        moment
        for number, request in enumerate(requests)
        for moment in _moments(number, request, block_tokens, step_ns)
    ]
    # At one instant what ends goes first, then in order of arrival.
    moments.sort(key=lambda moment: (moment.time_ns, moment.tokens > 0, moment.number))
    if plan == "paged":
        return _paged(moments, slots, block_tokens)
    reserve = reserve or (lambda request: reserved_slots(plan, request, max_tokens))
    sizes = [reserve(request) for request in requests]
    return _stretches(moments, sizes, slots, unit)


def _stretches(moments: list[_Moment], sizes: list[int], slots: int, unit: int) -> Ledger:
    arena = Buddy(slots, alignment=unit, resource="kv", unit="token")
    held = {}
    for moment in moments:
        arena.clock.advance_to(moment.time_ns)
        if not moment.tokens:
            arena.free(held.pop(moment.number))
            continue
        if moment.number not in held:
            held[moment.number] = arena.allocate(sizes[moment.number], f"request {moment.number}")
        arena.ledger.append(Used(moment.time_ns, held[moment.number].claim, moment.tokens))
    arena.ledger.append(Closed(arena.clock.now_ns))
    return arena.ledger


def _paged(moments: list[_Moment], slots: int, block_tokens: int) -> Ledger:
    pool = FreeQueue(slots // block_tokens, block_tokens=block_tokens)
    tables: dict[int, list[int]] = {}
    for moment in moments:
        pool.clock.advance_to(moment.time_ns)
        owner = f"request {moment.number}"
        if not moment.tokens:
            pool.release(tables.pop(moment.number), owner)
            continue
        table = tables.setdefault(moment.number, [])
        missing = moment.blocks - len(table)
        if missing:
            if table:
                pool.fill(table[-1], block_tokens, owner)
            table += pool.allocate(missing, owner)
        pool.fill(table[-1], moment.tokens - (len(table) - 1) * block_tokens, owner)
    pool.ledger.append(Closed(pool.clock.now_ns))
    return pool.ledger


def _moments(number: int, request: Request, block_tokens: int, step_ns: int) -> Iterator[_Moment]:
    """When the tokens of a request change, in stretches of steps that need the same blocks."""
    now_ns, tokens = request.arrival_ns, request.prompt_tokens + 1
    left = request.output_tokens
    while left:
        blocks = -(-tokens // block_tokens)
        steps = min(left, blocks * block_tokens - tokens + 1)
        for level, lasting in _levels(tokens, steps):
            yield _Moment(now_ns, number, level, blocks)
            now_ns += lasting * step_ns
        tokens, left = tokens + steps, left - steps
    yield _Moment(now_ns, number, 0, 0)


def _levels(tokens: int, steps: int) -> list[tuple[int, int]]:
    """``(level, steps)`` that sum up like tokens, tokens + 1, ... over ``steps`` steps.

    An odd number of steps has a whole mean; of an even one, all but the last have, and the last is itself.
    """
    if steps % 2:
        return [(tokens + steps // 2, steps)]
    return [(tokens + steps // 2 - 1, steps - 1), (tokens + steps - 1, 1)]
