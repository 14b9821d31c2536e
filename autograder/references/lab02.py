"""Lab 02: the reference of 02.first-fit."""

from gpulab.memory.allocator import Allocator


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
