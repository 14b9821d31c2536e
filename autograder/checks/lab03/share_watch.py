"""What is watched before 03.share: a pool in which everybody has blocks of their own."""

from autograder.checks.lab03.share_mixes import Mix
from gpulab.errors import OutOfMemory
from gpulab.memory.free_queue import FreeQueue
from gpulab.report.account import Account
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

_TERMS = ("used", "stranded", "fragmented", "unscheduled", "spare")


def alone(mix: Mix) -> tuple[Ledger, set[int]]:
    """The ledger, and the refusals at which blocks that held what another held, too, would have been enough.

    A sequence that is refused leaves at once, with all it has. Cost: O(blocks) an event.
    """
    run = _Alone(mix)
    for event in mix.events:
        run.play(event)
    return run.pool.ledger, run.shows


def evidence(mix: Mix) -> tuple[str, set[int]]:
    """The term that held most at the refusals, and the refusals that show what is behind it."""
    ledger, shows = alone(mix)
    account = Account(ledger)
    at = [account.at(ledger[serial].time_ns) for serial in shows]
    return max(_TERMS, key=lambda term: sum(getattr(terms, term) for terms in at)), shows


class _Alone:
    def __init__(self, mix: Mix) -> None:
        self.b, self.pool, self.shows = mix.block_tokens, FreeQueue(mix.n_blocks), set()
        self.live: dict[str, tuple[str, list[int], list[int]]] = {}  # tenant, tokens, blocks

    def play(self, event: list) -> None:
        verb, seq, *rest = event
        self.pool.clock.advance_to(self.pool.clock.now_ns + MS)
        if verb == "admit":
            self._grow(seq, rest[1], rest[0], [])
        elif seq in self.live and verb == "append":
            tenant, tokens, blocks = self.live[seq]
            self._grow(seq, tenant, [*tokens, *rest], blocks)
        elif seq in self.live and verb == "fork":
            self._grow(rest[0], self.live[seq][0], self.live[seq][1], [])
        elif seq in self.live:
            self.pool.release(self.live.pop(seq)[2], seq)

    def _grow(self, seq: str, tenant: str, tokens: list[int], blocks: list[int]) -> None:
        missing = -(-len(tokens) // self.b) - len(blocks)
        try:
            new = self.pool.allocate(missing, seq, urgent=True) if missing else []
        except OutOfMemory as full:
            if self._doubles() + self.pool.free_blocks >= missing:
                self.shows.add(len(self.pool.ledger) - 1)
            self.pool.withdraw(full.claim)
            if seq in self.live:
                self.pool.release(self.live.pop(seq)[2], seq)
            return
        self.live[seq] = tenant, list(tokens), blocks + new

    def _doubles(self) -> int:
        """Full blocks that hold what another one holds, for the same tenant."""
        full = [
            (tenant, tuple(tokens[:end]))
            for tenant, tokens, _ in self.live.values()
            for end in range(self.b, len(tokens) + 1, self.b)
        ]
        return len(full) - len(set(full))
