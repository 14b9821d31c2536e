"""Where a sequence's tokens lie: logical block to physical block, as a paged attention kernel reads it.

Kwon et al., PagedAttention (SOSP 2023), section 4.3: a table's entries are in order of position, the blocks
that they name are anywhere.
"""

from collections.abc import Callable
from typing import final

from gpulab.errors import AllocatorFault, shown
from gpulab.units import whole


@final
class BlockTable:
    """The blocks of one sequence of ``length`` tokens, ``block_tokens`` to a block.

    ``blocks[i]`` keeps the positions ``i * block_tokens`` to ``(i + 1) * block_tokens - 1``.
    """

    __slots__ = ("block_tokens", "blocks", "length")

    def __init__(self, block_tokens: int, blocks: list[int] | tuple[int, ...] = (), length: int = 0) -> None:
        self.block_tokens, self.blocks, self.length = block_tokens, list(blocks), length

    def missing(self, length: int) -> int:
        """Blocks that ``length`` tokens need beyond those here, 0 when they fit."""
        return max(0, -(-length // self.block_tokens) - len(self.blocks))

    def grow(self, length: int, take: Callable[[int], list[int]]) -> list[int]:
        """Make room for ``length`` tokens and say which blocks came: none before they are needed.

        ``take(n)`` gives n new blocks and is asked only if some are missing; what it raises passes through,
        and the table stays as it was.

        Raises:
            AllocatorFault: ``length`` is less than the table has; a sequence only grows.
        """
        count = whole(length)
        if count is None or count < self.length:
            raise AllocatorFault(
                f"A table of {self.length:,} tokens was asked to grow to {shown(length)}. Give a whole number that is no "
                f"smaller: a sequence loses no tokens before it ends.",
                law="size",
                length=shown(length),
            )
        missing = self.missing(count)
        new = list(take(missing)) if missing else []
        self.blocks += new
        self.length = count
        return new

    def slot(self, position: int) -> int:
        """The place of token ``position`` in the pool: physical block * block_tokens + place in the block.

        Raises:
            AllocatorFault: there is no such token; what is behind the last one belongs to nobody, or others.
        """
        index = whole(position)
        if index is None or not 0 <= index < self.length:
            raise AllocatorFault(
                f"Position {shown(position)} was looked up in a table of {self.length:,} tokens. Give a whole number "
                f"from 0 to {self.length - 1:,}; grow the table first.",
                law="bounds",
                position=shown(position),
            )
        block, place = divmod(index, self.block_tokens)
        return self.blocks[block] * self.block_tokens + place

    def slots(self) -> list[int]:
        """The places of all tokens, in order of position."""
        return [self.slot(position) for position in range(self.length)]

    def copy(self) -> "BlockTable":
        """A table of the same blocks that grows on its own."""
        return BlockTable(self.block_tokens, self.blocks, self.length)
