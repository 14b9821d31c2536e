"""The sheet of 03.block-table: the reference, the stub, each misconception, and adapters around gpulab."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.references.lab03_block_table import MyTables
from autograder.verdict import Commitments
from gpulab.memory.block_table import BlockTable

EXERCISE = "03.block-table"


class Late(MyTables):
    def missing(self, seq, length):
        return max(1, length // self.block_tokens) - len(self.blocks.get(seq, []))


class Early(MyTables):
    def missing(self, seq, length):
        return length // self.block_tokens + 1 - len(self.blocks.get(seq, []))


class CountsWhatIsHeld(MyTables):
    """Blocks that went back are asked for again."""

    def missing(self, seq, length):
        return super().missing(seq, length) + self.dropped.get(seq, 0)


class Identity(MyTables):
    def slots(self, seq, start, end):
        return list(range(start, end))


class DivModSwapped(MyTables):
    def slots(self, seq, start, end):
        b = self.block_tokens
        return [self.blocks[seq][p // b] + p % b * b for p in range(start, end)]


class ReadsPastEnd(MyTables):
    def reads(self, seq):
        length, b = self.length[seq], self.block_tokens
        return self.slots(seq, max(0, length - self.window), -(-length // b) * b)


class ReadsEverything(MyTables):
    def reads(self, seq):
        return self.slots(seq, 0, self.length[seq])


class SharedList(MyTables):
    def __init__(self, block_tokens, rules):
        super().__init__(block_tokens, rules)
        self.empty = []

    def missing(self, seq, length):
        return -(-length // self.block_tokens) - len(self.blocks.setdefault(seq, self.empty))


class SharesTheList(MyTables):
    """Counts for itself, but keeps all blocks in one list: the last to grow puts its blocks in front."""

    def grow(self, seq, length, blocks):
        super().grow(seq, length, blocks)
        if blocks and len(self.blocks) > 1:
            self.blocks = {name: list(self.blocks[seq]) * 9 for name in self.blocks}

    def missing(self, seq, length):
        self.came = getattr(self, "came", {})
        before, self.came[seq] = self.came.get(seq, 0), -(-length // self.block_tokens)
        return self.came[seq] - before


class DropsEarly(MyTables):
    """Every block that begins in front of the window."""

    def drop(self, seq):
        first = self.dropped.get(seq, 0)
        unread = -(-max(0, self.length[seq] - self.window) // self.block_tokens)
        self.dropped[seq] = unread
        return self.blocks[seq][first:unread]


class DropsAgain(MyTables):
    def drop(self, seq):
        return self.blocks[seq][: max(0, self.length[seq] - self.window) // self.block_tokens]


class KeepsAll(MyTables):
    def drop(self, seq):
        return []


class DropsLate(MyTables):
    """Whole windows' worth of blocks, rounded the wrong way: one block too many stays."""

    def drop(self, seq):
        first = self.dropped.get(seq, 0)
        unread = max(first, self.length[seq] // self.block_tokens - self.window // self.block_tokens - 1)
        self.dropped[seq] = min(unread, max(0, self.length[seq] - self.window - 1) // self.block_tokens)
        return self.blocks[seq][first : self.dropped[seq]]


class Stub:
    def __init__(self, block_tokens, rules):
        self.block_tokens, self.rules = block_tokens, rules

    def missing(self, seq, length):
        raise NotImplementedError("yours to write")


class Same:
    """The same answer to everything."""

    def __init__(self, block_tokens, rules):
        self.window = rules["window_tokens"]

    def missing(self, seq, length):
        return 0

    def grow(self, seq, length, blocks):
        return None

    def slots(self, seq, start, end):
        return [0] * (end - start)

    def reads(self, seq):
        return [0] * self.window

    def drop(self, seq):
        return []


class One(Same):
    def missing(self, seq, length):
        return 1


class AroundBlockTable(Same):
    def missing(self, seq, length):
        self.tables = getattr(self, "tables", {})
        return self.tables.setdefault(seq, BlockTable(self.block_tokens)).missing(length)

    def __init__(self, block_tokens, rules):
        self.block_tokens, self.window = block_tokens, rules["window_tokens"]

    grow = lambda self, seq, length, blocks: self.tables[seq].grow(length, lambda n: blocks) and None
    slots = lambda self, seq, start, end: self.tables[seq].slots()[start:end]
    reads = lambda self, seq: self.tables[seq].slots()[-self.window :]


def said(course, learner):
    cause, events = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"position": 48}, {"cause": cause, "events": sorted(events)[:1]})


BLOCK_TABLE = Sheet(
    EXERCISE,
    MyTables,
    {
        "late-at-boundary": Wrong(Late, 0.0, 0.0, "late-at-boundary", "Whose block"),
        "early-block": Wrong(Early, 0.0, 0.0, "early-block"),
        "counts-what-is-held": Wrong(CountsWhatIsHeld, 0.0, 0.0, "early-block", "still count"),
        "identity": Wrong(Identity, 0.0, 0.0, "identity"),
        "div-mod-swapped": Wrong(DivModSwapped, 0.0, 0.0, "div-mod-swapped"),
        "reads-past-end": Wrong(ReadsPastEnd, 0.0, 0.0, "reads-past-end"),
        "reads-everything": Wrong(ReadsEverything, 0.0, 0.0, "reads-everything"),
        "shared-list": Wrong(SharedList, 0.0, 0.0, "shared-list"),
        "shares-the-list": Wrong(SharesTheList, 0.0, 0.0, "shared-list"),
        "drops-early": Wrong(DropsEarly, 0.0, 0.0, "drops-early"),
        "drops-again": Wrong(DropsAgain, 0.0, 0.2, "drops-twice"),
        "keeps-all": Wrong(KeepsAll, 0.3, 0.5, "keeps-unread"),
        "drops-late": Wrong(DropsLate, 0.3, 0.5, "keeps-unread"),
    },
    said=said,
    stub=Stub,
    constants=(Same, One),
    shortcuts=(AroundBlockTable,),
)

SHEETS = [BLOCK_TABLE]
