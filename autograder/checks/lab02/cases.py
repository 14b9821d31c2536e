"""The inputs of 02.first-fit: claims drawn from the statistics of real chats, and claims laid as traps."""

import heapq
from dataclasses import dataclass, replace
from random import Random
from typing import final

from autograder.checks.lengths import GAPS, OUTPUTS, PROMPTS, quantile
from gpulab.errors import OutOfMemory
from gpulab.memory.allocator import ALIGNMENT, Allocator, Extent
from gpulab.memory.replay import ByteClaim
from gpulab.telemetry.shape import Contiguous
from gpulab.units import GiB, MiB

BYTES_PER_TOKEN = 131_072  # Llama-3-8B: 2 x 32 layers x 8 KV heads x 128 x 2 bytes
STEP_NS = 2_500_000  # one token step at the stated rate, 400 a second


@dataclass(frozen=True, slots=True)
class Case:
    """An arena of ``capacity`` bytes and the claims it meets, in order of time."""

    capacity: int
    claims: tuple[ByteClaim, ...]


@final
class RuleArena(Allocator):
    """The rule of 02.first-fit itself, answered from the arena's own books: the lowest legal offset."""

    def place(self, size: int) -> int | None:
        got = Contiguous(size, boundary(self.rules, size)).take(self.gaps())
        return got[0][0][0] if got else None

    def reclaim(self, offset: int, size: int) -> None:
        """Nothing to do: the holes are read off what is held."""


def boundary(rules: dict, size: int) -> int:
    """What the offset of a claim of ``size`` bytes must be a multiple of, by the twist."""
    return rules["boundary"] if size >= rules["threshold"] else ALIGNMENT


def chats(draw: Random, count: int) -> Case:
    """``count`` claims with the sizes of real chats, at a load that leaves the arena short now and then."""
    capacity = draw.choice((4, 6, 8)) * GiB
    tokens = [quantile(draw, PROMPTS) + quantile(draw, OUTPUTS) for _ in range(count)]
    tokens = [min(n, capacity // 2 // BYTES_PER_TOKEN) for n in tokens]
    held = sum(n * n for n in tokens) * BYTES_PER_TOKEN * STEP_NS  # byte * ns of all claims together
    gap_ns = held * 10 // (capacity * count * draw.randrange(11, 14))  # load 1.1 to 1.3
    claims, now_ns = [], 0
    for number, n in enumerate(tokens):
        claims.append(ByteClaim(now_ns, n * BYTES_PER_TOKEN, n * STEP_NS, f"chat {number}"))
        now_ns += gap_ns * quantile(draw, GAPS) // 1000 + 1
    return Case(capacity, tuple(claims))


def traps(draw: Random, rules: dict, count: int, capacity: int = 4 * GiB) -> Case:
    """``count`` claims aimed at the holes that the rule itself leaves.

    Exact fits, holes long enough only before aligning, padding that just holds a small claim, and
    neighbours freed in either order, one claim later wanted whole.
    """
    arena = RuleArena(capacity, rules=rules)
    claims: list[ByteClaim] = []
    live: dict[int, tuple[int, Extent]] = {}  # offset -> (number of the claim, extent)
    for number in range(count):
        now_ns = (number + 1) * 1000
        arena.clock.advance_to(now_ns)
        while live and (draw.randrange(100) < 50 or arena.free_bytes < capacity // 4):
            for offset in _neighbours(draw, sorted(live)):
                freed, extent = live.pop(offset)
                arena.free(extent)
                claims[freed] = replace(claims[freed], hold_ns=now_ns - claims[freed].time_ns)
        size = _aimed(draw, arena, rules)
        claims.append(ByteClaim(now_ns, size, (count + 1 - number) * 1000, f"claim {number}"))
        try:
            extent = arena.allocate(size)
        except OutOfMemory as full:
            arena.withdraw(full.claim)
        else:
            live[extent.offset] = (number, extent)
    return Case(capacity, tuple(claims))


def graded_case(draw: Random, rules: dict, number: int, count: int = 400) -> Case:
    """Graded and visible cases: every third holds traps, the others are chats.

    30 to 70 % of the claims are large: then neither the rule for large ones nor the one for small ones can
    be left out (a threshold near the median makes it so in all but a few draws).
    """
    while True:
        case = traps(draw, rules, count) if number % 3 == 2 else chats(draw, count)
        large = sum(claim.size >= rules["threshold"] for claim in case.claims)
        if 3 * count <= 10 * large <= 7 * count:
            return case


def small_case(draw: Random, rules: dict, count: int = 12) -> Case:
    """A short case for feedback and practice: at most two events a claim."""
    large = max(rules["threshold"], rules["boundary"])
    return traps(draw, rules, count, capacity=large * draw.choice((4, 5, 6)) // MiB * MiB)


def play(case: Case, allocator: Allocator):
    """Yield ``(claim, holes before, Extent or None)`` for each claim; refused claims leave at once.

    Frees come before grants at one instant. At the end everything is freed and the whole arena is claimed
    once: nothing may have been lost on the way. Faults of the allocator come out as they are.
    """
    ends: list[tuple[int, int, Extent]] = []
    last_ns = case.claims[-1].time_ns if case.claims else 0
    end_ns = max([last_ns, *(claim.time_ns + claim.hold_ns for claim in case.claims)]) + 1
    for claim in (*case.claims, ByteClaim(end_ns, case.capacity, 1, "everything")):
        while ends and ends[0][0] <= claim.time_ns:
            allocator.clock.advance_to(ends[0][0])
            allocator.free(heapq.heappop(ends)[2])
        allocator.clock.advance_to(claim.time_ns)
        holes = allocator.gaps()
        try:
            extent = allocator.allocate(claim.size, claim.owner)
        except OutOfMemory as full:
            yield claim, holes, None
            allocator.withdraw(full.claim)
            continue
        yield claim, holes, extent
        heapq.heappush(ends, (claim.time_ns + claim.hold_ns, extent.claim, extent))


def _aimed(draw: Random, arena: RuleArena, rules: dict) -> int:
    threshold, half = rules["threshold"], arena.capacity // 2
    start, length = draw.choice(arena.gaps() or ((0, half),))
    padded = -(-start // rules["boundary"]) * rules["boundary"] - start
    kinds = [
        threshold + draw.randrange(threshold // MiB) * MiB,  # any large
        length - padded,  # a large claim that just fits behind its padding
        length,  # long enough only before aligning, unless the hole starts on the boundary
        length if length < threshold else padded or MiB,  # a small claim that just fits a hole, or a padding
        ALIGNMENT * draw.randrange(1, threshold // ALIGNMENT),  # any small
    ]
    size = kinds[draw.randrange(len(kinds))]
    return max(ALIGNMENT, min(size, half) // ALIGNMENT * ALIGNMENT)


def _neighbours(draw: Random, offsets: list[int]) -> list[int]:
    """One held extent, or two beside each other, in either order."""
    index = draw.randrange(len(offsets))
    pair = offsets[index : index + 1 + draw.randrange(2)]
    return pair if draw.randrange(2) else pair[::-1]
