"""Answers to 02.first-fit that lean on what gpulab ships, by somebody who does not want to write the rule.

``Around`` holds a finished allocator and asks it; the adapters on top have at most six lines of code besides
their heads, laid out by ruff: round something up, switch something, hand the search to a shape of gpulab.
"""

from gpulab.memory.allocator import Allocator
from gpulab.memory.arena import BestFit, Bump, FirstFit
from gpulab.telemetry.shape import Contiguous, Slots


def up(number, multiple):
    return -(-number // multiple) * multiple


class Around(Allocator):
    kind = FirstFit

    def prepare(self):
        self.inner = self.kind(self.capacity, rules=self.rules)

    def place(self, size):
        return self.inner.place(size)

    def reclaim(self, offset, size):
        self.inner.reclaim(offset, size)


class AroundBestFit(Around):
    kind = BestFit


class RoundsSizesUp(Around):
    def place(self, size):
        return super().place(up(size, self.rules["boundary"]))

    def reclaim(self, offset, size):
        super().reclaim(offset, up(size, self.rules["boundary"]))


class RoundsSizesUpBestFit(RoundsSizesUp):
    kind = BestFit


class RoundsLargeSizesUp(Around):
    def place(self, size):
        return super().place(up(size, self.rules["boundary"]) if size >= self.rules["threshold"] else size)


class RoundsTheAnswerUp(Around):
    def place(self, size):
        offset = super().place(size)
        large = offset is not None and size >= self.rules["threshold"]
        return up(offset, self.rules["boundary"]) if large else offset


class AsksForRoomAndRoundsUp(Around):
    def place(self, size):
        large = size >= self.rules["threshold"]
        offset = super().place(size + self.rules["boundary"] if large else size)
        return up(offset, self.rules["boundary"]) if large and offset is not None else offset


class SwitchesAlignment(Around):
    def place(self, size):
        self.inner.alignment = self.rules["boundary"] if size >= self.rules["threshold"] else 512
        return super().place(up(size, self.inner.alignment))


class SwitchesAlignmentAndAllocates(Around):
    """The inner arena's own rounding; what it refuses waits there for ever."""

    def place(self, size):
        self.inner.alignment = self.rules["boundary"] if size >= self.rules["threshold"] else 512
        return self.inner.allocate(size).offset


class ShapeOverTheGaps(Around):
    """The arena's own gaps: empty books, since the judge calls place and reclaim alone."""

    def place(self, size):
        align = self.rules["boundary"] if size >= self.rules["threshold"] else 512
        got = Contiguous(size, align).take(self.gaps())
        return got[0][0][0] if got else None


class ShapeBesideFirstFit(Around):
    """FirstFit's holes searched by a shape, but cut by FirstFit itself."""

    def place(self, size):
        align = self.rules["boundary"] if size >= self.rules["threshold"] else 512
        got = Contiguous(size, align).take(tuple(zip(self.inner._starts, self.inner._lengths, strict=True)))
        return super().place(size) and got[0][0][0] if got else None


class ShapeOverAList(Allocator):
    """A shape does the whole rule; nothing in gpulab joins what comes back."""

    def prepare(self):
        self.left = ((0, self.capacity),)

    def place(self, size):
        align = self.rules["boundary"] if size >= self.rules["threshold"] else 512
        got = Contiguous(size, align).take(self.left)
        self.left = got[1] if got else self.left
        return got[0][0][0] if got else None

    def reclaim(self, offset, size):
        self.left = tuple(sorted((*self.left, (offset, size))))


class SlotsOverTheGaps(Around):
    def place(self, size):
        got = Slots(size, range(0, self.capacity, self.rules["boundary"])).take(self.gaps())
        return got[0][0][0] if got else None


class TwoArenas(Around):
    """Large claims above, small ones below."""

    def place(self, size):
        offset = super().place(up(size, self.rules["boundary"]))
        small = offset is not None and size < self.rules["threshold"]
        return self.capacity - offset - up(size, 512) if small else offset


AS_THEY_STAND = (Bump, FirstFit, BestFit)
ADAPTERS = (
    *(Around, AroundBestFit, RoundsSizesUp, RoundsSizesUpBestFit, RoundsLargeSizesUp, RoundsTheAnswerUp),
    *(AsksForRoomAndRoundsUp, SwitchesAlignment, SwitchesAlignmentAndAllocates, ShapeOverTheGaps),
    *(ShapeBesideFirstFit, ShapeOverAList, SlotsOverTheGaps, TwoArenas),
)
