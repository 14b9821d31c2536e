"""Lab 02: the references of 02.first-fit and 02.pool."""

from gpulab.memory.allocator import Allocator
from gpulab.memory.pool import Pool


class MyAllocator(Allocator):
    """First fit whose large claims start on a boundary; the padding in front stays a hole."""

    def prepare(self) -> None:
        self.holes_list = [(0, self.capacity)]

    def place(self, size: int) -> int | None:
        large = size >= self.rules["threshold"]
        multiple = self.rules["boundary"] if large else self.alignment
        for index, (start, length) in enumerate(self.holes_list):
            offset = -(-start // multiple) * multiple
            if offset + size <= start + length:
                pieces = [(start, offset - start), (offset + size, start + length - offset - size)]
                self.holes_list[index : index + 1] = [piece for piece in pieces if piece[1]]
                return offset
        return None

    def reclaim(self, offset: int, size: int) -> None:
        self.holes_list = sorted([*self.holes_list, (offset, size)])
        joined = []
        for start, length in self.holes_list:
            if joined and joined[-1][0] + joined[-1][1] == start:
                joined[-1] = (joined[-1][0], joined[-1][1] + length)
            else:
                joined.append((start, length))
        self.holes_list = joined


class MyPool(Pool):
    """Four sizes a doubling, so that near sizes share chunks; the oldest free chunk goes back first."""

    def prepare(self) -> None:
        self.sizes: dict[int, int] = {}  # chunk -> its bytes
        self.idle: dict[int, int | None] = {}  # free chunk -> the stream it waits for, if any; oldest first

    def grown(self, chunk: int, size: int, stream: int) -> None:
        self.sizes[chunk] = size

    def reached(self, chunk: int) -> None:
        self.idle[chunk] = None

    def take(self, size: int, stream: int) -> list:
        step = max(512, 1 << max(0, (size - 1).bit_length() - 3))
        wanted = -(-size // step) * step
        for chunk, waits_for in self.idle.items():
            if self.sizes[chunk] == wanted and waits_for in (stream, None):
                del self.idle[chunk]
                return ["chunk", chunk]
        return ["grow", wanted]

    def give(self, chunk: int, stream: int) -> list[int]:
        self.idle[chunk] = stream
        return self.oldest(sum(self.sizes[chunk] for chunk in self.idle) - self.rules["cache_bytes"])

    def trim(self, need: int) -> list[int]:
        return self.oldest(need - (self.capacity - sum(self.sizes.values())))

    def oldest(self, surplus: int) -> list[int]:
        back = []
        while surplus > 0 and self.idle:
            chunk = next(iter(self.idle))
            del self.idle[chunk]
            surplus -= self.sizes.pop(chunk)
            back.append(chunk)
        return back
