"""The sheet of 03.block-pool: each misconception changes one line of the reference."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.references.lab03_blocks import MyPool
from autograder.verdict import Commitments
from gpulab.memory.blocks import BlockPool
from gpulab.memory.free_queue import FreeQueue


def said(course, learner):
    cause, shows = exercises()["03.block-pool"].key(course, learner)
    return Commitments(learner, {"refusals": 9}, {"cause": cause, "events": sorted(shows)[:2]})


class PartialAnswer(MyPool):
    def take(self, n, urgent=False):
        return super().take(min(n, len(self.order)), urgent)


class PartialTake(MyPool):
    def take(self, n, urgent=False):
        least, taken = 0 if urgent else self.rules["watermark_blocks"], []
        while len(taken) < n:
            if len(self.order) <= least:
                return None
            taken.append(self.order.pop(0))
        return taken


class GrantedTwice(MyPool):
    def take(self, n, urgent=False):
        taken = super().take(n, urgent)
        self.order = (taken or [])[-1:] + self.order
        return taken


class WatermarkOffByOne(MyPool):
    def take(self, n, urgent=False):
        if not urgent and len(self.order) - n == self.rules["watermark_blocks"]:
            return None
        return super().take(n, urgent)


class WatermarkOneLess(MyPool):
    def take(self, n, urgent=False):
        edge = len(self.order) - n == self.rules["watermark_blocks"] - 1
        return super().take(n, urgent or edge)


class WatermarkIgnored(MyPool):
    def take(self, n, urgent=False):
        return super().take(n, True)


class IgnoresUrgent(MyPool):
    def take(self, n, urgent=False):
        return super().take(n, False)


class Grows(MyPool):
    def take(self, n, urgent=False):
        while urgent and len(self.order) < n:
            self.order.append(self.n_blocks + len(self.order))
        return super().take(n, urgent)


class StackOrder(MyPool):
    def give(self, blocks):
        self.order = blocks + self.order


class AllToTail(MyPool):
    def give(self, blocks):
        self.order = self.order + blocks[::-1]


class ForwardToTail(MyPool):
    def give(self, blocks):
        self.order = self.order + blocks


class Forward(MyPool):
    def give(self, blocks):
        kept = self.rules["kept_blocks"]
        self.order = blocks[kept:] + self.order + blocks[:kept]


class EndsSwapped(MyPool):
    def give(self, blocks):
        kept = self.rules["kept_blocks"]
        self.order = blocks[:kept][::-1] + self.order + blocks[kept:][::-1]


class LowestFirst(MyPool):
    def give(self, blocks):
        self.order = sorted(self.order + blocks)


class FromTheTail(MyPool):
    def take(self, n, urgent=False):
        self.order.reverse()
        taken = super().take(n, urgent)
        self.order.reverse()
        return taken


class SetOrder(MyPool):
    """A hash decides: the same blocks in another order, if not by accident."""

    def give(self, blocks):
        self.order = sorted(self.order + blocks, key=lambda block: block * 37 % 101)


class AlwaysRefuses(MyPool):
    def take(self, n, urgent=False):
        return None


class Stub(BlockPool):
    def take(self, n, urgent=False):
        raise NotImplementedError("yours to write")

    def give(self, blocks):
        raise NotImplementedError("yours to write")


def always(value):
    class Constant:
        def __init__(self, n_blocks, rules):
            self.value = value

        def take(self, n, urgent=False):
            return self.value

        def give(self, blocks):
            return None

    return Constant


class AroundFreeQueue(BlockPool):
    def prepare(self):
        self.inner = FreeQueue(self.n_blocks)

    def take(self, n, urgent=False):
        return self.inner.take(n, urgent)

    def give(self, blocks):
        self.inner.give(blocks)


class WithTheWatermark(AroundFreeQueue):
    def take(self, n, urgent=False):
        least = 0 if urgent else self.rules["watermark_blocks"]
        return self.inner.take(n) if len(self.inner.order()) - n >= least else None


class WithTheWatermarkAndReversed(WithTheWatermark):
    def give(self, blocks):
        self.inner.give(blocks[::-1])


LAW, ORDER = (0.0, 0.20), (0.30, 0.50)
SHEETS = [
    Sheet(
        "03.block-pool",
        MyPool,
        {
            "partial-answer": Wrong(PartialAnswer, *LAW, "partial-answer"),
            "partial-take": Wrong(PartialTake, *LAW, "partial-take"),
            "granted-twice": Wrong(GrantedTwice, *LAW, "granted-twice"),
            "grows": Wrong(Grows, *LAW, "grows"),
            "ignores-urgent": Wrong(IgnoresUrgent, *LAW, "ignores-urgent"),
            "always-refuses": Wrong(AlwaysRefuses, *LAW, "always-refuses"),
            "watermark-off-by-one": Wrong(WatermarkOffByOne, *ORDER, "watermark-off-by-one"),
            "watermark-one-less": Wrong(WatermarkOneLess, *ORDER, "watermark-one-less"),
            "watermark-ignored": Wrong(WatermarkIgnored, *ORDER, "watermark-ignored"),
            "stack-order": Wrong(StackOrder, *ORDER, "stack-order"),
            "all-to-tail": Wrong(AllToTail, *ORDER, "all-to-tail"),
            "forward-to-tail": Wrong(ForwardToTail, *ORDER, "forward-to-tail"),
            "forward": Wrong(Forward, *ORDER, "forward"),
            "ends-swapped": Wrong(EndsSwapped, *ORDER, "ends-swapped"),
            "lowest-first": Wrong(LowestFirst, *ORDER, "lowest-first"),
            "set-order": Wrong(SetOrder, *ORDER, "other-order"),
            "from-the-tail": Wrong(FromTheTail, *ORDER, "other-order"),
        },
        said=said,
        stub=Stub,
        constants=tuple(always(value) for value in (None, [], [0], [0, 1], 0, "0", True)),
        shortcuts=(AroundFreeQueue, WithTheWatermark, WithTheWatermarkAndReversed),
    )
]
