"""What an arena or a pool hands out, and what it rounds to."""

from dataclasses import dataclass

# CUDA's own pools round to this: CuPy memory.pyx ALLOCATION_UNIT_SIZE, PyTorch kMinBlockSize.
ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Extent:
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
