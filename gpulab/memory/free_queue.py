"""The plain rule for a pool of KV blocks."""

from collections import OrderedDict
from typing import final

from gpulab.memory.blocks import BlockPool


@final
class FreeQueue(BlockPool):
    """vLLM's order: taken from the head of a queue, returned to its tail, a request's last block first.

    So the head is the block that went unused for the longest time, and of one request the end goes before
    the beginning, which others are likelier to share. vLLM, design page "Automatic Prefix Caching".
    """

    def prepare(self) -> None:
        self._order = OrderedDict.fromkeys(range(self.n_blocks))  # by block: a touched one leaves in O(1)

    def take(self, n: int, urgent: bool = False) -> list[int] | None:
        if n > len(self._order):
            return None
        return [self._order.popitem(last=False)[0] for _ in range(n)]

    def give(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self._order[block] = None

    def touch(self, blocks: list[int]) -> None:
        for block in blocks:
            del self._order[block]

    def order(self) -> list[int]:
        """The free blocks, the next to be taken first. O(free)."""
        return list(self._order)
