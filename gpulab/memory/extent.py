"""What an arena or a pool hands out, and what it rounds to."""

from functools import partial
from typing import NamedTuple

# CUDA's own pools round to this: CuPy memory.pyx ALLOCATION_UNIT_SIZE, PyTorch kMinBlockSize.
ALIGNMENT = 512


class Extent(NamedTuple):
    """Bytes ``[offset, offset + size)`` granted to claim ``claim``; ``asked`` of them are used."""

    claim: int
    offset: int
    size: int
    asked: int
    owner: str = ""

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size

    def __deepcopy__(self, memo: dict) -> "Extent":
        """Itself: a copy of a pool takes back what the pool granted."""
        return self


# ``Extent`` of one tuple with all five fields: a third of the time, for a pool that makes a million.
extent_of = partial(tuple.__new__, Extent)
