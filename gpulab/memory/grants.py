"""What a block pool's claims hold, block by block, and the facts about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from gpulab.telemetry.events import Freed, Returned, Used
from gpulab.telemetry.ledger import Ledger


@dataclass(slots=True)
class _Grant:
    blocks: int  # still held
    tokens: int  # in these
    told: int  # tokens that the ledger says are used


@final
class BlockGrants:
    """Which claim each block belongs to and how many tokens are in it; writes ``Used`` and what ends a grant."""

    def __init__(self, ledger: Ledger, block_tokens: int) -> None:
        self._ledger, self._block_tokens = ledger, block_tokens
        self._claim: dict[int, int] = {}  # block -> the claim it was last granted to
        self._tokens: dict[int, int] = {}  # held block -> tokens in it
        self._grants: dict[int, _Grant] = {}

    def last_claim(self, block: int) -> int | None:
        """The claim that ``block`` was last granted to; None when it never was."""
        return self._claim.get(block)

    def tokens_in(self, block: int) -> int:
        """Tokens in the held ``block``."""
        return self._tokens[block]

    def begin(self, claim: int, blocks: Sequence[int]) -> None:
        """``claim`` holds ``blocks``, which count as full."""
        for block in blocks:
            self._claim[block] = claim
            self._tokens[block] = self._block_tokens
        tokens = len(blocks) * self._block_tokens
        self._grants[claim] = _Grant(len(blocks), tokens, tokens)

    def fill(self, block: int, tokens: int, now_ns: int) -> None:
        """``block`` has ``tokens`` tokens in it; records ``Used`` for its claim."""
        claim = self._claim[block]
        self._grants[claim].tokens += tokens - self._tokens[block]
        self._tokens[block] = tokens
        self._tell(claim, now_ns)

    def end(self, blocks: Sequence[int], now_ns: int) -> None:
        """Nobody holds ``blocks`` any more; records ``Freed`` or ``Returned`` for each claim, in this order."""
        parts: dict[int, int] = {}  # claim -> blocks of it
        for block in blocks:
            claim = self._claim[block]
            parts[claim] = parts.get(claim, 0) + 1
            self._grants[claim].blocks -= 1
            self._grants[claim].tokens -= self._tokens.pop(block)
        for claim, count in parts.items():
            grant = self._grants[claim]
            if not grant.blocks:
                del self._grants[claim]
                self._ledger.append(Freed(now_ns, claim))
                continue
            self._ledger.append(Returned(now_ns, claim, count * self._block_tokens))
            grant.told = min(grant.told, grant.blocks * self._block_tokens)  # idle units go first
            self._tell(claim, now_ns)

    def _tell(self, claim: int, now_ns: int) -> None:
        grant = self._grants[claim]
        if grant.tokens != grant.told:
            grant.told = grant.tokens
            self._ledger.append(Used(now_ns, claim, grant.tokens))
