"""Blocks of prompts that several requests share: who holds them, and which are kept though nobody does.

A request names the full blocks of its prompt by ids; equal ids are equal tokens after equal tokens. A block
enters when its prompt has been computed, is paid for by its first holder, and stays, free to be taken, when
the last lets go: whoever takes free blocks gets those without contents first, then the one unused longest.
Source: vLLM, Automatic Prefix Caching (design page); blocks are counted here and named by their ids alone.
"""

from collections import OrderedDict
from typing import final

from gpulab.errors import TraceFault
from gpulab.serving.request import Request


@final
class Prefixes:
    """The shared blocks of one replica."""

    def __init__(self) -> None:
        self._holders: dict[int, dict[int, None]] = {}  # block id -> jobs that hold it, who pays first
        # Block ids that nobody holds, unused longest first. Ordered: the first of a plain dict from whose front
        # much was taken is looked for from where that front once was.
        self._idle: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Blocks that are free and still have contents."""
        return len(self._idle)

    def known(self, ids: tuple[int, ...]) -> int:
        """How many of ``ids`` in a row, from the first on, are here."""
        count = 0
        while count < len(ids) and (ids[count] in self._holders or ids[count] in self._idle):
            count += 1
        return count

    def shared(self, ids: tuple[int, ...]) -> int:
        """How many of ``ids`` in a row, from the first on, somebody holds: holding them too takes nothing."""
        count = 0
        while count < len(ids) and ids[count] in self._holders:
            count += 1
        return count

    def idle(self, ids: tuple[int, ...]) -> int:
        """How many of ``ids`` are here and held by nobody."""
        return sum(name in self._idle for name in ids)

    def borrowed(self, job: int, ids: tuple[int, ...]) -> int:
        """How many of ``ids`` ``job`` holds while another one pays."""
        found = (self._holders.get(name, {}) for name in ids)
        return sum(job in holders and next(iter(holders)) != job for holders in found)

    def hold(self, job: int, ids: tuple[int, ...]) -> None:
        """``job`` holds ``ids``, which are all here, too."""
        for name in ids:
            self._idle.pop(name, None)
            self._holders.setdefault(name, {})[job] = None

    def publish(self, job: int, ids: tuple[int, ...]) -> None:
        """``job`` has computed ``ids``: those that are not here yet are its own and can be shared from now on."""
        for name in ids:
            if name not in self._holders and name not in self._idle:
                self._holders[name] = {job: None}

    def release(self, job: int, ids: tuple[int, ...]) -> dict[int, int]:
        """``job`` holds none of ``ids`` any more: the jobs that pay for some of them from now on, and how many.

        The last block of the prompt becomes the first to be taken: a beginning is asked for again, an end rarely.
        """
        pays: dict[int, int] = {}
        for name in reversed(ids):
            holders = self._holders.get(name, {})
            if job not in holders:
                continue
            paid = next(iter(holders)) == job
            del holders[job]
            if not holders:
                del self._holders[name]
                self._idle[name] = None
            elif paid:
                heir = next(iter(holders))
                pays[heir] = pays.get(heir, 0) + 1
        return pays

    def forget(self, count: int) -> None:
        """``count`` idle blocks are taken for something else, those unused longest first."""
        for _ in range(count):
            self._idle.popitem(last=False)


def check_prefix(request: Request, block_tokens: int) -> None:
    """``TraceFault`` when ``request`` names more blocks than its prompt fills."""
    full = request.prompt_tokens // block_tokens
    if len(request.prefix) > full:
        raise TraceFault(
            f"Request {request.id}, which came at {request.arrival_ns:,} ns, names {len(request.prefix):,} full blocks of its "
            f"prompt; its {request.prompt_tokens:,} tokens fill {full:,} of {block_tokens:,}. Give the ids of full blocks "
            f"alone; the ledger has everything up to here.",
            rows=[(request.id, "prefix", request.prefix)],
            good=[],
        )
