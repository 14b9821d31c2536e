"""Play a trace of byte claims against an allocator and keep the ledger of what happened.

At one instant frees come before grants, and grants go in order of arrival. A claim that is refused waits
in one line; whenever bytes come back, the head of the line is tried again, and nobody overtakes it.
That is first come, first served, as serving engines admit by default; what the head's turn keeps from
smaller claims behind it shows up as *unscheduled* in the account.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gpulab.datasets import Request
from gpulab.errors import OutOfMemory
from gpulab.memory.allocator import Allocator
from gpulab.memory.extent import Extent
from gpulab.telemetry.events import Closed
from gpulab.telemetry.ledger import Ledger


@dataclass(frozen=True, slots=True)
class ByteClaim:
    """``owner`` asks for ``size`` bytes at ``time_ns`` and holds them for ``hold_ns`` once granted."""

    time_ns: int
    size: int
    hold_ns: int
    owner: str = ""


def claims_from(requests: Iterable[Request], *, bytes_per_token: int, step_ns: int) -> list[ByteClaim]:
    """The KV cache that each request holds, as one claim for all of its tokens.

    A request of p prompt and o output tokens claims ``(p + o) * bytes_per_token`` bytes when it arrives and
    holds them for p + o steps of ``step_ns``: reservation up to its own end, the *oracle* plan of
    Kwon et al., PagedAttention (SOSP 2023), figure 2.
    """
    claims = []
    for number, request in enumerate(requests):
        tokens = request.prompt_tokens + request.output_tokens
        claims.append(
            ByteClaim(request.arrival_ns, tokens * bytes_per_token, tokens * step_ns, f"request {number}")
        )
    return claims


def replay(trace: Iterable[ByteClaim], allocator: Allocator, *, wait: bool = True) -> Ledger:
    """Play ``trace`` (in order of time) to its end; the ledger is the allocator's own.

    With ``wait=False`` a refused claim is withdrawn at once instead of standing in line. A claim that
    even an empty arena could not hold is refused once and withdrawn: nothing could ever grant it.
    Cost: one ``place`` a claim, and one more for each free while somebody waits.

    Raises:
        AllocatorFault: the allocator broke a rule; its ledger holds all facts up to there.
    """
    ends: list[tuple[int, int, Extent]] = []  # (time, serial, extent): equal times go in order of grant
    line: deque[tuple[int, ByteClaim]] = deque()  # refused claims that wait, oldest first
    for claim in trace:
        _free_until(claim.time_ns, ends, line, allocator)
        allocator.clock.advance_to(claim.time_ns)
        _enter(claim, ends, line, allocator, wait)
    _free_until(None, ends, line, allocator)
    allocator.ledger.write(Closed, allocator.clock.now_ns)
    return allocator.ledger


def _free_until(time_ns: int | None, ends: list, line: deque, allocator: Allocator) -> None:
    """Give back all that ends up to ``time_ns`` (None: everything), serving the line after each instant."""
    while ends and (time_ns is None or ends[0][0] <= time_ns):
        now_ns = ends[0][0]
        allocator.clock.advance_to(now_ns)
        while ends and ends[0][0] == now_ns:
            allocator.free(heapq.heappop(ends)[2])
        while line:
            serial, claim = line[0]
            try:
                extent = allocator.allocate(claim.size, claim.owner, claim=serial)
            except OutOfMemory:
                if allocator.could_hold(claim.size):
                    break
                allocator.withdraw(serial)
                line.popleft()
                continue
            line.popleft()
            heapq.heappush(ends, (now_ns + claim.hold_ns, extent.claim, extent))


def _enter(claim: ByteClaim, ends: list, line: deque, allocator: Allocator, wait: bool) -> None:
    if line:  # the head was just tried in vain, and nobody overtakes it
        line.append((allocator.queue(claim.size, claim.owner), claim))
        return
    try:
        extent = allocator.allocate(claim.size, claim.owner)
    except OutOfMemory as full:
        if wait and allocator.could_hold(claim.size):
            line.append((full.claim, claim))
        else:
            allocator.withdraw(full.claim)
        return
    heapq.heappush(ends, (allocator.clock.now_ns + claim.hold_ns, extent.claim, extent))
