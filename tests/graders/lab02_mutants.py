"""Wrong answers to the builds of lab 02, each named for the misconception it acts out."""

from autograder.references.lab02 import MyAllocator


class NoCoalescing(MyAllocator):
    def reclaim(self, offset, size):
        self.holes_list = sorted([*self.holes_list, (offset, size)])


class JoinsRightOnly(MyAllocator):
    def reclaim(self, offset, size):
        for start, length in self.holes_list:
            if start == offset + size:
                self.holes_list.remove((start, length))
                size += length
                break
        self.holes_list = sorted([*self.holes_list, (offset, size)])


class NextFit(MyAllocator):
    def prepare(self):
        super().prepare()
        self.last = 0

    def place(self, size):
        ahead = [hole for hole in self.holes_list if hole[0] >= self.last]
        behind = [hole for hole in self.holes_list if hole[0] < self.last]
        multiple = self.rules["boundary"] if size >= self.rules["threshold"] else self.alignment
        for start, length in ahead + behind:
            offset = -(-start // multiple) * multiple
            if offset + size <= start + length:
                self.holes_list.remove((start, length))
                pieces = [(start, offset - start), (offset + size, start + length - offset - size)]
                self.holes_list = sorted([*self.holes_list, *(piece for piece in pieces if piece[1])])
                self.last = offset + size
                return offset
        return None


class PaddingLost(MyAllocator):
    def place(self, size):
        offset = super().place(size)
        if offset is not None:
            self.holes_list = [hole for hole in self.holes_list if hole[0] + hole[1] != offset]
        return offset


class ExactFitKept(MyAllocator):
    def place(self, size):
        before = list(self.holes_list)
        offset = super().place(size)
        if offset is not None and any(sum(hole) == offset + size for hole in before):
            self.holes_list = before  # nothing is left behind the claim, so "nothing changes"
        return offset


class FitsBeforeAligning(MyAllocator):
    def place(self, size):
        multiple = self.rules["boundary"] if size >= self.rules["threshold"] else self.alignment
        for index, (start, length) in enumerate(self.holes_list):
            if length >= size:
                offset = -(-start // multiple) * multiple
                pieces = [(start, offset - start), (offset + size, start + length - offset - size)]
                self.holes_list[index : index + 1] = [piece for piece in pieces if piece[1] > 0]
                return offset
        return None


class ForgetsTheBoundary(MyAllocator):
    def place(self, size):
        for index, (start, length) in enumerate(self.holes_list):
            if size <= length:
                self.holes_list[index : index + 1] = [(start + size, length - size)] if length > size else []
                return start
        return None


class AlwaysRefuses(MyAllocator):
    def place(self, size):
        return None


# name -> (class, lowest share of the build, highest share, tag)
FIRST_FIT = {
    "no-coalescing": (NoCoalescing, 0.0, 0.20, "no-coalescing"),
    "joins-right-only": (JoinsRightOnly, 0.0, 0.20, "joins-right-only"),
    "next-fit": (NextFit, 0.25, 0.35, "higher-hole"),
    "padding-lost": (PaddingLost, 0.0, 0.20, "padding-lost"),
    "exact-fit-kept": (ExactFitKept, 0.0, 0.20, "exact-fit-kept"),
    "fits-before-aligning": (FitsBeforeAligning, 0.0, 0.20, "fits-before-aligning"),
    "forgets-the-boundary": (ForgetsTheBoundary, 0.0, 0.0, "alignment"),
    "always-refuses": (AlwaysRefuses, 0.0, 0.0, "refused-hole"),
}
